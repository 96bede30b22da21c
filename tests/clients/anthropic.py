"""The Messages API of Anthropic, which Claude Code speaks."""

from typing import Any

from clients.sent import Dialect, Listing, Sent, compact, joined_text
from loopback import Asked, Reply
from onhand.tools import Call
from provider import answer, anthropic


def _is_asked(asked: Asked) -> bool:
    return asked.path.partition("?")[0] == "/v1/messages"


def _read(body: dict[str, Any]) -> Sent:
    # A deferred tool costs a model nothing and cannot be called: the API shows it once the model has searched for it.
    listed = [entry for entry in body.get("tools", ()) if not entry.get("defer_loading")]
    blocks = [
        block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]
    results = [joined_text(block.get("content", "")) for block in blocks if block["type"] == "tool_result"]
    said = [body.get("system", ""), *(message["content"] for message in body["messages"])]
    return Sent(
        tuple(Listing((entry["name"],), compact(entry)) for entry in listed),
        tuple(results),
        "\n".join(map(joined_text, said)),
    )


def _call(call: Call) -> Reply:
    return answer(anthropic(calls=[call]))


def _say(text: str) -> Reply:
    return answer(anthropic(text))


DIALECT = Dialect(_is_asked, _read, _call, _say)
