"""Read from /proc what a sandboxed command sees and uses. Like `launch`, it imports nothing later on.

Mounts: bubblewrap follows paths that another running command may turn into links, which would mount other files of the
user. So the kernel's list of mounts, which links do not affect, is compared with the plan before the command starts.

Usage: the kernel limits each process, but limits their sum only in a control group, which most users cannot create. So
the supervisor adds up what all descendants use.
"""

import os
import resource

from onhand.processes import descendants

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# File systems that bubblewrap creates; one with a device of the host is the host's.
_NEW = (b"tmpfs", b"proc", b"devpts")
_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
_ESCAPES = ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\043", b"#"), (b"\\134", b"\\"))

Mount = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
"""The mount id, the parent's id, the device, the root within the device, the mount point and the file system type."""


def parse_mountinfo(mountinfo: bytes) -> list[Mount]:
    """Return the mounts in /proc/PID/mountinfo, earlier ones first."""
    found = []
    for line in filter(None, mountinfo.split(b"\n")):  # splitlines would also split at other characters in names
        fields, _, rest = line.partition(b" - ")
        number, above, device, root, place, *_ = fields.split(b" ")
        found.append((number, above, device, _unescape(root), _unescape(place), rest.split(b" ")[0]))
    return found


def complete_mounts(read: "Callable[[], bytes]", host: list[Mount]) -> list[Mount]:
    """Return all mounts once bubblewrap has switched to its new root, and nothing before.

    The list is read again after the switch was seen, because a long list comes in pieces and the first ones may be
    from before it.
    """
    known = {device for _, _, device, *_ in host}
    has_moved = any(place == b"/proc" and device not in known for _, _, device, _, place, _ in parse_mountinfo(read()))
    return parse_mountinfo(read()) if has_moved else []


def unexpected_mount(
    mounts: list[Mount], host: list[Mount], bound: list[bytes], hidden: list[bytes], terminal: bytes = b""
) -> bytes | None:
    """Return a path with a wrong or missing mount, or None if everything is mounted as planned.

    `bound` has the paths that show what the host has there, once per mount, and `hidden` those that must show nothing.
    The `terminal` may be mounted, since the command has it anyway.
    """
    known = {device for _, _, device, *_ in host}
    own = {(device, root, place) for _, _, device, root, place, _ in host}
    where = _resolver(host)
    devices = {where(path) for path in (*(b"/dev/" + name for name in _DEVICES), *filter(None, [terminal]))}
    expected: dict[bytes, int] = {}
    for place in bound:
        expected[place] = expected.get(place, 0) + 1
    covered = set()
    for _, _, device, root, place, kind in mounts:
        if (device not in known and kind in _NEW) or (device, root) in devices:
            covered.add(place)
        elif expected.get(place) and where(place) == (device, root):
            expected[place] -= 1
        elif (device, root, place) not in own or not any(_is_below_root(place, one) for one in bound):
            return place
    missing = (place for place, times in expected.items() if times)
    return next(iter((*missing, *(place for place in hidden if place not in covered))), None)


def _resolver(host: list[Mount]) -> "Callable[[bytes], tuple[bytes, bytes]]":
    """Return a function that maps a path without links to its device and the path on that device."""
    numbers = {number for number, *_ in host}
    upon: dict[bytes, list[Mount]] = {}
    for mount in host:
        number, above = mount[:2]
        upon.setdefault(above if above in numbers and above != number else b"", []).append(mount)

    def where(path: bytes) -> tuple[bytes, bytes]:
        number, device, root, place = b"", b"", b"", b""
        # Like the kernel, follow the first mount on the way; whatever it covers is invisible.
        while inner := [mount for mount in upon.get(number, ()) if _is_below_root(path, mount[4])]:
            number, _, device, root, place, _ = min(inner, key=lambda mount: len(mount[4]))
        return device, (root.rstrip(b"/") + path[len(place.rstrip(b"/")) :]).rstrip(b"/") or b"/"

    return where


def _is_below_root(path: bytes, root: bytes) -> bool:
    return path == root or path.startswith(root.rstrip(b"/") + b"/")


def _unescape(text: bytes) -> bytes:
    if b"\\" in text:
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
    return text


TEMPORARY_DIRECTORIES = ("/tmp", "/dev/shm")  # noqa: S108  # where bubblewrap always mounts a file system in memory
MAX_DESCRIPTORS = 65_536  # of all processes together: each is examined, and more would delay all other checks
# Positions in the fields of a ProcessTable: the first and the last of four times, threads, and resident pages.
_UTIME, _CSTIME, _THREADS, _RSS = 11, 14, 17, 21
_TICKS, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def exceeded_limit(
    ancestor: int,
    memory_bytes: int,
    cpu_s: float,
    *,
    tasks: int | None = None,
    temporary: "Sequence[str]" = (),
    shared_bytes: int = 0,
) -> str:
    """Return the limit that all descendants together exceed, or an empty string.

    The limits are `memory`, `cpu`, `open` (descriptors) and, unless `tasks` is None, `processes` (with threads).

    Call this in the ancestor itself, which alone knows what its reaped children used. Files in the `temporary`
    directories count as memory, and so do the `shared_bytes` of shared memory that has names.
    """
    table = descendants(ancestor)
    if tasks is not None and sum(int(fields[_THREADS]) for fields in table.values()) > tasks:
        return "processes"
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = sum(int(ticks) for fields in table.values() for ticks in fields[_UTIME : _CSTIME + 1])
    if ticks / _TICKS + reaped.ru_utime + reaped.ru_stime > cpu_s:
        return "cpu"
    # The first sum is cheap but counts shared memory once per process; the second one divides it among them.
    resident = {process: int(fields[_RSS]) * _PAGE_BYTES for process, fields in table.items()}
    descriptors = _open_descriptors(table)
    if len(descriptors) > MAX_DESCRIPTORS:
        return "open"
    files = _memory_file_bytes(descriptors, is_private=bool(temporary)) + shared_bytes
    files += _temporary_bytes(table, temporary)
    if sum(resident.values()) + files > memory_bytes:
        shares = [_memory_share(process, size) for process, size in resident.items()]
        mapped = sum(share[1] for share in shares)  # may be the same files, which count once
        return "memory" if sum(share[0] for share in shares) + max(mapped, files) > memory_bytes else ""
    return ""


def _open_descriptors(processes: "Iterable[int]") -> list[str]:
    """Return the paths of the open descriptors, stopping soon after the limit."""
    found: list[str] = []
    for process in processes:
        directory = f"/proc/{process}/fd"
        try:
            found += [f"{directory}/{number}" for number in os.listdir(directory)]
        except OSError:  # it has just ended, or may not be inspected
            continue
        if len(found) > MAX_DESCRIPTORS:
            break
    return found


def _memory_file_bytes(descriptors: list[str], *, is_private: bool) -> int:
    """Return the size of open files in memory that have no name, each counted once, whether or not they are mapped.

    Removed files of a /dev/shm that `is_private` are counted there.
    """
    sizes: dict[tuple[int, int], int] = {}
    for descriptor in descriptors:
        try:
            path = os.readlink(descriptor)
            is_removed = path.startswith("/dev/shm/") and path.endswith(" (deleted)")  # noqa: S108
            if path.startswith("/memfd:") or (is_removed and not is_private):
                found = os.stat(descriptor)
                sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
        except OSError:
            continue
    return sum(sizes.values())


def _temporary_bytes(processes: "Iterable[int]", paths: "Sequence[str]") -> int:
    """Return the size of the in-memory directories as the first readable process sees them; all see the same."""
    shared = [_device("self", path) for path in paths]
    for process in processes:
        private = [path for path in paths if _device(str(process), path) not in (None, *shared)]
        if private:  # a directory of the host that the command may write does not count
            return sum(_used_bytes(process, path) for path in private)
    return 0


def _device(process: str, path: str) -> int | None:
    """Return the device of a directory as a process sees it."""
    try:
        return os.stat(f"/proc/{process}/root{path}").st_dev
    except OSError:  # it has just ended, or may not be inspected
        return None


def _used_bytes(process: int, path: str) -> int:
    try:
        found = os.statvfs(f"/proc/{process}/root{path}")
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _memory_share(process: int, resident: int) -> tuple[int, int]:
    """Return the proportional memory of a process, and separately its share of mapped shared-memory files.

    If the kernel does not say, all of the resident memory counts.
    """
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as rollup:
            sizes = {words[0]: int(words[1]) * 1024 for words in map(bytes.split, rollup) if words[0].endswith(b":")}
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0  # it has just ended
    except OSError:
        return resident, 0
    mapped = sizes.get(b"Pss_Shmem:", 0)
    return sizes.get(b"Pss:", 0) + sizes.get(b"SwapPss:", 0) - mapped, mapped
