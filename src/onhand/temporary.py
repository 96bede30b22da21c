"""Temporary directories that are removed even if their process was killed, namely when the next one is made."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import time
from typing import NamedTuple

from onhand.fsio import try_lock

UNLOCKED_S = 60.0  # far longer than it takes to lock a new directory

Remove = Callable[[str], None]
remove_tree: Remove = partial(shutil.rmtree, ignore_errors=True)


class LockedDirectory(NamedTuple):
    """A directory that is locked for as long as somebody uses it."""

    path: str
    lock: int  # a descriptor
    remove: Remove

    def release(self) -> None:
        """Remove it."""
        self.remove(self.path)
        with suppress(OSError):  # it was closed by a call that was interrupted
            os.close(self.lock)


def make_locked_directory(prefix: str, place: str = "", remove: Remove = remove_tree) -> LockedDirectory:
    """Return a new directory, and remove those with this prefix that nobody uses any longer."""
    place = place or tempfile.gettempdir()
    with suppress(OSError):  # it cannot be listed
        for path in (os.path.join(place, name) for name in os.listdir(place) if name.startswith(prefix)):
            with suppress(OSError):  # it is in use, or another user's, or has just been removed
                if time() - os.lstat(path).st_mtime > UNLOCKED_S:
                    LockedDirectory(path, lock_directory(path), remove).release()
    made = tempfile.mkdtemp(prefix=prefix, dir=place)
    return LockedDirectory(made, lock_directory(made), remove)


def lock_directory(path: str) -> int:
    """Open and lock a directory; OSError if another process has locked it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not try_lock(descriptor):
        os.close(descriptor)
        raise BlockingIOError(errno.EAGAIN, "another process uses it", path)
    return descriptor
