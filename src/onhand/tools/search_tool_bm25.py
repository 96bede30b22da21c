"""How did a model find a tool before? `search_tool_bm25`, kept word for word for sessions that were saved with it.

Its content, details, defaults and error texts are those of the original; the ranking is the catalog's `seed` profile.
`search_tools` is the better one.
"""

import json
from math import inf
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from onhand.errors import InputError, OnhandError, ToolError
from onhand.tools.fitting import fitted
from onhand.tools.prompt import counted, plain_line
from onhand.tools.schema import answer_schema
from onhand.tools.tool import LOCAL, Output, Tool
from onhand.tools.visibility import by_server, is_mcp

if TYPE_CHECKING:
    from onhand.tools.catalog import ToolHit
    from onhand.tools.catalog_tool import CatalogTool
    from onhand.tools.session import Search, Session

NAME = "search_tool_bm25"
DEFAULT_LIMIT = 8
MOST = 2**31 - 1  # hits, more than any corpus has tools
MAX_OUTPUT_BYTES = 4 * 1024 * 1024  # the limit has no upper bound but the corpus

UNAVAILABLE = "Tool discovery is unavailable in this session."
DISABLED = "Tool discovery is disabled. Enable tools.discoveryMode or mcp.discoveryMode to use search_tool_bm25."
NO_QUERY = "Query is required and must not be empty."
NO_WORDS = "Query must contain at least one letter or number."
BAD_LIMIT = "Limit must be a positive integer."

DESCRIPTION = (
    "Search the tools that are not loaded, by words of their names, labels, servers, summaries and arguments, and "
    "activate the best matches for this session. Activated tools can be called before the next model call of the same "
    "turn, and add up; searching again skips them. Bad at paraphrase: use words that a tool's name may have."
)


class Origin(TypedDict, total=False):
    """Whose tool it is, and what its server calls it."""

    server_name: str
    mcp_tool_name: str


class MatchShape(Origin):
    """A tool that was found."""

    name: str
    label: str
    description: str
    schema_keys: list[str]
    score: float


class Details(TypedDict):
    """The program's part of an answer."""

    query: str
    limit: int
    total_tools: int
    activated_tools: list[str]
    active_selected_tools: list[str]
    tools: list[MatchShape]
    left_out: NotRequired[int]
    notes: NotRequired[list[str]]


def search_tool_bm25(session: "Session | None") -> Tool:
    """The tool as the original has it. Without a session it refuses, as the original does without its hooks."""

    def search(arguments: dict[str, Any]) -> Output:
        if session is None:
            raise ToolError(UNAVAILABLE)
        if session.mode == "off":
            raise ToolError(DISABLED)
        query = str(arguments.get("query") or "").strip()
        if not query:
            raise ToolError(NO_QUERY)
        limit = _limit(arguments.get("limit", DEFAULT_LIMIT))
        if not any(map(str.isalnum, query)):
            raise ToolError(NO_WORDS)
        result = _searched(session, query, limit)
        text = content(query, result)
        session.note("search", query, text)
        names = ("query", "activated_tools", "active_selected_tools")
        return Output(text, fitted(details(query, limit, result, session), MAX_OUTPUT_BYTES, "tools", *names))

    properties = {
        "query": {"type": "string", "description": "Words or a sentence about what the tool should do."},
        "limit": {
            "type": "number",  # the handler refuses what is no positive integer, in the original's words
            "description": f"How many matches to activate at most, from 1 on; {DEFAULT_LIMIT} if left out.",
        },
    }
    return Tool(
        name=NAME,
        description=description(session),
        input_schema={"type": "object", "properties": properties, "required": ["query"]},
        handler=search,
        read_only=True,
        max_output_bytes=MAX_OUTPUT_BYTES,
        output_schema=answer_schema(Details),
        hints=LOCAL,
    )


def description(session: "Session | None") -> str:
    """The words of the tool with what can be discovered: each line only when there is something to say."""
    tools = _discoverable(session)
    servers = by_server([{tool.id: tool for tool in tools}])
    builtin = sorted({plain_line(tool.name, 128) for tool in tools if not is_mcp(tool)})
    lines = [DESCRIPTION]
    if servers:
        lines.append(f"Discoverable MCP servers: {counted(servers, most=len(servers))}")
    if builtin:
        lines.append(f"Discoverable built-in tools: {', '.join(builtin)}")
    if tools:
        lines.append(f"Total discoverable tools: {len(tools)}")
    return "\n".join(lines)


def content(query: str, result: "Search") -> str:
    """The model's part: JSON without a needless byte."""
    activated = _activated(result)
    parts = {"query": query, "activated_tools": activated, "match_count": len(result.found.hits)}
    return json.dumps({**parts, "total_tools": result.total_tools}, ensure_ascii=False, separators=(",", ":"))


def details(query: str, limit: int, result: "Search", session: "Session") -> Details:
    """The program's part: the ranked matches."""
    return {
        "query": query,
        "limit": limit,
        "total_tools": result.total_tools,
        "activated_tools": _activated(result),
        "active_selected_tools": [tool.name for tool in session.active()],
        "tools": [_match(hit) for hit in result.found.hits],
    }


def _match(hit: "ToolHit") -> MatchShape:
    tool = hit.tool
    properties = tool.input_schema.get("properties")
    keys = sorted(map(str, properties)) if isinstance(properties, dict) else []
    origin: Origin = {"server_name": tool.server, "mcp_tool_name": tool.leaf} if tool.server else {}
    return {
        "name": tool.name,
        "label": tool.label,
        "description": tool.summary,
        **origin,
        "schema_keys": keys,
        "score": round(hit.score, 6),
    }


def _activated(result: "Search") -> list[str]:
    activated = set(result.change.activated)
    return [hit.name for hit in result.found.hits if hit.id in activated]


def _limit(given: Any) -> int:
    is_number = isinstance(given, int | float) and not isinstance(given, bool) and -inf < given < inf
    if not is_number or given != int(given) or given < 1:
        raise ToolError(BAD_LIMIT)
    return min(int(given), MOST)


def _searched(session: "Session", query: str, limit: int) -> "Search":
    try:
        return session.search(query, limit, profile="seed")
    except InputError as error:
        raise ToolError(str(error)) from None


def _discoverable(session: "Session | None") -> "tuple[CatalogTool, ...]":
    """A corpus that cannot be read is described as an empty one: the prompt must not fail for it."""
    try:
        return session.deferred() if session else ()
    except OnhandError:
        return ()
