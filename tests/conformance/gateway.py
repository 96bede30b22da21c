"""A server behind our gateway, which passes it through: what is right there has to be right here.

`python tests/conformance/gateway.py URL` stands in front of the server at that address.
"""

import sys

import anyio

from onhand.listening import Address
from onhand.mcp import http
from onhand.mcp.registry import McpRegistry
from onhand.mcp.servers import Server
from onhand.mcp.transparent import Transparent


def announce(url: str) -> None:
    sys.stderr.write(f"serving MCP at {url}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    registry = McpRegistry([Server("reference", url=sys.argv[1], transport="http")], version="1")
    anyio.run(http.serve, Transparent(registry, "reference"), Address("127.0.0.1", 0), "", announce)
