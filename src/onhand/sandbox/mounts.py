"""Is what a command would see what it was meant to see? The kernel's list of its mounts is held against the plan.

bubblewrap follows paths that another command, which still runs, may turn into links meanwhile: then something else of
the user's would be mounted. So the list is read when all is mounted and the command has not begun; it names what is
mounted by the kernel's own knowledge, which no link changes. It knows bytes and no policy. Like `launch`, it imports
nothing later.
"""

_NEW = (b"tmpfs", b"proc", b"devpts")  # what bubblewrap makes; of a host's own, it is not new
_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty", b"console")
_ESCAPES = ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\043", b"#"), (b"\\134", b"\\"))

Mount = tuple[bytes, bytes, bytes, bytes]
"""The device, what of it is mounted, where, and the kind of file system."""


def parsed(mountinfo: bytes) -> list[Mount]:
    """The lines of /proc/PID/mountinfo, the earlier mounts first."""
    found = []
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(b" - ")
        _, _, device, root, place, *_ = fields.split(b" ")
        found.append((device, _plain(root), _plain(place), rest.split(b" ")[0]))
    return found


def is_complete(mounts: list[Mount], host: list[Mount]) -> bool:
    """Whether bubblewrap has mounted all that it will: it works elsewhere, and moves there in the end."""
    known = {device for device, _, _, _ in host}
    has_own_proc = any(place == b"/proc" and device not in known for device, _, place, _ in mounts)
    return has_own_proc and not any(place.startswith((b"/oldroot", b"/newroot")) for _, _, place, _ in mounts)


def strange(mounts: list[Mount], host: list[Mount], bound: list[bytes], hidden: list[bytes]) -> bytes | None:
    """Where something is mounted that should not be, or nothing that should; None when all is as planned.

    `bound` are the places that show what the host has there, as often as they are mounted; `hidden`, those that do not.
    """
    known = {device for device, _, _, _ in host}
    own = {(device, root, place) for device, root, place, _ in host}
    devices = {_where(host, b"/dev/" + name) for name in _DEVICES}
    waiting, covered = list(bound), set()
    for device, root, place, kind in mounts:
        if (device not in known and kind in _NEW) or (device, root) in devices:
            covered.add(place)
        elif place in waiting and _where(host, place) == (device, root):
            waiting.remove(place)
        elif (device, root, place) not in own or not any(_is_below(place, one) for one in bound):
            return place
    return next((place for place in (*waiting, *hidden) if place in waiting or place not in covered), None)


def _where(host: list[Mount], path: bytes) -> tuple[bytes, bytes]:
    """What a path without links leads to: the device, and the place on it."""
    found, above = (b"", b""), b""
    for device, root, place, _ in host:
        if _is_below(path, place) and len(place) >= len(above):  # of two in one place, the later
            found, above = (device, root.rstrip(b"/") + path[len(place.rstrip(b"/")) :] or b"/"), place
    return found


def _is_below(path: bytes, root: bytes) -> bool:
    return path == root or path.startswith(root.rstrip(b"/") + b"/")


def _plain(text: bytes) -> bytes:
    if b"\\" in text:
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
    return text
