"""How does a whole command run inside the sandbox? It starts itself again behind the walls, and waits.

Nothing runs without them: where no backend works, starting fails, and says why.
"""

from __future__ import annotations

import os
import sys

from onhand import app
from onhand.cli import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from onhand.config import Config
    from onhand.config.options import Agent
    from onhand.sandbox.policy import Policy
    from onhand.sandbox.sandbox import Command, Sandbox

FLAG = "--sandbox"


def run_confined(asked: Config, options: Agent, words: Sequence[str]) -> int:
    """The exit code of this command with these words, run again without the flag and behind the walls."""
    from onhand.actions.environment import environment_of
    from onhand.agent.models.choose import host_and_key
    from onhand.config.files import state_directory
    from onhand.sandbox.sandbox import Command, choose

    host, key = host_and_key(options.model, options.base_url, options.api_key_env)
    policy = app.open_policy(asked)
    kept = state_directory(os.environ)
    os.makedirs(kept, mode=0o700, exist_ok=True)
    app.make_room_for_notes(asked)
    policy = policy._replace(
        readable=(*policy.readable, *needed(policy)),
        writable=(*policy.writable, kept),
        domains=tuple(dict.fromkeys((*policy.domains, *([host] if host else [])))),
        cpu_s=24 * 3600,  # of a whole conversation
    ).checked()
    settings = [name for name in os.environ if name.startswith(("ONHAND_", "XDG_", "PYTHON"))]
    variables = environment_of(os.environ, ("HOME", *settings, *([key] if key else []), *asked.shell.environment))
    if asked.web.enabled:
        terminal.warn(["there is no http_get behind the walls: it would connect by itself, which nothing there can"])
        variables["ONHAND_WEB_ENABLED"] = "false"
    backend = "auto" if asked.sandbox.backend == "none" else asked.sandbox.backend
    if backend == "bubblewrap":  # which cannot work in its own walls: there, commands get what can
        variables["ONHAND_SANDBOX_BACKEND"] = "auto"
    command = [sys.executable, "-m", "onhand", *(word for word in words if word != FLAG)]
    return ended(choose(policy, backend), policy, Command(command, os.getcwd(), variables))


def ended(sandbox: Sandbox, policy: Policy, command: Command) -> int:
    """The exit code of a command; whatever ends us ends it first, and what was set up for it is taken down."""
    from onhand.cli.ending import unwound

    with unwound():
        process = sandbox.start(policy, command)
        try:
            code = process.wait() or 0
            terminal.warn(process.notes)
            return code
        except BaseException:
            process.kill()
            raise


def needed(policy: Policy) -> list[str]:
    """What this interpreter needs to run us and a policy does not let it read: itself, its packages, and our own.

    What is in the project is left out: to name it would open the secrets in it.
    """
    import onhand

    ours = os.path.dirname(os.path.dirname(os.path.abspath(onhand.__file__)))
    paths = [sys.prefix, sys.base_prefix, ours, *(path for path in sys.path if os.path.isdir(path))]
    return [path for path in dict.fromkeys(map(os.path.realpath, paths)) if not policy.may_read(path)]
