"""Messages of a conversation, independent of any provider, and the interface of a provider's format.

Calls and results are the registry's own types. Providers reject a whole request because of one tool name that they do
not accept, so the functions below leave such tools out. Nothing here sends a request.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from onhand.errors import ToolError
from onhand.tools.arguments import parse_arguments
from onhand.tools.registry import Call, Result

if TYPE_CHECKING:
    from onhand.tools.session import Session

Role = Literal["system", "user", "assistant", "tool"]
UNREADABLE = "unreadable_arguments"


class Message(NamedTuple):
    """One message. An assistant message may have calls; a tool message has their results, in the same order."""

    role: Role
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    kept: tuple[Mapping[str, Any], ...] = ()  # blocks that must be sent back unchanged, such as signed thinking


class Format(Protocol):
    """How one family of models represents tools, calls and results, as plain data."""

    name: str

    def request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the part of a request that holds the conversation and the tools, which are given as by `Tool.wire`.

        The same input always gives the same bytes. A system message, if any, must come first.
        """

    def serialize(self, message: Message) -> Any:
        """Return an assistant message in this format."""

    def read(self, response: Any) -> Message:
        """Parse a model's response, ignoring whatever cannot be understood."""


def split_system(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """Return the text of the system message and the messages after it."""
    if messages and messages[0].role == "system":
        return messages[0].text, messages[1:]
    return "", messages


def as_mapping(arguments: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """Return the arguments of a call as an object, with unreadable ones under the key UNREADABLE.

    Providers reject a conversation in which arguments are not an object, and the model should see what it sent.
    """
    try:
        return parse_arguments(arguments)
    except ToolError:
        return {UNREADABLE: arguments if isinstance(arguments, str) else _safe_repr(arguments)}


def _safe_repr(arguments: object) -> str:
    try:
        return repr(arguments)
    except (RecursionError, ValueError):  # nested too deeply, or a number with thousands of digits
        return "…"


def as_text(arguments: Mapping[str, Any] | str | None) -> str:
    """Return the arguments of a call as JSON text. Text that a model sent is returned unchanged."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps(as_mapping(arguments), ensure_ascii=False, separators=(",", ":"))


# The tool names that each provider accepts.
ANTHROPIC = re.compile(r"[A-Za-z0-9_-]{1,128}")
OPENAI = re.compile(r"[A-Za-z0-9_-]{1,64}")


def left_out(session: "Session", accepted: re.Pattern[str]) -> list[str]:
    """Return the names of the tools that are left out because a provider would reject them."""
    names = [wired["name"] for wired in session.wire(activated=False)] + [tool.name for tool in session.deferred()]
    return sorted({name for name in names if not accepted.fullmatch(name)})


def accepted_tools(tools: Sequence[Mapping[str, Any]], accepted: re.Pattern[str]) -> list[Mapping[str, Any]]:
    """Return the tools whose names a provider accepts."""
    return [wired for wired in tools if accepted.fullmatch(wired["name"])]


def accepted_calls(messages: Sequence[Message], accepted: re.Pattern[str]) -> list[Message]:
    """Return the messages with acceptable names in all calls, since a model may call a tool that does not exist."""
    return [
        message._replace(calls=tuple(call._replace(name=_accepted_name(call.name, accepted)) for call in message.calls))
        for message in messages
    ]


def _accepted_name(name: str, accepted: re.Pattern[str]) -> str:
    return name if accepted.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:64] or "unnamed"
