"""Answer programs: document search over gRPC."""

from __future__ import annotations

from onhand.cli import terminal
from onhand.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from onhand.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--grpc",
        metavar="HOST:PORT",
        nargs="?",
        const="",
        help="search over gRPC (127.0.0.1:50051); the settings [grpc] say who may ask",
    )
    parser.add_argument("--db", metavar="PATH", help="the database file (documents.path)")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted or told to end."""
    from onhand import app

    if arguments.grpc is None:
        raise InputError("say what to serve: --grpc HOST:PORT")
    asked = app.configured()
    terminal.warn(asked.warnings)
    import asyncio

    from onhand.cli.serve_grpc import serve_grpc

    asyncio.run(serve_grpc(asked, arguments.grpc, arguments.db))
    return 0
