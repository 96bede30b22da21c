"""Does the server over HTTP serve who may ask, and nobody else?"""

import gzip
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rawmcp
from onhand.mcp.stdio import MAX_LINE_BYTES
from rawmcp import ENVELOPE, Http, request
from requirements import requirement

TOKEN = "a-token-that-nobody-guesses"
MODERN = {"MCP-Protocol-Version": "2026-07-28"}


@pytest.fixture(scope="module")
def server() -> Iterator[Http]:
    with rawmcp.over_http() as running:
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[Http]:
    with rawmcp.over_http("--token-env", "A_TOKEN", variables={"A_TOKEN": TOKEN}) as running:
        yield running


def test_a_session_of_the_older_protocol_is_opened_used_and_ended(server: Http) -> None:
    opened = server.send(rawmcp.initialize())
    assert opened.status == 200
    assert opened.messages[0]["result"]["serverInfo"]["name"] == "onhand"
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": rawmcp.VERSION}
    assert server.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, session).status == 202
    called = server.send(
        request("tools/call", 1, name="context_search", arguments={"query": "rollback"}), session
    ).messages[0]
    assert "Rolling back" in called["result"]["content"][0]["text"]
    assert server.send(None, session, method="DELETE").status == 200
    assert server.send(request("tools/list", 2), session).status == 404


def test_a_request_of_the_newer_protocol_needs_no_session(server: Http) -> None:
    headers = {**MODERN, "Mcp-Method": "tools/list"}
    listed = server.send(request("tools/list", 1, _meta=ENVELOPE), headers).messages[0]["result"]
    assert [tool["name"] for tool in listed["tools"]] == sorted(tool["name"] for tool in listed["tools"])
    assert listed["ttlMs"] > 0
    assert listed["cacheScope"] == "private"


@requirement("mcp.http-is-strict")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1:80.evil.example"}, 421),
        ({"Host": "localhost:80@evil.example"}, 421),
        ({"Host": "localhost.evil.example:80"}, 421),
        ({"Host": "evil.example#localhost"}, 421),
        ({"Host": "localhost:0"}, 421),
        ({"Host": "localhost:99999"}, 421),
        ({"Host": "[::1].evil.example"}, 421),
        ({"Host": "localhost "}, 200),  # white space around a header's value is not part of it
        ({"Host": "LOCALHOST:1234"}, 200),
        ({"Host": "[::1]:80"}, 200),
        ({"Host": ["localhost", "evil.example"]}, 400),
        ({"Host": ""}, 400),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:3001.evil.example"}, 403),
        ({"Origin": "http://localhost@evil.example"}, 403),
        ({"Origin": "file://localhost"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000/path"}, 403),
        ({"Origin": ["http://localhost", "http://evil.example"]}, 400),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://127.0.0.1"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/jsonp"}, 415),
        ({"Content-Type": "application/json; charset=utf-16"}, 415),
        ({"Content-Type": "application/json; boundary=x"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Type": "application/json; charset=UTF-8"}, 200),
        ({"Accept": "text/html"}, 406),
        ({"Mcp-Session-Id": "../../etc/passwd"}, 404),
        ({"Mcp-Session-Id": "0" * 32}, 404),
        ({"MCP-Protocol-Version": "1999-01-01"}, 400),
    ],
)
def test_only_a_request_that_is_addressed_to_us_and_well_formed_is_served(
    server: Http, headers: dict[str, Any], status: int
) -> None:
    reply = server.send(rawmcp.initialize(), headers)
    assert reply.status == status, reply
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PUT", "PATCH", "HEAD"])
def test_other_methods_are_refused_and_no_other_site_is_let_in(server: Http, method: str) -> None:
    reply = server.send(None, {"Origin": "http://localhost:1"}, method=method)
    assert reply.status == 405
    assert "access-control-allow-origin" not in reply.headers


@requirement("mcp.malformed-is-answered")
@pytest.mark.parametrize(
    ("body", "status", "code", "request_id"),
    [
        (b"", 400, -32700, None),
        (b"{", 400, -32700, None),
        (b"[" * 100_000, 400, -32700, None),
        (b"[]", 400, -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[1]}', 400, -32602, 7),
        (b'{"jsonrpc":"2.0","id":8,"method":"x","params":{"a":"\\ud800"}}', 400, -32602, 8),
        (b'{"jsonrpc":"2.0","id":9,"method":"x","params":{"a":"' + b"a" * MAX_LINE_BYTES + b'"}}', 413, -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"initialize"}', 400, -32600, None),
    ],
)
def test_a_body_that_is_not_a_message_is_answered_with_its_id_where_that_can_be_read(
    server: Http, body: bytes, status: int, code: int, request_id: int | None
) -> None:
    reply = server.send(body)
    assert reply.status == status
    assert reply.messages[0]["error"]["code"] == code
    assert reply.messages[0]["id"] == request_id


def test_a_body_that_is_packed_or_endless_is_refused_before_it_is_read(server: Http) -> None:
    packed = gzip.compress(json.dumps(rawmcp.initialize()).encode())
    assert server.send(packed, {"Content-Encoding": "gzip"}).status == 415
    with socket.create_connection(("127.0.0.1", server.port), timeout=rawmcp.WAIT_S) as connection:
        connection.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 99999999999\r\n\r\n"
        )
        assert connection.recv(100).split(b"\r\n")[0].split()[1] == b"413"


def test_a_chunked_body_over_the_limit_is_refused(server: Http) -> None:
    chunk = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=rawmcp.WAIT_S) as connection:
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(2 * MAX_LINE_BYTES // 0x10000):
                connection.sendall(chunk)
        except OSError:
            pass  # it has answered and gone
        assert connection.recv(100).split(b"\r\n")[0].split()[1] == b"413"


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP-Protocol-Version": "2025-06-18", "Mcp-Method": "tools/list"},
        {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"},
        {"MCP-Protocol-Version": "2026-07-28"},
    ],
)
def test_headers_that_say_something_else_than_the_body_are_refused(server: Http, headers: dict[str, str]) -> None:
    assert server.send(request("tools/list", 1, _meta=ENVELOPE), headers).status == 400


def test_nothing_is_replayed_to_who_makes_up_an_event(server: Http) -> None:
    session = server.send(rawmcp.initialize()).headers["mcp-session-id"]
    forged = {"Last-Event-ID": "999999999", "Mcp-Session-Id": "f" * 32, "Accept": "text/event-stream"}
    assert server.send(None, forged, method="GET").status == 404
    assert session not in server.send(None, forged, method="GET").body


@requirement("mcp.http-is-strict")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer é"},
        {"Authorization": [f"Bearer {TOKEN}", f"Bearer {TOKEN}"]},
    ],
)
def test_with_a_token_only_who_sends_it_is_served(guarded: Http, headers: dict[str, Any]) -> None:
    reply = guarded.send(rawmcp.initialize(), {name: latin(value) for name, value in headers.items()})
    assert reply.status == 401
    where = f"http://127.0.0.1:{guarded.port}/.well-known/oauth-protected-resource"
    assert reply.headers["www-authenticate"] == f'Bearer resource_metadata="{where}"'
    assert TOKEN not in reply.body


def latin(value: str | list[str]) -> str | list[str]:
    return value.encode().decode("latin-1") if isinstance(value, str) else value


@requirement("mcp.http-is-strict")
def test_the_token_is_taken_from_its_header_alone(guarded: Http) -> None:
    assert guarded.send(rawmcp.initialize(), path=f"/mcp?access_token={TOKEN}").status == 401
    assert guarded.send(rawmcp.initialize(), {"Authorization": f"Bearer {TOKEN}"}).status == 200
    told = guarded.send(None, method="GET", path="/.well-known/oauth-protected-resource")
    assert json.loads(told.body)["bearer_methods_supported"] == ["header"]
    assert guarded.send(rawmcp.initialize(), {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}).status == 421


@requirement("mcp.http-is-strict")
@pytest.mark.parametrize(
    ("words", "variables", "told"),
    [
        (["0.0.0.0:0"], {}, "others can reach 0.0.0.0"),
        (["[::]:0"], {}, "others can reach ::"),
        (["example.com:0"], {}, "others can reach example.com"),
        (["0.0.0.0:0", "--token-env", "A_TOKEN"], {}, "A_TOKEN should hold the token"),
        (["0.0.0.0:0", "--token-env", "A_TOKEN"], {"A_TOKEN": "short"}, "can be guessed"),
        (["127.0.0.1:99999"], {}, "the port must be a number up to 65535"),
        (["::1:80"], {}, "write an IPv6 address as [::1]"),
    ],
)
def test_an_address_that_others_can_reach_needs_a_token(words: list[str], variables: dict[str, str], told: str) -> None:
    command = [sys.executable, "-m", "onhand", "serve", "--root", str(rawmcp.SAMPLE), "--http", *words]
    done = subprocess.run(
        command,
        env={**rawmcp.environ(), **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=rawmcp.WAIT_S,
        check=False,
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@requirement("mcp.http-is-strict")
def test_who_has_the_token_is_served_under_any_name_but_no_other_site_is() -> None:
    given = {"Authorization": f"Bearer {TOKEN}", "Host": "build-7.example:8080"}
    with rawmcp.over_http("--token-env", "A_TOKEN", at="0.0.0.0:0", variables={"A_TOKEN": TOKEN}) as server:
        assert server.send(rawmcp.initialize(), given).status == 200
        assert server.send(rawmcp.initialize(), {**given, "Origin": "http://build-7.example:8080"}).status == 200
        assert server.send(rawmcp.initialize(), {**given, "Origin": "http://evil.example"}).status == 403
        assert server.send(rawmcp.initialize(), {**given, "Authorization": ""}).status == 401


def test_a_taken_port_is_reported(server: Http) -> None:
    command = [sys.executable, "-m", "onhand", "serve", "--root", str(rawmcp.SAMPLE), "--http", str(server.port)]
    done = subprocess.run(
        command, env=rawmcp.environ(), capture_output=True, encoding="utf-8", timeout=rawmcp.WAIT_S, check=False
    )
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{server.port}" in done.stderr


@requirement("mcp.faithful", "mcp.progress")
@pytest.mark.timeout(300)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="waits for the other process at a named pipe")
def test_a_call_of_a_client_that_hangs_up_is_cancelled_at_the_server_behind_us(tmp_path: Path) -> None:
    (tmp_path / "onhand").mkdir()
    upstream = {"command": sys.executable, "args": [str(rawmcp.ROOT / "tests" / "upstreams.py"), "faithful"]}
    (tmp_path / "onhand" / "mcp.json").write_text(json.dumps({"mcpServers": {"f": upstream}}))
    told = tmp_path / "told"
    os.mkfifo(told)
    given = {"name": "f__slow", "arguments": {"path": str(told), "for_ever": True}}
    call = request("tools/call", 1, name="call_tool", arguments=given)
    homes = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    with rawmcp.over_http(variables=homes) as server:
        with server.begin_to_call(call):
            assert told.read_text() == "begun"
        assert told.read_text() == "cancelled"


def two_clients_with_equal_ids(server: Http) -> None:
    def calls(client: int) -> bool:
        with server.kept() as connection:
            call = connection.in_session()
            queries = [f"zq{client}x{number}" for number in range(300)]  # no page has these; the answer repeats them
            given = ({"name": "context_search", "arguments": {"query": query}} for query in queries)
            answers = [call(number, **one) for number, one in enumerate(given)]
            texts = [answer["result"]["content"][0]["text"] for answer in answers]
            return texts == [f"no matching context for: {query}" for query in queries]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(calls, range(2))) == [True, True]
