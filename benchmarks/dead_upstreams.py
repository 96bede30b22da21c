"""What do 20 dead or hanging servers cost the 20 others? Calls to those that live, alone and among the dead, in turns.

    python -m benchmarks.dead_upstreams [--pairs 5] [--window-s 20] [--live http|stdio] [--dead programs|commands]

The dead ones are Python programs that import the MCP SDK and then end at once, never answer, answer no list or end
when they are asked for one; or commands that cost nothing (`false`, `sleep`). The live ones are one HTTP server under
20 names, or 20 programs. The first client of a gateway wakes them all. It calls without a pause from the moment that
the last live server has listed its tools; the window is long enough for the dead to be tried again.
Milliseconds of a call are the caller's, by the clock: other work on the machine is in them. What the programs behind
the gateway took of the processors is told too, which is what slows the calls.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import anyio
import mcp

from onhand.mcp.gateway import Gateway
from onhand.mcp.servers import ServerConfig
from onhand.mcp.surface import build_server
from onhand.mcp.upstreams import Upstreams

TESTS = Path(__file__).parents[1] / "tests"
UPSTREAMS = str(TESTS / "upstreams.py")
COUNT = 20
LIMIT = 2.0
WEB = """
import socket, sys, uvicorn
from upstreams import Kind

with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    app = Kind([]).server().streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
"""
PROGRAMS = ("exits", "hanging", "listless", "leaves")
COMMANDS = (("false",), ("sleep", "3600"))


class Calls(NamedTuple):
    """What calling the live servers was like."""

    listed_s: float  # from the waking until the last of them had listed its tools
    p50_ms: float
    p95_ms: float
    programs_s: float  # of CPU, of all programs that were started


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--window-s", type=float, default=20.0)
    parser.add_argument("--live", choices=("http", "stdio"), action="append")
    parser.add_argument("--dead", choices=("programs", "commands"), action="append")
    options = parser.parse_args(argv)
    columns = f"{'listed s':>16}{'p50 ms':>16}{'p95 ms':>16}{'programs s':>16}{'p95':>8}"
    print(f"{'live':<7}{'dead':<10}{columns}   (alone, among; limit {LIMIT}x)")
    with _web() as url:
        for live in options.live or ("http", "stdio"):
            for dead in options.dead or ("programs", "commands"):
                _compare(_live(live, url), _dead(dead), f"{live:<7}{dead:<10}", options.pairs, options.window_s)


def _compare(live: list[ServerConfig], dead: list[ServerConfig], name: str, pairs: int, window_s: float) -> None:
    mixed = [server for pair in zip(dead, live, strict=True) for server in pair]
    ratios = []
    for _ in range(pairs):
        alone, among = (_measure(servers, window_s) for servers in (live, mixed))
        ratios.append(among.p95_ms / alone.p95_ms)
        columns = "".join(f"{before:>8.1f}{after:>8.1f}" for before, after in zip(alone, among, strict=True))
        print(f"{name}{columns}{ratios[-1]:>7.2f}x", flush=True)
    print(f"{name}{'median of the ratios':>64}{median(ratios):>7.2f}x, worst {max(ratios):.2f}x", flush=True)


def _measure(servers: list[ServerConfig], window_s: float) -> Calls:
    before = os.times()
    calls = anyio.run(_calls, servers, window_s)
    after = os.times()
    programs_s = sum(after[2:4]) - sum(before[2:4])  # of children, which have all ended by now
    return calls._replace(programs_s=programs_s)


async def _calls(servers: list[ServerConfig], window_s: float) -> Calls:
    live = [server.key for server in servers if server.key.startswith("live")]
    registry = Upstreams(servers)
    async with mcp.Client(build_server(Gateway(registry)), cache=None) as client:
        began = time.perf_counter()
        await client.list_tools()  # which wakes the servers
        await _wait_for_lists(registry, live)
        listed_s = time.perf_counter() - began
        took: list[float] = []
        end = time.perf_counter() + window_s
        while time.perf_counter() < end:
            began = time.perf_counter()
            echo = {"name": f"{live[len(took) % COUNT]}__echo", "arguments": {"text": "x"}}
            result = await client.call_tool("call_tool", echo)
            took.append(1000 * (time.perf_counter() - began))
            assert not result.is_error, result
        took.sort()
        return Calls(listed_s, median(took), took[int(0.95 * len(took))], 0.0)


async def _wait_for_lists(registry: Upstreams, keys: list[str]) -> None:
    """Wait for the first lists, as a search does."""
    changed = anyio.Event()

    def note() -> None:
        nonlocal changed
        changed.set()
        changed = anyio.Event()

    registry.on_changed.append(note)
    while not all(registry.listing(key).tools for key in keys):
        await changed.wait()


def _live(kind: str, url: str) -> list[ServerConfig]:
    if kind == "http":
        return [ServerConfig(f"live{n}", url=url, transport="http") for n in range(COUNT)]
    return [ServerConfig(f"live{n}", sys.executable, (UPSTREAMS, "plain")) for n in range(COUNT)]


def _dead(kind: str) -> list[ServerConfig]:
    if kind == "programs":
        return [
            ServerConfig(f"dead{n}", sys.executable, (UPSTREAMS, PROGRAMS[n % len(PROGRAMS)]), connect_timeout_s=10)
            for n in range(COUNT)
        ]
    commands = (COMMANDS[n % len(COMMANDS)] for n in range(COUNT))
    return [ServerConfig(f"dead{n}", command, tuple(args)) for n, (command, *args) in enumerate(commands)]


@contextmanager
def _web() -> Iterator[str]:
    """A server of one tool over HTTP, in a process of its own."""
    with subprocess.Popen([sys.executable, "-c", WEB], cwd=TESTS, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
