"""How is a file opened and read without being fooled?"""

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

MAX_TRIES = 3  # to read a file that somebody is writing to


def open_file(path: str) -> "BinaryIO":
    """Open a regular file for reading; anything else is an OSError, and a pipe does not block."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a file")
    return open(number, "rb")


def read_whole(descriptor: int, max_bytes: int) -> bytes:
    """What is in a file that was just opened, at one moment: while somebody writes to it, try again.

    An OSError if it is no regular file or has more.
    """
    return read_with_status(descriptor, max_bytes)[0]


def read_with_status(descriptor: int, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """The same, and what the system says of the file at that moment."""
    for _ in range(MAX_TRIES):
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        size = before.st_size
        if size > max_bytes:
            raise OSError(errno.EFBIG, f"grew past {max_bytes:,} bytes while it was read: try again")
        content = os.read(descriptor, size + 1)  # one more tells that it has grown
        while len(content) < size and (more := os.read(descriptor, size + 1 - len(content))):
            content += more
        after = os.fstat(descriptor)
        if after.st_mtime_ns == before.st_mtime_ns and len(content) == after.st_size:
            return content, after
        os.lseek(descriptor, 0, os.SEEK_SET)
    raise BlockingIOError(errno.EAGAIN, "it is being written to: try again")
