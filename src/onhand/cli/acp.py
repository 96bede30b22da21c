"""The agent inside an editor: `onhand acp` speaks the Agent Client Protocol over the standard streams.

`onhand acp install zed` writes that into the editor's settings.
"""

from __future__ import annotations

import argparse
import sys

from onhand import app
from onhand.cli.model_flags import add_model_arguments, model_flags
from onhand.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    """Declare the model and the sandbox, and what enters us into an editor's settings."""
    parser.add_argument("verb", metavar="install EDITOR", nargs="*", help="write our entry into an editor's file: zed")
    parser.add_argument("--print", action="store_true", help="with install: only show the entry and where it belongs")
    add_model_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve one editor until it closes the stream, or enter us into its settings."""
    if arguments.verb:
        return _install(arguments)
    import asyncio

    from onhand.errors import MissingExtra

    try:
        from onhand.acp.stdio import serve
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in ("acp", "pydantic"):
            raise MissingExtra("the Agent Client Protocol", "acp") from None
        raise
    flags = model_flags(arguments)
    if arguments.sandbox:
        from onhand.cli.confined import run_confined

        asked = app.configured()
        return run_confined(asked, app.agent_options(asked, flags), sys.argv[1:])
    from onhand.signals import until_asked_to_end

    return asyncio.run(until_asked_to_end(serve(app.open_editor_agent(flags))))


def _install(arguments: argparse.Namespace) -> int:
    """Write how the editor starts us; the other flags come with it."""
    import os

    from onhand.cli.mcp_install import install, own_command, warn_if_missing
    from onhand.errors import InputError
    from onhand.mcp.client_files import path_of

    if arguments.verb != ["install", "zed"]:
        raise InputError(f"{' '.join(arguments.verb)[:100]!r} cannot be done: `onhand acp install zed` can")
    flags = [word for name, value in model_flags(arguments).items() for word in (f"--{name.replace('_', '-')}", value)]
    program, *words = own_command()
    confined = ["--sandbox"] if arguments.sandbox else []
    entry = {"type": "custom", "command": program, "args": [*words, "acp", *flags, *confined], "env": {}}
    path = path_of("zed", None, os.path.expanduser("~"), os.environ)
    warn_if_missing("the Agent Client Protocol", "acp")
    return install("zed", path, "onhand", entry, arguments.print, key="agent_servers")
