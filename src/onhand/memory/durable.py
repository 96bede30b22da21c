"""How is a file opened without being fooled, and replaced whole or not at all, also when the machine stops?"""

import errno
import os
import stat
from contextlib import suppress
from secrets import token_hex
from typing import BinaryIO


def open_file(path: str) -> BinaryIO:
    """Open a regular file for reading; anything else is an OSError, and a pipe does not block."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a file")
    return open(number, "rb")


def replace(path: str, data: bytes, mode: int) -> None:
    """Put data in the place of a file: a reader sees the old one or the new one, and the new one is on the disk.

    `mode` is that of a file that was not there; one that was there keeps its own. An OSError leaves the old file.
    """
    with suppress(FileNotFoundError):
        mode = os.stat(path).st_mode & 0o777
    temporary = f"{path}.{token_hex(8)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(temporary, flags, mode), "wb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    sync_directory(os.path.dirname(path))


def sync_directory(directory: str) -> None:
    """Have a file's new name on the disk, where directories can be opened."""
    if os.name == "posix":
        number = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
