"""Is every line of a client read, or refused by its id, whatever was done to it?"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onhand.acp import stdio as of_editors
from onhand.json_rpc import find_id
from onhand.mcp import stdio as of_clients
from requirements import requirement

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(["ping", "tools/list", "tools/call", "initialize", "rpc.x", "notifications/cancelled", ""])
ENVELOPES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers(0, 9) | st.text(max_size=4) | JSON,
        "method": METHODS | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON,
    },
)
LINES = st.one_of(
    ENVELOPES.map(lambda message: json.dumps(message).encode()),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=60),
)


@st.composite
def meddled(draw: st.DrawFn) -> bytes:
    """A line that was a message once: cut, doubled, with other bytes inside."""
    line = draw(LINES)
    for _ in range(draw(st.integers(0, 3))):
        start, end = sorted((draw(st.integers(0, len(line))), draw(st.integers(0, len(line)))))
        line = (
            line[:start] + draw(st.sampled_from([b"", b"\0", b"\xff", b"{", b"[", b"\\ud800", b"1e999"])) + line[end:]
        )
    return line.replace(b"\n", b" ")


def id_in(line: bytes) -> tuple[Any, bool]:
    """The id by which a line can be answered, and whether it is a request, which has to be."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None, False
    number = message.get("id") if isinstance(message, dict) else None
    if not isinstance(number, int | str) or isinstance(number, bool):
        return None, False
    return number, isinstance(message.get("method"), str)


@requirement("mcp.malformed-is-answered")
@given(meddled())
def test_a_line_to_the_server_is_a_message_or_is_refused_by_its_id(line: bytes) -> None:
    read = of_clients.parse_message(line)
    if isinstance(read, of_clients.Refusal):
        json.dumps(read.message().model_dump(mode="json"))
        number, is_request = id_in(line)
        assert read.message().id == number or not is_request
        assert read.message().id in (number, None)
        return
    if read is not None:
        assert b"\n" not in of_clients.encode_message(read).rstrip(b"\n")


@requirement("acp.default-adapter")
@given(meddled())
def test_a_line_to_the_agent_is_a_message_or_is_answered_with_an_error(line: bytes) -> None:
    read = of_editors.parse_message(line)
    assert read is None or isinstance(read, dict | of_editors.ErrorResponse)


@requirement("mcp.malformed-is-answered")
@given(
    st.integers(0, 2**53) | st.text(max_size=12),
    st.lists(st.sampled_from(["a", "\\", '"', "{", "}", "é"]), max_size=20),
)
def test_the_id_of_a_line_is_found_at_its_beginning(number: int | str, rest: list[str]) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping", "params": {"x": "".join(rest)}}).encode()
    assert find_id(line[: len(line) - 3]) in (number, None)
