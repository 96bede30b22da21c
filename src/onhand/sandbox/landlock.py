"""How does the kernel keep a policy without mounts? Landlock for files, a system call filter for the rest.

Where there are no namespaces to be had this is the wall. What it cannot do, it refuses: see `rules` for what that means
for new files, and `refusal` for domains.
"""

import os
import sys
import tempfile
from contextlib import suppress
from functools import cache

from onhand.errors import SandboxError
from onhand.sandbox import seccomp
from onhand.sandbox.layout import lay_out
from onhand.sandbox.policy import Policy
from onhand.sandbox.sandbox import Command, Process, trial


class LandlockSandbox:
    """Confines by Landlock and seccomp."""

    name = "landlock"

    def refusal(self, policy: Policy) -> str | None:
        return _unsupported() or _failure(bool(policy.domains))

    def start(self, policy: Policy, command: Command) -> Process:
        from onhand.sandbox import confined, kernel, rules

        reason = _unsupported()
        if reason:
            raise SandboxError(f"nothing was started: {reason}")
        layout = lay_out(policy)
        version = kernel.landlock_version()
        found = [(rule.path, rules.applicable(rule, version)) for rule in rules.of(layout)]
        if len(found) > rules.MAX_RULES:
            raise layout.refused(f"Landlock would get {len(found)} rules for that, more than {rules.MAX_RULES}")
        user = confined.unprivileged(layout)
        temporary = tempfile.mkdtemp(prefix="onhand-")
        if user is not None:
            os.chown(temporary, *user)
        writing = rules.READ | rules.WRITE & rules.handled(version)[0]
        environment = {"HOME": temporary, **command.environment, "TMPDIR": temporary}
        order = {
            "argv": list(command.argv),
            "cwd": command.cwd,
            "environment": confined.proxied(environment, policy.domains),
            "user": user,
            "temporary": (),
            "bubblewrap": None,
            "landlock": {
                "handled": rules.handled(version, tcp=not policy.domains),  # with them it has a network of its own
                "rules": [*(rule for rule in found if rule[1]), (temporary, writing)],
                "filter": seccomp.program(inet=bool(policy.domains)),
            },
        }
        return confined.start(order, policy, command, layout.names, after=[lambda: _remove(temporary)])


def _remove(directory: str) -> None:
    """Remove a directory with all that a command left in it: no tree is too deep for it, and no mode in its way.

    What is in a directory is moved up before that is removed, so that no path grows long; no link is followed.
    """
    with suppress(OSError):
        top = _opened(directory)
        try:
            waiting = ["."]
            while waiting:
                name = waiting.pop()
                waiting += _emptied(name, top)
                if name != ".":
                    os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        os.rmdir(directory)


def _emptied(name: str, top: int) -> list[str]:
    """Remove the files of a directory; gives the directories that were in it, by what they are called in `top` now."""
    inner, directory = list[str](), _opened(name, top)
    try:
        for entry in list(os.scandir(directory)):
            if entry.is_dir(follow_symlinks=False):
                os.close(_opened(entry.name, directory))  # who moves it has to be able to write in it
                inner.append(f"{len(inner)}-{os.urandom(8).hex()}")
                os.rename(entry.name, inner[-1], src_dir_fd=directory, dst_dir_fd=top)
            else:
                os.unlink(entry.name, dir_fd=directory)
    finally:
        os.close(directory)
    return inner


def _opened(name: str, above: int | None = None) -> int:
    """A directory that may be read and written from now on."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)
        return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(found)


@cache
def _unsupported() -> str | None:
    if sys.platform != "linux":
        return "Landlock is part of Linux"
    from onhand.sandbox import kernel, rules

    version = kernel.landlock_version()
    if version < rules.LEAST_VERSION:
        found = f"version {version}" if version else "none that is switched on"
        return f"this kernel's Landlock is too old ({found}; Linux 6.2 has what is needed)"
    return seccomp.unsupported()


@cache
def _failure(with_domains: bool) -> str | None:
    """Why not even a command that does nothing runs."""
    domains = ("example.com",) if with_domains else ()
    failure = trial(LandlockSandbox(), Policy(readable=("/usr", "/bin", "/lib", "/lib64"), domains=domains))
    needs = "; domains need a network of its own, which user namespaces would give" if with_domains else ""
    return f"{failure}{needs}" if failure else None
