"""Open, read, replace, stamp and lock files.

Only regular files are opened, and a file is read as it was at one moment. `write_atomic` replaces a file so that
readers find the old or the new content and nothing between, even after a crash.

A change stamp tells whether a file has changed. It uses the ctime, which the kernel sets and no command can turn back,
unlike the mtime. It does not see changes through a memory mapping that was opened before.

This module is on the way to every search, so it imports nothing heavy; `FileLock` is a class because `contextlib` is.
"""

import errno
import os
import stat
import time
from time import time_ns

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

MAX_TRIES = 3  # to read a file that is being written


def open_regular(path: str) -> "BinaryIO":
    """Open a regular file for reading; anything else is an OSError, and a pipe does not block."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a file")
    return open(number, "rb")


def read_stable(descriptor: int, max_bytes: int) -> bytes:
    """Return the content of a file that was just opened, as it was at one moment, trying again while it is written.

    Raise an OSError if it is not a regular file or has more than `max_bytes`.
    """
    return read_stable_with_status(descriptor, max_bytes)[0]


def read_stable_with_status(descriptor: int, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return the content as `read_stable` does, and the status of the file at that moment."""
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


ACL_ATTRIBUTE = "system.posix_acl_access"  # who else may do what, where a system keeps lists of them


def write_atomic(
    path: str,
    content: bytes,
    mode: int = 0o600,
    directory: int | None = None,
    check: "Callable[[], None] | None" = None,
) -> None:
    """Replace a file; an OSError leaves the old one as it was.

    `mode` is for a new file; an existing one keeps its own. With a descriptor of a `directory`,
    the path is a name in it, and a link of that name is replaced and not followed. `check` is called last of all, when
    only the name is still that of the old file, and may raise what keeps it so.
    """
    from contextlib import suppress
    from secrets import token_hex

    kept = None
    with suppress(FileNotFoundError):
        kept = os.stat(path, dir_fd=directory, follow_symlinks=directory is None)
    above = os.path.dirname(path)
    temporary = os.path.join(above, f".{token_hex(8)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(temporary, flags, mode, dir_fd=directory), "wb") as file:
        try:
            if kept:
                _copy_owner_and_mode(file.fileno(), kept, path, directory)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if check:
                check()
            os.replace(temporary, path, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(temporary, dir_fd=directory)
            raise
    if directory is None:
        _sync_directory(above or ".")
    else:
        os.fsync(directory)


def _copy_owner_and_mode(number: int, kept: os.stat_result, path: str, directory: int | None) -> None:
    """Copy the owner, the mode and the attributes of the old file, as far as permitted."""
    if not hasattr(os, "fchown"):  # Windows
        return
    kept_mode = kept.st_mode & 0o777
    try:
        if (kept.st_uid, kept.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(number, kept.st_uid, kept.st_gid)
        _copy_attributes(number, path, directory)
    except OSError:  # only root may give files away; the mode must not open ours to a group that had no access
        kept_mode = kept.st_mode & 0o707
    os.fchmod(number, kept_mode)  # whatever the umask says of new files


def _copy_attributes(number: int, path: str, directory: int | None) -> None:
    """Copy the user attributes of the old file and its access control list, without which its mode would mean more."""
    from contextlib import suppress

    if not hasattr(os, "setxattr"):
        return
    flags = os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if directory is not None else 0)
    old = os.open(path, flags, dir_fd=directory)
    try:
        given, inherited = _attributes(old), _attributes(number)
        for name in given:
            if name.startswith("user."):
                with suppress(OSError):  # there is no room for it
                    os.setxattr(number, name, os.getxattr(old, name))
        if ACL_ATTRIBUTE in given:
            os.setxattr(number, ACL_ATTRIBUTE, os.getxattr(old, ACL_ATTRIBUTE))
        elif ACL_ATTRIBUTE in inherited:  # from its directory, since the old one was made
            os.removexattr(number, ACL_ATTRIBUTE)
    finally:
        os.close(old)


def _attributes(file: int) -> list[str]:
    try:
        return os.listxattr(file)
    except OSError:  # the file system has none
        return []


def _sync_directory(directory: str) -> None:
    """Make the new name durable; where directories cannot be opened, the system does so."""
    try:
        number = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(number)
    except OSError:
        return
    finally:
        os.close(number)


TIMESTAMP_GRANULARITY_NS = (
    3_000_000_000  # a change in the tick of a look leaves no trace; the longest tick, of FAT, is two seconds
)


def is_unchanged_since(changed_ns: int, since_ns: int) -> bool:
    """Return whether something with this change time certainly has not changed since a moment."""
    return changed_ns + TIMESTAMP_GRANULARITY_NS < since_ns


def change_stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return a value that differs after every change of a file, or of the names in a directory.

    It is empty if the last change was just now, when another change may leave no trace. Take it before reading, so that
    a change during the read is noticed.
    """
    known = is_unchanged_since(status.st_ctime_ns, time_ns())
    return (status.st_dev, status.st_ino, status.st_ctime_ns) if known else ()


def directory_stamp(path: str) -> tuple[int, ...] | None:
    """Return the change stamp of a directory, or None if there is no directory."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return change_stamp(found) if stat.S_ISDIR(found.st_mode) else None


LOCK_TIMEOUT_S = 60.0  # copying a million vectors, the longest that onhand holds one, takes a fraction


class FileLock:
    """A lock that one holder at a time has, among all threads and processes, for use in a `with` statement.

    Entering it creates the file, which stays. It raises an OSError if the file cannot be created, and a TimeoutError if
    another holder does not release it in time. The system releases the lock of a process that ends.
    """

    def __init__(self, path: str, timeout_s: float = LOCK_TIMEOUT_S, mode: int = 0o666) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._mode = mode
        self._descriptor = -1

    def __enter__(self) -> None:
        os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # a link would have a file made anywhere
        descriptor = os.open(self._path, flags, self._mode)
        try:
            deadline = time.monotonic() + self._timeout_s
            while not try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"another process has locked {self._path} for more than {self._timeout_s:.0f} s")
                time.sleep(0.01)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)  # which releases the lock


def try_lock(descriptor: int) -> bool:
    """Lock an open file or directory until it is closed; False if it is locked already.

    An OSError where the file system has no locks.
    """
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
