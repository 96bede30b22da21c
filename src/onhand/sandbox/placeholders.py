"""Placeholders for files that do not exist yet and that commands must not create.

A mount needs something to be mounted on. What is put there is taken away again by the last command that needed it;
after a crash, by the next one. It never touches what somebody else made.
"""

import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from onhand.errors import SandboxError
from onhand.sandbox.layout import Layout, MissingPath, register_directory
from onhand.sandbox.policy import is_below
from onhand.text import digest

# Programs read these whenever they are there, so what stands in for one has to say what its absence says.
_CONTENTS = {
    "commondir": b".\n",
    "config.worktree": b"",
    ".hg/hgrc": b"",
    ".jj/repo/config.toml": b"",
    ".jj/workspace-config.toml": b"",
    ".gitignore": b"/.gitignore\n",
}


class Placeholders:
    """The placeholders in the writable directories of one command, until `remove`.

    One command may see what stands there for another. So every command holds on to each of its directories, and who is
    the last to let go of one clears it up.
    """

    def __init__(
        self,
        writable: Iterable[str],
        look: Callable[[], Layout],
        owner_of: Callable[[Layout], tuple[int, int] | None],
    ) -> None:
        """Look at the disk, and put something wherever something must not come into being."""
        directory = _own_directory()
        self._held: list[int] = []
        roots = sorted({os.path.realpath(path) for path in writable})
        self._names = [os.path.join(directory, digest(os.fsencode(root))) for root in roots]
        try:
            with _locked_registers(self._names) as registers:
                for name in self._names:
                    self._held.append(_open(name + ".held"))
                    fcntl.flock(self._held[-1], fcntl.LOCK_SH)
                layout = look()
                standing = [path for register in registers for path in _remaining_placeholders(register)]
                missing = dict.fromkeys(_enclosing_placeholder(one, standing) for one in layout.missing)
                self.layout = layout._replace(missing=tuple(missing))
                owner = owner_of(self.layout)
                for root, register in zip(roots, registers, strict=True):
                    _put([one for one in missing if _innermost(one.path, roots) == root], register, owner)
        except BaseException as error:
            self.remove()
            if not isinstance(error, OSError):
                raise
            raise SandboxError(f"{error.filename or 'a file'} cannot be protected: {error.strerror}") from None

    def remove(self) -> None:
        """Release the directories and clean up those that no other command holds; call it again if interrupted."""
        if not self._held:
            return
        with _locked_registers(self._names) as registers:
            while self._held:
                register = registers[len(self._held) - 1]
                with suppress(BlockingIOError):
                    fcntl.flock(self._held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
                    for path in reversed(
                        _remaining_placeholders(register)
                    ):  # what is in a directory before the directory
                        _remove_placeholder(path)
                    _write(register, {})
                os.close(self._held.pop())


def _innermost(path: str, roots: list[str]) -> str:
    """Return the innermost root of a path, whose register lists it: a command that has only that root needs it too."""
    return max((root for root in roots if is_below(path, root)), key=len, default="")


@contextmanager
def _locked_registers(names: list[str]) -> Iterator[list[int]]:
    """Open and lock the registers of directories, always in the same order."""
    registers: list[int] = []
    try:
        for name in names:
            registers.append(_open(name))
            fcntl.flock(registers[-1], fcntl.LOCK_EX)
        yield registers
    finally:
        for register in registers:
            os.close(register)


def _put(missing: list[MissingPath], register: int, owner: tuple[int, int] | None) -> None:
    made = _read(register)
    for one in missing:
        with suppress(FileExistsError):  # somebody made it just now: it is theirs
            for part in (one, *_gitignore_for(one)):
                _make(part)
                made[part.path] = _identity(part.path)
                _write(register, made)
                if owner is not None:
                    os.chown(part.path, *owner, follow_symlinks=False)


def _gitignore_for(missing: MissingPath) -> list[MissingPath]:
    """Return a .gitignore for a directory, which `git clean` and `git stash -u` would otherwise fail to remove."""
    in_git = "/.git/" in missing.path + "/"
    return [MissingPath(os.path.join(missing.path, ".gitignore"), False)] if missing.is_directory and not in_git else []


def _make(missing: MissingPath) -> None:
    """Create a directory or an unused socket: git ignores both, so none is committed.

    For what programs read, a file.
    """
    if missing.is_directory:
        os.mkdir(missing.path)  # behind the walls it is read-only; in front of them, its owner may fill it
    elif (content := _content_for(missing.path)) is not None:
        with open(os.open(missing.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o444), "wb") as file:
            file.write(content)
    else:
        os.mknod(missing.path, stat.S_IFSOCK | 0o444)


def _remaining_placeholders(register: int) -> list[str]:
    """Return the placeholders that still exist unchanged."""
    found = []
    for path, identity in _read(register).items():
        with suppress(OSError):
            if _identity(path) == identity:
                found.append(path)
    return found


def _enclosing_placeholder(missing: MissingPath, standing: list[str]) -> MissingPath:
    """Return the placeholder of another command that a missing path is inside of, or the missing path itself."""
    return next((MissingPath(path, True) for path in standing if is_below(missing.path, path)), missing)


def _remove_placeholder(path: str) -> None:
    """Remove a placeholder if it is still as it was created."""
    with suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            os.rmdir(path)
        elif stat.S_ISSOCK(found.st_mode) or (stat.S_ISREG(found.st_mode) and _has_content(path, _content_for(path))):
            os.unlink(path)


def _content_for(path: str) -> bytes | None:
    """Return the content of a placeholder for a file that programs read, or None for others."""
    return next((content for name, content in _CONTENTS.items() if path.endswith("/" + name)), None)


def _has_content(path: str, content: bytes | None) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        return file.read(100) == content


def _identity(path: str) -> list[int]:
    found = os.lstat(path)
    return [found.st_dev, found.st_ino]


def _own_directory() -> str:
    directory = register_directory()
    with suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SandboxError(f"{directory} is not a directory of yours alone: remove it")
    return directory


def _open(name: str) -> int:
    return os.open(name, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _read(register: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(register, 1 << 20, 0) or b"{}")
    except ValueError:  # cut off in a crash
        return {}
    return found if isinstance(found, dict) else {}


def _write(register: int, made: dict[str, Any]) -> None:
    content = json.dumps(made).encode()
    os.pwrite(register, content, 0)
    os.ftruncate(register, len(content))
