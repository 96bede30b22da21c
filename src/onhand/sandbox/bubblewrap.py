"""Enforce a policy with bubblewrap: private namespaces in which only what a command may see is mounted.

This is the better backend: new files can be created beside protected ones, outside processes are invisible, and all
processes of a command die with the first one.

A mount needs something to be mounted on. So a file that does not exist yet and that commands must not create gets a
placeholder, which the last command that needed it removes, or the next one after a crash. What somebody else created
is never touched.
"""

import fcntl
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from onhand.errors import SandboxError
from onhand.sandbox import seccomp
from onhand.sandbox.layout import Layout, MissingPath, NamedEntry, register_directory, resolve_layout
from onhand.sandbox.policy import Policy, is_below, self_and_parents
from onhand.sandbox.procfs import TEMPORARY_DIRECTORIES
from onhand.sandbox.sandbox import Command, Process, try_sandbox
from onhand.text import digest

MAX_ARGUMENTS = 8_000  # for the mounts: bubblewrap takes 9,000, including the command and its environment
TEMPORARY_BYTES = 512 << 20  # in each directory that is kept in memory, or half of the memory limit if that is less
# Programs read these files whenever they exist, so a placeholder has to mean what a missing file means.
_PLACEHOLDER_CONTENTS = {
    "commondir": b".\n",
    "config.worktree": b"",
    ".hg/hgrc": b"",
    ".jj/repo/config.toml": b"",
    ".jj/workspace-config.toml": b"",
    ".gitignore": b"/.gitignore\n",
}


class BubblewrapSandbox:
    """Confines with the mounts and namespaces of bubblewrap and with a system call filter."""

    name = "bubblewrap"

    def refusal(self, policy: Policy) -> str | None:
        return _missing_requirement() or _failure(bool(policy.domains))

    def start(self, policy: Policy, command: Command) -> Process:
        from onhand.sandbox import launcher

        reason = _missing_requirement()
        if reason:
            raise SandboxError(f"nothing was started: {reason}")
        placeholders = Placeholders(policy.writable, lambda: resolve_layout(policy), launcher.unprivileged_user)
        try:
            user = launcher.unprivileged_user(placeholders.layout)
            layout = launcher.reachable_layout(placeholders.layout, user)
            environment = {"HOME": "/tmp", **command.environment, "TMPDIR": "/tmp"}  # noqa: S108  # its own
            temporary = (*TEMPORARY_DIRECTORIES, *_own_home(environment["HOME"], layout))
            mounts = list(_mounts(layout, policy.memory_bytes, temporary))
            if len(mounts) > MAX_ARGUMENTS:
                arguments = f"{len(mounts)} arguments, more than {MAX_ARGUMENTS}"
                raise layout.limit_error(f"bubblewrap would need {arguments} (the landlock backend has room for more)")
        except BaseException:
            placeholders.remove()
            raise
        options = [
            *_namespaces(bool(policy.domains)),
            *mounts,
            *("--chdir", os.path.realpath(command.cwd), "--clearenv"),
            *_variables(launcher.proxy_environment(environment, policy.domains)),
        ]
        order = {
            "argv": [_program(), "--", *command.argv],
            "cwd": "/",
            "environment": {"PATH": "/usr/bin:/bin"},
            "user": user,
            "temporary": temporary,
            "landlock": None,
            "bubblewrap": {
                "options": b"".join(os.fsencode(option) + b"\0" for option in options),
                "filter": seccomp.program(inet=bool(policy.domains), alone=True),
                **_plan(mounts, layout),
            },
        }
        made_by_us = (NamedEntry(missing.path, False) for missing in placeholders.layout.missing)
        before = (*placeholders.layout.names, *made_by_us)
        return launcher.start(order, policy, command, before, [placeholders.remove])


def _namespaces(shares_network: bool) -> list[str]:
    """Return the options for private namespaces; with domains, the supervisor has already created the network."""
    return [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        *([] if shares_network else ["--unshare-net"]),
        *("--cap-drop", "ALL", "--die-with-parent", "--new-session"),
    ]


def _own_home(home: str, layout: Layout) -> list[str]:
    """Return the home directory if it has to be one in memory because the real one is hidden: programs need one."""
    visible = ("/proc", "/dev", *TEMPORARY_DIRECTORIES, *layout.readable, *layout.writable)
    is_hidden = not any(is_below(home, path) for path in visible)
    return [home] if os.path.isabs(home) and home == os.path.realpath(home) and is_hidden and home != "/" else []


def _mounts(layout: Layout, memory_bytes: int, temporary: Sequence[str]) -> Iterator[str]:
    """Yield the options that mount what may be seen, outer paths first, and then cover what may not."""
    kinds = dict.fromkeys(layout.readable, "--ro-bind") | dict.fromkeys(layout.writable, "--bind")
    size = ("--size", str(min(TEMPORARY_BYTES, memory_bytes // 2)))
    yield from (kinds.pop("/"), "/", "/") if "/" in kinds else ()
    yield from ("--proc", "/proc", "--dev", "/dev")
    for path in temporary:
        yield from ("--perms", "1777" if path in TEMPORARY_DIRECTORIES else "0700", *size, "--tmpfs", path)
    yield from ("--remount-ro", "/dev")  # it is in memory too; mounts inside it stay as they are
    for link, target in layout.links:
        if "/" not in layout.readable:
            yield from ("--symlink", target, link)
    for path in sorted(kinds, key=lambda path: path.count("/")):
        yield from (kinds[path], path, path)
    for path in _pins(layout):
        yield from ("--bind", path, path)
    for path in sorted({*layout.fixed, *(missing.path for missing in layout.missing)}):
        yield from ("--ro-bind", path, path)
    for path in layout.hidden:
        if os.path.isdir(path):
            yield from ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
        else:  # a device on a mount without devices cannot be opened
            yield from ("--ro-bind", os.devnull, path)
    # The root that holds the mount points is in memory, so what is written beside them would be lost silently.
    yield from ("--remount-ro", "/") if "/" not in layout.readable else ()


def _plan(mounts: list[str], layout: Layout) -> dict[str, list[bytes]]:
    """Return the paths that show the host's files and those that show nothing, for the check of the mounts."""
    bound = [
        os.fsencode(place)
        for option, source, place in zip(mounts, mounts[1:], mounts[2:], strict=False)
        if option in ("--bind", "--ro-bind") and source == place
    ]
    return {"bound": bound, "hidden": [os.fsencode(path) for path in layout.hidden]}


def _pins(layout: Layout) -> list[str]:
    """Return the directories between a writable root and the closed paths in it, which are mounted on themselves.

    A mount point cannot be renamed. Otherwise a directory could be moved away with its protected file and replaced.
    """
    pins = {
        above
        for root in layout.writable
        for hole in layout.holes(root)
        for above in self_and_parents(os.path.dirname(hole))
        if above != root and is_below(above, root)
    }
    closed = {*layout.fixed, *layout.hidden}
    return sorted(pin for pin in pins if closed.isdisjoint(self_and_parents(pin)))


def _variables(environment: dict[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        yield from ("--setenv", name, value)


@cache
def _program() -> str | None:
    """Return the path of bwrap in a system directory, where a project cannot put its own."""
    directories = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
    paths = (f"{directory}/bwrap" for directory in directories)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


@cache
def _missing_requirement() -> str | None:
    if sys.platform != "linux":
        return "bubblewrap needs Linux"
    if _program() is None:
        return "bwrap is not installed: install the package bubblewrap"
    return seccomp.missing_requirement()


@cache
def _failure(with_domains: bool) -> str | None:
    """Return why not even an empty command runs, or None if it does."""
    domains = ("example.com",) if with_domains else ()
    return try_sandbox(BubblewrapSandbox(), Policy(readable=("/usr", "/bin", "/lib", "/lib64"), domains=domains))


class Placeholders:
    """The placeholders in the writable directories of one command, until `remove`.

    Commands can share placeholders. So every command holds a shared lock for each of its directories, and the last one
    to release a lock removes the placeholders there.
    """

    def __init__(
        self,
        writable: Iterable[str],
        look: Callable[[], Layout],
        owner_of: Callable[[Layout], tuple[int, int] | None],
    ) -> None:
        """Resolve the layout, and create a placeholder for every path that commands must not create."""
        directory = _own_register_directory()
        self._locks: list[int] = []
        roots = sorted({os.path.realpath(path) for path in writable})
        self._names = [os.path.join(directory, digest(os.fsencode(root))) for root in roots]
        try:
            with _locked_registers(self._names) as registers:
                for name in self._names:
                    self._locks.append(_open_register(name + ".held"))
                    fcntl.flock(self._locks[-1], fcntl.LOCK_SH)
                layout = look()
                existing = [path for register in registers for path in _remaining_placeholders(register)]
                missing = dict.fromkeys(_enclosing_placeholder(one, existing) for one in layout.missing)
                self.layout = layout._replace(missing=tuple(missing))
                owner = owner_of(self.layout)
                for root, register in zip(roots, registers, strict=True):
                    inside = [one for one in missing if _innermost(one.path, roots) == root]
                    _create_placeholders(inside, register, owner)
        except BaseException as error:
            self.remove()
            if not isinstance(error, OSError):
                raise
            raise SandboxError(f"{error.filename or 'a file'} cannot be protected: {error.strerror}") from None

    def remove(self) -> None:
        """Release the directories and clean up those that no other command uses; call it again if interrupted."""
        if not self._locks:
            return
        with _locked_registers(self._names) as registers:
            while self._locks:
                register = registers[len(self._locks) - 1]
                with suppress(BlockingIOError):
                    fcntl.flock(self._locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
                    for path in reversed(_remaining_placeholders(register)):  # a directory after its contents
                        _remove_placeholder(path)
                    _write_register(register, {})
                os.close(self._locks.pop())


def _innermost(path: str, roots: list[str]) -> str:
    """Return the innermost root of a path, whose register lists it for commands that have only that root."""
    return max((root for root in roots if is_below(path, root)), key=len, default="")


@contextmanager
def _locked_registers(names: list[str]) -> Iterator[list[int]]:
    """Open and lock the registers of directories, always in the same order."""
    registers: list[int] = []
    try:
        for name in names:
            registers.append(_open_register(name))
            fcntl.flock(registers[-1], fcntl.LOCK_EX)
        yield registers
    finally:
        for register in registers:
            os.close(register)


def _create_placeholders(missing: list[MissingPath], register: int, owner: tuple[int, int] | None) -> None:
    created = _read_register(register)
    for one in missing:
        with suppress(FileExistsError):  # somebody else has just created it
            for part in (one, *_gitignore_for(one)):
                _create_placeholder(part)
                created[part.path] = _identity(part.path)
                _write_register(register, created)
                if owner is not None:
                    os.chown(part.path, *owner, follow_symlinks=False)


def _gitignore_for(missing: MissingPath) -> list[MissingPath]:
    """Return a .gitignore for a placeholder directory, which `git clean` and `git stash -u` would fail to remove."""
    in_git = "/.git/" in missing.path + "/"
    return [MissingPath(os.path.join(missing.path, ".gitignore"), False)] if missing.is_directory and not in_git else []


def _create_placeholder(missing: MissingPath) -> None:
    """Create a directory or an unused socket, neither of which git commits, or a file if programs read it."""
    if missing.is_directory:
        os.mkdir(missing.path)  # read-only in the sandbox; outside, its owner may fill it
    elif (content := _content_for(missing.path)) is not None:
        with open(os.open(missing.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o444), "wb") as file:
            file.write(content)
    else:
        os.mknod(missing.path, stat.S_IFSOCK | 0o444)


def _remaining_placeholders(register: int) -> list[str]:
    """Return the placeholders that still exist unchanged."""
    found = []
    for path, identity in _read_register(register).items():
        with suppress(OSError):
            if _identity(path) == identity:
                found.append(path)
    return found


def _enclosing_placeholder(missing: MissingPath, existing: list[str]) -> MissingPath:
    """Return the placeholder of another command that contains a missing path, or else the missing path itself."""
    return next((MissingPath(path, True) for path in existing if is_below(missing.path, path)), missing)


def _remove_placeholder(path: str) -> None:
    """Remove a placeholder if it is unchanged."""
    with suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            os.rmdir(path)
        elif stat.S_ISSOCK(found.st_mode) or (stat.S_ISREG(found.st_mode) and _has_content(path, _content_for(path))):
            os.unlink(path)


def _content_for(path: str) -> bytes | None:
    """Return the content of a placeholder for a file that programs read, or None for others."""
    return next((content for name, content in _PLACEHOLDER_CONTENTS.items() if path.endswith("/" + name)), None)


def _has_content(path: str, content: bytes | None) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        return file.read(100) == content


def _identity(path: str) -> list[int]:
    found = os.lstat(path)
    return [found.st_dev, found.st_ino]


def _own_register_directory() -> str:
    directory = register_directory()
    with suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SandboxError(f"{directory} must be a directory that only you can access: remove it")
    return directory


def _open_register(name: str) -> int:
    return os.open(name, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _read_register(register: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(register, 1 << 20, 0) or b"{}")
    except ValueError:  # truncated by a crash
        return {}
    return found if isinstance(found, dict) else {}


def _write_register(register: int, created: dict[str, Any]) -> None:
    content = json.dumps(created).encode()
    os.pwrite(register, content, 0)
    os.ftruncate(register, len(content))
