"""MCP over the standard streams."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.mcp import stdio
from onhand.mcp.stdio import (
    Refusal,
    converse,
    encode_message,
    parse_message,
)
from onhand.mcp.surface import Surface
from onhand.tools import Tool
from rawmcp import initialize, request
from requirements import requirement

from .test_local import over

SCHEMA = {"type": "object", "properties": {}}


class Pipes:
    """The client's end of a conversation."""

    def __init__(self, surface: Surface) -> None:
        theirs, self._writing = os.pipe()
        reading, ours = os.pipe()
        self._lines = os.fdopen(reading, "rb")
        self._thread = Thread(target=anyio.run, args=(self._serve, surface, theirs, ours))
        self._thread.start()

    async def _serve(self, surface: Surface, reading: int, writing: int) -> None:
        try:
            await converse(surface, reading, writing)
        finally:
            os.close(reading)
            os.close(writing)

    def send(self, *messages: dict[str, Any]) -> None:
        os.write(self._writing, b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def next(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._lines.readline())
        return answer

    def stop_reading(self) -> None:
        self._lines.close()

    def ended(self) -> bool:
        self._thread.join(60)
        return not self._thread.is_alive()

    def close(self) -> None:
        os.close(self._writing)
        assert self.ended()
        self._lines.close()


@contextmanager
def talking(surface: Surface) -> Iterator[Pipes]:
    pipes = Pipes(surface)
    try:
        pipes.send(initialize(), {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert "result" in pipes.next()
        yield pipes
    finally:
        pipes.close()


def call(name: str, request_id: int | str) -> dict[str, Any]:
    return request("tools/call", request_id, name=name, arguments={})


@requirement("mcp.progress")
def test_a_cancelled_request_is_not_answered_and_its_id_is_free_again(surface: Surface) -> None:
    begun, ended = Event(), Event()

    async def hang(arguments: dict[str, Any]) -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return "never"

    tools = [Tool("hang", "d", SCHEMA, hang, read_only=True), Tool("quick", "d", SCHEMA, lambda _: "q", read_only=True)]
    with talking(over(surface, *tools)) as pipes:
        pipes.send(call("hang", 7))
        assert begun.wait(60)
        pipes.send(call("quick", 7))
        assert "still running" in pipes.next()["error"]["message"]
        pipes.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        assert ended.wait(60)
        pipes.send(call("quick", 7))
        assert pipes.next()["result"]["content"][0]["text"] == "q"


@requirement("mcp.malformed-is-answered")
def test_lone_surrogates_in_results_are_repaired_and_the_session_continues(surface: Surface) -> None:
    tool = Tool("half", "d", SCHEMA, lambda _: "a\ud800b", read_only=True)
    with talking(over(surface, tool)) as pipes:
        pipes.send(call("half", 1))
        assert pipes.next()["result"]["content"][0]["text"] == "a\ufffdb"
        pipes.send(request("resources/read", 2, uri="onhand://context/%ed%a0%80"))
        assert pipes.next()["error"]["data"] == {"uri": "onhand://context/%ed%a0%80"}


def test_requests_beyond_the_limit_wait(surface: Surface, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_CONCURRENT_REQUESTS", 2)
    begun: list[int] = []
    two, go = Event(), Event()

    def wait(arguments: dict[str, Any]) -> str:
        begun.append(1)
        if len(begun) == 2:
            two.set()
        go.wait(60)
        return "done"

    with talking(over(surface, Tool("wait", "d", SCHEMA, wait, read_only=True))) as pipes:
        pipes.send(*(call("wait", number) for number in range(6)))
        assert two.wait(60)
        assert len(begun) == 2
        go.set()
        assert sorted(pipes.next()["id"] for _ in range(6)) == list(range(6))


def test_a_client_that_stops_reading_ends_the_conversation(surface: Surface) -> None:
    with talking(surface) as pipes:
        pipes.stop_reading()
        pipes.send(*(request("ping", number) for number in range(3)))
        assert pipes.ended()


PARSE, REQUEST, PARAMS = types.PARSE_ERROR, types.INVALID_REQUEST, types.INVALID_PARAMS


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def test_a_message_of_each_kind_is_parsed() -> None:
    assert isinstance(parse_message(line(id=1, method="ping")), types.JSONRPCRequest)
    assert isinstance(parse_message(line(method="notifications/x")), types.JSONRPCNotification)
    assert isinstance(parse_message(line(id=1, result={})), types.JSONRPCResponse)
    assert isinstance(parse_message(line(id=1, error={"code": 1, "message": "no"})), types.JSONRPCError)
    assert isinstance(parse_message(b"\xef\xbb\xbf" + line(id=1, method="ping") + b"\r"), types.JSONRPCRequest)


@requirement("mcp.malformed-is-answered")
@pytest.mark.parametrize(
    ("raw", "code", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method"', PARSE, None),
        (b"hello", PARSE, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":Infinity}}', PARSE, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', PARSE, None),
        (line(id=1, method="ping").decode().encode("utf-16"), PARSE, None),
        (b"[]", REQUEST, None),
        (b"[" + line(id=1, method="ping") + b"]", REQUEST, None),
        (b'"ping"', REQUEST, None),
        (b'{"id":5,"method":"ping"}', REQUEST, 5),
        (line(id="a", method=None), REQUEST, "a"),
        (line(id="a"), REQUEST, "a"),
        (line(method=3), REQUEST, None),
        (line(id=1.5, method="ping"), REQUEST, None),
        (line(id=None, method="ping"), REQUEST, None),
        (line(id=[1], method="ping"), REQUEST, None),
        (line(id=7, method="tools/list", params=["x"]), PARAMS, 7),
        (line(id=7, method="tools/call", params={"name": "\ud800"}), PARAMS, 7),
        (line(id="\ud800", method="ping"), REQUEST, None),
        (b'{"jsonrpc":"2.0","id":8,"method":"a","params":{"x":' + b"[" * 900 + b"]" * 900 + b"}}", PARAMS, 8),
        (b'{"jsonrpc":"2.0","id":8,"method":"a","params":' + b'{"x":' * 90_000 + b"1" + b"}" * 90_001, PARSE, 8),
        (b"[" * 100_000, PARSE, None),
        (b'{"jsonrpc":"2.0","method":"a","id":' + b"9" * 5_000 + b"}", PARSE, None),
    ],
)
def test_an_invalid_message_is_answered_with_its_id_if_that_can_be_read(
    raw: bytes, code: int, request_id: int | str | None
) -> None:
    answer = parse_message(raw)
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.id) == (code, request_id)
    sent = json.loads(encode_message(answer.message()))
    assert sent["id"] == request_id
    assert sent["error"]["code"] == code


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"  \r",
        line(method="notifications/x", params=[1]),
        line(method="notifications/x", params={"x": "\ud800"}),
        line(id=1, result=3),
        line(id=True, error="no"),
    ],
)
def test_notifications_and_responses_are_never_answered(raw: bytes) -> None:
    assert parse_message(raw) is None


@requirement("mcp.malformed-is-answered")
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ),
    st.integers() | st.text(),
)
def test_every_request_with_a_readable_id_is_parsed_or_refused_with_that_id(params: Any, request_id: int | str) -> None:
    raw = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "x", "params": params}).encode()
    answer = parse_message(raw)
    if b"NaN" in raw or b"Infinity" in raw:
        assert answer is not None
        return
    assert isinstance(answer, types.JSONRPCRequest | Refusal)
    assert answer.id == request_id


@given(st.binary(max_size=60))
def test_no_line_makes_the_parser_fail(raw: bytes) -> None:
    parse_message(raw)


def test_a_response_that_cannot_be_encoded_becomes_an_error_with_its_id() -> None:
    message = types.JSONRPCResponse(jsonrpc="2.0", id=3, result={"text": "\ud800"})
    assert json.loads(encode_message(message))["id"] == 3
    assert json.loads(encode_message(message))["error"]["code"] == types.INTERNAL_ERROR
    assert encode_message(types.JSONRPCNotification(jsonrpc="2.0", method="x", params={"text": "\ud800"})) == b""
