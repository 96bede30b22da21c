"""How are files written and read that several processes share?"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

LOCK_TIMEOUT_S = 60.0  # to copy a million vectors takes a fraction of it


def mapped(path: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """A file as an array, read when it is looked at; a ValueError when the file is shorter."""
    import numpy as np

    if not shape[0]:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, mode="r", shape=shape).view(np.ndarray)


def write_at(path: str, offset: int, data: bytes, sync: bool = False) -> None:
    """Write bytes at a place of a file; with `sync` they are on the disk before this returns."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, 0o666), "wb") as file:
        file.seek(offset)
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def locked(directory: str) -> AbstractContextManager[None]:
    """One writer of a directory at a time."""
    return locked_file(os.path.join(directory, "lock"))


@contextmanager
def locked_file(path: str) -> Iterator[None]:
    """One at a time; an OSError when nobody may write here or another one does not come to an end."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # a link would have a file made anywhere
    file = os.open(path, flags, 0o666)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not _taken(file):
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(0.01)
        yield
    finally:
        os.close(file)  # and with it the lock


def _taken(file: int) -> bool:
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
