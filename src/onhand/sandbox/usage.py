"""How much do all that come from a process use together? As the system tells of them now; it ends nobody.

What each may use is a limit that the kernel keeps. It keeps none for the sum without a control group, which most users
cannot make. So whoever starts a command looks here now and then. Like `launch`, it imports nothing later.
"""

import os
import resource

from onhand.descendants import family

_UTIME, _CSTIME, _RSS = 11, 14, 21  # in the fields of stat: from own time to that of children who were waited for
_TICKS, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def excess(ancestor: int, memory_bytes: int, cpu_s: float) -> str:
    """Which of two limits all together have passed, `memory` or `cpu`; nothing while they are within both.

    To be asked by the ancestor itself: it alone knows what those used whom it waited for.
    """
    told = family(ancestor)
    buried = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = sum(int(ticks) for fields in told.values() for ticks in fields[_UTIME : _CSTIME + 1])
    if ticks / _TICKS + buried.ru_utime + buried.ru_stime > cpu_s:
        return "cpu"
    # What several share counts for each of them in the first sum, which is cheap; in the second it is divided.
    resident = {process: int(fields[_RSS]) * _PAGE_BYTES for process, fields in told.items()}
    if sum(resident.values()) > memory_bytes:
        return "memory" if sum(map(_share, resident, resident.values())) > memory_bytes else ""
    return ""


def _share(process: int, resident: int) -> int:
    """The memory of a process, with its share of what others have too; where that is not told, all of it."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as rollup:
            lines = [line.split() for line in rollup]
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended
    except OSError:
        return resident
    return sum(int(words[1]) for words in lines if words[0] in (b"Pss:", b"SwapPss:")) * 1024
