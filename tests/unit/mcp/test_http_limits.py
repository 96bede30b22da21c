"""Whoever sends nothing, sends or reads too slowly, or opens too much over HTTP keeps nobody else out."""

import json
import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event
from typing import Any

import pytest

import rawmcp
from http_serving import serving, sockets_to
from onhand.config import SETTINGS
from onhand.mcp import http, http_connections, http_sessions
from onhand.mcp.http import HttpLimits
from onhand.mcp.surface import Surface
from onhand.tools import Tool
from rawmcp import Http, request
from requirements import requirement

from .test_local import over

TOKEN = "a-token-that-nobody-guesses"
LONG_S = 3_600.0
SHORT = HttpLimits(timeout_s=0.2)
HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks at the sockets of this process")
Begin = Callable[[Http], socket.socket]


def connect(server: Http, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=rawmcp.WAIT_S)
    connection.sendall(sent)
    return connection


def read_to_end(connection: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    received = b""
    try:
        while piece := connection.recv(65_536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def works(server: Http, headers: dict[str, str] | None = None) -> bool:
    return server.send(rawmcp.initialize(), headers).status == 200


@pytest.fixture
def large(surface: Surface) -> Surface:
    """A surface with a tool whose result fills every buffer between the server and its client."""

    async def fill(arguments: dict[str, Any]) -> str:
        return "x" * 16_000_000

    schema = {"type": "object", "properties": {}}
    return over(surface, Tool("fill", "d", schema, fill, read_only=True, max_output_bytes=20_000_000))


def send_nothing(server: Http) -> socket.socket:
    return connect(server)


def send_half_a_head(server: Http) -> socket.socket:
    return connect(server, HEAD)


def send_half_a_body(server: Http) -> socket.socket:
    return connect(server, HEAD + b"Content-Length: 100\r\n\r\n{")


def read_nothing(server: Http) -> socket.socket:
    connection = server.begin_to_call(request("tools/call", 1, name="fill", arguments={}))
    assert connection.recv(10) == b"HTTP/1.1 2"
    return connection


@requirement("mcp.http-limits")
@needs_proc
@pytest.mark.parametrize("attack", [send_nothing, send_half_a_head, send_half_a_body, read_nothing])
def test_a_client_that_makes_no_progress_is_closed_and_others_are_not(large: Surface, attack: Begin) -> None:
    with serving(large, SHORT) as server, server.kept() as patient:
        call = patient.in_session()
        stream = open_stream(server)
        with attack(server) as first:
            if attack is read_nothing:
                wait_until_closed(server, first)
                assert len(read_to_end(first)) < 16_000_000
            else:
                assert read_to_end(first).startswith(b"HTTP/1.1 408 ")
        with attack(server) as again:
            wait_until_closed(server, again)
        assert "result" in call(1, name="fill", arguments={})  # it was idle meanwhile, and longer than its time limit
        stream.setblocking(False)
        with pytest.raises(BlockingIOError):  # neither events nor an end
            stream.recv(1)
        stream.close()


def open_stream(server: Http) -> socket.socket:
    """The stream of a session on which a client waits for events for hours."""
    session = server.send(rawmcp.initialize()).headers["mcp-session-id"]
    head = f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n"
    stream = connect(server, head.encode())
    received = b""
    while b"\r\n\r\n" not in received:
        received += stream.recv(4_096)
    assert received.startswith(b"HTTP/1.1 200")
    return stream


def wait_until_closed(server: Http, connection: socket.socket) -> None:
    """Wait until the server has closed its end, without reading from ours."""
    port = connection.getsockname()[1]
    while ends := sockets_to(port):
        for end in ends:
            end.close()


@requirement("mcp.http-limits")
def test_a_refused_client_that_sends_on_is_closed(surface: Surface, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "LINGER_S", 0.1)
    head = HEAD + b"Content-Length: 4000000\r\n\r\n"
    with serving(surface, SHORT, TOKEN) as server, connect(server, head) as connection:
        assert connection.recv(12) == b"HTTP/1.1 401"
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):
            while True:
                connection.sendall(b"x")


@requirement("mcp.http-limits")
@pytest.mark.parametrize("attack", [send_nothing, send_half_a_head, send_half_a_body])
def test_connections_that_prove_nothing_make_room_for_others(surface: Surface, attack: Begin) -> None:
    with serving(surface, HttpLimits(max_connections=10, timeout_s=LONG_S)) as server, ExitStack() as opened:
        stream = opened.enter_context(open_stream(server))
        attackers = [opened.enter_context(attack(server)) for _ in range(30)]
        assert all(works(server) for _ in range(10))
        assert all(read_to_end(attacker) == b"" for attacker in attackers[:20])
        stream.setblocking(False)
        with pytest.raises(BlockingIOError):
            stream.recv(1)


@requirement("mcp.http-limits")
def test_a_client_without_the_token_counts_as_one_that_proves_nothing(surface: Surface) -> None:
    own = {"Authorization": f"Bearer {TOKEN}"}
    with serving(surface, HttpLimits(max_connections=10, timeout_s=LONG_S), TOKEN) as server, ExitStack() as opened:
        for _ in range(30):
            stranger = opened.enter_context(connect(server, b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            assert stranger.recv(12) == b"HTTP/1.1 401"
        assert all(works(server, own) for _ in range(10))


@requirement("mcp.http-limits")
def test_when_all_connections_are_in_use_a_new_one_is_answered_and_none_is_closed(surface: Surface) -> None:
    begun, end = Event(), Event()

    async def wait(arguments: dict[str, Any]) -> str:
        import anyio

        begun.set()
        await anyio.to_thread.run_sync(end.wait)
        return "done"

    waiting = over(surface, Tool("wait", "d", {"type": "object", "properties": {}}, wait, read_only=True))
    with (
        serving(waiting, HttpLimits(max_connections=1, timeout_s=LONG_S)) as server,
        server.begin_to_call(request("tools/call", 1, name="wait", arguments={})) as call,
    ):
        assert begun.wait(rawmcp.WAIT_S)
        with connect(server) as refused:
            assert read_to_end(refused).startswith(b"HTTP/1.1 503 ")
        end.set()
        assert call.recv(12) == b"HTTP/1.1 200"


@requirement("mcp.http-limits")
def test_large_bodies_that_wait_leave_room_for_small_ones(surface: Surface, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BUFFERED_BYTES", 200_000)
    with serving(surface, HttpLimits(timeout_s=LONG_S)) as server, ExitStack() as opened:
        body = b" " * 190_000
        for _ in range(2):
            opened.enter_context(connect(server, HEAD + b"Content-Length: 4000000\r\n\r\n" + body))
        with connect(server, HEAD + b"Content-Length: 4000000\r\n\r\n" + body) as refused:
            assert refused.recv(12) == b"HTTP/1.1 503"
        assert works(server)


@pytest.fixture
def few(surface: Surface) -> Iterator[Http]:
    with serving(surface, HttpLimits(max_sessions=5)) as server:
        yield server


def open_session(server: Http) -> dict[str, str]:
    opened = server.send(rawmcp.initialize())
    assert opened.status == 200
    return {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": rawmcp.VERSION}


def is_open(server: Http, session: dict[str, str]) -> bool:
    reply = server.send(request("ping", 1), session)
    assert reply.status in (200, 404)
    return reply.status == 200


@requirement("mcp.http-limits")
def test_unused_sessions_make_room_before_those_that_were_used(few: Http) -> None:
    used = [open_session(few) for _ in range(3)]
    assert all(is_open(few, session) for session in used)
    unused = [open_session(few) for _ in range(20)]
    for session in unused:
        few.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    assert [is_open(few, session) for session in unused] == [False] * 18 + [True] * 2
    assert all(is_open(few, session) for session in used)


@requirement("mcp.http-limits")
def test_of_used_sessions_the_longest_idle_makes_room_but_none_that_is_in_use(few: Http) -> None:
    with open_stream(few) as stream:
        used = []
        for _ in range(8):
            used.append(open_session(few))
            assert is_open(few, used[-1])
        assert [is_open(few, session) for session in used] == [False] * 4 + [True] * 4
        stream.setblocking(False)
        with pytest.raises(BlockingIOError):
            stream.recv(1)


@requirement("mcp.http-limits")
def test_a_session_that_its_client_ended_makes_room(few: Http) -> None:
    kept = [open_session(few) for _ in range(4)]
    for _ in range(10):
        assert few.send(None, open_session(few), method="DELETE").status == 200
    assert all(is_open(few, session) for session in kept)


@requirement("mcp.http-limits")
def test_a_flood_of_new_sessions_waits_and_is_refused_while_open_ones_are_served(
    surface: Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_sessions, "OPENED_PER_S", 1e-9)
    monkeypatch.setattr(http_sessions, "MAX_OPENING", 1)
    body = json.dumps(rawmcp.initialize()).encode()
    head = HEAD + b"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
    with serving(surface) as server, ExitStack() as opened:
        session = open_session(server)
        flood = [opened.enter_context(connect(server, head + body)) for _ in range(5)]
        told: list[bytes] = []
        while len(told) < 3:  # one is being opened, and one waits
            for refused in select.select(flood, [], [], rawmcp.WAIT_S)[0]:
                flood.remove(refused)
                told.append(refused.recv(12))
        assert told == [b"HTTP/1.1 503"] * 3
        assert is_open(server, session)


@requirement("mcp.http-latency")
@needs_proc
def test_every_accepted_connection_sends_at_once(surface: Surface) -> None:
    with serving(surface) as server, connect(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(12).startswith(b"HTTP/1.1")
        (accepted,) = sockets_to(connection.getsockname()[1])
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_what_is_documented_is_what_applies_by_default() -> None:
    defaults = {one.key: one.default for one in SETTINGS}
    assert {f"serve.{name}": value for name, value in HttpLimits()._asdict().items()}.items() <= defaults.items()
