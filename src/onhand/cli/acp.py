"""Run the agent in an editor, over the Agent Client Protocol on standard input and output.

`onhand acp install zed` adds onhand to the settings of Zed.
"""

from __future__ import annotations

import argparse
import sys

from onhand.cli.agent import add_model_arguments, model_flags
from onhand.cli.parser import Parser
from onhand.errors import InputError, MissingExtra
from onhand.project import Project, load_config
from onhand.serving import run_until_stopped


def add_arguments(parser: Parser) -> None:
    """Declare the model, the sandbox, and the installation in an editor."""
    parser.add_argument(
        "verb", metavar="install EDITOR", nargs="*", help="add onhand to the settings of an editor (zed)"
    )
    parser.add_argument("--print", action="store_true", help="with install, only print the entry and where it belongs")
    parser.add_argument("--json", action="store_true", help="with install, print JSON")
    add_model_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve one editor until it closes the stream, or add onhand to its settings."""
    if arguments.verb:
        return _install(arguments)
    import asyncio

    try:
        from onhand.acp.stdio import serve
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in ("acp", "pydantic"):
            raise MissingExtra("the Agent Client Protocol", "acp") from None
        raise
    flags = model_flags(arguments)
    if arguments.sandbox:
        from onhand.cli.sandbox import run_confined

        project = Project(load_config())
        return run_confined(project, project.agent_settings(flags), sys.argv[1:])
    from onhand.doors import editor_agent

    return asyncio.run(run_until_stopped(serve(editor_agent(flags))))


def _install(arguments: argparse.Namespace) -> int:
    """Add the command that starts onhand, with the other flags, to the settings of the editor."""
    import os

    from onhand.cli.mcp_clients import own_command, warn_if_missing, write_entry
    from onhand.mcp.client_settings import settings_path

    if arguments.verb != ["install", "zed"]:
        raise InputError(f"{' '.join(arguments.verb)[:100]!r} is not a command: did you mean `onhand acp install zed`?")
    flags = [word for name, value in model_flags(arguments).items() for word in (f"--{name.replace('_', '-')}", value)]
    program, *words = own_command()
    confined = ["--sandbox"] if arguments.sandbox else []
    entry = {"type": "custom", "command": program, "args": [*words, "acp", *flags, *confined], "env": {}}
    path = settings_path("zed", None, os.path.expanduser("~"), os.environ)
    warn_if_missing("the Agent Client Protocol", "acp")
    return write_entry(arguments, "zed", path, "onhand", entry, key="agent_servers")
