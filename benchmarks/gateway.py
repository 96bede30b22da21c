"""What does the gateway add to a search and to a call, with 5,000 tools behind it? FastMCP's proxy beside it.

    python -m benchmarks.gateway [--peers DIR]

Each arm is asked in process; the 5,000 tools are one server, which runs as a program. The numbers are milliseconds of
CPU of the asking process, of which the gateway is a part, without the server's own. FastMCP is installed into an
environment of its own under the directory of --peers ($ONHAND_PEERS when not given); without one, our own arms are
measured alone.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import anyio

from benchmarks.environments import python_with, run
from benchmarks.tool_peers import PACKAGES

SERVER = str(Path(__file__).parents[1] / "tests" / "upstreams.py")
TOOLS = 5_000
SEARCHES = ("create an issue", "archive the invoice of department 77", "rename branch", "list users", "move a page")
ROUNDS = 20

FASTMCP = """
import asyncio, json, sys, time
from statistics import median
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from fastmcp.server.transforms.search import BM25SearchTransform

python, server, tools, searches, rounds = json.loads(sys.argv[1])

async def measure_median(does):
    took = []
    for _ in range(rounds):
        began = time.process_time()
        await does()
        took.append(1000 * (time.process_time() - began))
    return median(took)

async def main():
    upstream = StdioTransport(command=python, args=[server, "many", str(tools)])
    proxy = create_proxy(upstream)
    proxy.add_transform(BM25SearchTransform())
    async with Client(proxy) as client:
        await client.call_tool("search_tools", {"query": "warm up"})
        name = "create_issue_0"
        async def search():
            await client.call_tool("search_tools", {"query": searches[0]})
        async def call():
            await client.call_tool("call_tool", {"name": name, "arguments": {"text": "x"}})
        print(json.dumps({"search": await measure_median(search), "call": await measure_median(call)}))

asyncio.run(main())
"""


async def measure_median(does: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> float:
    """The median of the CPU milliseconds of some rounds."""
    took = []
    for _ in range(rounds):
        began = time.process_time()
        await does()
        took.append(1000 * (time.process_time() - began))
    return median(took)


async def ours() -> dict[str, float]:
    """Search and call through the gateway, and a call of the same server without it."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    from onhand.mcp.gateway import Gateway
    from onhand.mcp.servers import ServerConfig
    from onhand.mcp.surface import build_server
    from onhand.mcp.upstreams import Upstreams

    upstream = ServerConfig("many", sys.executable, (SERVER, "many", str(TOOLS)), connect_timeout_s=120)
    found: dict[str, float] = {}
    gateway = Gateway(Upstreams([upstream]))
    async with Client(build_server(gateway), mode="2026-07-28", cache=None) as client:
        await client.list_tools()
        await gateway.upstreams.connect()
        queries = iter(SEARCHES * ROUNDS * 4)

        async def search() -> Any:
            return await client.call_tool("search_tools", {"query": next(queries)})

        async def call() -> Any:
            return await client.call_tool("call_tool", {"name": "many__create_issue_0", "arguments": {"text": "x"}})

        for does in (search, call):
            assert not (await does()).is_error
        found["search"] = await measure_median(search, 4 * ROUNDS)
        found["call"] = await measure_median(call, 4 * ROUNDS)
    parameters = StdioServerParameters(command=sys.executable, args=[SERVER, "many", str(TOOLS)])
    async with Client(parameters, cache=None) as direct:
        await direct.list_tools()
        await direct.call_tool("create_issue_0", {"text": "x"})
        found["direct"] = await measure_median(lambda: direct.call_tool("create_issue_0", {"text": "x"}), 4 * ROUNDS)
    return found


def fastmcp(peers: Path) -> dict[str, float]:
    """The same through FastMCP's proxy with its search."""
    given = json.dumps([sys.executable, SERVER, TOOLS, SEARCHES, 5])
    printed = run(python_with(PACKAGES["fastmcp"], peers), "-c", FASTMCP, given, timeout_s=1800)
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="DIR", default=os.environ.get("ONHAND_PEERS"))
    peers = parser.parse_args(argv).peers
    mine = anyio.run(ours)
    theirs = fastmcp(Path(peers)) if peers else None
    print(f"{TOOLS:,} tools of one server; milliseconds of CPU, median")
    print(f"{'':<34}{'onhand':>10}{'FastMCP':>12}{'ratio':>8}")
    for name, key in (("search_tools", "search"), ("call_tool", "call")):
        other = f"{theirs[key]:>12.1f}{theirs[key] / mine[key]:>7.0f}x" if theirs else f"{'-':>12}"
        print(f"{name:<34}{mine[key]:>10.2f}{other}")
    print(f"{'the same call without a gateway':<34}{mine['direct']:>10.2f}")
    print(f"{'so that the gateway adds':<34}{mine['call'] - mine['direct']:>10.2f}")


if __name__ == "__main__":
    main()
