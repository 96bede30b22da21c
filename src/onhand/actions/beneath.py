"""How is a path opened below a directory so that nothing on the way can lead out of it?

Whoever else works in the directory may replace any part of it by a link at any moment. So no link is followed at all:
by one system call where the kernel has openat2, else step by step, each from a directory that is held open. What a link
means is worked out before (workspace.py), and a wrong answer there leads to an error here and never outside.
"""

import errno
import os
from functools import cache
from typing import Any

OPENAT2 = 437  # the same on every architecture
NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x02, 0x04, 0x08  # linux/openat2.h
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
LISTED = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)  # a directory whose entries are wanted
# O_NONBLOCK: else opening a pipe would wait for a writer. O_NOCTTY: a terminal must not become ours.
FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def open_beneath(directory: int, inner: str, flags: int, mode: int = 0) -> int:
    """Open what is at a path below a directory that is open; a link anywhere on the way is an OSError.

    The path has no `..` and no empty part; an empty path is the directory itself.
    """
    opened = _openat2() or open_stepwise
    return opened(directory, inner, flags, mode)


def open_stepwise(directory: int, inner: str, flags: int, mode: int = 0) -> int:
    """The same without the kernel's help."""
    *above, name = parts_of(inner)
    held = os.dup(directory)
    try:
        for part in above:
            lower = os.open(part, DIRECTORY | NOFOLLOW, dir_fd=held)
            os.close(held)
            held = lower
        return os.open(name, flags | NOFOLLOW, mode, dir_fd=held)
    finally:
        os.close(held)


@cache
def _openat2() -> Any:
    """openat2 where the kernel has it and lets us."""
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).syscall
        call.restype = ctypes.c_long
    except (ImportError, OSError, AttributeError, TypeError):  # no libc that can be called so, such as on Windows
        return None

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    def opened(directory: int, inner: str, flags: int, mode: int = 0) -> int:
        path = os.fsencode("/".join(parts_of(inner)))
        how = How(flags | os.O_CLOEXEC, mode, BENEATH | NO_SYMLINKS | NO_MAGICLINKS)
        arguments = ctypes.c_long(directory), ctypes.c_char_p(path), ctypes.byref(how)
        number: int = call(ctypes.c_long(OPENAT2), *arguments, ctypes.c_size_t(ctypes.sizeof(how)))
        if number < 0:
            raise _error(ctypes.get_errno(), inner)
        return number

    return opened if _works(opened) else None


def _works(opened: Any) -> bool:
    """Whether the kernel knows the call: an older one does not, and a sandbox may forbid it."""
    root = os.open("/", DIRECTORY)
    try:
        os.close(opened(root, "", DIRECTORY))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def parts_of(inner: str) -> list[str]:
    """The names on the way, none of which may lead up or elsewhere."""
    parts = inner.split("/") if inner else ["."]
    if "" in parts or ".." in parts or any("\0" in part for part in parts):
        raise _error(errno.EXDEV, inner)
    return parts


def _error(number: int, inner: str) -> OSError:
    return OSError(number, os.strerror(number), inner)
