"""What `onhand serve` costs until its first answers, beside a bare server of the SDK itself: CPU time, as a ratio.

    python -m benchmarks.mcp_start [--runs 10]

Each server is started over stdio, asked to initialize and for its tools, and ended; its CPU time is read once both
answers are there. The bare server has one tool and nothing to look up; ours serves the sample project, with what it
learned of the files at hand (as on every start but the first) and without. The best of all runs counts: a start can be
disturbed, not hurried.
"""

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LIMIT = 1.2
BARE = """
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", description="d", input_schema={"type": "object"})])

async def main():
    server = Server("bare", on_list_tools=list_tools)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())

anyio.run(main)
"""
COMMAND = "from onhand.cli.main import script; script()"  # which is all that the installed command does
OURS = ("-c", COMMAND, "serve", "--root", str(ROOT / "examples" / "sample-project"))
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Row(NamedTuple):
    """One server."""

    name: str
    words: tuple[str, ...]  # for Python
    keeps: bool  # what it learned, between runs


ROWS = (
    Row("a bare server of the SDK", ("-c", BARE), True),
    Row("onhand serve", OURS, True),
    Row("the first time", OURS, False),
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args(argv).runs
    compileall.compile_dir(ROOT / "src", quiet=2)  # as an installed package is
    best = dict.fromkeys(ROWS, float("inf"))
    with tempfile.TemporaryDirectory() as kept:
        for _ in range(runs + 1):  # taken in turns, so that a busy machine disturbs them alike
            for row in ROWS:
                with tempfile.TemporaryDirectory() as nothing:
                    best[row] = min(best[row], cpu_s(row.words, kept if row.keeps else nothing))
    bare = best[ROWS[0]]
    print(f"{'server':<28}{'CPU ms':>8}{'×':>7}   (limit {LIMIT}×)")
    for row, seconds in best.items():
        print(f"{row.name:<28}{seconds * 1000:>8.0f}{seconds / bare:>6.2f}×")


def cpu_s(words: Sequence[str], cache: str) -> float:
    """The CPU time, user and system, that a server has taken when it has answered twice."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("ONHAND_")}
    settings |= {"XDG_CACHE_HOME": cache, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        [sys.executable, *words], env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
        for request_id, method, params in ((1, "initialize", client), (2, "tools/list", {})):
            message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            assert "result" in json.loads(process.stdout.readline())
        taken = _taken_s(process.pid)
        process.stdin.close()
    return taken


def _taken_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/schedstat")
    if fields.exists():  # in nanoseconds, of the first thread; the others only wait for pipes
        threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
        return sum(int(one.read_text().split()[0]) for one in threads) / 1e9
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) * TICK_S


if __name__ == "__main__":
    main()
