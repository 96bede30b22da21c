"""The tool `search_tool_bm25`, kept word for word for sessions that were saved with it.

Its content, details, defaults and error texts are those of the original; the ranking is the catalog's `seed` profile.
New sessions should use `search_tools`.
"""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, TypedDict

from onhand.errors import OnhandError, ToolError
from onhand.tools.activation import count_by_server, is_mcp
from onhand.tools.decorate import tool
from onhand.tools.prompt import count_servers, plain_line
from onhand.tools.tool import LOCAL, Output, Tool

if TYPE_CHECKING:
    from onhand.tools.catalog import ToolHit
    from onhand.tools.catalog_tool import CatalogTool
    from onhand.tools.session import Session, SessionSearch

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
    """The server of a tool and its name there."""

    server_name: str
    mcp_tool_name: str


class MatchShape(Origin):
    """A ranked match."""

    name: str
    label: str
    description: str
    schema_keys: list[str]
    score: float


class Details(TypedDict):
    """The part of an answer that is for programs."""

    query: str
    limit: int
    total_tools: int
    activated_tools: list[str]
    active_selected_tools: list[str]
    tools: list[MatchShape]


def search_tool_bm25(session: Session | None) -> Tool:
    """Return the tool as the original has it. Without a session it refuses, as the original does without its hooks."""

    def search(query: str, limit: float = DEFAULT_LIMIT) -> Output[Details]:
        if session is None:
            raise ToolError(UNAVAILABLE)
        if session.mode == "off":
            raise ToolError(DISABLED)
        words = query.strip()
        if not words:
            raise ToolError(NO_QUERY)
        most = _read_limit(limit)
        if not any(map(str.isalnum, words)):
            raise ToolError(NO_WORDS)
        result = session.search(words, most, profile="seed")
        text = content(words, result)
        session.note("search", words, text)
        return Output(text, details(words, most, result, session))

    return tool(
        search,
        name=NAME,
        description=description(session),
        parameters={
            "query": {"description": "Words or a sentence about what the tool should do."},
            # A number: the function refuses what is not a positive integer, in the original's words.
            "limit": {"description": "How many matches to activate at most, from 1 on."},
        },
        read_only=True,
        max_output_bytes=MAX_OUTPUT_BYTES,
        hints=LOCAL,
    )


def description(session: Session | None) -> str:
    """Return the description of the tool with what can be discovered; a line is left out if it would be empty."""
    tools = _discoverable(session)
    servers = count_by_server([{tool.id: tool for tool in tools}])
    builtin = sorted({plain_line(tool.name, 128) for tool in tools if not is_mcp(tool)})
    lines = [DESCRIPTION]
    if servers:
        lines.append(f"Discoverable MCP servers: {count_servers(servers, most=len(servers))}")
    if builtin:
        lines.append(f"Discoverable built-in tools: {', '.join(builtin)}")
    if tools:
        lines.append(f"Total discoverable tools: {len(tools)}")
    return "\n".join(lines)


def content(query: str, result: SessionSearch) -> str:
    """Return the text for the model: JSON without spaces."""
    activated = _activated_names(result)
    parts = {"query": query, "activated_tools": activated, "match_count": len(result.found.hits)}
    return json.dumps({**parts, "total_tools": result.total_tools}, ensure_ascii=False, separators=(",", ":"))


def details(query: str, limit: int, result: SessionSearch, session: Session) -> Details:
    """Return the part for programs: the ranked matches."""
    return {
        "query": query,
        "limit": limit,
        "total_tools": result.total_tools,
        "activated_tools": _activated_names(result),
        "active_selected_tools": [tool.name for tool in session.active()],
        "tools": [_match(hit) for hit in result.found.hits],
    }


def _match(hit: ToolHit) -> MatchShape:
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


def _activated_names(result: SessionSearch) -> list[str]:
    activated = set(result.change.activated)
    return [hit.name for hit in result.found.hits if hit.id in activated]


def _read_limit(given: float) -> int:
    if not -inf < given < inf or given != int(given) or given < 1:
        raise ToolError(BAD_LIMIT)
    return min(int(given), MOST)


def _discoverable(session: Session | None) -> tuple[CatalogTool, ...]:
    """Return the deferred tools; none if the catalog cannot be read, since the prompt must not fail for that."""
    try:
        return session.deferred() if session else ()
    except OnhandError:
        return ()
