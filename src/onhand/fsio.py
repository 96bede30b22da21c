"""Open, read, replace, stamp and lock files.

Only regular files are opened, and reads are consistent: they return the content at one moment. `write_atomic` replaces
a file so that readers find either the old or the new content, even after a crash, and `make_directories` creates
directories whose names survive one.

A change stamp tells whether a file has changed. It uses the ctime, which only the kernel sets, instead of the mtime. It
does not detect changes through a memory mapping that was opened earlier.

This module is on the way to every search and imports nothing heavy. `FileLock` is a class to avoid `contextlib`.
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
        raise OSError(errno.EINVAL, "not a regular file")
    return open(number, "rb")


def find_exposed(path: str) -> str | None:
    """Return what lets every user of the machine change a file, or None: the file itself, or a directory that it is in.

    In a directory with the sticky bit, such as /tmp, files can be changed by their owners only.
    """
    if not hasattr(os, "geteuid"):  # Windows has other permissions
        return None
    places = dict.fromkeys((path, os.path.dirname(path) or ".", os.path.dirname(os.path.realpath(path))))
    for place in places:
        try:
            mode = os.stat(place).st_mode
        except OSError:  # it does not exist, or is not accessible
            continue
        if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            return place
    return None


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
            raise OSError(errno.EINVAL, "not a regular file")
        size = before.st_size
        if size > max_bytes:
            raise OSError(errno.EFBIG, f"grew past {max_bytes:,} bytes during the read: try again")
        content = os.read(descriptor, size + 1)  # one byte more reveals that it has grown
        while len(content) < size and (more := os.read(descriptor, size + 1 - len(content))):
            content += more
        after = os.fstat(descriptor)
        if after.st_mtime_ns == before.st_mtime_ns and len(content) == after.st_size:
            return content, after
        os.lseek(descriptor, 0, os.SEEK_SET)
    raise BlockingIOError(errno.EAGAIN, "it is being written to: try again")


ACL_ATTRIBUTE = "system.posix_acl_access"  # access control list of Linux


def write_atomic(
    path: str,
    content: bytes,
    mode: int = 0o600,
    directory: int | None = None,
    check: "Callable[[], None] | None" = None,
) -> None:
    """Replace a file atomically; it is on the disk when this returns.

    After an OSError the old file is unchanged, unless only its directory could not be synced: then the new one is in
    place, but may not survive a power failure.

    `mode` applies to a new file; an existing one keeps its mode. With the descriptor of a `directory`, the path is a
    name in it, and a link of that name is replaced instead of followed. `check` is called just before
    the file is replaced and may raise an exception to keep the old one.
    """
    from contextlib import suppress

    old = None
    with suppress(FileNotFoundError):
        old = os.stat(path, dir_fd=directory, follow_symlinks=directory is None)
    above = os.path.dirname(path)
    parent = _open_directory(above or ".") if directory is None else os.dup(directory)
    try:
        _sweep_directory(parent)
        temporary, number = _create_temporary(above, mode, directory)
        with open(number, "wb") as file:
            try:
                if old:
                    _copy_owner_and_mode(file.fileno(), old, path, directory)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                if check:
                    check()
                os.replace(temporary, path, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                os.unlink(temporary, dir_fd=directory)
                raise
        sync_directory(parent)
    finally:
        _close_directory(parent)


TEMPORARY_BYTES = 8  # of randomness in the name of a temporary file, `.<hexadecimal digits>.new`


def _create_temporary(above: str, mode: int, directory: int | None) -> tuple[str, int]:
    """Create a temporary file, which is locked while it is open, and return its path and its descriptor."""
    from contextlib import suppress
    from secrets import token_hex

    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = os.path.join(above, f".{token_hex(TEMPORARY_BYTES)}.new")
        number = os.open(temporary, flags, mode, dir_fd=directory)
        is_locked = True
        with suppress(OSError):  # where there are no locks, nobody sweeps either
            is_locked = try_lock(number)
        with suppress(FileNotFoundError):  # swept by another process before it was locked
            os.stat(temporary, dir_fd=directory, follow_symlinks=False)
            if is_locked:
                return temporary, number
        os.close(number)


_swept: set[tuple[int, int]] = set()  # the directories that this process has swept


def _sweep_directory(directory: int) -> None:
    """Delete the temporary files of killed writers, once per process; a living writer has locked its own."""
    from contextlib import suppress

    if directory == NO_DIRECTORY:
        return
    status = os.fstat(directory)
    identity = (status.st_dev, status.st_ino)
    if identity in _swept:
        return
    _swept.add(identity)
    with suppress(OSError):  # what stays does no harm
        for name in filter(_is_temporary, os.listdir(directory)):
            with suppress(OSError):
                _delete_abandoned(name, directory)


def _is_temporary(name: str) -> bool:
    digits = name[1:-4]
    is_named_so = name.startswith(".") and name.endswith(".new") and len(digits) == 2 * TEMPORARY_BYTES
    return is_named_so and all(digit in "0123456789abcdef" for digit in digits)


def _delete_abandoned(name: str, directory: int) -> None:
    """Delete a temporary file unless its writer still has it locked."""
    number = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or not try_lock(number):
            return
        if os.path.samestat(status, os.stat(name, dir_fd=directory, follow_symlinks=False)):
            os.unlink(name, dir_fd=directory)
    finally:
        os.close(number)


def _copy_owner_and_mode(number: int, old: os.stat_result, path: str, directory: int | None) -> None:
    """Copy the owner, the mode and the attributes of the old file, as far as permitted."""
    if not hasattr(os, "fchown"):  # Windows
        return
    mode = old.st_mode & 0o777
    try:
        if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(number, old.st_uid, old.st_gid)
        _copy_attributes(number, path, directory)
    except OSError:  # only root may change owners; the mode must not give access to another group
        mode = old.st_mode & 0o707
    os.fchmod(number, mode)  # regardless of the umask


def _copy_attributes(number: int, path: str, directory: int | None) -> None:
    """Copy the user attributes and the access control list of the old file, which change what its mode means."""
    from contextlib import suppress

    if not hasattr(os, "setxattr"):
        return
    flags = os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if directory is not None else 0)
    old = os.open(path, flags, dir_fd=directory)
    try:
        attributes, inherited = _attributes(old), _attributes(number)
        for name in attributes:
            if name.startswith("user."):
                with suppress(OSError):  # no space left for it
                    os.setxattr(number, name, os.getxattr(old, name))
        if ACL_ATTRIBUTE in attributes:
            os.setxattr(number, ACL_ATTRIBUTE, os.getxattr(old, ACL_ATTRIBUTE))
        elif ACL_ATTRIBUTE in inherited:  # from the directory, after the old file was created
            os.removexattr(number, ACL_ATTRIBUTE)
    finally:
        os.close(old)


def _attributes(file: int) -> list[str]:
    try:
        return os.listxattr(file)
    except OSError:  # not supported by the file system
        return []


def make_directories(path: str, mode: int = 0o777) -> None:
    """Create a directory and those above it, as far as they are missing; their names are on the disk on return."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path.rstrip(os.sep))
    if above:
        make_directories(above, mode)
    parent = _open_directory(above or ".")
    try:
        try:
            os.mkdir(path, mode)
        except FileExistsError:  # created by another process, which may not have synced it yet
            if not os.path.isdir(path):
                raise
        sync_directory(parent)
    finally:
        _close_directory(parent)


# What is wrong, and what to do.
_FAULTS = {
    errno.EIO: "the disk failed to read or write it; check the disk and the system log before you try again",
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.EDQUOT: "the disk quota is used up; delete files or ask for a larger quota, and try again",
    errno.EROFS: "the file system is read-only; use another place, or mount it writable",
    errno.ENOLCK: "the file system cannot lock files; use a local disk, or start the lock service of the network one",
    errno.EFBIG: "it would exceed the largest size that a file may have here (`ulimit -f`)",
    errno.EMFILE: "this process has too many open files; raise `ulimit -n`",
    errno.ENFILE: "the system has too many open files; close some programs",
    errno.EACCES: "permission denied; change its permissions and those of its directory",
    errno.EPERM: "operation not permitted; change its permissions and those of its directory",
    errno.EEXIST: "a file is in the place of its directory; move that file away",
    errno.ENOTDIR: "a part of its path is not a directory; use another path",
    errno.EBADF: "it is closed",
}


def describe_fault(error: OSError) -> str:
    """Return what is wrong with a file and what to do about it."""
    if isinstance(error, TimeoutError):
        return "another process holds its lock; try again later"
    reason: str = _FAULTS.get(error.errno or 0) or error.strerror or str(error)
    return reason


def find_fault(directory: str) -> OSError | None:
    """Return the error that writing, syncing or locking a small file in a directory raises, or None.

    It finds the reason for an error of a library that does not tell. If a small file can be written and the size of
    files is limited, a large one was too large.
    """
    from contextlib import suppress
    from secrets import token_hex

    path = os.path.join(directory, f".{token_hex(TEMPORARY_BYTES)}.new")
    try:
        with open(path, "xb", buffering=0) as file:
            try:
                file.write(bytes(4096))
                os.fsync(file.fileno())
                getattr(os, "fdatasync", os.fsync)(file.fileno())
                with suppress(ImportError):  # Windows
                    from fcntl import LOCK_EX, LOCK_NB, lockf

                    lockf(file, LOCK_EX | LOCK_NB)
            finally:
                os.unlink(path)
    except OSError as error:
        return error
    with suppress(ImportError):  # Windows
        from resource import RLIM_INFINITY, RLIMIT_FSIZE, getrlimit

        if getrlimit(RLIMIT_FSIZE)[0] != RLIM_INFINITY:
            return OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return None


NO_DIRECTORY = -1  # in place of a descriptor, where directories cannot be opened (Windows)
_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)  # of file systems that cannot sync a directory


def sync_directory(directory: int | str) -> None:
    """Make the names in a directory, which is given by its path or descriptor, durable.

    A file system that has no such operation is not an error.
    """
    if isinstance(directory, str):
        number = _open_directory(directory)
        try:
            sync_directory(number)
        finally:
            _close_directory(number)
    elif directory != NO_DIRECTORY:
        try:
            os.fsync(directory)
        except OSError as error:
            if error.errno not in _CANNOT_SYNC:
                raise


def _open_directory(path: str) -> int:
    return os.open(path, os.O_RDONLY) if os.name == "posix" else NO_DIRECTORY


def _close_directory(number: int) -> None:
    if number != NO_DIRECTORY:
        os.close(number)


TIMESTAMP_GRANULARITY_NS = 3_000_000_000  # more than the two seconds of FAT; later changes may have the same time


def is_unchanged_since(changed_ns: int, since_ns: int) -> bool:
    """Return whether something with this change time has certainly not changed since `since_ns`."""
    return changed_ns + TIMESTAMP_GRANULARITY_NS < since_ns


def change_stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return a value that differs after every change of a file, or of the names in a directory.

    It is empty if the last change is so recent that another change could have the same time. Take it before reading, so
    that a change during the read is noticed.
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


def temporary_place(name: str) -> str:
    """Return a path for a directory of this user that all of the user's processes agree on, whatever their TMPDIR."""
    return f"/tmp/onhand-{name}-{os.getuid() if hasattr(os, 'getuid') else 0}"  # noqa: S108  # its owner is checked


LOCK_TIMEOUT_S = 60.0  # the longest work under a lock, copying a million vectors, takes a fraction of it


class FileLock:
    """An exclusive lock between threads and processes, for use in a `with` statement.

    Entering it creates the file, which stays. It raises OSError if the file cannot be created, and TimeoutError if
    another holder does not release the lock in time. The system releases the locks of a process that ends.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> None:
        make_directories(os.path.dirname(self._path) or ".")
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # a link could create a file anywhere
        descriptor = os.open(self._path, flags, 0o666)
        try:
            deadline = time.monotonic() + LOCK_TIMEOUT_S
            while not try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"another process has locked {self._path} for more than {LOCK_TIMEOUT_S:.0f} s")
                time.sleep(0.01)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)  # releases the lock


def try_lock(descriptor: int) -> bool:
    """Lock an open file or directory until it is closed; return False if it is already locked.

    Raise OSError if the file system does not support locks.
    """
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
            except PermissionError:
                return False
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
