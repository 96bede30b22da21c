"""How is a file written so that a reader finds the old one or the new one, and nothing between, also after a crash?"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ACCESS = "system.posix_acl_access"  # who else may do what, where a system keeps lists of them


def replace_file(
    path: str,
    content: bytes,
    mode: int = 0o600,
    directory: int | None = None,
    check: "Callable[[], None] | None" = None,
) -> None:
    """Put a file in the place of another; an OSError leaves the old one as it was.

    `mode` is that of a file that was not there; one that was there keeps its own. With a descriptor of a `directory`,
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
                _give(file.fileno(), kept, path, directory)
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
        _sync(above or ".")
    else:
        os.fsync(directory)


def _give(number: int, kept: os.stat_result, path: str, directory: int | None) -> None:
    """Give a file the owner, the mode and the attributes of another, as far as we may."""
    if not hasattr(os, "fchown"):  # Windows
        return
    kept_mode = kept.st_mode & 0o777
    try:
        if (kept.st_uid, kept.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(number, kept.st_uid, kept.st_gid)
        _give_attributes(number, path, directory)
    except OSError:  # only root may give files away; the mode must not open ours to a group that had no access
        kept_mode = kept.st_mode & 0o707
    os.fchmod(number, kept_mode)  # whatever the umask says of new files


def _give_attributes(number: int, path: str, directory: int | None) -> None:
    """Give a file what users noted of another, and its list of who has access: without that its mode means more."""
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
        if ACCESS in given:
            os.setxattr(number, ACCESS, os.getxattr(old, ACCESS))
        elif ACCESS in inherited:  # from its directory, since the old one was made
            os.removexattr(number, ACCESS)
    finally:
        os.close(old)


def _attributes(file: int) -> list[str]:
    try:
        return os.listxattr(file)
    except OSError:  # the file system has none
        return []


def _sync(directory: str) -> None:
    """Make the new name last; where directories cannot be opened, the system sees to it."""
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
