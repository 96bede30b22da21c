"""How much do all that come from a process use together? As the system tells of them now; it ends nobody.

What each may use is a limit that the kernel keeps. It keeps none for the sum without a control group, which most users
cannot make. So whoever starts a command looks here now and then. Like `launch`, it imports nothing later.
"""

import os
import resource

from onhand.descendants import family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108  # where bubblewrap always mounts what is in memory
MAX_OPEN = 65_536  # descriptors of all together: each is looked at, and whoever looks at more is late for all else
_UTIME, _CSTIME, _RSS = 11, 14, 21  # in the fields of stat: from own time to that of children who were waited for
_TICKS, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def excess(ancestor: int, memory_bytes: int, cpu_s: float, *, temporary: "Sequence[str]" = ()) -> str:
    """Which limit all together have passed, `memory`, `cpu` or `open`; nothing while they are within all.

    To be asked by the ancestor itself: it alone knows what those used whom it waited for. What is in directories of
    theirs that are `temporary` is in memory too.
    """
    told = family(ancestor)
    buried = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = sum(int(ticks) for fields in told.values() for ticks in fields[_UTIME : _CSTIME + 1])
    if ticks / _TICKS + buried.ru_utime + buried.ru_stime > cpu_s:
        return "cpu"
    # What several share counts for each of them in the first sum, which is cheap; in the second it is divided.
    resident = {process: int(fields[_RSS]) * _PAGE_BYTES for process, fields in told.items()}
    descriptors = _open(told)
    if len(descriptors) > MAX_OPEN:
        return "open"
    files = _files(descriptors) + _temporary(told, temporary)
    if sum(resident.values()) + files > memory_bytes:
        shares = [_share(process, size) for process, size in resident.items()]
        mapped = sum(share[1] for share in shares)  # of the files too: what is both counts once
        return "memory" if sum(share[0] for share in shares) + max(mapped, files) > memory_bytes else ""
    return ""


def _open(processes: "Iterable[int]") -> list[str]:
    """What they have open, by the names of its descriptors; not much more of it than is allowed."""
    found: list[str] = []
    for process in processes:
        directory = f"/proc/{process}/fd"
        try:
            found += [f"{directory}/{number}" for number in os.listdir(directory)]
        except OSError:  # it has just ended, or does not tell
            continue
        if len(found) > MAX_OPEN:
            break
    return found


def _files(descriptors: list[str]) -> int:
    """The memory of open files that are on no disk (memfd_create), each counted once: nobody need have it mapped."""
    sizes: dict[tuple[int, int], int] = {}
    for descriptor in descriptors:
        try:
            if os.readlink(descriptor).startswith("/memfd:"):
                found = os.stat(descriptor)
                sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
        except OSError:
            continue
    return sum(sizes.values())


def _temporary(processes: "Iterable[int]", paths: "Sequence[str]") -> int:
    """What is in the directories of theirs that are in memory: the same for all, so that one who tells is enough."""
    ours = [_device("self", path) for path in paths]
    for process in processes:
        theirs = [path for path in paths if _device(str(process), path) not in (None, *ours)]
        if theirs:  # but for one of ours that they may write
            return sum(_used(process, path) for path in theirs)
    return 0


def _device(process: str, path: str) -> int | None:
    """What holds a directory that a process sees."""
    try:
        return os.stat(f"/proc/{process}/root{path}").st_dev
    except OSError:  # it has just ended, or does not tell
        return None


def _used(process: int, path: str) -> int:
    try:
        found = os.statvfs(f"/proc/{process}/root{path}")
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _share(process: int, resident: int) -> tuple[int, int]:
    """The memory of a process, with its share of what others have too, and that of files in memory by itself.

    Where it is not told, all that is resident.
    """
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as rollup:
            told = {words[0]: int(words[1]) * 1024 for words in map(bytes.split, rollup) if words[0].endswith(b":")}
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0  # it has just ended
    except OSError:
        return resident, 0
    mapped = told.get(b"Pss_Shmem:", 0)
    return told.get(b"Pss:", 0) + told.get(b"SwapPss:", 0) - mapped, mapped
