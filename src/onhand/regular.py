"""How is a file opened and read without being fooled?"""

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

MAX_TRIES = 3  # to read a file that somebody is writing to
PIECE_BYTES = 64 * 1024  # room is made for all that is asked for, and most often nothing more comes


def open_file(path: str) -> "BinaryIO":
    """Open a regular file for reading; anything else is an OSError, and a pipe does not block."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a file")
    return open(number, "rb")


def read_whole(descriptor: int, max_bytes: int) -> bytes:
    """What is in a file at one moment: while somebody writes to it, try again; an OSError if it has more."""
    for _ in range(MAX_TRIES):
        before = os.fstat(descriptor)
        os.lseek(descriptor, 0, os.SEEK_SET)
        content = os.read(descriptor, min(before.st_size, max_bytes) + 1)
        while len(content) <= max_bytes and (
            more := os.read(descriptor, min(PIECE_BYTES, max_bytes + 1 - len(content)))
        ):
            content += more
        if len(content) > max_bytes:
            raise OSError(errno.EFBIG, f"grew past {max_bytes:,} bytes while it was read: try again")
        after = os.fstat(descriptor)
        if after.st_mtime_ns == before.st_mtime_ns and len(content) == after.st_size:
            return content
    raise BlockingIOError(errno.EAGAIN, "it is being written to: try again")
