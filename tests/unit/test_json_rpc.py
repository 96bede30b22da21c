"""Where is the id of a message that nobody can parse?"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.json_rpc import MAX_MEMBER_BYTES, MessageScanner, find_id
from requirements import requirement

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["id", '"id":9', "\\", '"', "]}"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.just("id"), inner, max_size=4),
    max_leaves=20,
)


def scan(message: bytes, size: int) -> MessageScanner:
    scanner = MessageScanner()
    for start in range(0, len(message), size):
        scanner.scan(message[start : start + size])
    return scanner


@requirement("mcp.malformed-is-answered")
@given(
    before=st.dictionaries(st.text(max_size=9).filter(lambda name: name != "id"), VALUES, max_size=4),
    request_id=st.integers(-(10**17), 10**17) | st.text(max_size=20),
    after=st.dictionaries(st.text(max_size=9).filter(lambda name: name != "id"), VALUES, max_size=4),
    size=st.integers(1, 40),
    is_ascii=st.booleans(),
)
def test_the_id_is_found_wherever_it_stands_and_however_the_message_arrives(
    before: dict[str, Any], request_id: int | str, after: dict[str, Any], size: int, is_ascii: bool
) -> None:
    members = [*before.items(), ("id", request_id), *((name, value) for name, value in after.items())]
    text = ",".join(f"{json.dumps(name)} : {json.dumps(value, ensure_ascii=is_ascii)}" for name, value in members)
    message = f" {{ {text} }} ".encode()
    assert find_id(message) == request_id
    assert scan(message, size).id == request_id


@requirement("mcp.malformed-is-answered")
@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":19,"method":"ping","params":{"x":"aaa', 19),
        (b'{ "method" : "a\\"b" , "id" : "x" , "params":{', "x"),
        (b'{"params":{"id":3},"id":4}', 4),
        (b'{"params":[[{"id":3}],"]"],"id":4}', 4),
        (b'{"id":null,"id":5}', 5),
        (b'{"x":"id","y":1}', None),
        (b'{"params":{"id":3', None),
        (b'{"id":{"id":3},', None),
        (b'{"id":12', None),  # the digits may go on
        (b'{"id":1.5}', None),
        (b'{"id":true}', None),
        (b'{"id":"\\ud800"}', None),  # which could not be sent back
        (b'["id",3]', None),
        (b'[{"id":3}]', None),
        (b'nothing {"id":3}', None),
    ],
)
def test_only_the_id_of_the_message_itself_counts(message: bytes, request_id: int | str | None) -> None:
    assert find_id(message) == request_id
    assert {scan(message, size).id for size in (1, 2, 3, 7)} == {request_id}


@given(st.binary(max_size=200) | st.text('"\\[]{}:,id 1', max_size=200).map(str.encode), st.integers(1, 50))
def test_nothing_makes_a_scan_fail(message: bytes, size: int) -> None:
    scan(message, size)


MEBIBYTE = 1024 * 1024


@requirement("mcp.malformed-is-answered")
@pytest.mark.parametrize(
    "value",
    [
        b'"' + b"x" * MEBIBYTE + b'"',
        b'"' + b'\\"' * MEBIBYTE + b'"',
        b"[" * MEBIBYTE + b"]" * MEBIBYTE,
        b"[" + b'{"a":[]},' * (MEBIBYTE // 9) + b"1]",
        b'"' + b"x" * (MAX_MEMBER_BYTES - 5) + b'"',
    ],
    ids=["a long text", "escapes", "brackets", "items", "as long as what is kept"],
)
def test_what_stands_before_the_id_may_be_long_and_deep(value: bytes) -> None:
    message = b'{"result":' + value + b',"id":7}'
    scanner = scan(message, 65_536)
    assert (scanner.id, scanner.is_response) == (7, True)
    assert len(scanner._kept) <= MAX_MEMBER_BYTES


def test_whether_a_message_is_a_response_shows_in_its_members() -> None:
    assert scan(b'{"id":1,"result":{"method":1}', 9).is_response
    assert not scan(b'{"id":1,"params":{"result":1}}', 9).is_response
    assert not scan(b'{"id":1,"method":"x","result":1}', 9).is_response
