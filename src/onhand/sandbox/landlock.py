"""Enforce a policy with Landlock for files and a system call filter for the rest, where namespaces are not available.

Landlock can only allow, and a right on a directory applies to everything below it. So in a directory that contains a
path that must not be written, whether or not it exists, rules allow no new entries: only the existing ones can be
changed and, if they are directories, filled. The rest is up to the broker (`broker.py`), which creates, renames and
removes ordinary entries there for the command, and opens its terminals and shared memory. A policy that Landlock cannot
enforce is refused.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from onhand.errors import SandboxError
from onhand.sandbox import broker, seccomp
from onhand.sandbox.layout import Layout
from onhand.sandbox.policy import Policy, is_below, self_and_parents
from onhand.sandbox.quarantine import Watch
from onhand.sandbox.sandbox import Command, Process, try_sandbox
from onhand.temporary import LockedDirectory, make_locked_directory

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ENTRIES = sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12, 13))  # remove, create (except devices), link and rename
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
READ = _EXECUTE | _READ_FILE | _READ_DIR
LIST = _READ_DIR
WRITE = _WRITE_FILE | _TRUNCATE | _ENTRIES

TERMINAL = "/dev/tty"  # whichever the process has already, if any
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
MIN_VERSION = 3  # earlier versions cannot keep a read-only file from being truncated
SIGNAL_VERSION = 6  # with earlier versions, a command can signal other processes of its user
RESERVE_PREFIX = ".onhand-reserve-"
TEMPORARY_PREFIX = "onhand-command-"
SHARED_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  # which many programs write in, and commands must not
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
    rules.append(LandlockRule(TERMINAL, _READ_FILE | _WRITE_FILE | _DEVICE_CONTROL))
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
    directories = {os.path.dirname(hole) for hole in holes}  # of many holes they are few
    return {above for directory in directories for above in self_and_parents(directory)}


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
        if not entry.is_symlink() and not entry.name.startswith(RESERVE_PREFIX):
            yield from _carve(entry.path, rights, above, holes, passages)


class LandlockSandbox:
    """Confines with Landlock and a system call filter."""

    name = "landlock"

    def refusal(self, policy: Policy) -> str | None:
        return _missing_requirement() or _failure(bool(policy.domains))

    def _may_be_root(self, policy: Policy) -> bool:
        return root_refusal(policy) is None

    def start(self, policy: Policy, command: Command) -> Process:
        from onhand.sandbox import kernel, launcher

        reason = _missing_requirement()
        if reason:
            raise SandboxError(f"nothing was started: {reason}")
        watch = Watch(policy)
        try:
            layout = watch.layout
            user = launcher.unprivileged_user(layout, may_own_files_of_root=True)
            is_root = user is not None and user[0] == 0 and self._may_be_root(policy)
            user = user if is_root else launcher.unprivileged_user(layout)
            layout = launcher.reachable_layout(layout, user) if is_root else layout
            version = kernel.landlock_version()
            rules = [(rule.path, applicable_rights(rule, version)) for rule in rules_for(layout)]
            if len(rules) > MAX_RULES:
                raise layout.limit_error(f"Landlock would need {len(rules)} rules, more than {MAX_RULES}")
        except BaseException:
            watch.close()
            raise
        own = make_locked_directory(TEMPORARY_PREFIX, remove=_remove)
        reserved = None if policy.strict else _make_reserve(layout)
        cleanup: list[Callable[[], None]] = [made.release for made in (own, reserved) if made]
        temporary, reserve = own.path, reserved.path if reserved else ""
        if user is not None:
            for directory in filter(None, (temporary, reserve)):
                os.chown(directory, *user)
        writing = READ | WRITE & handled_rights(version)[0]
        environment = launcher.without_unreadable_programs({**command.environment, "TMPDIR": temporary}, policy)
        environment.setdefault("HOME", temporary)
        if is_root:  # tar of root would give files the owners that an archive names
            environment.setdefault("TAR_OPTIONS", "--no-same-owner")
        order = {
            "argv": launcher.find_program(command, policy),
            "cwd": command.cwd,
            "environment": launcher.proxy_environment(environment, policy.domains),
            "user": user,
            "temporary": (),
            "bubblewrap": None,
            "landlock": {
                "handled": handled_rights(version, tcp=not policy.domains),  # with domains it has its own network
                "rules": [
                    *(rule for rule in rules if rule[1]),
                    (temporary, writing),
                    *_rules_for_reserve(reserve, writing),
                ],
                "filter": seccomp.program(inet=bool(policy.domains), brokered=True, as_root=is_root),
                "filter_without_broker": b"" if is_root else seccomp.program(inet=bool(policy.domains)),
                "broker": {
                    "calls": seccomp.brokered_calls(),
                    "directories": _closed_names(layout, policy, reserve),
                    "reserve": reserve,
                    "temporary": [path for path in SHARED_TEMPORARY if not policy.may_write(path)],
                    "metadata": _metadata_plan(layout, policy, temporary, reserve) if is_root else None,
                },
            },
        }
        return launcher.start(order, policy, command, watch, cleanup, _explain_other_user(policy, layout, user))


def _explain_other_user(policy: Policy, layout: Layout, user: tuple[int, int] | None) -> str:
    """Return why commands of another user than root cannot change its workspace; nothing if they can."""
    of_root = [path for path in layout.writable if os.stat(path).st_uid == 0]
    if user is None or user[0] == 0 or not of_root:
        return ""
    reason = root_refusal(policy)
    return f"commands can read but not change {of_root[0]}, because root owns it and {reason}: use write_file"


class _RootSandbox(LandlockSandbox):
    """Stays root in a project of root, whether or not that works."""

    def _may_be_root(self, policy: Policy) -> bool:
        return True


def root_refusal(policy: Policy) -> str | None:
    """Return why root becomes another user for the commands in a project of its own; None if it can stay root."""
    if policy.strict:
        return "the strict form (sandbox.landlock) lets no broker decide about files"
    return _root_failure(bool(policy.domains))


@cache
def _root_failure(with_domains: bool) -> str | None:
    from onhand.sandbox import kernel

    if kernel.landlock_version() < SIGNAL_VERSION:
        return "only since Linux 6.12 can a command be kept from sending signals to other processes of root"
    with tempfile.TemporaryDirectory(prefix="onhand-") as directory:
        domains = ("example.com",) if with_domains else ()
        policy = Policy(readable=("/usr", "/bin", "/lib", "/lib64"), writable=(directory,), domains=domains)
        failure = try_sandbox(_RootSandbox(), policy, directory, ": > x && chmod 600 x")
    return f"a command cannot safely stay root here ({failure})" if failure else None


def _metadata_plan(layout: Layout, policy: Policy, temporary: str, reserve: str) -> dict[str, list[str]]:
    """Return where a command may change metadata, and the paths inside where it may not."""
    closed = {path for root in layout.writable for path in layout.holes(root)}
    closed |= {*policy.denied, *policy.protected, *policy.read_only, *filter(None, [reserve])}
    return {"roots": [*layout.writable, os.path.realpath(temporary)], "closed": sorted(closed)}


def _closed_names(layout: Layout, policy: Policy, reserve: str) -> list[tuple[str, list[str]]]:
    """Return the directories that contain closed paths, and in each the names that commands must leave alone."""
    names: dict[str, list[str]] = {}
    holes = set[str]()
    for root in layout.writable:
        inside = {*layout.holes(root)}
        holes |= inside
        names |= {above: [] for above in _directories_above(inside) if is_below(above, root)}
    names = {above: [] for above in names if os.path.isdir(above) and holes.isdisjoint(self_and_parents(above))}
    for path in {*holes, *names, *policy.denied, *policy.protected, *policy.read_only, reserve}:
        directory, name = os.path.split(path)
        if directory in names:
            names[directory].append(name)
    return sorted(names.items(), key=lambda item: item[0].count("/"))


def _make_reserve(layout: Layout) -> LockedDirectory | None:
    """Return a new directory for the reserve of the broker, or None if there is no place for one.

    It has to be on the file system of the workspace, so that entries can be moved there: in the temporary directory,
    else in .git, else in the workspace itself.
    """
    root = layout.writable[0] if layout.writable else ""
    git = os.path.join(root, ".git")
    for place in (tempfile.gettempdir(), git, root):
        if root and not os.path.islink(place) and os.path.isdir(place) and _mount_number(place) == _mount_number(root):
            with suppress(OSError):
                return make_locked_directory(RESERVE_PREFIX, place, _remove_reserve)
    return None


def _remove_reserve(path: str) -> None:
    """Remove a reserve, but nothing inside its directories, which a command may have put there."""
    with suppress(OSError):
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for entry in list(os.scandir(directory)):
                remove = os.rmdir if entry.is_dir(follow_symlinks=False) else os.unlink
                with suppress(OSError):
                    remove(entry.name, dir_fd=directory)
        finally:
            os.close(directory)
        os.rmdir(path)


def _mount_number(path: str) -> bytes:
    """Return the number of the mount that a path is on: nothing can be moved to another one."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb") as info:
            return info.read().partition(b"mnt_id:")[2].split(b"\n", 1)[0]
    finally:
        os.close(descriptor)


def _rules_for_reserve(reserve: str, rights: int) -> Iterator[tuple[str, int]]:
    """Yield the rules for the entries of a reserve, which apply wherever these are moved."""
    if reserve:
        yield from ((os.path.join(reserve, name), rights & _OF_FILES) for name in broker.reserved_files())
        yield from ((os.path.join(reserve, name), rights) for name in broker.reserved_directories())


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
