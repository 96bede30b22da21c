"""Serve what is on hand: MCP over the standard streams or to several clients over HTTP, document search over gRPC.

Tools for files, commands and pages are served once workspace.tools, shell.enabled and web.enabled ask for them.
"""

from __future__ import annotations

import argparse

from onhand import app
from onhand.cli import terminal
from onhand.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.config import Config
    from onhand.mcp.surface import Surface


def add_arguments(parser: Parser) -> None:
    """Declare the doors; without any, it is MCP over the standard streams."""
    parser.add_argument(
        "--http", metavar="HOST:PORT", nargs="?", const="", help="MCP over HTTP instead (127.0.0.1:8321)"
    )
    parser.add_argument(
        "--grpc",
        metavar="HOST:PORT",
        nargs="?",
        const="",
        help="search over gRPC (127.0.0.1:50051), alone or beside --http; the settings [grpc] say who may ask",
    )
    parser.add_argument("--token-env", metavar="NAME", help="the variable with the token that clients of MCP must send")
    parser.add_argument("--db", metavar="PATH", help="the database file of --grpc (documents.path)")
    parser.add_argument("--root", metavar="DIR", help="the directory of the project")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client has gone, or until we are told to end."""
    asked = app.configured(arguments.root)
    terminal.warn(asked.warnings)
    if arguments.grpc is None and arguments.http is None:
        surface = _surface(asked)
        import anyio

        from onhand.mcp import stdio
        from onhand.signals import until_asked_to_end

        return anyio.run(until_asked_to_end, stdio.serve(surface))
    import asyncio

    asyncio.run(_served(asked, arguments))
    return 0


async def _served(asked: Config, arguments: argparse.Namespace) -> None:
    """One door, or both in one process."""
    if arguments.http is None:
        from onhand.cli.serve_grpc import serve_grpc

        await serve_grpc(asked, arguments.grpc, arguments.db)
        return
    surface = _surface(asked)
    from onhand.listening import address_of, token_in
    from onhand.mcp import http

    address = address_of(arguments.http, http.DEFAULT_PORT)
    token = token_in(arguments.token_env or asked.serve.token_env)
    if arguments.grpc is None:
        await http.serve(surface, address, token, _announce)
        return
    from onhand.cli.serve_grpc import grpc_served

    async with grpc_served(asked, arguments.grpc, arguments.db):
        await http.serve(surface, address, token, _announce)  # a signal ends it, and then the other


def _surface(asked: Config) -> Surface:
    surface, problems = app.open_surface(asked)
    terminal.warn(problems)
    return surface


def _announce(url: str) -> None:
    terminal.complain(f"onhand: serving MCP at {url}")
