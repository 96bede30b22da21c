"""Write our entry into an MCP client's own file, so that the client starts us."""

from __future__ import annotations

import argparse
import os
import sys

from onhand import app
from onhand.cli import terminal
from onhand.errors import InputError, MissingExtra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def add_verb(verbs: Any) -> None:
    """Declare `install`, for `onhand mcp`."""
    from onhand.mcp.client_files import CLIENTS

    install = verbs.add_parser("install", help="write our entry into a client's file", description=__doc__)
    install.add_argument("client", metavar="CLIENT", choices=list(CLIENTS), help=", ".join(CLIENTS))
    install.add_argument("--project", action="store_true", help="into the file of this project, not of the user")
    install.add_argument("--name", metavar="NAME", default="onhand", help="what the client calls us (onhand)")
    install.add_argument("--print", action="store_true", help="only show the entry and where it belongs")


def run(arguments: argparse.Namespace) -> int:
    """Install, unless it is there already; what the file said before is kept beside it."""
    from onhand.mcp import client_files

    project = app.configured().project if arguments.project else None
    path = client_files.path_of(arguments.client, project, os.path.expanduser("~"), os.environ)
    entry = client_files.entry_of(arguments.client, own_command(arguments.project))
    warn_if_missing("MCP", "mcp")
    return install(arguments.client, path, arguments.name, entry, arguments.print)


def warn_if_missing(what: str, extra: str) -> None:
    """Say before a client finds out that what it is to start is not installed."""
    from importlib.util import find_spec

    if find_spec(extra) is None:  # each of these extras is named like its package
        terminal.warn([str(MissingExtra(what, extra))])


def install(client: str, path: str, name: str, entry: dict[str, Any], only_print: bool, key: str = "") -> int:
    """Write an entry into a client's file, or only show it."""
    from onhand.mcp import client_files

    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum() or len(name) > 64:
        raise InputError(f"{name[:100]!r} is no name for an entry: use letters, digits, - and _")
    if only_print:
        terminal.complain(f"onhand: this belongs into {path}")
        terminal.say(client_files.shown(client, name, entry, key).rstrip("\n"))
        return 0
    edit = client_files.edited(client, path, name, entry, key)
    if not edit.changes:
        terminal.say(f"{path} has our entry already")
        return 0
    backup = client_files.write(edit)
    terminal.say(f"wrote our entry {name!r} into {path}; restart {client} to see it")
    if backup:
        terminal.say(f"what it said before is in {backup}")
    return 0


def own_command(shared: bool = False) -> list[str]:
    """How we are started: by name in a file that others share, else by a path, since programs have other PATHs."""
    from shutil import which

    if shared:
        return ["onhand"]
    found = which("onhand")
    return [found] if found else [sys.executable, "-m", "onhand"]
