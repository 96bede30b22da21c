"""Translate tools, calls and results for OpenAI's chat completions, which many servers speak, and its Responses API.

In both, arguments are JSON text. Text that is not JSON stays as it came: the registry tells the model what is wrong.
Deferred tools are searched with `tool_search`, in a namespace for each server. Searched by us (`execution: client`), a
request has only the loaded tools, and the answer to a search brings definitions. Searched by the API (`server`), a
request has every definition, and deferred ones are marked `defer_loading`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onhand.errors import InputError
from onhand.formats.message import OPENAI, Message, accepted_calls, accepted_tools, as_text, split
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import plain_line, wire_tool
from onhand.tools.registry import Call
from onhand.tools.session import Session


class ChatFormat:
    """Chat completions: `messages` with `tool_calls`, and a `tool` message for each result."""

    name = "openai-chat"

    def request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return `messages`, and `tools` if there are any."""
        written = [part for message in accepted_calls(messages, OPENAI) for part in self._write_message(message)]
        wanted: dict[str, Any] = {"messages": written}
        if taken := accepted_tools(tools, OPENAI):
            wanted["tools"] = [{"type": "function", "function": _function(wired)} for wired in taken]
        return wanted

    def spell(self, message: Message) -> dict[str, Any]:
        """Return an assistant's message; one with calls and no text has null as content, as in the API."""
        spelled: dict[str, Any] = {"role": "assistant", "content": message.text or (None if message.calls else "")}
        if message.calls:
            spelled["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments_text(call)}}
                for call in message.calls
            ]
        return spelled

    def read(self, response: Any) -> Message:
        """Read the `message` of a choice."""
        response = response if isinstance(response, Mapping) else {}
        calls = [_call(one, "id") for one in _rows(response.get("tool_calls"))]
        text = _text(response.get("content")) or _text(response.get("refusal"))
        return Message("assistant", text, tuple(call for call in calls if call))

    def _write_message(self, message: Message) -> Iterable[dict[str, Any]]:
        if message.role == "assistant":
            yield self.spell(message)
        elif message.role == "tool":
            for result in message.results:
                yield {"role": "tool", "tool_call_id": result.id, "content": _result_text(result.ok, result.text)}
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
        """Return an assistant's message as output items: the kept items, the text, then the calls."""
        items: list[dict[str, Any]] = [dict(item) for item in message.kept]
        if message.text:
            content = [{"type": "output_text", "text": message.text, "annotations": []}]
            items.append({"type": "message", "role": "assistant", "content": content})
        items += [
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": _arguments_text(call)}
            for call in message.calls
        ]
        return items

    def read(self, response: Any) -> Message:
        """Read the `output` of a response."""
        items = _rows(response)
        texts = [_text(item.get("content")) for item in items if item.get("type") == "message"]
        calls = [_call({**item, "function": item}, "call_id") for item in items if item.get("type") == "function_call"]
        kept = tuple(item for item in items if item.get("type") == "reasoning")
        return Message("assistant", "".join(texts), tuple(call for call in calls if call), kept=kept)

    def _items(self, message: Message) -> Iterable[dict[str, Any]]:
        if message.role == "assistant":
            yield from self.spell(message)
        elif message.role == "tool":
            for result in message.results:
                output = _result_text(result.ok, result.text)
                yield {"type": "function_call_output", "call_id": result.id, "output": output}
        else:
            yield {"role": message.role, "content": message.text}


def _function(wired: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": wired["name"], "description": wired["description"], "parameters": wired["input_schema"]}


def _arguments_text(call: Call) -> str:
    return as_text(call.arguments)


def _result_text(ok: bool, text: str) -> str:
    """Neither form has a mark for a call that failed."""
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


ADVISED_FUNCTIONS = 10  # in one namespace, by the API's guide; more works, and costs more
MAX_NAMESPACE_CHARS = 64


def request_tools(session: Session, execution: str = "client") -> list[dict[str, Any]]:
    """Return the `tools` of a request. Tools whose name the API refuses are left out: `message.left_out` names them."""
    if execution not in ("client", "server"):
        raise InputError(f"execution is client or server, not {execution!r}")
    finders = {tool.name: tool for tool in session.tools()}
    loaded = [
        _response_function(wired)
        for wired in session.wire(activated=False)
        if wired["name"] not in finders and OPENAI.fullmatch(wired["name"])
    ]
    search = finders.get("search_tools") or finders.get("search_tool_bm25")
    if search is None:
        return loaded
    if execution == "server":
        return [*loaded, {"type": "tool_search"}, *namespaces(session.deferred())]
    parameters = {**search.wire()["input_schema"], "additionalProperties": False}
    described = {"description": search.description, "parameters": parameters}
    return [*loaded, {"type": "tool_search", "execution": "client", **described}]


def search_output(call_id: str, tools: Iterable[CatalogTool]) -> dict[str, Any]:
    """Return the answer to a `tool_search_call` for the client: definitions by namespace, in the order found."""
    found = namespaces(tools)
    return {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": call_id,
        "status": "completed",
        "tools": found,
    }


def namespaces(tools: Iterable[CatalogTool]) -> list[dict[str, Any]]:
    """Return deferred functions; those of one server in one namespace, at the place of its first tool."""
    groups: dict[str, list[CatalogTool]] = {}
    for tool in filter(lambda tool: OPENAI.fullmatch(tool.name), tools):
        groups.setdefault(tool.server or f"\n{tool.id}", []).append(tool)  # no server's name has a line break
    names: dict[str, str] = {}
    spelled: list[dict[str, Any]] = []
    for server, group in groups.items():
        functions = [{**_response_function(wire_tool(tool)), "defer_loading": True} for tool in group]
        if server.startswith("\n"):
            spelled += functions
        else:
            spelled.append(_namespace(_free_name(server, names), group, functions))
    return spelled


def _namespace(name: str, group: Sequence[CatalogTool], functions: list[dict[str, Any]]) -> dict[str, Any]:
    listed = ", ".join(plain_line(tool.leaf, 64) for tool in group[:ADVISED_FUNCTIONS])
    more = "" if len(group) <= ADVISED_FUNCTIONS else f" and {len(group) - ADVISED_FUNCTIONS} more"
    described = f"Tools of {plain_line(group[0].server, 64)}: {listed}{more}."
    return {"type": "namespace", "name": name, "description": described, "tools": functions}


def _response_function(wired: Mapping[str, Any]) -> dict[str, Any]:
    named = {"type": "function", "name": wired["name"], "description": wired["description"]}
    return {**named, "parameters": wired["input_schema"]}


def _free_name(server: str, taken: dict[str, str]) -> str:
    """Return a name that the API accepts and that no other server has."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", server)[: MAX_NAMESPACE_CHARS - 4] or "server"
    name, number = plain, 2
    while name in taken:
        name, number = f"{plain}_{number}", number + 1
    taken[name] = server
    return name
