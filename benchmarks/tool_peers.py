"""How do other frameworks find tools? Each as it is, run by an interpreter that has it.

`asked` starts this file there with tools and queries as JSON, and reads what was found, what it took and what a model
would be shown.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

K = 5
SHOWN = 20  # answers that are given as text, to count their tokens
PACKAGES = {"fastmcp": "fastmcp==4.1.2", "pydantic-ai": "pydantic-ai-slim==2.66.0"}

Search = Callable[[str], list[str]]


class Answers(NamedTuple):
    """What a framework did with some queries."""

    found: Sequence[Sequence[str]]  # of each query, the names of the best
    build_ms: float  # of CPU, until the first query was answered
    search_ms: Sequence[float]
    listed: str  # what a model is shown before it searches
    shown: Sequence[str]  # what it is shown by a search: the answer, and the definitions that come with it


def asked(peer: str, tools: Sequence[Mapping[str, Any]], queries: Sequence[str], directory: Path) -> Answers:
    """Put queries to a peer, in its own environment under a directory, over tools of name, description and schema."""
    from benchmarks.environments import python_with, run

    python = python_with(PACKAGES[peer], directory)
    given = json.dumps({"tools": list(tools), "queries": list(queries)})
    return Answers(**json.loads(run(python, "-m", "benchmarks.tool_peers", peer, given=given, timeout_s=3600)))


def _fastmcp(tools: list[dict[str, Any]], queries: list[str]) -> tuple[Search, str, Callable[[str], str]]:
    from fastmcp import Client, FastMCP
    from fastmcp.server.transforms.search import BM25SearchTransform
    from fastmcp.tools import Tool

    theirs = [
        Tool(name=tool["name"], description=tool["description"], parameters=tool["schema"] or {"type": "object"})
        for tool in tools
    ]
    loop = asyncio.new_event_loop()
    transform = BM25SearchTransform(max_results=K)
    server = FastMCP("peer")
    for tool in theirs:
        server.add_tool(tool)
    server.add_transform(BM25SearchTransform(max_results=K))

    async def listed() -> str:
        async with Client(server) as client:
            return json.dumps([tool.model_dump(exclude_none=True, mode="json") for tool in await client.list_tools()])

    async def shown(query: str) -> str:
        async with Client(server) as client:
            answer = await client.call_tool("search_tools", {"query": query})
            return "\n".join(str(part.text) for part in answer.content)

    def search(query: str) -> list[str]:
        return [tool.name for tool in loop.run_until_complete(transform._search(theirs, query))]

    return search, loop.run_until_complete(listed()), lambda query: loop.run_until_complete(shown(query))


def _pydantic_ai(tools: list[dict[str, Any]], queries: list[str]) -> tuple[Search, str, Callable[[str], str]]:
    from pydantic_ai.exceptions import ModelRetry
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.toolsets import _tool_search as own

    definitions = {
        tool["name"]: ToolDefinition(
            name=tool["name"], description=tool["description"], parameters_json_schema=tool["schema"]
        )
        for tool in tools
    }
    toolset = own.ToolSearchToolset(FunctionToolset(), max_results=K)
    schema, validator = own._build_search_args_schema(own._DEFAULT_PARAMETER_DESCRIPTION)
    described = ToolDefinition(
        name=own._SEARCH_TOOLS_NAME, description=own._DEFAULT_TOOL_DESCRIPTION, parameters_json_schema=schema
    )
    tool = own._SearchTool(
        toolset=toolset,
        tool_def=described,
        max_retries=1,
        args_validator=validator,
        corpus=list(definitions.values()),
        discovered_tool_names=set(),
    )

    def answer(query: str) -> dict[str, Any]:
        try:
            return dict(toolset._run_keywords_search([query], tool))
        except ModelRetry:
            return {"discovered_tools": []}

    def search(query: str) -> list[str]:
        return [found["name"] for found in answer(query)["discovered_tools"]]

    def shown(query: str) -> str:
        return json.dumps([answer(query), *(_definition(definitions[name]) for name in search(query))])

    return search, json.dumps([_definition(described)]), shown


def _definition(tool: Any) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}


_PEERS = {"fastmcp": _fastmcp, "pydantic-ai": _pydantic_ai}


def _answers(peer: str, tools: list[dict[str, Any]], queries: list[str]) -> Answers:
    start = time.process_time()
    search, listed, shown = _PEERS[peer](tools, queries)
    search(queries[0])
    built = time.process_time() - start
    found, times = [], []
    for query in queries:
        start = time.process_time()
        found.append(search(query))
        times.append((time.process_time() - start) * 1000)
    return Answers(found, built * 1000, times, listed, [shown(query) for query in queries[:SHOWN]])


if __name__ == "__main__":
    given = json.load(sys.stdin)
    json.dump(_answers(sys.argv[1], given["tools"], given["queries"])._asdict(), sys.stdout)
