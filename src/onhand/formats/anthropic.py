"""Translate tools, calls and results for Anthropic's Messages API, including its deferred tools and tool search.

`cache` sets cache breakpoints after what stays equal between requests: the tools and the system prompt, and the
conversation so far. Deferred definitions are sent with every request (`defer_loading`) but stay out of the prompt, so
the `tools` of a request are the same bytes however many of them have been found. There are two ways to search: our
search tool, whose answer refers to tools (`reference_result`), and the API's own two tool types, which `server_search`
answers from our index, with the API's limits and error codes, for programs that stand in for the API.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onhand.errors import InputError, StoreError, ToolError
from onhand.formats.message import ANTHROPIC, Message, accepted_calls, accepted_tools, as_mapping, split_system
from onhand.tools.catalog import MAX_PATTERN_CHARS, compile_pattern
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import escape_tags_in_json, wire_tool
from onhand.tools.registry import Call
from onhand.tools.session import Session

EPHEMERAL = {"cache_control": {"type": "ephemeral"}}
KEPT = ("thinking", "redacted_thinking")  # must be sent back unchanged while tools are in use


class AnthropicFormat:
    """The Messages API."""

    name = "anthropic"

    def __init__(self, cache: bool = True) -> None:
        self._cache = cache

    def request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return `messages`, and `system` and `tools` if any, without tools whose names the API rejects."""
        system, rest = split_system(accepted_calls(messages, ANTHROPIC))
        request: dict[str, Any] = {}
        if accepted := accepted_tools(tools, ANTHROPIC):
            request["tools"] = [dict(wired) for wired in accepted]
        if system:
            request["system"] = [{"type": "text", "text": system}]
        request["messages"] = self._turns(rest)
        if self._cache:
            for blocks in (request.get("system") or request.get("tools"), _last_content(request["messages"])):
                if blocks:
                    blocks[-1] = {**blocks[-1], **EPHEMERAL}
        return request

    def serialize(self, message: Message) -> dict[str, Any]:
        """Return an assistant message: the blocks to send back unchanged, the text, then the calls."""
        content: list[dict[str, Any]] = [dict(block) for block in message.kept]
        if message.text.strip():  # the API rejects blank text blocks
            content.append({"type": "text", "text": message.text})
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": as_mapping(call.arguments)}
            for call in message.calls
        ]
        return {"role": "assistant", "content": content}

    def read(self, response: Any) -> Message:
        """Parse the body of a response."""
        content = response.get("content") if isinstance(response, Mapping) else None
        blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
        texts = [block.get("text") for block in blocks if block.get("type") == "text"]
        calls = tuple(
            Call(block["name"], block.get("input"), str(block.get("id") or ""))
            for block in blocks
            if block.get("type") == "tool_use" and isinstance(block.get("name"), str)
        )
        kept = tuple(block for block in blocks if block.get("type") in KEPT)
        return Message("assistant", "".join(text for text in texts if isinstance(text, str)), calls, kept=kept)

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return alternating turns: consecutive messages of the same role are joined."""
        turns: list[dict[str, Any]] = []
        for message in messages:
            turn = self._turn(message)
            if not turn["content"]:  # an empty answer
                continue
            if turns and turns[-1]["role"] == turn["role"]:
                turns[-1]["content"] += turn["content"]
            else:
                turns.append(turn)
        return turns

    def _turn(self, message: Message) -> dict[str, Any]:
        if message.role == "assistant":
            return self.serialize(message)
        blocks: list[dict[str, Any]] = [
            {
                "type": "tool_result",
                "tool_use_id": result.id,
                "content": result.text or "(no output)",
                **({} if result.ok else {"is_error": True}),
            }
            for result in message.results
        ]
        if message.text.strip():
            blocks.append({"type": "text", "text": message.text})
        return {"role": "user", "content": blocks}


def _last_content(turns: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    content: list[dict[str, Any]] | None = turns[-1]["content"] if turns else None
    return content if content and content[-1].get("type") not in KEPT else None  # thinking blocks must not be marked


SEARCH_TOOLS = {
    "regex": {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    "bm25": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
}
MAX_DEFERRED = 10_000
MAX_QUERY_CHARS = 500
MAX_RESULTS = 5


def request_tools(session: Session, search: str = "client", cache: bool = False) -> list[dict[str, Any]]:
    """Return the `tools` of a request, without those whose names the API rejects (see `message.left_out`).

    `cache` sets a cache breakpoint at the last tool that is not deferred.
    """
    if search not in ("client", *SEARCH_TOOLS):
        raise InputError(f"search must be client, regex or bm25, not {search!r}")
    finders = {tool.name for tool in session.tools()}
    loaded = [
        wired
        for wired in session.wire(activated=False)
        if ANTHROPIC.fullmatch(wired["name"]) and (search == "client" or wired["name"] not in finders)
    ]
    # Of several tools with one name, only the one that a call would reach is sent.
    active = {tool.name: tool.id for tool in session.active()}
    deferred = [
        tool
        for tool in session.deferred()
        if ANTHROPIC.fullmatch(tool.name) and active.get(tool.name, tool.id) == tool.id
    ]
    if len(deferred) > MAX_DEFERRED:
        raise InputError(
            f"{len(deferred):,} tools are deferred, but the API accepts at most {MAX_DEFERRED:,}: leave out a server"
        )
    if search != "client":
        loaded = [dict(SEARCH_TOOLS[search]), *loaded]
    if deferred and not loaded:
        raise InputError("at least one tool must not be deferred: add a search tool, or load a tool")
    if cache and loaded:  # the API rejects a breakpoint at a deferred tool
        loaded[-1] = {**loaded[-1], **EPHEMERAL}
    sent = {wired["name"] for wired in loaded}
    return [*loaded, *({**wire_tool(tool), "defer_loading": True} for tool in _without_names(deferred, sent))]


def reference_result(tool_use_id: str, tools: Iterable[CatalogTool], otherwise: str = "") -> dict[str, Any]:
    """Return the answer to a call of our search tool: references, which the API expands, or else the text."""
    content = _references(tools) or [{"type": "text", "text": otherwise or "No tool matches."}]
    return {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}


def server_search(session: Session, name: str, tool_use_id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of one of the API's own search tools, in its format."""
    try:
        if name == SEARCH_TOOLS["regex"]["name"]:
            found = _find_by_pattern(session, _text(arguments, "pattern", MAX_PATTERN_CHARS))
        elif name == SEARCH_TOOLS["bm25"]["name"]:
            result = session.search(_text(arguments, "query", MAX_QUERY_CHARS), MAX_RESULTS)
            active = {tool.id for tool in session.active()}
            matching = [*(hit.tool for hit in result.found.hits), *result.already]
            found = [tool for tool in matching if tool.id in active][:MAX_RESULTS]
        else:
            names = " or ".join(tool["name"] for tool in SEARCH_TOOLS.values())
            raise InputError(f"unknown search tool {name[:100]!r}: use {names}")
    except InputError as error:
        return _result(tool_use_id, _error("invalid_tool_input", str(error)))
    except (StoreError, ToolError) as error:
        return _result(tool_use_id, _error("unavailable", str(error)))
    return _result(tool_use_id, {"type": "tool_search_tool_search_result", "tool_references": _references(found)})


def _find_by_pattern(session: Session, pattern: str) -> list[CatalogTool]:
    """Load and return tools whose name, description, or argument name or description matches the pattern."""
    matches = compile_pattern(pattern)
    deferred = [tool for tool in session.deferred() if ANTHROPIC.fullmatch(tool.name)]
    found = [tool for tool in deferred if any(map(matches, _searchable_texts(tool)))][:MAX_RESULTS]
    left_out = session.activate([tool.id for tool in found]).left_out
    return [tool for tool in found if tool.id not in left_out]


def _references(tools: Iterable[CatalogTool]) -> list[dict[str, Any]]:
    """Return one reference per name, and only to names that were sent, because the API rejects unknown ones."""
    names = dict.fromkeys(tool.name for tool in tools if ANTHROPIC.fullmatch(tool.name))
    return [{"type": "tool_reference", "tool_name": name} for name in names]


def _searchable_texts(tool: CatalogTool) -> Iterable[str]:
    yield tool.name
    yield tool.description
    properties = tool.input_schema.get("properties")
    for name, part in properties.items() if isinstance(properties, Mapping) else ():
        yield name
        description = part.get("description") if isinstance(part, Mapping) else None
        if isinstance(description, str):
            yield description


def _text(arguments: Mapping[str, Any], key: str, max_chars: int) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{key} is required")
    if len(value) > max_chars:
        raise InputError(f"{key} has {len(value):,} characters: use at most {max_chars}")
    return value


def _without_names(tools: Iterable[CatalogTool], sent: set[str]) -> Iterable[CatalogTool]:
    """Yield the first tool of each name that was not sent yet, because the API accepts each name only once."""
    for tool in tools:
        if tool.name not in sent:
            sent.add(tool.name)
            yield tool


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "tool_search_tool_result_error", "error_code": code, "error_message": message}


def _result(tool_use_id: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_search_tool_result", "tool_use_id": tool_use_id, "content": content}


def functions_block(tools: Iterable[CatalogTool]) -> str:
    """Return full definitions as the `<functions>` block of a prompt, one per line, or "" without tools.

    Nothing in a definition can close the block.
    """
    lines = [f"<function>{_function_json(tool)}</function>" for tool in tools]
    return "\n".join(["<functions>", *lines, "</functions>"]) if lines else ""


def _function_json(tool: CatalogTool) -> str:
    wired = wire_tool(tool)
    function = {"description": wired["description"], "name": wired["name"], "parameters": wired["input_schema"]}
    return escape_tags_in_json(json.dumps(function, ensure_ascii=False))
