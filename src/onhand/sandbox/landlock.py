"""How does the kernel keep a policy without mounts? Landlock for files, a system call filter for the rest.

Where there are no namespaces to be had this is the wall. What it cannot do, it refuses: see `rules` for what that means
for new files, and `refusal` for domains.
"""

import os
import shutil
import sys
import tempfile
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
            "bubblewrap": None,
            "landlock": {
                "handled": rules.handled(version, tcp=not policy.domains),  # with them it has a network of its own
                "rules": [*(rule for rule in found if rule[1]), (temporary, writing)],
                "filter": seccomp.program(inet=bool(policy.domains)),
            },
        }
        after = [lambda: shutil.rmtree(temporary, ignore_errors=True)]
        return confined.start(order, policy, command, layout.names, after=after)


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
