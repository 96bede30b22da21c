"""What do well-behaved clients over HTTP keep of their throughput while others attack the server? Ratios in one run.

    python -m benchmarks.http_attacks [--clients 100] [--window-s 4] [--rounds 3] [--attack NAME]

The clients call a tool without a pause, each over its own connection, for one window alone and one under attack, in
turns. Attackers are one process that mostly waits, since what it computes would be missing on a machine of few cores.
The server is ours, with a hostile server behind it that answers one client of its own.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
LIMIT = 0.8
PATIENCE_S = 60
CONNECTIONS = 1_000
READERS = 60
RECEIVED_BYTES = 4_096  # that the kernel takes for a slow reader before the server has to wait
OPENING, OPENERS = 3_000, 10
SERVER = """
import resource, sys, anyio
from onhand.mcp import http
from onhand.mcp.gateway import Gateway
from onhand.mcp.local import LocalResources, LocalSurface
from onhand.mcp.servers import ServerConfig
from onhand.mcp.upstreams import Upstreams
from onhand.net import ListenAddress
from onhand.tools import Registry, Tool

schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
tools = [
    Tool("echo", "Say the same again.", schema, lambda arguments: arguments["text"], read_only=True),
    Tool("fill", "Fill all buffers.", schema, lambda arguments: "x" * 4_000_000, read_only=True,
         max_output_bytes=5_000_000),
]
local = LocalSurface(Registry(tools), LocalResources(lambda: None, lambda: None, lambda: None), "1")
program, size = sys.argv[1:]
hostile = [ServerConfig("bad", sys.executable, (program, "id last", size))]

async def main():
    async with Upstreams(hostile) as upstreams:
        announce = lambda url: print(url.rpartition(":")[2].partition("/")[0], flush=True)
        await http.serve(Gateway(upstreams, local), ListenAddress("127.0.0.1", 0), "", announce)

anyio.run(main)
"""
Attack = Callable[[int], Coroutine[Any, Any, None]]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Window(NamedTuple):
    """What calling the server was like."""

    calls_per_s: float
    p99_ms: float
    failed: int


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--window-s", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attack", choices=ATTACKS, action="append")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)  # of the process that attacks
    options = parser.parse_args(argv)
    if options.port:
        asyncio.run(ATTACKS[options.attack[0]](options.port))
        return
    columns = f"{'calls/s':>16}{'p99 ms':>16}{'failed':>8}{'kept':>7}{'MiB':>10}"
    print(f"{'attack':<22}{columns}   (alone, under; limit {LIMIT})")
    for name in options.attack or ATTACKS:
        _compare(name, options.clients, options.window_s, options.rounds)


def _compare(name: str, clients: int, window_s: float, rounds: int) -> None:
    with _server() as (port, pid):
        asyncio.run(_window(port, clients, 1.0))  # to warm up
        before = _memory_mb(pid)
        kept, windows = [], []
        for _ in range(rounds):
            alone = asyncio.run(_window(port, clients, window_s))
            with _attacker(name, port):
                under = asyncio.run(_window(port, clients, window_s))
            kept.append(under.calls_per_s / alone.calls_per_s)
            windows.append((alone, under))
        alone, under = windows[kept.index(sorted(kept)[len(kept) // 2])]
        columns = f"{alone.calls_per_s:>8.0f}{under.calls_per_s:>8.0f}{alone.p99_ms:>8.0f}{under.p99_ms:>8.0f}"
        failed = sum(under.failed for _, under in windows)
        memory = f"{before:>5.0f}{_memory_mb(pid):>5.0f}"
        print(f"{name:<22}{columns}{failed:>8}{median(kept):>7.2f}{memory}", flush=True)


def _memory_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def _server() -> Iterator[tuple[int, int]]:
    program = str(ROOT / "tests" / "hostile_answers.py")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, program, str(40 * 2**20)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.terminate()


@contextmanager
def _attacker(name: str, port: int) -> Iterator[None]:
    """A process that attacks; the block begins when the attack does."""
    command = [sys.executable, "-m", "benchmarks.http_attacks", "--attack", name, "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield
        finally:
            process.kill()


async def _window(port: int, clients: int, window_s: float) -> Window:
    took: list[float] = []
    failed = 0
    ends_at = time.perf_counter() + window_s

    async def call_on() -> None:
        nonlocal failed
        while time.perf_counter() < ends_at:
            try:
                connection = await asyncio.open_connection("127.0.0.1", port)
                while time.perf_counter() < ends_at:
                    began = time.perf_counter()
                    connection[1].write(_CALL)
                    status = await _read_response(connection[0])
                    took.append(time.perf_counter() - began)
                    failed += status != 200
            except (OSError, asyncio.IncompleteReadError):
                failed += 1
            finally:
                connection[1].close()

    async with asyncio.timeout(window_s + PATIENCE_S):
        await asyncio.gather(*(call_on() for _ in range(clients)))
    took.sort()
    return Window(len(took) / window_s, 1000 * took[int(0.99 * len(took))], failed)


async def _read_response(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])


def _request(method: str, params: dict[str, Any], headers: dict[str, str]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    usual = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(body)),
    }
    lines = [f"{name}: {value}" for name, value in {**usual, **headers}.items()]
    return "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + body


def _call(name: str, arguments: dict[str, Any]) -> bytes:
    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
    return _request("tools/call", {"name": name, "arguments": arguments, "_meta": envelope}, headers)


_CALL = _call("echo", {"text": "x"})
_INITIALIZE = _request(
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "attacker", "version": "1"}},
    {},
)


async def _hold(port: int, count: int, sent: bytes, dripped: bytes = b"") -> None:
    """Hold so many connections open, each with the beginning of a request and a byte more every second.

    What the server closes is opened again, a few at a time.
    """
    held: list[Connection] = []
    begun = False
    while True:
        for _ in range(min(100, count - len(held))):
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
                writer.write(sent)
                held.append((reader, writer))
        if len(held) == count or begun:
            if not begun:
                print("begun", flush=True)
            begun = True
            await asyncio.sleep(1)
            for _, writer in held:
                writer.write(dripped)
            held = [(reader, writer) for reader, writer in held if not (reader.at_eof() or writer.is_closing())]


async def _read_slowly(port: int) -> None:
    """Ask for long answers and read a byte of each, as often as the server closes one."""
    held: list[socket.socket] = []
    begun = False
    while True:
        for _ in range(READERS - len(held)):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
            connection.connect(("127.0.0.1", port))
            connection.sendall(_call("fill", {"text": ""}))
            held.append(connection)
        held = [connection for connection in held if _read_byte(connection)]
        if not begun:
            print("begun", flush=True)
        begun = True
        await asyncio.sleep(1)


def _read_byte(connection: socket.socket) -> bool:
    """Return whether the server still sends."""
    try:
        return bool(connection.recv(1))
    except OSError:
        return False


async def _open_sessions(port: int) -> None:
    """Open so many sessions, over a few connections."""

    async def open_some() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(OPENING // OPENERS):
            writer.write(_INITIALIZE)
            await reader.readuntil(b"\r\n0\r\n\r\n")

    print("begun", flush=True)
    await asyncio.gather(*(open_some() for _ in range(OPENERS)))
    await asyncio.sleep(PATIENCE_S)


async def _make_upstream_send(port: int) -> None:
    """Call a tool whose server answers with far too much."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    print("begun", flush=True)
    while True:
        writer.write(_call("call_tool_destructive", {"name": "bad__attack", "arguments": {}}))
        await _read_response(reader)


_HEAD = _CALL.partition(b"\r\n\r\n")[0]
ATTACKS: dict[str, Attack] = {
    "silent connections": lambda port: _hold(port, CONNECTIONS, b""),
    "slow heads": lambda port: _hold(port, CONNECTIONS, b"POST /mcp HTTP/1.1\r\nX: ", b"x"),
    "slow bodies": lambda port: _hold(port, CONNECTIONS, _HEAD + b"\r\n\r\n", b" "),
    "slow readers": _read_slowly,
    "sessions": _open_sessions,
    "long answers": _make_upstream_send,
}


if __name__ == "__main__":
    main()
