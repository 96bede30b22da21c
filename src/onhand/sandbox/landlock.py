"""Enforce a policy with Landlock for files and a system call filter for the rest, where namespaces are not available.

Landlock can only allow, and a right on a directory applies to everything below it. So a directory that contains a
path that must not be written, whether or not it exists, accepts no new entries: only the existing ones can be changed
and, if they are directories, filled. A policy that Landlock cannot enforce is refused.
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
from onhand.sandbox.layout import Layout
from onhand.sandbox.policy import Policy, self_and_parents
from onhand.sandbox.quarantine import Watch
from onhand.sandbox.sandbox import Command, Process, try_sandbox

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ENTRIES = sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12, 13))  # remove, create (except devices), link and rename
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
READ = _EXECUTE | _READ_FILE | _READ_DIR
LIST = _READ_DIR
WRITE = _WRITE_FILE | _TRUNCATE | _ENTRIES

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
MIN_VERSION = 3  # earlier versions cannot keep a read-only file from being truncated
SIGNAL_VERSION = 6  # with earlier versions, a command can signal other processes of its user
MAX_RULES = 20_000  # which take some tenths of a second


class LandlockRule(NamedTuple):
    """Rights on a path and everything below it."""

    path: str
    rights: int


def handled_rights(version: int, tcp: bool = True) -> tuple[int, int, int]:
    """Return the rights that this kernel can restrict: on files, on TCP, and on signals and sockets."""
    files = (1 << (16 if version >= 5 else 15)) - 1
    return files, 3 if tcp and version >= 4 else 0, 3 if version >= SIGNAL_VERSION else 0


def rules_for(layout: Layout) -> list[LandlockRule]:
    """Return the rules of a layout; a path that does not exist gets no rule and so stays closed."""
    rules = [LandlockRule(device, _READ_FILE | _WRITE_FILE) for device in DEVICES]
    rules.append(LandlockRule("/proc", READ))  # the kernel hides other processes' data there from a confined one
    secret = {*layout.hidden, *layout.missing}
    passages = _directories_above(secret)
    for root in (*layout.readable, *layout.writable):
        rules += _carve(root, READ, LIST, secret, passages)
    for root in layout.writable:
        holes = {*layout.holes(root)}
        rules += _carve(root, WRITE, 0, holes, _directories_above(holes))
    return rules


def _directories_above(holes: set[str]) -> set[str]:
    """Return the directories that lead to a hole."""
    return {above for hole in holes for above in self_and_parents(os.path.dirname(hole))}


def applicable_rights(rule: LandlockRule, version: int) -> int:
    """Return the rights of a rule that apply to its path and that this kernel supports, or 0."""
    rights = rule.rights & handled_rights(version)[0]
    return rights if os.path.isdir(rule.path) else rights & _OF_FILES


def _carve(path: str, rights: int, above: int, holes: set[str], passages: set[str]) -> Iterator[LandlockRule]:
    """Yield rules for everything below a path except the holes; the `passages` to a hole get the rights `above`."""
    if path in holes:
        return
    if path not in passages:
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
            yield from _carve(entry.path, rights, above, holes, passages)


class LandlockSandbox:
    """Confines with Landlock and a system call filter."""

    name = "landlock"

    def refusal(self, policy: Policy) -> str | None:
        return _missing_requirement() or _failure(bool(policy.domains))

    def start(self, policy: Policy, command: Command) -> Process:
        from onhand.sandbox import kernel, launcher

        reason = _missing_requirement()
        if reason:
            raise SandboxError(f"nothing was started: {reason}")
        watch = Watch(policy)
        try:
            version, layout = kernel.landlock_version(), watch.layout
            rules = [(rule.path, applicable_rights(rule, version)) for rule in rules_for(layout)]
            if len(rules) > MAX_RULES:
                raise layout.limit_error(f"Landlock would need {len(rules)} rules, more than {MAX_RULES}")
            user = launcher.unprivileged_user(layout)
        except BaseException:
            watch.close()
            raise
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
                "handled": handled_rights(version, tcp=not policy.domains),  # with domains it has its own network
                "rules": [*(rule for rule in rules if rule[1]), (temporary, writing)],
                "filter": seccomp.program(inet=bool(policy.domains)),
            },
        }
        return launcher.start(order, policy, command, watch, [lambda: _remove(temporary)])


def _remove(directory: str) -> None:
    """Remove a directory with everything that a command left in it, however deep and whatever its permissions.

    Subdirectories are moved to the top before their parent is removed, so that no path gets long. No link is followed.
    """
    with suppress(OSError):
        top = _open_directory(directory)
        try:
            pending = ["."]
            while pending:
                name = pending.pop()
                pending += _empty_directory(name, top)
                if name != ".":
                    os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        os.rmdir(directory)


def _empty_directory(name: str, top: int) -> list[str]:
    """Remove the files of a directory and move its subdirectories to `top`; return their new names."""
    inner, directory = list[str](), _open_directory(name, top)
    try:
        for entry in list(os.scandir(directory)):
            if entry.is_dir(follow_symlinks=False):
                os.close(_open_directory(entry.name, directory))  # it can only be moved while it is writable
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
        return "Landlock needs Linux"
    from onhand.sandbox import kernel

    version = kernel.landlock_version()
    if version < MIN_VERSION:
        found = f"it is version {version}" if version else "it is off or missing"
        return f"this kernel's Landlock cannot be used ({found}; version {MIN_VERSION} comes with Linux 6.2)"
    return seccomp.missing_requirement()


@cache
def _failure(with_domains: bool) -> str | None:
    """Return why not even an empty command runs, or None if it does."""
    domains = ("example.com",) if with_domains else ()
    failure = try_sandbox(LandlockSandbox(), Policy(readable=("/usr", "/bin", "/lib", "/lib64"), domains=domains))
    needs = "; domains need a private network, and that needs user namespaces" if with_domains else ""
    return f"{failure}{needs}" if failure else None
