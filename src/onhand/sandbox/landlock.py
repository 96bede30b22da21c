"""Enforce a policy with Landlock for files and a system call filter for the rest, where namespaces are not available.

Landlock can only allow, and a right on a directory applies to everything below it. So a directory that contains
something that must not be written, existing or not, is not opened for new entries: its entries can be changed and, if
they are directories, filled. What Landlock cannot do is refused: see `refusal` for domains.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from onhand.errors import SandboxError
from onhand.sandbox import seccomp
from onhand.sandbox.layout import Layout, resolve_layout
from onhand.sandbox.policy import Policy, self_and_parents
from onhand.sandbox.sandbox import Command, Process, try_sandbox

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ENTRIES = sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12, 13))  # remove and make, but no devices; link and rename
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
READ = _EXECUTE | _READ_FILE | _READ_DIR
LIST = _READ_DIR
WRITE = _WRITE_FILE | _TRUNCATE | _ENTRIES

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
MIN_VERSION = 3  # before it, a file that may only be read can be truncated
SIGNAL_VERSION = 6  # before it, a command can send signals to other processes of its user
MAX_RULES = 20_000  # some tenths of a second


class LandlockRule(NamedTuple):
    """Rights on a path and all below it."""

    path: str
    rights: int


def handled_rights(version: int, tcp: bool = True) -> tuple[int, int, int]:
    """Return the rights that the rules decide about and the kernel knows: files, TCP, signals and sockets."""
    files = (1 << (16 if version >= 5 else 15)) - 1
    return files, 3 if tcp and version >= 4 else 0, 3 if version >= SIGNAL_VERSION else 0


def rules_for(layout: Layout) -> list[LandlockRule]:
    """Return the rules of a layout; what does not exist now gets no rule and so stays closed."""
    rules = [LandlockRule(device, _READ_FILE | _WRITE_FILE) for device in DEVICES]
    rules.append(LandlockRule("/proc", READ))  # what other processes hold there, the kernel keeps from a confined one
    secret = {*layout.hidden, *(missing.path for missing in layout.missing)}
    ways = _directories_above(secret)
    for root in (*layout.readable, *layout.writable):
        rules += _carve(root, READ, LIST, secret, ways)
    for root in layout.writable:
        holes = {*layout.holes(root)}
        rules += _carve(root, WRITE, 0, holes, _directories_above(holes))
    return rules


def _directories_above(holes: set[str]) -> set[str]:
    """Return the directories that lead to a hole."""
    return {above for hole in holes for above in self_and_parents(os.path.dirname(hole))}


def applicable_rights(rule: LandlockRule, version: int) -> int:
    """Return the rights of a rule that its path can have and this kernel knows, or 0."""
    rights = rule.rights & handled_rights(version)[0]
    return rights if os.path.isdir(rule.path) else rights & _OF_FILES


def _carve(path: str, rights: int, above: int, holes: set[str], ways: set[str]) -> Iterator[LandlockRule]:
    """Yield rules for everything below a path except the holes; `above` is for the directories on the `ways` to one."""
    if path in holes:
        return
    if path not in ways:
        yield LandlockRule(path, rights)
        return
    if above:
        yield LandlockRule(path, above)
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.is_symlink():
            yield from _carve(entry.path, rights, above, holes, ways)


class LandlockSandbox:
    """Confines by Landlock and seccomp."""

    name = "landlock"

    def refusal(self, policy: Policy) -> str | None:
        return _missing_requirement() or _failure(bool(policy.domains))

    def start(self, policy: Policy, command: Command) -> Process:
        from onhand.sandbox import kernel, launcher

        reason = _missing_requirement()
        if reason:
            raise SandboxError(f"nothing was started: {reason}")
        layout = resolve_layout(policy)
        version = kernel.landlock_version()
        found = [(rule.path, applicable_rights(rule, version)) for rule in rules_for(layout)]
        if len(found) > MAX_RULES:
            raise layout.limit_error(f"Landlock would get {len(found)} rules for that, more than {MAX_RULES}")
        user = launcher.unprivileged_user(layout)
        temporary = tempfile.mkdtemp(prefix="onhand-")
        if user is not None:
            os.chown(temporary, *user)
        writing = READ | WRITE & handled_rights(version)[0]
        environment = {"HOME": temporary, **command.environment, "TMPDIR": temporary}
        order = {
            "argv": list(command.argv),
            "cwd": command.cwd,
            "environment": launcher.proxy_environment(environment, policy.domains),
            "user": user,
            "temporary": (),
            "bubblewrap": None,
            "landlock": {
                "handled": handled_rights(version, tcp=not policy.domains),  # with them it has a network of its own
                "rules": [*(rule for rule in found if rule[1]), (temporary, writing)],
                "filter": seccomp.program(inet=bool(policy.domains)),
            },
        }
        return launcher.start(order, policy, command, layout.names, [lambda: _remove(temporary)])


def _remove(directory: str) -> None:
    """Remove a directory with all that a command left in it: no tree is too deep for it, and no mode in its way.

    What is in a directory is moved up before that is removed, so that no path grows long; no link is followed.
    """
    with suppress(OSError):
        top = _open_directory(directory)
        try:
            waiting = ["."]
            while waiting:
                name = waiting.pop()
                waiting += _empty_directory(name, top)
                if name != ".":
                    os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        os.rmdir(directory)


def _empty_directory(name: str, top: int) -> list[str]:
    """Remove the files of a directory; gives the directories that were in it, by what they are called in `top` now."""
    inner, directory = list[str](), _open_directory(name, top)
    try:
        for entry in list(os.scandir(directory)):
            if entry.is_dir(follow_symlinks=False):
                os.close(_open_directory(entry.name, directory))  # who moves it has to be able to write in it
                inner.append(f"{len(inner)}-{os.urandom(8).hex()}")
                os.rename(entry.name, inner[-1], src_dir_fd=directory, dst_dir_fd=top)
            else:
                os.unlink(entry.name, dir_fd=directory)
    finally:
        os.close(directory)
    return inner


def _open_directory(name: str, above: int | None = None) -> int:
    """Open a directory and make it readable and writable."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)
        return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(found)


@cache
def _missing_requirement() -> str | None:
    if sys.platform != "linux":
        return "Landlock is part of Linux"
    from onhand.sandbox import kernel

    version = kernel.landlock_version()
    if version < MIN_VERSION:
        found = f"version {version}" if version else "none that is switched on"
        return f"this kernel's Landlock is too old ({found}; Linux 6.2 has what is needed)"
    return seccomp.missing_requirement()


@cache
def _failure(with_domains: bool) -> str | None:
    """Why not even a command that does nothing runs."""
    domains = ("example.com",) if with_domains else ()
    failure = try_sandbox(LandlockSandbox(), Policy(readable=("/usr", "/bin", "/lib", "/lib64"), domains=domains))
    needs = "; domains need a network of its own, which user namespaces would give" if with_domains else ""
    return f"{failure}{needs}" if failure else None
