"""Serve what is on hand to an agent's client: over the standard streams, or over HTTP to several at once."""

from __future__ import annotations

import argparse

from onhand import app
from onhand.cli import terminal
from onhand.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    """Declare the doors."""
    parser.add_argument("--root", metavar="DIR", help="the directory of the project")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client has gone."""
    asked = app.configured(arguments.root)
    terminal.warn(asked.warnings)
    surface = app.open_surface(asked)
    import anyio

    from onhand.mcp import stdio

    anyio.run(stdio.serve, surface)
    return 0
