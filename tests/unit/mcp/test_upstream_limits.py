"""Whatever an upstream server answers, in every transport: its caller is told at once, and all others are served."""

import json
import resource
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import anyio
import pytest
from anyio.abc import ByteReceiveStream, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import MCPError

from hostile_answers import answer, respond
from loopback import serving
from onhand.errors import UpstreamError
from onhand.mcp import upstream_http, upstream_messages, upstream_transport
from onhand.mcp.servers import ServerConfig
from onhand.mcp.upstream_http import limit_events
from onhand.mcp.upstream_messages import MessageBuffer, read_messages
from onhand.mcp.upstreams import Upstreams
from requirements import requirement

from .test_gateway import text_of

PROGRAM = str(Path(__file__).parents[2] / "hostile_answers.py")
MAX_BYTES = 300_000
TRANSPORTS = ("stdio", "JSON", "compressed", "events")
every_transport = pytest.mark.parametrize("transport", TRANSPORTS)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is reached quickly."""
    monkeypatch.setattr(upstream_messages, "MAX_MESSAGE_BYTES", MAX_BYTES)
    monkeypatch.setattr(upstream_transport, "MAX_MESSAGE_BYTES", MAX_BYTES)
    monkeypatch.setattr(upstream_messages, "MAX_SKIPPED_BYTES", 20 * MAX_BYTES)


@contextmanager
def hostile(transport: str, kind: str, size: int) -> Iterator[ServerConfig]:
    if transport == "stdio":
        yield ServerConfig("bad", sys.executable, (PROGRAM, kind, str(size)), connect_timeout_s=240)
        return
    with serving(partial(respond, transport, kind, size)) as server:
        yield ServerConfig("bad", url=f"{server.url}/mcp", transport="http", connect_timeout_s=240)


async def call(registry: Upstreams, tool: str) -> str:
    """The result of a call, or its error; the time limit of a test is far below that of a call."""
    try:
        with anyio.fail_after(60):
            return text_of(await registry.execute(f"bad__{tool}", {}))  # type: ignore[arg-type]
    except (UpstreamError, MCPError) as error:
        return f"error: {error}"


def attack(transport: str, kind: str, size: int = 0) -> str:
    """What a caller of the attacking tool is told; the server is used on afterwards."""

    async def main() -> str:
        with hostile(transport, kind, size) as server:
            async with Upstreams([server]) as registry:
                assert await registry.connect() == {}
                assert await call(registry, "echo") == "on"
                told = await call(registry, "attack")
                assert await call(registry, "echo") == "on"
                return told

    return anyio.run(main)


@requirement("mcp.upstream-limits")
@every_transport
@pytest.mark.parametrize("kind", ["id first", "id between", "id last", "error"])
def test_a_response_that_is_too_long_is_an_error_wherever_its_id_stands(transport: str, kind: str) -> None:
    assert attack(transport, kind, 3 * MAX_BYTES) == "error: the response has more than 300,000 bytes: ask for less"


@requirement("mcp.upstream-limits")
@every_transport
def test_a_response_just_below_the_limit_is_passed_on(transport: str) -> None:
    assert "xxx" in attack(transport, "id first", MAX_BYTES - 1_000)


@requirement("mcp.upstream-limits")
@pytest.mark.parametrize("transport", ["stdio", "JSON", "events"])
def test_a_response_without_end_is_given_up_and_takes_no_memory(transport: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "more than 300,000 bytes" in attack(transport, "endless")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


@requirement("mcp.upstream-limits")
def test_an_event_whose_name_has_no_end_ends_the_stream() -> None:
    assert attack("events", "endless event").startswith("error: bad ended while it worked on this request")


@requirement("mcp.upstream-limits", "mcp.bad-items-cost-themselves")
@every_transport
def test_an_item_that_is_nested_too_deeply_costs_only_itself(transport: str) -> None:
    async def main() -> None:
        with hostile(transport, "deep list", 0) as server:
            async with Upstreams([server]) as registry:
                assert await registry.connect() == {}
                assert [tool["name"] for tool in registry.listing("bad").tools] == ["echo", "attack"]
                (status,) = registry.status()
                assert status.problems == ("its tool 'deep' is ignored: it is nested more than 150 levels deep",)
                assert await call(registry, "echo") == "on"

    anyio.run(main)


@requirement("mcp.upstream-limits")
@every_transport
@pytest.mark.parametrize("kind", ["deep result", "not UTF-8"])
def test_a_result_that_no_parser_takes_is_repaired(transport: str, kind: str) -> None:
    assert "error" not in attack(transport, kind)


INTERIM = b"HTTP/1.1 103 Early Hints\r\n\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
NOTIFICATION = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":""}}\n\n'


async def read_request(stream: BufferedByteReceiveStream) -> dict[str, Any]:
    head = await stream.receive_until(b"\r\n\r\n", 65_536)
    length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
    return json.loads(await stream.receive_exactly(int(length))) if length else {}


@requirement("mcp.upstream-limits")
@pytest.mark.parametrize(
    ("head", "repeated", "pause_s"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", 0.1),  # sent at once, it would soon be too long
        (b"", INTERIM, 0),
        (EVENTS, b": still here\n\n", 0),
        (EVENTS, NOTIFICATION, 0),
    ],
    ids=["head", "interim responses", "comments", "notifications"],
)
def test_a_response_that_nobody_waits_for_any_more_is_not_read_on(head: bytes, repeated: bytes, pause_s: float) -> None:
    async def main() -> None:
        hung_up = anyio.Event()

        async def send_on(stream: SocketStream) -> None:
            with suppress(anyio.BrokenResourceError):
                await stream.send(head)
                while True:
                    await stream.send(repeated)
                    await anyio.sleep(pause_s)
            hung_up.set()

        async def serve(stream: SocketStream) -> None:
            async with stream:
                with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                    asked = await read_request(BufferedByteReceiveStream(stream))
                    if asked.get("params", {}).get("name") == "attack":
                        await send_on(stream)
                    elif "id" in asked:
                        body = b"".join(answer("", 0, asked))
                        kind = b"Connection: close\r\nContent-Type: application/json\r\n"
                        size = b"Content-Length: %d\r\n\r\n" % len(body)
                        await stream.send(b"HTTP/1.1 200 OK\r\n" + kind + size + body)
                    else:
                        await stream.send(b"HTTP/1.1 202 Accepted\r\nConnection: close\r\n\r\n")

        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/mcp"
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            server = ServerConfig("bad", url=url, transport="http", connect_timeout_s=240, timeout_s=2)
            async with Upstreams([server]) as registry:
                assert await registry.connect() == {}
                assert (
                    await call(registry, "attack")
                    == "error: bad did not answer within 2 s. Try again, or ask for less."
                )
                with anyio.fail_after(60):
                    await hung_up.wait()
                assert await call(registry, "echo") == "on"
            tasks.cancel_scope.cancel()

    anyio.run(main)


class Lines(ByteReceiveStream):
    """A stream of lines without end, and how much of it was read."""

    def __init__(self, line: bytes) -> None:
        self.lines = line * (65_536 // len(line))
        self.reads = 0

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        self.reads += 1
        await anyio.lowlevel.checkpoint()
        return self.lines

    async def aclose(self) -> None:
        """Nothing is open."""


def read_events(lines: Lines) -> AsyncIterator[bytes]:
    return limit_events(lines, MessageBuffer(MAX_BYTES))


@requirement("mcp.upstream-limits")
@pytest.mark.parametrize(
    ("read", "line"),
    [(read_messages, b"{\n"), (read_messages, b"\n"), (read_events, b": \n"), (read_events, b"\n")],
    ids=["broken lines", "empty lines", "comments", "empty events"],
)
def test_lines_that_are_not_messages_leave_most_of_the_time_to_others(
    read: Callable[[Any], AsyncIterator[Any]], line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        work_s = rest_s = 0.0
        sleep, began = anyio.sleep, process_time()

        async def count_rest(seconds: float) -> None:
            nonlocal work_s, rest_s, began
            work_s += process_time() - began
            rest_s += seconds
            await sleep(0)
            began = process_time()
            if rest_s > 1:
                raise TimeoutError

        monkeypatch.setattr(anyio, "sleep", count_rest)
        for module in (upstream_messages, upstream_http):  # CPU time does not depend on what else the machine does
            monkeypatch.setattr(module, "perf_counter", process_time)
        with pytest.raises(TimeoutError):
            async for _ in read(Lines(line)):
                pytest.fail("nothing of this is a message")
        assert rest_s > 3 * work_s

    anyio.run(main)
