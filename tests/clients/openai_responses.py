"""The Responses API of OpenAI, which Codex speaks."""

import json
from typing import Any

from clients.sent import Dialect, Listing, Sent, compact, joined_text
from loopback import Asked, Reply
from onhand.tools import Call
from provider import answer

NAMESPACE = "namespace"  # the type of an entry that lists the tools of one server


def _is_asked(asked: Asked) -> bool:
    return asked.path == "/v1/responses"


def _read(body: dict[str, Any]) -> Sent:
    items = body["input"]
    results = [joined_text(item["output"]) for item in items if item["type"] == "function_call_output"]
    said = [body.get("instructions", ""), *(joined_text(item.get("content", "")) for item in items)]
    return Sent(
        tuple(Listing(_names(entry), compact(entry)) for entry in body.get("tools", ())),
        tuple(results),
        "\n".join(said),
    )


def _names(entry: dict[str, Any]) -> tuple[str, ...]:
    if entry["type"] == NAMESPACE:
        return tuple(f"{entry['name']}__{tool['name']}" for tool in entry["tools"])
    return (entry.get("name", entry["type"]),)


def _call(call: Call) -> Reply:
    namespace, _, name = call.name.rpartition("__")
    return _stream(
        {
            "type": "function_call",
            "id": f"fc_{call.id}",
            "call_id": call.id,
            "name": name,
            "arguments": json.dumps(call.arguments),
            **({"namespace": namespace} if namespace else {}),
        }
    )


def _say(text: str) -> Reply:
    content = [{"type": "output_text", "text": text}]
    return _stream({"type": "message", "id": "msg_1", "role": "assistant", "content": content})


def _stream(item: dict[str, Any]) -> Reply:
    usage = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107}
    details = {"input_tokens_details": None, "output_tokens_details": None}
    return answer(
        [
            {"type": "response.created", "response": {"id": "resp_1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "resp_1", "usage": {**usage, **details}}},
        ]
    )


DIALECT = Dialect(_is_asked, _read, _call, _say)
