"""What is said in a conversation? Messages that belong to no provider, and how a form of messages is read and written.

A call and its result are the registry's own. Nothing here is sent anywhere.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from onhand.errors import ToolError
from onhand.tools.arguments import parsed
from onhand.tools.registry import Call, Result

Role = Literal["system", "user", "assistant", "tool"]
UNREADABLE = "unreadable_arguments"


class Message(NamedTuple):
    """One message. An assistant's may have calls; a tool's has results, in the order of the calls that they answer."""

    role: Role
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    kept: tuple[Mapping[str, Any], ...] = ()  # what a provider wants to have back as it was, such as signed thoughts


class Format(Protocol):
    """How one family of models spells tools, calls and results. Plain data in, plain data out."""

    name: str

    def request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The part of a request that has the conversation and the tools, which come as `Tool.wire` gives them.

        The same input gives the same bytes. A system message, if there is one, is the first.
        """

    def spell(self, message: Message) -> Any:
        """An assistant's message as the form has it."""

    def read(self, said: Any) -> Message:
        """The assistant's message that a model has spelled; whatever is odd in it, it is read as far as it goes."""


def split(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """The system's text and all that follows it."""
    if messages and messages[0].role == "system":
        return messages[0].text, messages[1:]
    return "", messages


def as_mapping(arguments: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """The arguments of a call as an object; those that no JSON can be read from are under a name of their own.

    Providers refuse a conversation in which arguments are no object, and the model should see what it sent.
    """
    try:
        return parsed(arguments)
    except ToolError:
        return {UNREADABLE: arguments if isinstance(arguments, str) else _spelled(arguments)}


def _spelled(arguments: object) -> str:
    try:
        return repr(arguments)
    except (RecursionError, ValueError):  # nested beyond all reason, or a number with thousands of digits
        return "…"


def as_text(arguments: Mapping[str, Any] | str | None) -> str:
    """The arguments of a call as JSON text, as a model sent them if it sent text."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps(as_mapping(arguments), ensure_ascii=False, separators=(",", ":"))
