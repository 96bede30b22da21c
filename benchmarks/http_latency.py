"""How long does a call over HTTP take, beside one over stdio and one to a bare server of the SDK? Medians, as ratios.

    python -m benchmarks.http_latency [--calls 200] [--rounds 5]

The official client calls the same tool, which only echoes, of each server in turns. The bare server listens as uvicorn
itself does. A listening socket without TCP_NODELAY shows as more than 40 ms.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import anyio
import mcp
from mcp.client.stdio import StdioServerParameters

ROOT = Path(__file__).parents[1]
LIMIT = 1.5  # of a call over HTTP, beside one to the bare server
ECHO = """
import anyio, sys, mcp_types as types
from onhand.mcp import http, stdio
from onhand.mcp.local import LocalResources, LocalSurface
from onhand.net import ListenAddress
from onhand.tools import Registry, Tool

schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
"""
OURS = (
    ECHO
    + """
echo = Tool("echo", "Say the same again.", schema, lambda arguments: arguments["text"], read_only=True)
nothing = LocalResources(lambda: None, lambda: None, lambda: None)
surface = LocalSurface(Registry([echo]), nothing, "1")
"""
)
OVER_HTTP = (
    OURS
    + """
announce = lambda url: print(url, flush=True)
anyio.run(http.serve, surface, ListenAddress("127.0.0.1", 0), "", announce)
"""
)
OVER_STDIO = OURS + "anyio.run(stdio.serve, surface)"
BARE = """
import mcp_types as types, uvicorn
from mcp.server.lowlevel import Server

schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", description="d", input_schema=schema)])

async def call_tool(ctx, params):
    return types.CallToolResult(content=[types.TextContent(text=params.arguments["text"])])

class Announcing(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}/mcp", flush=True)

app = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool).streamable_http_app()
Announcing(uvicorn.Config(app, port=0, http="h11", log_level="error")).run()
"""
NAMES = ("a bare server of the SDK over HTTP", "ours over HTTP", "ours over stdio")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    took = anyio.run(_measure, options.calls, options.rounds)
    bare = took[NAMES[0]]
    print(f"{'server':<36}{'p50 ms':>8}{'×':>7}   (limit {LIMIT}× for ours over HTTP)")
    for name, seconds in took.items():
        print(f"{name:<36}{seconds * 1000:>8.2f}{seconds / bare:>6.2f}×")


async def _measure(calls: int, rounds: int) -> dict[str, float]:
    """The median of each, of the round in which it was best: a busy machine disturbs a round, and hurries none."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    best = dict.fromkeys(NAMES, float("inf"))
    async with AsyncExitStack() as stack:
        bare, ours = [await _start(stack, code, environment) for code in (BARE, OVER_HTTP)]
        stdio = StdioServerParameters(command=sys.executable, args=["-c", OVER_STDIO], env=environment)
        clients = [await stack.enter_async_context(mcp.Client(target)) for target in (bare, ours, stdio)]
        for _ in range(rounds):
            for name, client in zip(NAMES, clients, strict=True):
                best[name] = min(best[name], await _median_call(client, calls))
    return best


async def _start(stack: AsyncExitStack, code: str, environment: dict[str, str]) -> str:
    process = await anyio.open_process([sys.executable, "-c", code], env=environment, stderr=None)
    stack.push_async_callback(process.wait)
    stack.callback(process.terminate)
    assert process.stdout is not None
    return (await process.stdout.receive()).decode().strip()


async def _median_call(client: mcp.Client, calls: int) -> float:
    took = []
    for number in range(calls):
        began = time.perf_counter()
        result = await client.call_tool("echo", {"text": str(number)})
        took.append(time.perf_counter() - began)
        assert not result.is_error, result
    return median(took)


if __name__ == "__main__":
    main()
