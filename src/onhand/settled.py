"""Has something changed meanwhile? The kernel notes the time of each change, and nobody else can set it.

What `touch` sets, a command could turn back. Whoever has mapped a file into memory may go on changing it without
another note of the kernel's: that is not seen here. It reads no file and no directory.
"""

import os
import stat
from time import time_ns

SETTLED_NS = 3_000_000_000  # a change in the tick of a look leaves no trace; the longest tick, of FAT, is two seconds


def is_settled(changed_ns: int, since_ns: int) -> bool:
    """Whether something surely has not changed since a moment, given the time that is noted."""
    return changed_ns + SETTLED_NS < since_ns


def stamp(status: os.stat_result) -> tuple[int, ...]:
    """What differs after every change of a file, or of the names in a directory; empty if it changed just now, when
    another change may leave no trace. To be asked for before the look, so that what changes during it is read again."""
    known = is_settled(status.st_ctime_ns, time_ns())
    return (status.st_dev, status.st_ino, status.st_ctime_ns) if known else ()


def directory_stamp(path: str) -> tuple[int, ...] | None:
    """The stamp of a directory; None when there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return stamp(found) if stat.S_ISDIR(found.st_mode) else None
