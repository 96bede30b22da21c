"""Translate tools, calls and results for OpenAI's chat completions, which many servers support, and its Responses API.

In both, arguments are JSON text. Text that is not valid JSON is passed on unchanged, so that the registry can tell the
model what is wrong with it. Deferred tools are found with `tool_search`, grouped into one namespace per server. If the
client searches (`execution: client`), a request contains only the loaded tools, and the answer to a search adds
definitions. If the API searches (`execution: server`), a request contains every definition, and the deferred ones are
marked `defer_loading`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onhand.errors import InputError
from onhand.formats.message import OPENAI, Message, accepted_calls, accepted_tools, as_text, split_system
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import plain_line, wire_tool
from onhand.tools.registry import Call
from onhand.tools.session import Session


class ChatFormat:
    """Chat completions: `messages` with `tool_calls`, and a `tool` message for each result."""

    name = "openai-chat"

    def request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return `messages`, and `tools` if there are any."""
        entries = [entry for message in accepted_calls(messages, OPENAI) for entry in self._entries(message)]
        request: dict[str, Any] = {"messages": entries}
        if accepted := accepted_tools(tools, OPENAI):
            request["tools"] = [{"type": "function", "function": _function(wired)} for wired in accepted]
        return request

    def serialize(self, message: Message) -> dict[str, Any]:
        """Return an assistant message; with calls but no text, its content is null, as in the API."""
        entry: dict[str, Any] = {"role": "assistant", "content": message.text or (None if message.calls else "")}
        if message.calls:
            functions = [{"name": call.name, "arguments": as_text(call.arguments)} for call in message.calls]
            entry["tool_calls"] = [
                {"id": call.id, "type": "function", "function": function}
                for call, function in zip(message.calls, functions, strict=True)
            ]
        return entry

    def read(self, response: Any) -> Message:
        """Parse the `message` of a choice."""
        response = response if isinstance(response, Mapping) else {}
        calls = [_call(one, "id") for one in _rows(response.get("tool_calls"))]
        text = _text(response.get("content")) or _text(response.get("refusal"))
        return Message("assistant", text, tuple(call for call in calls if call))

    def _entries(self, message: Message) -> Iterable[dict[str, Any]]:
        if message.role == "assistant":
            yield self.serialize(message)
        elif message.role == "tool":
            for result in message.results:
                yield {"role": "tool", "tool_call_id": result.id, "content": _result_text(result.ok, result.text)}
        else:
            yield {"role": message.role, "content": message.text}


class ResponsesFormat:
    """The Responses API: a list of items, among them `function_call` and `function_call_output`."""

    name = "openai-responses"

    def request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return `input`, and `instructions` and `tools` if there are any."""
        system, rest = split_system(accepted_calls(messages, OPENAI))
        request: dict[str, Any] = {"instructions": system} if system else {}
        request["input"] = [item for message in rest for item in self._items(message)]
        if accepted := accepted_tools(tools, OPENAI):
            request["tools"] = [{**_typed_function(wired), "strict": False} for wired in accepted]
        return request

    def serialize(self, message: Message) -> list[dict[str, Any]]:
        """Return an assistant message as output items: the items to send back unchanged, the text, then the calls."""
        items: list[dict[str, Any]] = [dict(item) for item in message.kept]
        if message.text:
            content = [{"type": "output_text", "text": message.text, "annotations": []}]
            items.append({"type": "message", "role": "assistant", "content": content})
        items += [
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": as_text(call.arguments)}
            for call in message.calls
        ]
        return items

    def read(self, response: Any) -> Message:
        """Parse the `output` of a response."""
        items = _rows(response)
        texts = [_text(item.get("content")) for item in items if item.get("type") == "message"]
        calls = [_call({**item, "function": item}, "call_id") for item in items if item.get("type") == "function_call"]
        kept = tuple(item for item in items if item.get("type") == "reasoning")
        return Message("assistant", "".join(texts), tuple(call for call in calls if call), kept=kept)

    def _items(self, message: Message) -> Iterable[dict[str, Any]]:
        if message.role == "assistant":
            yield from self.serialize(message)
        elif message.role == "tool":
            for result in message.results:
                output = _result_text(result.ok, result.text)
                yield {"type": "function_call_output", "call_id": result.id, "output": output}
        else:
            yield {"role": message.role, "content": message.text}


def _function(wired: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": wired["name"], "description": wired["description"], "parameters": wired["input_schema"]}


def _typed_function(wired: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", **_function(wired)}


def _result_text(ok: bool, text: str) -> str:
    # Neither API has a field that marks a failed call.
    return text if ok else f"error: {text}"


def _call(item: Mapping[str, Any], id: str) -> Call | None:
    function = item.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return None
    arguments = function.get("arguments")  # some servers send the object itself
    return Call(function["name"], arguments if isinstance(arguments, str | Mapping) else "", str(item.get(id) or ""))


def _rows(response: object) -> list[Mapping[str, Any]]:
    return [one for one in response if isinstance(one, Mapping)] if isinstance(response, list | tuple) else []


def _text(content: object) -> str:
    """Return a text, or the joined texts of a list of parts."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") or part.get("refusal") for part in _rows(content)]
    return "".join(part for part in parts if isinstance(part, str))


ADVISED_FUNCTIONS = 10  # per namespace, as the API's guide recommends; more work, but cost more tokens
MAX_NAMESPACE_CHARS = 64


def request_tools(session: Session, execution: str = "client") -> list[dict[str, Any]]:
    """Return the `tools` of a request, without those whose names the API rejects (see `message.left_out`)."""
    if execution not in ("client", "server"):
        raise InputError(f"execution must be client or server, not {execution!r}")
    finders = {tool.name: tool for tool in session.tools()}
    loaded = [
        _typed_function(wired)
        for wired in session.wire(activated=False)
        if wired["name"] not in finders and OPENAI.fullmatch(wired["name"])
    ]
    search = finders.get("search_tools") or finders.get("search_tool_bm25")
    if search is None:
        return loaded
    if execution == "server":
        return [*loaded, {"type": "tool_search"}, *namespaces(session.deferred())]
    parameters = {**search.wire()["input_schema"], "additionalProperties": False}
    tool_search = {"type": "tool_search", "execution": "client", "description": search.description}
    return [*loaded, {**tool_search, "parameters": parameters}]


def search_output(call_id: str, tools: Iterable[CatalogTool]) -> dict[str, Any]:
    """Return the client's answer to a `tool_search_call`: the definitions by namespace, in the order given."""
    answer = {"type": "tool_search_output", "execution": "client", "call_id": call_id, "status": "completed"}
    return {**answer, "tools": namespaces(tools)}


def namespaces(tools: Iterable[CatalogTool]) -> list[dict[str, Any]]:
    """Return deferred functions, grouped into a namespace per server at the position of its first tool."""
    groups: dict[str, list[CatalogTool]] = {}
    for tool in filter(lambda tool: OPENAI.fullmatch(tool.name), tools):
        groups.setdefault(tool.server or f"\n{tool.id}", []).append(tool)  # server names contain no line breaks
    names: set[str] = set()
    entries: list[dict[str, Any]] = []
    for server, group in groups.items():
        functions = [{**_typed_function(wire_tool(tool)), "defer_loading": True} for tool in group]
        if server.startswith("\n"):
            entries += functions
        else:
            entries.append(_namespace(_free_name(server, names), group, functions))
    return entries


def _namespace(name: str, group: Sequence[CatalogTool], functions: list[dict[str, Any]]) -> dict[str, Any]:
    listed = ", ".join(plain_line(tool.leaf, 64) for tool in group[:ADVISED_FUNCTIONS])
    more = "" if len(group) <= ADVISED_FUNCTIONS else f" and {len(group) - ADVISED_FUNCTIONS} more"
    description = f"Tools of {plain_line(group[0].server, 64)}: {listed}{more}."
    return {"type": "namespace", "name": name, "description": description, "tools": functions}


def _free_name(server: str, taken: set[str]) -> str:
    """Return a namespace for a server that the API accepts and that no other server has taken."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", server)[: MAX_NAMESPACE_CHARS - 4] or "server"
    name, number = plain, 2
    while name in taken:
        name, number = f"{plain}_{number}", number + 1
    taken.add(name)
    return name
