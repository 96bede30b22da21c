"""Call any tool that a model could call, with the same checks and limits, and print the result."""

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
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="the name of a tool; without one, list all tools")
    parser.add_argument(
        "arguments",
        metavar="JSON",
        nargs="?",
        default="{}",
        help="its arguments as a JSON object ({}); - reads standard input",
    )
    parser.add_argument("--read-only", action="store_true", help="leave out tools that may write")
    parser.add_argument("--text", action="store_true", help="print only what a model would read")


def run(arguments: argparse.Namespace) -> int:
    """Call the tool; the exit code is 1 if it failed. What a person calls need not be enabled in the configuration."""

    config = _enable_tool(open_project().config, arguments.tool, arguments.read_only)
    registry = Project(config).registry(workspace_tools="write")
    if arguments.read_only:
        _remove_writing_tools(registry)
    if arguments.tool is None:
        return _list(registry)
    given = _read_arguments(arguments.arguments)
    with unwind_on_signals():
        result = registry.call(arguments.tool, given)
    if arguments.text:
        (terminal.say if result.ok else terminal.complain)(result.text)
    else:
        terminal.print_json(_to_json(result))
    terminal.warn(_list_losses(result.structured if isinstance(result.structured, dict) else {}))
    return 0 if result.ok else 1


def _enable_tool(config: Config, tool: str | None, read_only: bool) -> Config:
    """Return the configuration with the shell or web tools enabled, if one is meant: trying a sandbox takes time."""
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


def _list_losses(answer: dict[str, object]) -> list[str]:
    """Return what ends with this command, although the answer tells a model how to use it later."""
    if answer.get("state") == "running":
        return ["the job ends with `onhand run`; to keep jobs, use `onhand serve` or `onhand agent`"]
    if answer.get("job"):
        return ["the rest of the output is lost: redirect it to a file of the project with >"]
    return []


def _to_json(result: Result) -> dict[str, object]:
    """Return a Result as JSON, without its id."""
    fields: dict[str, object] = result._asdict()
    del fields["id"]
    return fields


def _list(registry: Registry) -> int:
    rows = [
        (tool.name, "reads" if tool.read_only else "writes", _first_sentence(tool.description)) for tool in registry
    ]
    terminal.print_table(sorted(rows), header=("TOOL", "", "WHAT IT DOES"))
    return 0


def _first_sentence(description: str) -> str:
    return terminal.flowing(description).partition(". ")[0][:100]
