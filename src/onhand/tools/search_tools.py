"""The tools with which a model finds tools that are not in its prompt: `search_tools`, `describe_tool` and
`search_tool_bm25`.

Sessions and the MCP gateway both offer the first two. Each brings a function that searches and one that describes;
names, descriptions, schemas, answers and wording come from here. `search_tool_bm25` is kept for sessions
that were saved with it. Everything that a stranger's server wrote stands on one line of an answer, or inside JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypedDict

from onhand.errors import OnhandError, ToolError
from onhand.record import Record
from onhand.tools.activation import count_by_server, is_mcp
from onhand.tools.catalog import ToolHit, ToolSearchResult, UnknownName
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.fitting import json_bytes
from onhand.tools.prompt import compact_json, count_servers, plain_line, render_definition, render_signature, signature
from onhand.tools.schema import tool
from onhand.tools.tool import LOCAL, Output, Tool

if TYPE_CHECKING:
    from onhand.tools.session import Session, SessionSearch

DEFAULT_LIMIT = 5
MAX_LIMIT = 20  # whoever needs more definitions should search again with better words
DESCRIPTION_CHARS = 120
MAX_DESCRIPTION_CHARS = 300  # for programs
MAX_OUTPUT_BYTES = 64 * 1024
MAX_LISTED = 10  # names in a sentence

SEARCH = (
    "Find tools by what they do: say in a few words what you want to do. Or use select:NAME,NAME for tools by name, "
    "+word for a word that the name must contain, server:NAME to search one server, re:PATTERN for names. {next} A "
    'search costs about 250 tokens{cost}. Example: search_tools(query="create a pull request").'
)
DESCRIBE = (
    "Return the full definition of a tool{effect}, when its one-line signature is not enough. Example: "
    'describe_tool(name="{example}").'
)
FOUND_ARE_LOADED = "The tools found are loaded and can be called at once, in the same turn; searching again pages on."


class ToolSummary(Record):
    """A tool, for programs."""

    name: str
    server: str
    description: str
    signature: str


class FoundTool(Record):
    """A tool that a search found, and what each term of the query added to its score."""

    name: str
    server: str
    description: str
    signature: str
    score: float
    terms: dict[str, float]


class ToolSearchAnswer(Record):
    """The answer of `search_tools`."""

    query: str
    form: str
    hits: tuple[FoundTool, ...]
    total_tools: int
    reason: str | None = None
    unknown: tuple[UnknownName, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0
    weak: bool = False


class SessionSearchAnswer(Record):
    """The answer of a session's `search_tools`, with the ids of the tools that it loaded, found loaded or evicted."""

    query: str
    form: str
    hits: tuple[FoundTool, ...]
    total_tools: int
    reason: str | None = None
    unknown: tuple[UnknownName, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0
    weak: bool = False
    activated: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()


class ToolDefinition(Record):
    """The answer of `describe_tool`: everything that is needed to call a tool."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    annotations: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def make_search_tool(search: Callable[..., Any], *, what_next: str, cost: str = "", about: str = "") -> Tool:
    """Make `search_tools` from a function (query: str, limit: int = DEFAULT_LIMIT) -> Output[answer], sync or async.

    `what_next` tells the model what to do with the tools that were found, `about` which tools there are.
    """
    return tool(
        search,
        name="search_tools",
        description=" ".join(filter(None, [SEARCH.format(next=what_next, cost=cost), about])),
        parameters={
            "limit": {"minimum": 1, "maximum": MAX_LIMIT},
        },
        read_only=True,  # it only changes which tools may be called
        reads=[],
        max_output_bytes=MAX_OUTPUT_BYTES,
        hints=LOCAL,
    )


def make_describe_tool(describe: Callable[..., Any], *, example: str, effect: str = "") -> Tool:
    """Make `describe_tool` from a function (name: str) -> Output[ToolDefinition], sync or async."""
    return tool(
        describe,
        name="describe_tool",
        description=DESCRIBE.format(example=example, effect=effect),
        read_only=True,
        reads=[],
        max_output_bytes=MAX_OUTPUT_BYTES,
        hints=LOCAL,
    )


def search_tools(session: Session) -> Tool:
    """Return the tool that finds and loads the tools of a session. Its description of the servers does not change."""

    def search(query: str, limit: int = DEFAULT_LIMIT) -> Output[SessionSearchAnswer]:
        result = session.search(query, limit)
        text = render_search(result, session)
        session.note("search", query, text)
        return Output(text, _session_answer(result))

    deferred = session.deferred()
    # Activated tools are counted too; otherwise every activation would change the prompt.
    about = f"{_count_tools(len(deferred))}{_from_servers(deferred)}." if deferred else ""
    return make_search_tool(
        search, what_next=FOUND_ARE_LOADED, cost=", plus the definitions that it loads", about=about
    )


def describe_tool(session: Session) -> Tool:
    """Return the tool that gives the full definition of another tool and loads it."""

    def describe(name: str) -> Output[ToolDefinition]:
        found = session.describe(name.strip())
        session.activate([found.id])
        text = render_definition(found).rstrip()
        session.note("describe", found.name, text)
        return Output(text, define_tool(found))

    return make_describe_tool(describe, example="create_issue", effect=", and load it")


def search_answer(result: ToolSearchResult, max_description_chars: int | None = None) -> ToolSearchAnswer:
    """Return the result of a catalog search as an answer for programs."""
    hits = tuple(_found_tool(hit, max_description_chars) for hit in result.hits)
    return ToolSearchAnswer(
        result.query,
        result.form,
        hits,
        result.total_tools,
        result.reason,
        result.unknown,
        result.notes,
        weak=result.weak,
    )


def summarize_tool(tool: CatalogTool, max_description_chars: int | None = None) -> ToolSummary:
    """Return the summary of a tool for programs."""
    description = tool.description[:max_description_chars]
    return ToolSummary(tool.name, tool.server, description, signature(tool.name, tool.input_schema))


def define_tool(tool: CatalogTool) -> ToolDefinition:
    """Return the full definition of a tool. A schema that would take half of the answer is left out with a note."""
    schema: Mapping[str, Any] = {"type": "object", **tool.input_schema}
    notes: tuple[str, ...] = ()
    size = json_bytes(schema)
    if size > MAX_OUTPUT_BYTES // 2:
        schema, notes = {"type": "object"}, (f"the schema of the arguments is left out because it has {size:,} bytes",)
    output_schema = tool.output_schema if json_bytes(tool.output_schema) <= MAX_OUTPUT_BYTES // 8 else {}
    return ToolDefinition(tool.name, tool.description, schema, output_schema, tool.annotations, notes)


def render_search(result: SessionSearch, session: Session) -> str:
    """Return the result of a session's search as text for the model."""
    activated = set(result.change.activated)
    loaded = [hit.tool for hit in result.found.hits if hit.id in activated]
    lines = []
    if loaded:
        lines = [f"Loaded {len(loaded)} of {result.total_tools:,}; call them as:", *map(render_tool_line, loaded)]
    if result.already:
        lines.append(f"Loaded before: {_join_names([tool.name for tool in result.already])}.")
    left_out = [hit.id for hit in result.found.hits if hit.id not in activated]
    if left_out:
        lines.append(
            f"Also found, but not loaded for lack of room or because the name is taken: {_join_names(left_out)}."
        )
    if result.change.evicted:
        lines.append(f"No longer loaded, to make room: {_join_names(result.change.evicted)}.")
    lines += render_unknown(result.found)
    lines += render_notes(result.found.notes)
    if not result.found.hits and not result.already:
        lines += _explain_miss(result.found, session)
    elif covers_all_servers(result.found):
        lines += _unsearched_servers(session)
    return "\n".join(lines)


def render_tool_line(tool: CatalogTool) -> str:
    """Return the signature and a short description of a tool on one line."""
    call = render_signature(tool)
    description = plain_line(tool.description or tool.summary, DESCRIPTION_CHARS)
    return f"{call}: {description}" if description else call


def render_unknown(found: ToolSearchResult) -> list[str]:
    """Return a line for each unknown tool or server, with similar names."""
    kind = "" if found.form == "select" else "server "
    return [f"There is no {kind}{plain_line(name, 128)}{_did_you_mean(nearest)}" for name, nearest in found.unknown]


def render_notes(notes: Iterable[str]) -> list[str]:
    """Return a line for each note."""
    return [f"Note: {plain_line(note, 300)}." for note in notes]


def covers_all_servers(found: ToolSearchResult) -> bool:
    """Return whether a server that could not be searched might have had a match.

    It could not if the query names only tools that exist, or if it is about one server.
    """
    is_complete = found.form == "select" and not found.unknown
    return not is_complete and not found.server


def _unsearched_servers(session: Session) -> list[str]:
    """Return lines about the servers that could not be searched, for a model that found something."""
    silent = [server for server in session.servers() if not server.tools]
    states = (("pending", "Still connecting, so not searched"), ("failed", "Could not be reached, so not searched"))
    by_state = ((words, [server.name for server in silent if server.status == status]) for status, words in states)
    return [f"{words}: {_join_names(names)}." for words, names in by_state if names]


def _explain_miss(found: ToolSearchResult, session: Session) -> list[str]:
    """Return lines about the servers and their tools, for a model that found nothing."""
    servers = session.servers()
    pending = [server.name for server in servers if server.status == "pending"]
    failed = [
        f"{server.name} ({server.detail or 'no reason given'})" for server in servers if server.status == "failed"
    ]
    empty = [server.name for server in servers if server.status == "ready" and not server.tools]
    lines = [
        f"Nothing found for {plain_line(found.query, 200)!r}: {plain_line(found.reason or 'no tool matches', 300)}."
    ]
    deferred = session.deferred()
    if deferred:
        loaded = len({tool.id for tool in deferred} & {tool.id for tool in session.active()})
        already = f"; loaded already: {loaded}" if loaded else ""
        lines.append(f"{_count_tools(len(deferred))} to find{_from_servers(deferred)}{already}.")
    for words, names in (("Still connecting", pending), ("Could not be reached", failed), ("Has no tools", empty)):
        if names:
            lines.append(f"{words}: {_join_names(names, 160)}.")
    lines.append("Search again later for those." if pending else "Try other words, or continue without a tool.")
    return lines


def _did_you_mean(nearest: Iterable[str]) -> str:
    names = " or ".join(plain_line(name, 128) for name in nearest)
    return f"; did you mean {names}?" if names else "."


def _session_answer(result: SessionSearch) -> SessionSearchAnswer:
    answer = search_answer(result.found, MAX_DESCRIPTION_CHARS)._replace(total_tools=result.total_tools)
    already = tuple(tool.id for tool in result.already)
    return SessionSearchAnswer(*answer, result.change.activated, already, result.change.evicted)


def _found_tool(hit: ToolHit, max_description_chars: int | None) -> FoundTool:
    terms: dict[str, float] = {}
    for term, _, score in hit.terms:
        terms[term] = terms.get(term, 0.0) + score
    return FoundTool(*summarize_tool(hit.tool, max_description_chars), hit.score, terms)


def _join_names(names: Sequence[str], max_chars: int = 128) -> str:
    more = len(names) - MAX_LISTED
    listed = ", ".join(plain_line(name, max_chars) for name in names[:MAX_LISTED])
    return f"{listed} and {more:,} more" if more > 0 else listed


def _count_tools(number: int) -> str:
    return "There is 1 tool" if number == 1 else f"There are {number:,} tools"


def _from_servers(tools: tuple[CatalogTool, ...]) -> str:
    servers = count_by_server(tools)
    return f", from {count_servers(servers)}" if servers else ""


# search_tool_bm25: its content, details, defaults and error texts are those of the original, and its ranking is the
# catalog's `seed` profile.
BM25_DEFAULT_LIMIT = 8
BM25_MAX_LIMIT = 2**31 - 1  # more than any catalog has tools
BM25_MAX_OUTPUT_BYTES = 4 * 1024 * 1024  # only the size of the catalog bounds the limit
UNAVAILABLE = "Tool discovery is unavailable in this session."
DISABLED = "Tool discovery is disabled. Enable tools.discoveryMode or mcp.discoveryMode to use search_tool_bm25."
NO_QUERY = "Query is required and must not be empty."
NO_WORDS = "Query must contain at least one letter or number."
BAD_LIMIT = "Limit must be a positive integer."

BM25_DESCRIPTION = (
    "Search the tools that are not loaded, by words of their names, labels, servers, summaries and arguments, and "
    "activate the best matches for this session. Activated tools can be called before the next model call of the same "
    "turn and stay active; searching again skips them. Poor for paraphrases, so use words that a tool's name may have."
)


class MatchOrigin(TypedDict, total=False):
    """The server of a tool, and its name on that server."""

    server_name: str
    mcp_tool_name: str


class BM25Match(MatchOrigin):
    """A ranked match."""

    name: str
    label: str
    description: str
    schema_keys: list[str]
    score: float


class BM25Details(TypedDict):
    """The answer for programs."""

    query: str
    limit: int
    total_tools: int
    activated_tools: list[str]
    active_selected_tools: list[str]
    tools: list[BM25Match]


def search_tool_bm25(session: Session | None) -> Tool:
    """Return `search_tool_bm25`. Without a session every call fails, as in the original without its hooks."""

    def search(query: str, limit: float = BM25_DEFAULT_LIMIT) -> Output[BM25Details]:
        if session is None:
            raise ToolError(UNAVAILABLE)
        if session.mode == "off":
            raise ToolError(DISABLED)
        words = query.strip()
        if not words:
            raise ToolError(NO_QUERY)
        max_matches = _read_limit(limit)
        if not any(map(str.isalnum, words)):
            raise ToolError(NO_WORDS)
        result = session.search(words, max_matches, profile="seed")
        text = _bm25_content(words, result)
        session.note("search", words, text)
        return Output(text, _bm25_details(words, max_matches, result, session))

    return tool(
        search,
        name="search_tool_bm25",
        description=bm25_description(session),
        parameters={
            "query": {"description": "Words or a sentence about what the tool should do."},
            # Any number: the function rejects what is not a positive integer, with the words of the original.
            "limit": {"description": "The maximum number of matches to activate, at least 1."},
        },
        read_only=True,
        reads=[],
        max_output_bytes=BM25_MAX_OUTPUT_BYTES,
        hints=LOCAL,
    )


def bm25_description(session: Session | None) -> str:
    """Return the description of `search_tool_bm25`, with the servers and tools that can be found."""
    tools = _discoverable(session)
    servers = count_by_server(tools)
    builtin = sorted({plain_line(tool.name, 128) for tool in tools if not is_mcp(tool)})
    lines = [BM25_DESCRIPTION]
    if servers:
        lines.append(f"Discoverable MCP servers: {count_servers(servers, limit=len(servers))}")
    if builtin:
        lines.append(f"Discoverable built-in tools: {', '.join(builtin)}")
    if tools:
        lines.append(f"Total discoverable tools: {len(tools)}")
    return "\n".join(lines)


def _bm25_content(query: str, result: SessionSearch) -> str:
    """Return the text for the model, as compact JSON."""
    activated = _activated_names(result)
    parts = {"query": query, "activated_tools": activated, "match_count": len(result.found.hits)}
    return compact_json({**parts, "total_tools": result.total_tools})


def _bm25_details(query: str, limit: int, result: SessionSearch, session: Session) -> BM25Details:
    """Return the answer for programs, with the ranked matches."""
    return {
        "query": query,
        "limit": limit,
        "total_tools": result.total_tools,
        "activated_tools": _activated_names(result),
        "active_selected_tools": [tool.name for tool in session.active()],
        "tools": [_bm25_match(hit) for hit in result.found.hits],
    }


def _bm25_match(hit: ToolHit) -> BM25Match:
    tool = hit.tool
    properties = tool.input_schema.get("properties")
    keys = sorted(map(str, properties)) if isinstance(properties, dict) else []
    origin: MatchOrigin = {"server_name": tool.server, "mcp_tool_name": tool.leaf} if tool.server else {}
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


def _read_limit(limit: float) -> int:
    if not -inf < limit < inf or limit != int(limit) or limit < 1:
        raise ToolError(BAD_LIMIT)
    return min(int(limit), BM25_MAX_LIMIT)


def _discoverable(session: Session | None) -> tuple[CatalogTool, ...]:
    """Return the deferred tools; none if the catalog cannot be read, because the prompt must not fail."""
    try:
        return session.deferred() if session else ()
    except OnhandError:
        return ()
