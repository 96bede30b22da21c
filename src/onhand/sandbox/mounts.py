"""Is what a command would see what it was meant to see? The kernel's list of its mounts is held against the plan.

bubblewrap follows paths that another command, which still runs, may turn into links meanwhile: then something else of
the user's would be mounted. So the list is read when all is mounted and the command has not begun; it names what is
mounted by the kernel's own knowledge, which no link changes. It knows bytes and no policy. Like `launch`, it imports
nothing later.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NEW = (b"tmpfs", b"proc", b"devpts")  # file systems that bubblewrap makes; one whose device the host has is the host's
_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
_ESCAPES = ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\043", b"#"), (b"\\134", b"\\"))

Mount = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
"""Its number and that of the one it is mounted on; the device, what of it is mounted, where, and the file system."""


def parsed(mountinfo: bytes) -> list[Mount]:
    """The lines of /proc/PID/mountinfo, the earlier mounts first."""
    found = []
    for line in filter(None, mountinfo.split(b"\n")):  # a name may hold any other character that ends a line
        fields, _, rest = line.partition(b" - ")
        number, above, device, root, place, *_ = fields.split(b" ")
        found.append((number, above, device, _plain(root), _plain(place), rest.split(b" ")[0]))
    return found


def complete(read: "Callable[[], bytes]", host: list[Mount]) -> list[Mount]:
    """All that bubblewrap mounted, once it has moved to where it mounted it; nothing before.

    It is read again after the move was seen: a long list comes in pieces, of which the first may tell of before.
    """
    known = {device for _, _, device, *_ in host}
    has_moved = any(place == b"/proc" and device not in known for _, _, device, _, place, _ in parsed(read()))
    return parsed(read()) if has_moved else []


def strange(
    mounts: list[Mount], host: list[Mount], bound: list[bytes], hidden: list[bytes], terminal: bytes = b""
) -> bytes | None:
    """Where something is mounted that should not be, or nothing that should; None when all is as planned.

    `bound` are the places that show what the host has there, as often as they are mounted; `hidden`, those that do not.
    What a `terminal` is, the command has anyway.
    """
    known = {device for _, _, device, *_ in host}
    own = {(device, root, place) for _, _, device, root, place, _ in host}
    where = _finder(host)
    devices = {where(path) for path in (*(b"/dev/" + name for name in _DEVICES), *filter(None, [terminal]))}
    waiting: dict[bytes, int] = {}
    for place in bound:
        waiting[place] = waiting.get(place, 0) + 1
    covered = set()
    for _, _, device, root, place, kind in mounts:
        if (device not in known and kind in _NEW) or (device, root) in devices:
            covered.add(place)
        elif waiting.get(place) and where(place) == (device, root):
            waiting[place] -= 1
        elif (device, root, place) not in own or not any(_is_below(place, one) for one in bound):
            return place
    missing = (place for place, times in waiting.items() if times)
    return next(iter((*missing, *(place for place in hidden if place not in covered))), None)


def _finder(host: list[Mount]) -> "Callable[[bytes], tuple[bytes, bytes]]":
    """What says where a path without links leads to: to which device, and where on it."""
    numbers = {number for number, *_ in host}
    upon: dict[bytes, list[Mount]] = {}
    for mount in host:
        number, above = mount[:2]
        upon.setdefault(above if above in numbers and above != number else b"", []).append(mount)

    def where(path: bytes) -> tuple[bytes, bytes]:
        number, device, root, place = b"", b"", b"", b""
        # As the kernel walks: the first mount on the way leads on, and what lies beneath that is out of sight.
        while inner := [mount for mount in upon.get(number, ()) if _is_below(path, mount[4])]:
            number, _, device, root, place, _ = min(inner, key=lambda mount: len(mount[4]))
        return device, (root.rstrip(b"/") + path[len(place.rstrip(b"/")) :]).rstrip(b"/") or b"/"

    return where


def _is_below(path: bytes, root: bytes) -> bool:
    return path == root or path.startswith(root.rstrip(b"/") + b"/")


def _plain(text: bytes) -> bytes:
    if b"\\" in text:
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
    return text
