"""How does a model find a tool? `search_tools` and `describe_tool`: their words, their schemas, their answers.

What is found and what becomes active is the session's business. Everything that a stranger's server wrote stands on
one line of an answer, or inside JSON.
"""

from typing import TYPE_CHECKING, Any

from onhand.errors import ToolError
from onhand.tools.fitting import fitted, json_bytes
from onhand.tools.found import Definition, FoundAnswer, found_as_json
from onhand.tools.prompt import called_as, counted, line, plain_line, wire
from onhand.tools.query import parsed
from onhand.tools.schema import answer_schema
from onhand.tools.tool import LOCAL, Output, Tool
from onhand.tools.visibility import by_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onhand.tools.catalog import Found
    from onhand.tools.catalog_tool import CatalogTool
    from onhand.tools.session import Search, Session

DEFAULT_LIMIT = 5
MAX_LIMIT = 20  # more definitions than this are a reason to search again, with better words
DESCRIPTION_CHARS = 120
MAX_DESCRIPTION_CHARS = 300  # for programs
MAX_OUTPUT_BYTES = 64 * 1024
MAX_LISTED = 10  # names in a sentence

DESCRIPTION = (
    "Find and load tools that are not loaded yet. Say what you want to do, in a few words; or select:NAME,NAME to load "
    "by name, +word in front of what the name must have, server:NAME in front of words to stay with one server, "
    "re:PATTERN for names. Good at words, names and arguments in any spelling; a query that fits nothing finds "
    "nothing. What it finds can be called at once, in the same turn; searching again pages on. One search is local "
    'and costs some 250 tokens and the definitions that it loads. Example: search_tools(query="create a pull request").'
)
DESCRIBE = (
    "Give the whole definition of one tool, with every argument's description, and load it. Only for a tool whose "
    'one-line signature is not enough. Example: describe_tool(name="create_issue").'
)


class SearchAnswer(FoundAnswer):
    """Of `search_tools`: also what became of it, by ids."""

    activated: list[str]
    already: list[str]
    evicted: list[str]


def search_tools(session: "Session") -> Tool:
    """The tool that finds tools of one session; what it says of servers is true when it is made."""

    def search(arguments: dict[str, Any]) -> Output:
        query = str(arguments["query"]).strip()
        if not query:
            raise ToolError("query is empty: say what the tool should do, or select:NAME")
        result = session.search(query, int(arguments.get("limit", DEFAULT_LIMIT)))
        text = answer(result, session)
        session.note("search", query, text)
        listed = ("query", "unknown", "activated", "already", "evicted")
        return Output(text, fitted(structured(result), MAX_OUTPUT_BYTES, "hits", *listed))

    properties = {
        "query": {"type": "string", "description": "What you want to do, or select:NAME,NAME."},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_LIMIT,
            "description": f"{DEFAULT_LIMIT} if left out.",
        },
    }
    return Tool(
        name="search_tools",
        description=f"{DESCRIPTION}{_corpus(session)}",
        input_schema={"type": "object", "properties": properties, "required": ["query"]},
        handler=search,
        read_only=True,  # it changes what may be called, and nothing in the world
        max_output_bytes=MAX_OUTPUT_BYTES,
        output_schema=answer_schema(SearchAnswer),
        hints=LOCAL,
    )


def describe_tool(session: "Session") -> Tool:
    """The tool that gives the whole definition of another one."""

    def describe(arguments: dict[str, Any]) -> Output:
        tool = session.describe(str(arguments["name"]).strip())
        session.activate([tool.id])
        text = line(tool).rstrip()
        session.note("describe", tool.name, text)
        return Output(text, _definition(tool))

    return Tool(
        name="describe_tool",
        description=DESCRIBE,
        input_schema={
            "type": "object",
            "properties": {"name": {"type": "string", "description": "The name of the tool."}},
            "required": ["name"],
        },
        handler=describe,
        read_only=True,
        max_output_bytes=MAX_OUTPUT_BYTES,
        output_schema=answer_schema(Definition),
        hints=LOCAL,
    )


def answer(result: "Search", session: "Session") -> str:
    """What the model reads of a search."""
    activated = set(result.change.activated)
    loaded = [hit.tool for hit in result.found.hits if hit.id in activated]
    lines = [f"Loaded {len(loaded)} of {result.total_tools:,}; call them as:", *map(_line, loaded)] if loaded else []
    if result.already:
        lines.append(f"Loaded before: {_listed([tool.name for tool in result.already])}.")
    left_out = [hit.id for hit in result.found.hits if hit.id not in activated]
    if left_out:
        lines.append(f"Found too, but there is no room or no free name for it: {_listed(left_out)}.")
    if result.change.evicted:
        lines.append(f"No longer loaded, to make room: {_listed(result.change.evicted)}.")
    lines += missing(result.found)
    lines += [f"Note: {plain_line(note, 300)}." for note in result.found.notes]
    if not result.found.hits and not result.already:
        lines += miss(result.found, session)
    elif asks_everywhere(result.found):
        lines += absent(session)
    return "\n".join(lines)


def absent(session: "Session") -> list[str]:
    """Where nobody could look, for a model that found something: servers that have not said yet what they have."""
    silent = [server for server in session.servers() if not server.tools]
    states = (("pending", "Still connecting, so not searched"), ("failed", "Could not be reached, so not searched"))
    told = ((words, [server.name for server in silent if server.status == status]) for status, words in states)
    return [f"{words}: {_listed(names)}." for words, names in told if names]


def miss(found: "Found", session: "Session") -> list[str]:
    """What there is, for a model that found nothing: servers with counts, and those that may yet have something."""
    servers = session.servers()
    pending = [server.name for server in servers if server.status == "pending"]
    failed = [
        f"{server.name} ({server.detail or 'no reason given'})" for server in servers if server.status == "failed"
    ]
    empty = [server.name for server in servers if server.status == "ready" and not server.tools]
    lines = [f"Nothing found for {plain_line(found.query, 200)!r}: {plain_line(found.reason or 'nothing fits', 300)}."]
    deferred = session.deferred()
    if deferred:
        loaded = len({tool.id for tool in deferred} & {tool.id for tool in session.active()})
        known = f"; loaded already: {loaded}" if loaded else ""
        lines.append(f"{_there_are(len(deferred))} to find{_of_servers(deferred)}{known}.")
    for words, names in (("Still connecting", pending), ("Could not be reached", failed), ("Has no tools", empty)):
        if names:
            lines.append(f"{words}: {_listed(names, 160)}.")
    lines.append("Search again later for those." if pending else "Try other words, or go on without a tool.")
    return lines


def missing(found: "Found") -> list[str]:
    """Which tools or servers there are not, with those that may be meant."""
    what = "" if found.form == "select" else "server "
    return [f"There is no {what}{plain_line(name, 128)}{_nearest(near)}" for name, near in found.unknown]


def asks_everywhere(found: "Found") -> bool:
    """Whether a server that is not there could have had something: not where a tool was named and is there, or where
    another server was."""
    is_whole = found.form == "select" and not found.unknown
    return not is_whole and not parsed(found.query).server


def _nearest(near: "Iterable[str]") -> str:
    listed = " or ".join(plain_line(name, 128) for name in near)
    return f"; did you mean {listed}?" if listed else "."


def structured(result: "Search") -> SearchAnswer:
    """A search for programs: the catalog's answer, and what became of it."""
    return {
        **found_as_json(result.found, MAX_DESCRIPTION_CHARS),
        "total_tools": result.total_tools,
        "activated": list(result.change.activated),
        "already": [tool.id for tool in result.already],
        "evicted": list(result.change.evicted),
    }


def _definition(tool: "CatalogTool") -> dict[str, Any]:
    whole = wire(tool)
    size = json_bytes(whole["input_schema"])
    if size > MAX_OUTPUT_BYTES // 2:
        whole |= {
            "input_schema": {"type": "object"},
            "notes": [f"left out the schema of its arguments: {size:,} bytes"],
        }
    return fitted(whole, MAX_OUTPUT_BYTES, "description")


def _line(tool: "CatalogTool") -> str:
    said = plain_line(tool.description or tool.summary, DESCRIPTION_CHARS)
    shown = called_as(tool)
    return f"{shown}: {said}" if said else shown


def _listed(names: "Sequence[str]", most_chars: int = 128) -> str:
    more = len(names) - MAX_LISTED
    shown = ", ".join(plain_line(name, most_chars) for name in names[:MAX_LISTED])
    return f"{shown} and {more:,} more" if more > 0 else shown


def _corpus(session: "Session") -> str:
    """What is truly there, counted whether or not it was activated: else every activation would change the prompt."""
    deferred = session.deferred()
    return f" {_there_are(len(deferred))}{_of_servers(deferred)}." if deferred else ""


def _there_are(number: int) -> str:
    return "There is 1 tool" if number == 1 else f"There are {number:,} tools"


def _of_servers(tools: "tuple[CatalogTool, ...]") -> str:
    servers = by_server([{tool.id: tool for tool in tools}])
    return f", of {counted(servers)}" if servers else ""
