"""Change modes, owners and times of files for a command that is root, where they are its own to change.

Landlock does not restrict these calls, and root owns most files of the system. So the filter hands all of them over to
the broker, which opens what a call names once, decides by where that is on the disk, and makes the call itself. The
kernel never goes on with one of them: the command could change what it names in the meantime.

Like `launch`, this imports nothing later on.
"""

import os
import stat
import struct
from errno import EBADF, EFAULT, EINVAL, ENOENT, EOPNOTSUPP, EPERM

from onhand.sandbox import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Caller(Protocol):
        """A call that waits, as the broker has it."""

        def open_target(self, at: int, path: bytes, *, follow: bool) -> int: ...
        def read_memory(self, address: int, size: int) -> bytes: ...
        def read_path(self, address: int) -> bytes: ...


AT_CWD = 0xFFFFFF9C
_NO_FOLLOW, _EMPTY_PATH = 0x100, 0x1000  # AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH
_SET_ID, _MODE = 0o6000, 0o7777
_MICROSECONDS = 1_000_000

# Each call as one of those that take a directory and flags: its kind, directory, path, flags and other arguments. The
# path is None for a descriptor.
_UNIFORM: "dict[str, Callable[..., tuple[str, int, int | None, int, tuple[int, ...]]]]" = {
    "chmod": lambda path, mode, *_: ("mode", AT_CWD, path, 0, (mode,)),
    "fchmod": lambda at, mode, *_: ("mode", at, None, 0, (mode,)),
    "fchmodat": lambda at, path, mode, *_: ("mode", at, path, 0, (mode,)),
    "fchmodat2": lambda at, path, mode, flags, *_: ("mode", at, path, flags, (mode,)),
    "chown": lambda path, user, group, *_: ("owner", AT_CWD, path, 0, (user, group)),
    "lchown": lambda path, user, group, *_: ("owner", AT_CWD, path, _NO_FOLLOW, (user, group)),
    "fchown": lambda at, user, group, *_: ("owner", at, None, 0, (user, group)),
    "fchownat": lambda at, path, user, group, flags, *_: ("owner", at, path, flags, (user, group)),
    "utime": lambda path, times, *_: ("seconds", AT_CWD, path, 0, (times,)),
    "utimes": lambda path, times, *_: ("microseconds", AT_CWD, path, 0, (times,)),
    "futimesat": lambda at, path, times, *_: ("microseconds", at, path or None, 0, (times,)),
    "utimensat": lambda at, path, times, flags, *_: ("times", at, path or None, flags, (times,)),
}


class Metadata:
    """The places in which a command may change the metadata of files."""

    def __init__(self, plan: "dict[str, Any]") -> None:
        """Open the roots of the plan, which stay the same whatever happens to their paths."""
        self._roots = [(os.fsencode(root), kernel.open_path(root)) for root in plan["roots"]]
        self._closed = {_fold(os.fsencode(path)) for path in plan["closed"]}

    def covers(self, name: str) -> bool:
        """Return whether a call of this name changes metadata."""
        return name in _UNIFORM

    def change(self, call: "Caller", name: str, arguments: tuple[int, ...]) -> None:
        """Carry out a call; OSError if it is refused or fails."""
        kind, at, address, flags, rest = _UNIFORM[name](*arguments)
        flags &= 0xFFFFFFFF
        if flags & ~(_NO_FOLLOW | _EMPTY_PATH):
            raise OSError(EINVAL, "unknown flags")
        path = b""
        if address is not None:
            path = call.read_path(address)
            if not path and not flags & _EMPTY_PATH:
                raise OSError(ENOENT, "the path is empty")
        elif at & 0xFFFFFFFF == AT_CWD:
            raise OSError(EFAULT if kind in ("times", "microseconds") else EBADF, "neither a path nor a descriptor")
        target = call.open_target(at, path, follow=not flags & _NO_FOLLOW)
        try:
            if not self._contains(target):
                raise OSError(EPERM, "it is not the command's")
            _CHANGES[kind](call, target, *rest)
        finally:
            os.close(target)

    def _contains(self, target: int) -> bool:
        """Return whether something open is in one of the roots and not in a closed path there."""
        path = os.readlink(b"/proc/self/fd/%d" % target)
        found = os.fstat(target)
        return any(self._leads_to(root, directory, path, found) for root, directory in self._roots)

    def _leads_to(self, root: bytes, directory: int, path: bytes, target: os.stat_result) -> bool:
        """Return whether a path that the kernel named leads from a root to the target, without links."""
        if path != root and not path.startswith(root + b"/"):
            return False
        above = path
        while len(above) >= len(root):
            if _fold(above) in self._closed:
                return False
            above = os.path.dirname(above)
        inner = path[len(root) + 1 :]
        try:
            found = kernel.open_below(directory, inner) if inner else os.dup(directory)
        except OSError:  # it was moved or removed
            return False
        try:
            return os.path.samestat(os.fstat(found), target)
        finally:
            os.close(found)


def _change_mode(_: "Caller", target: int, mode: int) -> None:
    if mode & _SET_ID:
        raise OSError(EPERM, "it would run as root")
    if stat.S_ISLNK(os.fstat(target).st_mode):
        raise OSError(EOPNOTSUPP, "links have no mode")
    os.chmod(f"/proc/self/fd/{target}", mode & _MODE)


def _change_owner(_: "Caller", target: int, user: int, group: int) -> None:
    kernel.change_owner(target, user & 0xFFFFFFFF, group & 0xFFFFFFFF)


def _change_times(call: "Caller", target: int, address: int) -> None:
    kernel.change_times(target, call.read_memory(address, 32) if address else None)


def _change_microseconds(call: "Caller", target: int, address: int) -> None:
    if not address:
        kernel.change_times(target, None)
        return
    read, read_more, written, written_more = struct.unpack("=4q", call.read_memory(address, 32))
    if not (0 <= read_more < _MICROSECONDS and 0 <= written_more < _MICROSECONDS):
        raise OSError(EINVAL, "not a number of microseconds")
    kernel.change_times(target, struct.pack("=4q", read, read_more * 1000, written, written_more * 1000))


def _change_seconds(call: "Caller", target: int, address: int) -> None:
    if not address:
        kernel.change_times(target, None)
        return
    read, written = struct.unpack("=2q", call.read_memory(address, 16))
    kernel.change_times(target, struct.pack("=4q", read, 0, written, 0))


_CHANGES: "dict[str, Callable[..., None]]" = {
    "mode": _change_mode,
    "owner": _change_owner,
    "times": _change_times,
    "microseconds": _change_microseconds,
    "seconds": _change_seconds,
}


def _fold(path: bytes) -> bytes:
    """Return what is left of a path without the differences that some file systems ignore, and a little less."""
    return path.decode("utf-8", "surrogateescape").casefold().encode("ascii", "ignore")
