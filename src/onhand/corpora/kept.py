"""Where is what was learned of files kept between two processes? In files of their own, which may be lost at any time.

They are the user's alone, and none lies in a project: a clone could bring one that says what nobody wrote.
"""

import os
import time

from onhand.digest import digest
from onhand.store.schema import VERSION

FORMAT = 1  # changes with what a corpus makes of the same file
UNUSED_S = 90 * 24 * 3600  # after which a file is deleted
NOTED_S = 24 * 3600  # how exactly it is known when a file was last used


def kept_at(directory: str, name: str, *settings: object) -> str | None:
    """The file for what a corpus learns under these settings; None where nothing can be written."""
    path = os.path.join(directory, f"{name}-{digest(repr((VERSION, FORMAT, settings)).encode('utf-8', 'replace'))}.db")
    try:
        used_s = time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        return path if _prepared(directory) else None
    except OSError:
        return None
    try:
        if used_s > NOTED_S:
            os.utime(path)
    except OSError:
        return None
    return path


def _prepared(directory: str) -> bool:
    """Make the directory, and delete from it what nobody has used for long; whether it is there and ours."""
    from contextlib import suppress

    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        found = os.stat(directory)
        if hasattr(os, "geteuid") and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
            return False
        oldest = time.time() - UNUSED_S
        with os.scandir(directory) as entries:
            unused = [entry.path for entry in entries if entry.name.endswith(".db") and entry.stat().st_mtime < oldest]
    except OSError:
        return False
    for path in unused:
        with suppress(OSError):
            discard(path)
    return True


def discard(path: str) -> None:
    """Delete what was kept in a file."""
    from contextlib import suppress
    from shutil import rmtree

    for end in ("", "-wal", "-shm"):
        with suppress(OSError):
            os.remove(path + end)
    rmtree(f"{path}-vectors", ignore_errors=True)
