"""The Chat Completions API of OpenAI, which opencode speaks to servers of one's own."""

from typing import Any

from clients.sent import Dialect, Listing, Sent, compact, joined_text
from loopback import Asked, Reply
from onhand.tools import Call
from provider import answer, openai


def _is_asked(asked: Asked) -> bool:
    return asked.path == "/v1/chat/completions"


def _read(body: dict[str, Any]) -> Sent:
    listed = [Listing((entry["function"]["name"],), compact(entry)) for entry in body.get("tools", ())]
    results = [joined_text(message["content"]) for message in body["messages"] if message["role"] == "tool"]
    said = [joined_text(message.get("content") or "") for message in body["messages"] if message["role"] != "tool"]
    return Sent(tuple(listed), tuple(results), "\n".join(said))


def _call(call: Call) -> Reply:
    return answer(openai(calls=[call]), named=False)


def _say(text: str) -> Reply:
    return answer(openai(text), named=False)


DIALECT = Dialect(_is_asked, _read, _call, _say)
