"""The Gemini API, which Gemini CLI speaks."""

from typing import Any

from clients.sent import Dialect, Listing, Sent, compact
from loopback import Asked, Reply
from onhand.tools import Call
from provider import answer


def _is_asked(asked: Asked) -> bool:
    return asked.path.partition("?")[0].endswith(":streamGenerateContent")


def _read(body: dict[str, Any]) -> Sent:
    declared = [entry for group in body.get("tools", ()) for entry in group.get("functionDeclarations", ())]
    instruction = body.get("systemInstruction", {})
    parts = [part for content in (instruction, *body["contents"]) for part in content.get("parts", ())]
    return Sent(
        tuple(Listing((entry["name"],), compact(entry)) for entry in declared),
        tuple(_result(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part),
        "\n".join(part["text"] for part in parts if "text" in part),
    )


def _result(response: dict[str, Any]) -> str:
    return str(response["output"]) if response.keys() == {"output"} else compact(response)


def _call(call: Call) -> Reply:
    return _stream({"functionCall": {"name": call.name, "args": call.arguments}})


def _say(text: str) -> Reply:
    return _stream({"text": text})


def _stream(part: dict[str, Any]) -> Reply:
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 7, "totalTokenCount": 107}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    return answer([{"candidates": [candidate], "usageMetadata": usage}], named=False)


DIALECT = Dialect(_is_asked, _read, _call, _say)
