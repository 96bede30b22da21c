"""Call a tool as a model would, with the same checks and limits, and print the result."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.interrupts import unwind_on_signals
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser
from onhand.project import Project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.config import Config
    from onhand.tools import Registry, Result

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
    config = _enable_tool(open_project().config, arguments.tool, arguments.read_only)
    registry = Project(config).registry(workspace_tools="write")
    if arguments.read_only:
        _remove_writing_tools(registry)
    if arguments.tool is None:
        return _list(registry, arguments.json)
    tool_arguments = _read_arguments(arguments.arguments)
    with unwind_on_signals():
        result = registry.call(arguments.tool, tool_arguments)
    if arguments.text:
        (terminal.say if result.ok else terminal.complain)(result.text)
    else:
        terminal.print_json(_to_json(result))
    terminal.warn(_warn_of_losses(result.structured if isinstance(result.structured, dict) else {}))
    return 0 if result.ok else 1


def _enable_tool(config: Config, tool: str | None, read_only: bool) -> Config:
    """Return the configuration with the shell or web tools enabled if needed; trying a sandbox takes time."""
    if read_only or tool in (None, *_SHELL_TOOLS):
        config = config._replace(shell=config.shell._replace(enabled=not read_only))
    if tool in (None, "http_get"):
        config = config._replace(web=config.web._replace(enabled=True))
    return config


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


def _list(registry: Registry, as_json: bool) -> int:
    tools = sorted(registry, key=lambda tool: tool.name)
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
    terminal.print_table(rows, header=("TOOL", "ACCESS", "DESCRIPTION"))
    return 0
