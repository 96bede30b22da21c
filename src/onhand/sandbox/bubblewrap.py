"""Enforce a policy with bubblewrap: private namespaces in which only what a command may see is mounted.

This is the better backend: new files can be created beside protected ones, outside processes are invisible, and all
processes of a command die with the first one.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache

from onhand.errors import SandboxError
from onhand.processes import COMMAND_MARK
from onhand.sandbox import seccomp
from onhand.sandbox.layout import Layout
from onhand.sandbox.policy import Policy, is_below, self_and_parents
from onhand.sandbox.procfs import TEMPORARY_DIRECTORIES
from onhand.sandbox.quarantine import Watch
from onhand.sandbox.sandbox import Command, Process, try_sandbox

MAX_ARGUMENTS = 8_000  # for the mounts: bubblewrap takes 9,000, including the command and its environment
TEMPORARY_BYTES = 512 << 20  # in each directory that is kept in memory, or half of the memory limit if that is less


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
        watch = Watch(policy)
        try:
            user = launcher.unprivileged_user(watch.layout, may_own_files_of_root=True)
            layout = launcher.reachable_layout(watch.layout, user)
            environment = {"HOME": "/tmp", **command.environment, "TMPDIR": "/tmp"}  # noqa: S108  # its own
            temporary = (*TEMPORARY_DIRECTORIES, *_own_home(environment["HOME"], layout))
            is_root = user is not None and user[0] == 0
            mounts = list(_mounts(layout, policy.memory_bytes, temporary, is_root))
            if len(mounts) > MAX_ARGUMENTS:
                arguments = f"{len(mounts)} arguments, more than {MAX_ARGUMENTS}"
                raise layout.limit_error(f"bubblewrap would need {arguments} (the landlock backend has room for more)")
        except BaseException:
            watch.close()
            raise
        options = [
            *_namespaces(bool(policy.domains)),
            *mounts,
            *("--chdir", os.path.realpath(command.cwd), "--clearenv"),
            *_variables({**launcher.proxy_environment(environment, policy.domains), COMMAND_MARK: ""}),
        ]
        order = {
            "argv": [_program(), "--", *launcher.find_program(command, policy)],
            "cwd": "/",
            "environment": {"PATH": "/usr/bin:/bin"},
            "user": user,
            "temporary": temporary,
            "landlock": None,
            "bubblewrap": {
                "options": b"".join(os.fsencode(option) + b"\0" for option in options),
                "filter": seccomp.program(inet=True, alone=True, as_root=is_root),
                **_plan(mounts, layout),
            },
        }
        return launcher.start(order, policy, command, watch)


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


def _mounts(layout: Layout, memory_bytes: int, temporary: Sequence[str], is_root: bool = False) -> Iterator[str]:
    """Yield the options that mount what may be seen, outer paths first, and then cover what may not."""
    kinds = dict.fromkeys(layout.readable, "--ro-bind") | dict.fromkeys(layout.writable, "--bind")
    size = ("--size", str(min(TEMPORARY_BYTES, memory_bytes // 2)))
    yield from (kinds.pop("/"), "/", "/") if "/" in kinds else ()
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from ("--remount-ro", "/proc") if is_root else ()  # the settings of the kernel are files of root
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
    for path in sorted(layout.fixed):
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
    closed = {*layout.fixed, *layout.hidden}
    pins = {
        above
        for root in layout.writable
        for path in closed
        if is_below(path, root)
        for above in self_and_parents(os.path.dirname(path))
        if above != root and is_below(above, root)
    }
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
