"""A server behind our gateway, which passes it through: what is right there has to be right here.

`python tests/conformance/gateway.py URL` stands in front of the server at that address.
"""

import sys

import anyio

from onhand.mcp import http
from onhand.mcp.pass_through import PassThrough
from onhand.mcp.servers import ServerConfig
from onhand.mcp.upstreams import Upstreams
from onhand.net import ListenAddress


def announce(url: str) -> None:
    sys.stderr.write(f"serving MCP at {url}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    registry = Upstreams([ServerConfig("reference", url=sys.argv[1], transport="http")], version="1")
    anyio.run(http.serve, PassThrough(registry, "reference"), ListenAddress("127.0.0.1", 0), "", announce)
