"""How does the Anthropic API want tools that wait to be found? `defer_loading`, `tool_reference`, and its search tools.

Deferred definitions are sent with every request but stay out of the prompt, so the tools of a request are equal, byte
for byte, however many were found. Two ways to search: ours, whose answer refers to tools (`reference_result`), or the
API's own two tool types. `server_search` answers those with our index, within the API's limits and by its error codes,
for who stands in for the API.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from onhand.errors import InputError, StoreError, ToolError
from onhand.formats.names import ANTHROPIC
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import wire
from onhand.tools.query import MAX_PATTERN_CHARS, matcher
from onhand.tools.session import Session

SEARCH_TOOLS = {
    "regex": {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    "bm25": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
}
MAX_DEFERRED = 10_000
MAX_QUERY_CHARS = 500
MAX_RESULTS = 5


def request_tools(session: Session, search: str = "client", cache: bool = False) -> list[dict[str, Any]]:
    """The `tools` of a request; `cache` marks the last one that is not deferred as the end of a cached prefix.

    Tools whose name the API refuses are left out: `names.left_out` tells which.
    """
    if search not in ("client", *SEARCH_TOOLS):
        raise InputError(f"search is client, regex or bm25, not {search!r}")
    finders = {tool.name for tool in session.tools()}
    loaded = [
        wired
        for wired in session.wire(activated=False)
        if ANTHROPIC.fullmatch(wired["name"]) and (search == "client" or wired["name"] not in finders)
    ]
    active = {tool.name: tool.id for tool in session.active()}  # of equal names, the one that a call would reach
    deferred = [
        tool
        for tool in session.deferred()
        if ANTHROPIC.fullmatch(tool.name) and active.get(tool.name, tool.id) == tool.id
    ]
    if len(deferred) > MAX_DEFERRED:
        raise InputError(
            f"{len(deferred):,} tools are deferred, and the API takes {MAX_DEFERRED:,}: leave out a server"
        )
    if search != "client":
        loaded = [dict(SEARCH_TOOLS[search]), *loaded]
    if deferred and not loaded:
        raise InputError("at least one tool must not be deferred: send a search tool, or load one")
    if cache and loaded:  # never on a deferred one: the API refuses both together
        loaded[-1] = {**loaded[-1], "cache_control": {"type": "ephemeral"}}
    sent = {wired["name"] for wired in loaded}
    return [*loaded, *({**wire(tool), "defer_loading": True} for tool in _others(deferred, sent))]


def reference_result(tool_use_id: str, tools: Iterable[CatalogTool], otherwise: str = "") -> dict[str, Any]:
    """The answer to a call of our search tool: references, which the API turns into definitions; else a text."""
    content = _references(tools) or [{"type": "text", "text": otherwise or "no tool fits"}]
    return {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}


def server_search(session: Session, name: str, tool_use_id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of one of the API's own search tools, in its form."""
    try:
        if name == SEARCH_TOOLS["regex"]["name"]:
            found = _by_pattern(session, _text(arguments, "pattern", MAX_PATTERN_CHARS))
        elif name == SEARCH_TOOLS["bm25"]["name"]:
            result = session.search(_text(arguments, "query", MAX_QUERY_CHARS), MAX_RESULTS)
            active = {tool.id for tool in session.active()}
            asked = [*(hit.tool for hit in result.found.hits), *result.already]
            found = [tool for tool in asked if tool.id in active][:MAX_RESULTS]
        else:
            raise InputError(f"there is no search tool {name[:100]!r}")
    except InputError as error:
        return _result(tool_use_id, _error("invalid_tool_input", str(error)))
    except (StoreError, ToolError) as error:
        return _result(tool_use_id, _error("unavailable", str(error)))
    return _result(tool_use_id, {"type": "tool_search_tool_search_result", "tool_references": _references(found)})


def _by_pattern(session: Session, pattern: str) -> list[CatalogTool]:
    """The tools that have the pattern in their name, description, or an argument's name or description."""
    matches = matcher(pattern)
    sent = [tool for tool in session.deferred() if ANTHROPIC.fullmatch(tool.name)]
    found = [tool for tool in sent if any(map(matches, _searched(tool)))][:MAX_RESULTS]
    left_out = session.activate([tool.id for tool in found]).left_out
    return [tool for tool in found if tool.id not in left_out]


def _references(tools: Iterable[CatalogTool]) -> list[dict[str, Any]]:
    """Each name once, and none that was not sent: the API refuses a reference to what it does not know."""
    names = dict.fromkeys(tool.name for tool in tools if ANTHROPIC.fullmatch(tool.name))
    return [{"type": "tool_reference", "tool_name": name} for name in names]


def _searched(tool: CatalogTool) -> Iterable[str]:
    yield tool.name
    yield tool.description
    properties = tool.input_schema.get("properties")
    for name, part in properties.items() if isinstance(properties, Mapping) else ():
        yield name
        said = part.get("description") if isinstance(part, Mapping) else None
        if isinstance(said, str):
            yield said


def _text(arguments: Mapping[str, Any], key: str, most: int) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{key} is required")
    if len(value) > most:
        raise InputError(f"{key} has {len(value):,} characters: at most {most}")
    return value


def _others(tools: Iterable[CatalogTool], sent: set[str]) -> Iterable[CatalogTool]:
    """Those whose name was not sent yet: the API takes each name once."""
    for tool in tools:
        if tool.name not in sent:
            sent.add(tool.name)
            yield tool


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "tool_search_tool_result_error", "error_code": code, "error_message": message}


def _result(tool_use_id: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_search_tool_result", "tool_use_id": tool_use_id, "content": content}
