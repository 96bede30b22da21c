"""Which names does a provider refuse? One such name, and it refuses the whole request: so those tools are left out."""

import re

from onhand.tools.session import Session

ANTHROPIC = re.compile(r"[A-Za-z0-9_-]{1,128}")
OPENAI = re.compile(r"[A-Za-z0-9_-]{1,64}")


def left_out(session: Session, accepted: re.Pattern[str]) -> list[str]:
    """The names of tools that a provider would refuse: give them others where they come from."""
    names = [wired["name"] for wired in session.wire(activated=False)] + [tool.name for tool in session.deferred()]
    return sorted({name for name in names if not accepted.fullmatch(name)})
