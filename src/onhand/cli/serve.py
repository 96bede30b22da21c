"""Serve what is on hand to an agent's client: over the standard streams, or over HTTP to several clients at once."""

from __future__ import annotations

import argparse
import os

from onhand import app
from onhand.cli import terminal
from onhand.cli.parser import Parser
from onhand.errors import InputError


def add_arguments(parser: Parser) -> None:
    """Declare the doors; without any, it is the standard streams."""
    parser.add_argument(
        "--http", metavar="HOST:PORT", nargs="?", const="", help="MCP over HTTP instead (127.0.0.1:8321)"
    )
    parser.add_argument("--token-env", metavar="NAME", help="the variable with the token that clients must send")
    parser.add_argument("--root", metavar="DIR", help="the directory of the project")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client has gone, or until we are told to end."""
    asked = app.configured(arguments.root)
    terminal.warn(asked.warnings)
    surface = app.open_surface(asked)
    import anyio

    if arguments.http is None:
        from onhand.mcp import stdio

        anyio.run(stdio.serve, surface)
        return 0
    from onhand.mcp import http

    address, token = http.address_of(arguments.http), _token(arguments.token_env or asked.serve.token_env)
    anyio.run(http.serve, surface, address, token, _announce)
    return 0


def _announce(url: str) -> None:
    terminal.complain(f"onhand: serving MCP at {url}")


def _token(variable: str) -> str:
    """The value of the variable that was named: a secret is given by name only."""
    if not variable:
        return ""
    token = os.environ.get(variable, "").strip()
    if not token:
        raise InputError(f"the environment variable {variable} is to hold the token, and is empty: set it")
    return token
