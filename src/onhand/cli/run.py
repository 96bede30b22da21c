"""Call any tool that a model could call, with the same checks and limits, and print what came of it."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.config import Config
    from onhand.tools import Registry, Result

MAX_INPUT_CHARS = 64 * 1024 * 1024
_OF_COMMANDS = ("run_command", "read_output", "list_jobs", "stop_job")


def add_arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="the name of a tool; without one, all are listed")
    parser.add_argument(
        "arguments", metavar="JSON", nargs="?", default="{}", help="its arguments as a JSON object ({}); - reads them"
    )
    parser.add_argument("--read-only", action="store_true", help="leave out the tools that may write")
    parser.add_argument("--text", action="store_true", help="print only what a model would read")


def run(arguments: argparse.Namespace) -> int:
    """Call the tool; the exit code is 1 when it refused or failed. A person's own word needs no configuration."""
    from onhand import app
    from onhand.cli.ending import unwound

    asked = _with_all(app.configured(), arguments.tool, arguments.read_only)
    terminal.warn(asked.warnings)
    registry = app.open_registry(asked, workspace_tools="write")
    if arguments.read_only:
        _leave_out_what_writes(registry)
    if arguments.tool is None:
        return _list(registry)
    given = _given(arguments.arguments)
    with unwound():
        result = registry.call(arguments.tool, given)
    if arguments.text:
        (terminal.say if result.ok else terminal.complain)(result.text)
    else:
        terminal.print_json(_envelope(result))
    terminal.warn(_lost(result.structured if isinstance(result.structured, dict) else {}))
    return 0 if result.ok else 1


def _with_all(asked: Config, tool: str | None, read_only: bool) -> Config:
    """The configuration with tools for commands and pages, where one of them is meant: to try walls costs time."""
    if read_only or tool in (None, *_OF_COMMANDS):
        asked = asked._replace(shell=asked.shell._replace(enabled=not read_only))
    if tool in (None, "http_get"):
        asked = asked._replace(web=asked.web._replace(enabled=True))
    return asked


def _leave_out_what_writes(registry: Registry) -> None:
    for tool in registry:
        if not tool.read_only:
            registry.remove(tool.name)


def _given(text: str) -> str:
    if text != "-":
        return text
    import sys

    return sys.stdin.read(MAX_INPUT_CHARS)


def _lost(answer: dict[str, object]) -> list[str]:
    """What does not outlive this command, though the answer tells a model how to come back to it."""
    if answer.get("state") == "running":
        return ["the job ends with `onhand run`; to keep jobs, use `onhand serve` or `onhand agent`"]
    if answer.get("job"):
        return ["what was left out of the output is not kept: send it into a file of the project with >"]
    return []


def _envelope(result: Result) -> dict[str, object]:
    """A Result as JSON, without what is nothing to whoever made one call."""
    fields: dict[str, object] = result._asdict()
    del fields["id"]
    return fields


def _list(registry: Registry) -> int:
    rows = [(tool.name, "reads" if tool.read_only else "writes", _first(tool.description)) for tool in registry]
    terminal.print_table(sorted(rows), header=("TOOL", "", "WHAT IT DOES"))
    return 0


def _first(description: str) -> str:
    return terminal.flowing(description).partition(". ")[0][:100]
