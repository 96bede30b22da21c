"""Call a tool as a model would, with the same checks and limits, and print the result.

Tools of MCP servers are called through the gateway: `onhand run search_tools`, or by names such as SERVER__TOOL.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from onhand.cli import terminal
from onhand.cli.interrupts import unwind_on_signals
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser
from onhand.errors import InputError
from onhand.project import Project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from onhand.config import Config
    from onhand.tools import Registry, Result, Tool

MAX_INPUT_CHARS = 64 * 1024 * 1024
_SHELL_TOOLS = ("run_command", "read_output", "list_jobs", "stop_job")


def add_arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="the name of a tool (default: list all tools)")
    parser.add_argument(
        "arguments",
        metavar="JSON",
        nargs="?",
        default="{}",
        help="its arguments as a JSON object, or - to read them from standard input",
    )
    parser.add_argument("--read-only", action="store_true", help="leave out tools that may write")
    parser.add_argument("--json", action="store_true", help="print JSON (the default for the result of a call)")
    parser.add_argument("--text", action="store_true", help="print only the text that a model would read")


def run(arguments: argparse.Namespace) -> int:
    """Call the tool, whether or not the configuration enables it; the exit code is 1 if it failed."""
    opened = open_project()
    config = _enable_tool(opened.config, arguments.tool, arguments.read_only)
    registry = Project(config).registry(workspace_tools="write")
    if arguments.read_only:
        _remove_writing_tools(registry)
    has_gateway = opened.has_servers and find_spec("mcp") is not None
    if arguments.tool is None:
        return _list([*registry, *(_gateway_tools(opened, arguments.read_only) if has_gateway else ())], arguments.json)
    tool_arguments = _read_arguments(arguments.arguments)
    if arguments.tool in registry or not has_gateway:
        with unwind_on_signals():
            result = registry.call(arguments.tool, tool_arguments)
    else:
        result = _call_through_gateway(opened, arguments.tool, tool_arguments, arguments.read_only)
    if arguments.text:
        (terminal.say if result.ok else terminal.complain)(result.text)
    else:
        terminal.print_json(_to_json(result))
    terminal.warn(_warn_of_losses(result.structured if isinstance(result.structured, dict) else {}))
    if result.text.rpartition("\n")[2].startswith("[") and "continue with read_on(" in result.text[-200:]:
        terminal.warn(["the handle ends with this command; `onhand mcp call` prints the whole result"])
    return 0 if result.ok else 1


def _enable_tool(config: Config, tool: str | None, read_only: bool) -> Config:
    """Return the configuration with the shell or web tools enabled if needed; trying a sandbox takes time."""
    if read_only or tool in (None, *_SHELL_TOOLS):
        config = config._replace(shell=config.shell._replace(enabled=not read_only))
    if tool in (None, "http_get"):
        config = config._replace(web=config.web._replace(enabled=True))
    return config


def _gateway_tools(project: Project, read_only: bool) -> Iterable[Tool]:
    """Return the fixed tools of the gateway, if there are servers behind it."""
    from onhand.doors import mcp_surface
    from onhand.mcp.gateway import Gateway

    surface = mcp_surface(project)
    tools = surface.tools if isinstance(surface, Gateway) else ()
    return [tool for tool in tools if tool.read_only or not read_only]


def _call_through_gateway(project: Project, name: str, tool_arguments: str, read_only: bool) -> Result:
    """Call a tool as a client of `onhand serve` would, in this process."""
    import asyncio
    import json
    from time import monotonic

    import mcp
    import mcp_types as types
    from mcp import MCPError
    from pydantic import TypeAdapter

    from onhand.doors import mcp_surface
    from onhand.mcp.surface import STRUCTURED, build_server
    from onhand.tools import Result

    try:
        values = json.loads(tool_arguments)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise InputError('the arguments must be a JSON object, such as \'{"query": "…"}\'')
    terminal.warn(project.server_list.problems)
    surface = mcp_surface(project)
    if name == "search_tools":
        project.servers.embed_tools()  # there is no later search, so this one waits for meaning

    async def call() -> Result:
        async with mcp.Client(build_server(surface), read_timeout_seconds=None) as client:
            if read_only:
                listed = {tool.name: tool for tool in (await client.list_tools()).tools}
                claims = listed[name].annotations if name in listed else None
                if not (claims and claims.read_only_hint):
                    return Result("", name, False, f"unknown tool: {name}, or one that may write")
            begun = monotonic()
            meta: Any = {STRUCTURED: True}
            params = types.CallToolRequestParams(name=name, arguments=values, _meta=meta)
            result_type: Any = TypeAdapter(types.CallToolResult | types.InputRequiredResult)
            try:
                answer = await client.session.send_request(types.CallToolRequest(params=params), result_type)
            except MCPError as error:
                return Result("", name, False, error.message)
            if isinstance(answer, types.InputRequiredResult):
                return Result(
                    "", name, False, "The server wants to ask a person something, which is not possible here."
                )
            blocks = (getattr(block, "text", f"[{block.type}]") for block in answer.content)
            took_s = round(monotonic() - begun, 3)
            return Result("", name, not answer.is_error, "\n".join(blocks), answer.structured_content, 0, took_s)

    return asyncio.run(call())


def _remove_writing_tools(registry: Registry) -> None:
    for tool in registry:
        if not tool.read_only:
            registry.remove(tool.name)


def _read_arguments(text: str) -> str:
    if text != "-":
        return text
    import sys

    return sys.stdin.read(MAX_INPUT_CHARS)


def _warn_of_losses(answer: dict[str, object]) -> list[str]:
    """Warn about jobs and output that the result refers to and that end with this command."""
    if answer.get("state") == "running":
        return ["the job ends with this command; use `onhand serve` or `onhand agent` to keep jobs"]
    if answer.get("job"):
        return ["the rest of the output is lost: redirect it to a file in the project with >"]
    return []


def _to_json(result: Result) -> dict[str, object]:
    fields: dict[str, object] = result._asdict()
    del fields["id"]
    return fields


def _list(listed: Iterable[Tool], as_json: bool) -> int:
    tools = sorted(listed, key=lambda tool: tool.name)
    if as_json:
        terminal.print_json(
            [{"name": tool.name, "read_only": tool.read_only, "description": tool.description} for tool in tools]
        )
        return 0
    rows = [
        (
            tool.name,
            "read" if tool.read_only else "write",
            terminal.join_lines(tool.description).partition(". ")[0][:100],
        )
        for tool in tools
    ]
    terminal.print_table(rows, header=("TOOL", "ACCESS", "DESCRIPTION"), cut=(2,))
    return 0
