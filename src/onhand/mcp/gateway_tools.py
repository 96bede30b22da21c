"""Which tools does a gateway have itself? Those that find, describe and call all the others, and read on.

Their words and schemas; what becomes of a call is the gateway's matter.
"""

from typing import Any, NotRequired

import mcp_types as types

from onhand.mcp.outputs import READ_TOOL
from onhand.tools.found import Definition, FoundAnswer
from onhand.tools.schema import answer_schema
from onhand.tools.search_tools import DEFAULT_LIMIT, MAX_LIMIT

MAX_NAMED_SERVERS = 40

SEARCH = (
    "Find tools by what they do. Say what you want to do, in a few words; or select:NAME,NAME by name, +word in front "
    "of what the name must have, server:NAME in front of words to stay with one server, re:PATTERN for names. A query "
    "that fits nothing finds nothing. Then call what was found with call_tool. One search is local and costs some 250 "
    'tokens. Example: search_tools(query="create a pull request").'
)
DESCRIBE = (
    "Give the whole definition of one tool, with every argument's description. Only for a tool whose one-line "
    'signature is not enough. Example: describe_tool(name="github__create_issue").'
)
CALL = (
    "Call a tool that search_tools found, by its whole name, with its arguments as an object. Example: "
    'call_tool(name="github__create_issue", arguments={"title": "…"}).'
)
READ = 'Read on where a long answer was cut. Example: read_on(handle="…").'


class FoundEverywhere(FoundAnswer):
    """Of `search_tools`: also addresses of resources and names of prompts."""

    resources: list[str]
    prompts: list[str]


class Described(Definition):
    """Of `describe_tool`: also what a server says of the tool's answers and of what it may do."""

    output_schema: NotRequired[dict[str, Any]]
    annotations: NotRequired[dict[str, Any]]


def fixed_tools(keys: tuple[str, ...]) -> list[types.Tool]:
    """The tools that find and call others: the same bytes for as long as the configuration is."""
    named = f" Servers: {', '.join(keys[:MAX_NAMED_SERVERS])}." if keys else ""
    name = {"type": "string", "description": "The whole name of the tool."}
    limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": f"{DEFAULT_LIMIT} if left out."}
    query = {"type": "string", "description": "What you want to do, or select:NAME,NAME."}
    arguments = {"type": "object", "description": "The tool's arguments."}
    handle = {"type": "string", "description": "What the cut answer names."}
    reads = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    acts = types.ToolAnnotations(  # what it calls may do anything, and answer in any form
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
    )
    return [
        types.Tool(name="search_tools", description=SEARCH + named, annotations=reads,
                   input_schema=_object({"query": query, "limit": limit}, "query"),
                   output_schema=answer_schema(FoundEverywhere)),
        types.Tool(name="describe_tool", description=DESCRIBE, annotations=reads,
                   input_schema=_object({"name": name}, "name"), output_schema=answer_schema(Described)),
        types.Tool(name="call_tool", description=CALL, annotations=acts,
                   input_schema=_object({"name": name, "arguments": arguments}, "name")),
        types.Tool(name=READ_TOOL, description=READ, annotations=reads,
                   input_schema=_object({"handle": handle}, "handle")),
    ]  # fmt: skip


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}
