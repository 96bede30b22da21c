"""How does OpenAI spell tools, calls and results? In two forms: chat completions, which many speak, and Responses.

In both, arguments are a JSON text. What is no JSON stays as it came: the registry tells the model what is wrong in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onhand.formats.message import Message, as_text, split
from onhand.formats.names import OPENAI, accepted_calls, accepted_tools
from onhand.tools.registry import Call


class ChatFormat:
    """Chat completions: `messages` with `tool_calls`, and a `tool` message for each result."""

    name = "openai-chat"

    def request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """`messages`, and `tools` where there are any."""
        spelled = [part for message in accepted_calls(messages, OPENAI) for part in self._spelled(message)]
        wanted: dict[str, Any] = {"messages": spelled}
        if taken := accepted_tools(tools, OPENAI):
            wanted["tools"] = [{"type": "function", "function": _function(wired)} for wired in taken]
        return wanted

    def spell(self, message: Message) -> dict[str, Any]:
        """An assistant's message; one with calls and no text has null for content, as the API does."""
        spelled: dict[str, Any] = {"role": "assistant", "content": message.text or (None if message.calls else "")}
        if message.calls:
            spelled["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _sent(call)}}
                for call in message.calls
            ]
        return spelled

    def read(self, said: Any) -> Message:
        """The `message` of a choice."""
        said = said if isinstance(said, Mapping) else {}
        calls = [_call(one, "id") for one in _rows(said.get("tool_calls"))]
        text = _text(said.get("content")) or _text(said.get("refusal"))
        return Message("assistant", text, tuple(call for call in calls if call))

    def _spelled(self, message: Message) -> Iterable[dict[str, Any]]:
        if message.role == "assistant":
            yield self.spell(message)
        elif message.role == "tool":
            for result in message.results:
                yield {"role": "tool", "tool_call_id": result.id, "content": _told(result.ok, result.text)}
        else:
            yield {"role": message.role, "content": message.text}


class ResponsesFormat:
    """The Responses API: a list of items, among them `function_call` and `function_call_output`."""

    name = "openai-responses"

    def request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """`input`, with `instructions` and `tools` where there are any."""
        system, rest = split(accepted_calls(messages, OPENAI))
        wanted: dict[str, Any] = {"instructions": system} if system else {}
        wanted["input"] = [item for message in rest for item in self._items(message)]
        if taken := accepted_tools(tools, OPENAI):
            wanted["tools"] = [{"type": "function", **_function(wired), "strict": False} for wired in taken]
        return wanted

    def spell(self, message: Message) -> list[dict[str, Any]]:
        """An assistant's message as output items: what was kept, the text, then the calls."""
        items: list[dict[str, Any]] = [dict(item) for item in message.kept]
        if message.text:
            content = [{"type": "output_text", "text": message.text, "annotations": []}]
            items.append({"type": "message", "role": "assistant", "content": content})
        items += [
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": _sent(call)}
            for call in message.calls
        ]
        return items

    def read(self, said: Any) -> Message:
        """The `output` of a response."""
        items = _rows(said)
        texts = [_text(item.get("content")) for item in items if item.get("type") == "message"]
        calls = [_call({**item, "function": item}, "call_id") for item in items if item.get("type") == "function_call"]
        kept = tuple(item for item in items if item.get("type") == "reasoning")
        return Message("assistant", "".join(texts), tuple(call for call in calls if call), kept=kept)

    def _items(self, message: Message) -> Iterable[dict[str, Any]]:
        if message.role == "assistant":
            yield from self.spell(message)
        elif message.role == "tool":
            for result in message.results:
                output = _told(result.ok, result.text)
                yield {"type": "function_call_output", "call_id": result.id, "output": output}
        else:
            yield {"role": message.role, "content": message.text}


def _function(wired: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": wired["name"], "description": wired["description"], "parameters": wired["input_schema"]}


def _sent(call: Call) -> str:
    return as_text(call.arguments)


def _told(ok: bool, text: str) -> str:
    """Neither form has a mark for a call that failed."""
    return text if ok else f"error: {text}"


def _call(said: Mapping[str, Any], id: str) -> Call | None:
    function = said.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return None
    arguments = function.get("arguments")  # some servers send the object itself
    return Call(function["name"], arguments if isinstance(arguments, str | Mapping) else "", str(said.get(id) or ""))


def _rows(said: object) -> list[Mapping[str, Any]]:
    return [one for one in said if isinstance(one, Mapping)] if isinstance(said, list | tuple) else []


def _text(content: object) -> str:
    """A text, or the texts of a list of parts."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") or part.get("refusal") for part in _rows(content)]
    return "".join(part for part in parts if isinstance(part, str))
