"""What do providers send? The bodies of streamed answers, as the wire has them."""

import json
from collections.abc import Iterable
from typing import Any

from loopback import Reply
from onhand.tools import Call

STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}


def sse(values: Iterable[Any], named: bool = False) -> bytes:
    """Server-sent events, with the name of each where a provider sends it."""
    lines = []
    for value in values:
        data = value if isinstance(value, str) else json.dumps(value)
        lines.append((f"event: {value['type']}\n" if named else "") + f"data: {data}\n\n")
    return "".join(lines).encode()


def anthropic(text: str = "", calls: Iterable[Call] = (), stop: str = "", thought: str = "") -> list[dict[str, Any]]:
    """The events of a message of Anthropic's; texts and arguments come in two pieces."""
    calls = list(calls)
    usage = {"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 1}
    sent: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m", "usage": usage}}, {"type": "ping"}]

    def block(begin: dict[str, Any], *deltas: dict[str, Any]) -> None:
        index = sum(event["type"] == "content_block_start" for event in sent)
        sent.append({"type": "content_block_start", "index": index, "content_block": begin})
        sent.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        sent.append({"type": "content_block_stop", "index": index})

    if thought:
        signed = {"type": "signature_delta", "signature": "sig"}
        block({"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": thought}, signed)
    if text:
        halves = text[: len(text) // 2], text[len(text) // 2 :]
        block({"type": "text", "text": ""}, *({"type": "text_delta", "text": half} for half in halves))
    for call in calls:
        sent_as = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        halves = sent_as[: len(sent_as) // 2], sent_as[len(sent_as) // 2 :]
        begin = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        block(begin, *({"type": "input_json_delta", "partial_json": half} for half in halves))
    reason = stop or ("tool_use" if calls else "end_turn")
    sent.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    return [*sent, {"type": "message_stop"}]


def openai(text: str = "", calls: Iterable[Call] = (), stop: str = "", thought: str = "") -> list[Any]:
    """The chunks of a chat completion of OpenAI's."""
    calls = list(calls)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if thought:
        deltas.append({"reasoning_content": thought})
    if text:
        deltas += [{"content": half} for half in (text[: len(text) // 2], text[len(text) // 2 :])]
    for index, call in enumerate(calls):
        sent_as = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        begin = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        deltas.append({"tool_calls": [begin]})
        for half in (sent_as[: len(sent_as) // 2], sent_as[len(sent_as) // 2 :]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    reason = stop or ("tool_calls" if calls else "stop")
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 90}}
    return [*chunks, {"choices": [], "usage": usage}, "[DONE]"]


def answer(events: Iterable[Any], named: bool = True) -> Reply:
    """A whole streamed answer."""
    return Reply(sse(events, named), headers=STREAM)
