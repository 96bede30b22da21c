"""Whatever is asked over HTTP, only who may ask is served, and nobody gets what is another's."""

import gzip
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rawmcp
from e2e import test_serve_http as of_http
from hostile.cases import Case, Phrases, each, not_understood, quantity
from rawmcp import ENVELOPE, Http, request
from requirements import requirement

ABOUT_REQUESTS = ("method", "url", "path", "body", "action")  # keys of an input that are no headers
phrases = Phrases()


@pytest.fixture(scope="module")
def server() -> Iterator[Http]:
    with rawmcp.over_http() as running:
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[Http]:
    with rawmcp.over_http("--token-env", "A_TOKEN", variables={"A_TOKEN": of_http.TOKEN}) as running:
        yield running


def body_of(  # noqa: PLR0911  # one for each form
    case: Case, described: Any, headers: dict[str, Any]
) -> dict[str, Any] | bytes:
    """The body that a few words mean: a size, a depth, a protocol's version, a method; else it is sent as it is."""
    if not isinstance(described, str):
        return described if isinstance(described, dict) else json.dumps(described).encode()
    if found := re.search(r"(\d[\d,]*k?)[ -](?:deep|nested|levels)", described):
        return b"[" * quantity(found[1])
    if "Content-Encoding" in headers:
        return gzip.compress(b"\0" * min(quantity(described, 10 << 20), 10 << 20))
    if found := re.search(r"_meta says (\S+)", described):
        version = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": found[1]}
        headers.setdefault("Mcp-Method", "tools/list")
        return request("tools/list", 1, _meta=version)
    if re.fullmatch(r"[a-z]+/[a-z/]+|ping|initialize", described):
        headers.setdefault("MCP-Protocol-Version", "2026-07-28")
        return request(described, 1, _meta=ENVELOPE)
    if re.fullmatch(r"\d[\d,]* ?[KMG]?i?B\b.*", described):
        return b'{"a":"' + b"a" * quantity(described) + b'"}'
    if described.startswith(("{", "[", '"')) or not described:
        return described.encode()
    return not_understood(case, f"the body {described!r}")


@requirement("mcp.http-is-strict")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", each("http_mcp"))
def test_a_request_is_refused_or_served(case: Case, server: Http, guarded: Http, tmp_path: Path) -> None:
    said = case.sent
    if not isinstance(said, dict) or "action" in said:
        phrases.act(case, server, tmp_path)
        return
    headers = {name: value for name, value in said.items() if name not in ABOUT_REQUESTS}
    wanted = {int(status) for status in re.findall(r"\b[245]\d\d\b", case.detail)}
    is_guarded = "Authorization" in headers or "access_token" in str(said) or 401 in wanted
    at = guarded if is_guarded else server
    method = said.get("method", "POST")
    if "Last-Event-ID" in headers:
        method = "GET"
        headers = {"Mcp-Session-Id": "f" * 32, "Accept": "text/event-stream", **headers}
    body: Any = rawmcp.initialize() if method == "POST" else None
    if "body" in said:
        body = body_of(case, said["body"], headers)
    path = f"/mcp{said['url']}" if str(said.get("url", "")).startswith("?") else said.get("url") or said.get("path")
    path = (path or "/mcp").replace("access_token=x", f"access_token={of_http.TOKEN}")
    if re.search(r"[\r\n\0]", f"{headers}".encode().decode("unicode_escape")):  # which no client library sends
        status = sent_raw(server, [f"{name}: {value}" for name, value in headers.items()], method)
        assert 400 <= status < 500 or case.expected in ("bounded", "survive")
        return
    reply = at.send(body, {name: of_http.latin(value) for name, value in headers.items()}, method=method, path=path)
    assert of_http.TOKEN not in reply.body
    assert "access-control-allow-origin" not in reply.headers
    if case.expected == "accept":
        assert reply.status == 200, reply
    elif case.expected in ("reject", "block"):
        assert 400 <= reply.status < 500, reply
        refusals = wanted - {200} or {reply.status}  # who may not be told more than that a token is missing gets 401
        assert reply.status in refusals or (is_guarded and reply.status == 401) or 200 in wanted, reply
    else:
        assert case.expected in ("bounded", "survive"), "teach this runner what to expect"
    assert server.send(rawmcp.initialize()).status == 200
    return


@phrases.mean(r"(?:close|drop|hang|disconnect|reset).*(?:during|mid|while|in)\b.*call")
def hangs_up(case: Case, found: Any, server: Http, tmp_path: Path) -> None:
    of_http.test_a_call_of_a_client_that_hangs_up_is_cancelled_at_the_server_behind_us(tmp_path)


@phrases.mean(r"\bclients?\b.*(?:same )?ids?\b|cross")
def equal_ids(case: Case, found: Any, server: Http, tmp_path: Path) -> None:
    of_http.two_clients_with_equal_ids(server)


@phrases.mean(r"([\d,]+k?) (?:initialize|sessions)")
def many_sessions(case: Case, found: Any, server: Http, tmp_path: Path) -> None:
    opened = [server.send(rawmcp.initialize()).status for _ in range(min(quantity(found[1]), 200))]
    assert set(opened) <= {200, 429, 503}


@phrases.mean(r"slow|loris|byte|silent|idle|half|stall|never")
def silent_connections(case: Case, found: Any, server: Http, tmp_path: Path) -> None:
    """Who says nothing, or little, keeps nobody from being served."""
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=rawmcp.WAIT_S) for _ in range(50)]
    try:
        for one in silent[::2]:
            one.sendall(b"POST /mcp HTTP/1.1\r\nHost: loc")
        assert server.send(rawmcp.initialize()).status == 200
    finally:
        for one in silent:
            one.close()


def sent_raw(server: Http, lines: list[str], method: str = "POST", version: str = "1.1") -> int:
    """The status of a request that is written byte for byte."""
    named = any(line.lower().startswith("host:") for line in lines)
    host = [] if named or version != "1.1" else [f"Host: 127.0.0.1:{server.port}"]
    with socket.create_connection(("127.0.0.1", server.port), timeout=rawmcp.WAIT_S) as connection:
        connection.sendall("\r\n".join([f"{method} /mcp HTTP/{version}", *host, *lines, "", ""]).encode())
        return int((connection.recv(1000).split() or [b"", b"400"])[1])


@phrases.mean(r"HTTP/(\d\.\d)")
def another_version(case: Case, found: Any, server: Http, tmp_path: Path) -> None:
    assert 400 <= sent_raw(server, ["Content-Length: 0"], version=found[1]) < 600
    assert server.send(rawmcp.initialize()).status == 200


@phrases.mean(r"pipelin|smuggl|two requests|chunked|two lengths|Content-Length and|Transfer-Encoding")
def smuggled(case: Case, found: Any, server: Http, tmp_path: Path) -> None:
    """A request whose length is said twice is refused, and what follows it is no request."""
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
    lengths = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=rawmcp.WAIT_S) as connection:
        connection.sendall((head + lengths + "GET /smuggled HTTP/1.1\r\n\r\n").encode())
        said = connection.recv(1000)
    assert said.split()[1][:1] == b"4"
    assert said.count(b"HTTP/1.1 ") == 1
