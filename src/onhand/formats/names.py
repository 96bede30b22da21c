"""Which names does a provider refuse? One such name, and it refuses the whole request: so those tools are left out."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from onhand.formats.message import Message
from onhand.tools.session import Session

ANTHROPIC = re.compile(r"[A-Za-z0-9_-]{1,128}")
OPENAI = re.compile(r"[A-Za-z0-9_-]{1,64}")


def left_out(session: Session, accepted: re.Pattern[str]) -> list[str]:
    """The names of tools that a provider would refuse: give them others where they come from."""
    names = [wired["name"] for wired in session.wire(activated=False)] + [tool.name for tool in session.deferred()]
    return sorted({name for name in names if not accepted.fullmatch(name)})


def accepted_tools(tools: Sequence[Mapping[str, Any]], accepted: re.Pattern[str]) -> list[Mapping[str, Any]]:
    """The tools that a provider takes."""
    return [wired for wired in tools if accepted.fullmatch(wired["name"])]


def accepted_calls(messages: Sequence[Message], accepted: re.Pattern[str]) -> list[Message]:
    """The messages with a name for each call that a provider takes: a model may have called what no tool is called."""
    return [
        message._replace(calls=tuple(call._replace(name=_near(call.name, accepted)) for call in message.calls))
        for message in messages
    ]


def _near(name: str, accepted: re.Pattern[str]) -> str:
    return name if accepted.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:64] or "unnamed"
