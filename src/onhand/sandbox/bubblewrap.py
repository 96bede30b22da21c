"""Enforce a policy with bubblewrap: private namespaces in which only what a command may see is mounted.

It is the better wall: new files can be made beside protected ones, processes outside are not there at all, and what is
left of a command dies with its first process.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache

from onhand.errors import SandboxError
from onhand.sandbox import seccomp
from onhand.sandbox.layout import Layout, NamedEntry, resolve_layout
from onhand.sandbox.policy import Policy, is_below, self_and_parents
from onhand.sandbox.procfs import TEMPORARY_DIRECTORIES
from onhand.sandbox.sandbox import Command, Process, try_sandbox

MAX_WORDS = 8_000  # that say what to mount: bubblewrap takes 9,000, and then there is the command with its environment
TEMPORARY_BYTES = 512 << 20  # of files in memory, in each place; or half of the memory if that is less


class BubblewrapSandbox:
    """Confines by bubblewrap's mounts and namespaces, with the same system call filter on top."""

    name = "bubblewrap"

    def refusal(self, policy: Policy) -> str | None:
        return _missing_requirement() or _failure(bool(policy.domains))

    def start(self, policy: Policy, command: Command) -> Process:
        from onhand.sandbox import launcher
        from onhand.sandbox.placeholders import Placeholders

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
            if len(mounts) > MAX_WORDS:
                more = f"more than {MAX_WORDS}, where landlock has room"
                raise layout.limit_error(f"bubblewrap would get {len(mounts)} words for that, {more}")
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
        standing = (NamedEntry(missing.path, False) for missing in placeholders.layout.missing)  # it is ours
        before = (*placeholders.layout.names, *standing)
        return launcher.start(order, policy, command, before, [placeholders.remove])


def _namespaces(shares_network: bool) -> list[str]:
    """Return the options for private namespaces; with domains, the launcher has already created the network."""
    return [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        *([] if shares_network else ["--unshare-net"]),
        *("--cap-drop", "ALL", "--die-with-parent", "--new-session"),
    ]


def _own_home(home: str, layout: Layout) -> list[str]:
    """Return options for a home directory in memory, like /tmp, if the real one is hidden: programs need one."""
    seen = ("/proc", "/dev", *TEMPORARY_DIRECTORIES, *layout.readable, *layout.writable)
    is_own = os.path.isabs(home) and home == os.path.realpath(home) and not any(is_below(home, path) for path in seen)
    return [home] if is_own and home != "/" else []


def _mounts(layout: Layout, memory_bytes: int, temporary: Sequence[str]) -> Iterator[str]:
    """Yield the mounts of what may be seen, outer ones first, and then the covers of what may not."""
    kinds = dict.fromkeys(layout.readable, "--ro-bind") | dict.fromkeys(layout.writable, "--bind")
    size = ("--size", str(min(TEMPORARY_BYTES, memory_bytes // 2)))
    yield from (kinds.pop("/"), "/", "/") if "/" in kinds else ()
    yield from ("--proc", "/proc", "--dev", "/dev")
    for path in temporary:
        yield from ("--perms", "1777" if path in TEMPORARY_DIRECTORIES else "0700", *size, "--tmpfs", path)
    yield from ("--remount-ro", "/dev")  # in memory as well; what is mounted in it stays as it is
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
        else:  # a device on a mount for files, which cannot be opened
            yield from ("--ro-bind", os.devnull, path)
    # Where the directories were made that lead to all of this: what is written beside it would be lost without a word.
    yield from ("--remount-ro", "/") if "/" not in layout.readable else ()


def _plan(mounts: list[str], layout: Layout) -> dict[str, list[bytes]]:
    """Return the places that show the host's files and those that show nothing, for the check of the mounts."""
    bound = [
        os.fsencode(place)
        for option, source, place in zip(mounts, mounts[1:], mounts[2:], strict=False)
        if option in ("--bind", "--ro-bind") and source == place
    ]
    return {"bound": bound, "hidden": [os.fsencode(path) for path in layout.hidden]}


def _pins(layout: Layout) -> list[str]:
    """Directories between what is writable and what in it is not.

    Mounted on themselves they cannot be renamed; or one could be moved away with its protected file, and another be put
    in its place.
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
    """Return the path of bwrap in the system's directories, not where a project could put one."""
    places = (
        f"{directory}/bwrap" for directory in ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
    )
    return next((place for place in places if os.access(place, os.X_OK)), None)


@cache
def _missing_requirement() -> str | None:
    if sys.platform != "linux":
        return "bubblewrap is for Linux"
    if _program() is None:
        return "bwrap is not installed: install the package bubblewrap"
    return seccomp.missing_requirement()


@cache
def _failure(with_domains: bool) -> str | None:
    """Why not even a command that does nothing runs."""
    domains = ("example.com",) if with_domains else ()
    return try_sandbox(BubblewrapSandbox(), Policy(readable=("/usr", "/bin", "/lib", "/lib64"), domains=domains))
