"""What came into being while a command ran, that programs obey unseen? It is told, and left as it is.

No wall can be put around a name in a directory where nothing has it yet. To take such a file away again could be to
lose what the user, or a `git checkout`, made meanwhile. So whoever ran the command is told, in time to look at it.
"""

import os

from onhand.errors import SandboxError
from onhand.sandbox.layout import look_at
from onhand.sandbox.names import Entry
from onhand.sandbox.policy import Policy, inner_paths

MAX_NAMED, MAX_SHOWN = 5, 200  # paths, and characters of each: a command chooses them


def notes(policy: Policy, before: tuple[Entry, ...]) -> list[str]:
    """Sentences about what there is now and was not `before`."""
    try:
        now = [entry for found in look_at(policy) for entry in (*found.protected, *found.repositories)]
    except SandboxError as error:
        return [f"it was not looked at what the command left behind: {error}"]
    known = {*before}
    made = sorted(entry.path for entry in {*now} if entry not in known)
    if not made:
        return []
    roots = [os.path.realpath(root) for root in policy.writable]
    named = [repr(next(inner_paths(path, roots), path)[-MAX_SHOWN:]) for path in made[:MAX_NAMED]]
    more = f" and {len(made) - MAX_NAMED} more" if len(made) > MAX_NAMED else ""
    have = "has a name" if len(made) == 1 else "have names"
    return [f"made while the command ran: {', '.join(named)}{more}, which {have} that programs obey unseen: look there"]
