"""MCP: let a client start us."""

from __future__ import annotations

import argparse

from onhand.cli import mcp_install
from onhand.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    mcp_install.add_verb(verbs)


def run(arguments: argparse.Namespace) -> int:
    """Run one verb."""
    return mcp_install.run(arguments)
