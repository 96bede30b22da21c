"""The suite's server behind our gateway, which passes it through: what is right there has to be right here.

The server is a program that the gateway starts, so that neither outlives the other.
"""

import runpy
import sys
from pathlib import Path

import anyio

from onhand.listening import Address
from onhand.mcp import http, stdio
from onhand.mcp.registry import McpRegistry
from onhand.mcp.servers import Server
from onhand.mcp.transparent import Transparent


def announce(url: str) -> None:
    sys.stderr.write(f"serving MCP at {url}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["behind"]:
        everything = runpy.run_path(str(Path(__file__).with_name("everything.py")))
        anyio.run(stdio.serve, everything["Everything"]())
    else:
        path = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        registry = McpRegistry([Server("everything", sys.executable, (__file__, "behind"), path)])
        surface = Transparent(registry, "everything")
        anyio.run(http.serve, surface, Address("127.0.0.1", 0), "", announce)
