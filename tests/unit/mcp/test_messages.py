"""Is every line answered as it deserves?"""

import json
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.mcp.messages import MAX_LINE_BYTES, Refusal, encoded, id_in_head, parsed, too_long
from requirements import requirement

PARSE, REQUEST, PARAMS = types.PARSE_ERROR, types.INVALID_REQUEST, types.INVALID_PARAMS


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def test_a_message_of_each_kind_is_read() -> None:
    assert isinstance(parsed(line(id=1, method="ping")), types.JSONRPCRequest)
    assert isinstance(parsed(line(method="notifications/x")), types.JSONRPCNotification)
    assert isinstance(parsed(line(id=1, result={})), types.JSONRPCResponse)
    assert isinstance(parsed(line(id=1, error={"code": 1, "message": "no"})), types.JSONRPCError)
    assert isinstance(parsed(b"\xef\xbb\xbf" + line(id=1, method="ping") + b"\r"), types.JSONRPCRequest)


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
def test_what_is_no_message_is_answered_with_its_id_where_that_can_be_read(
    raw: bytes, code: int, request_id: int | str | None
) -> None:
    answer = parsed(raw)
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.id) == (code, request_id)
    sent = json.loads(encoded(answer.message()))
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
def test_notifications_and_answers_are_never_answered(raw: bytes) -> None:
    assert parsed(raw) is None


@requirement("mcp.malformed-is-answered")
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ),
    st.integers() | st.text(),
)
def test_every_request_with_a_readable_id_is_a_message_or_answered_with_that_id(
    params: Any, request_id: int | str
) -> None:
    raw = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "x", "params": params}).encode()
    answer = parsed(raw)
    if b"NaN" in raw or b"Infinity" in raw:
        assert answer is not None
        return
    assert isinstance(answer, types.JSONRPCRequest | Refusal)
    assert answer.id == request_id


@given(st.binary(max_size=60))
def test_no_line_makes_the_reader_fail(raw: bytes) -> None:
    parsed(raw)
    id_in_head(raw)


@pytest.mark.parametrize(
    ("head", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":19,"method":"ping","params":{"x":"aaa', 19),
        (b'{ "method" : "a\\"b" , "id" : "x" , "params":{', "x"),
        (b'{"params":{"id":3},"id":4}', None),  # what is nested may be as long as it likes
        (b'{"params":{"id":3', None),
        (b'{"id":{"id":3},', None),
        (b'{"id":12', None),  # the digits may go on
        (b'["id",3]', None),
    ],
)
def test_the_id_of_a_long_message_is_read_from_its_head(head: bytes, request_id: int | str | None) -> None:
    assert id_in_head(head) == request_id
    assert too_long(head).id == request_id
    assert f"{MAX_LINE_BYTES:,}" in too_long(head).text


def test_an_answer_that_cannot_be_spelled_becomes_an_error_with_its_id() -> None:
    message = types.JSONRPCResponse(jsonrpc="2.0", id=3, result={"text": "\ud800"})
    assert json.loads(encoded(message))["id"] == 3
    assert json.loads(encoded(message))["error"]["code"] == types.INTERNAL_ERROR
    assert encoded(types.JSONRPCNotification(jsonrpc="2.0", method="x", params={"text": "\ud800"})) == b""
