"""How is a file opened without being fooled?"""

import errno
import os
import stat
from typing import BinaryIO


def open_file(path: str) -> BinaryIO:
    """Open a regular file for reading; anything else is an OSError, and a pipe does not block."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a file")
    return open(number, "rb")
