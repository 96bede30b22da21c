"""Whatever arrives at the gRPC port, it is refused with a status of the table or answered, and the server goes on."""

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_health.v1 import health_pb2, health_pb2_grpc

from grpc_serving import PATIENCE_S, SEARCH, WRITE, Running, keyword, mail_index, raw_call, raw_channel, serving
from hostile.cases import Case, Phrases, each, not_understood, quantity
from onhand import Document, open_index
from onhand.grpc import search_pb2 as wire
from requirements import requirement

Code = grpc.StatusCode
HEALTH = "/grpc.health.v1.Health/Check"
REQUESTS: dict[str, Any] = {
    SEARCH + "SemanticSearch": wire.SemanticSearchRequest,
    SEARCH + "KeywordSearch": wire.KeywordSearchRequest,
    SEARCH + "FilterDocuments": wire.FilterRequest,
    SEARCH + "FusedSearch": wire.FusedSearchRequest,
    SEARCH + "GetDocument": wire.GetDocumentRequest,
    WRITE + "DeleteDocuments": wire.DeleteDocumentsRequest,
    HEALTH: health_pb2.HealthCheckRequest,
}
UNITS_S = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "S": 1.0, "M": 60.0, "H": 3600.0}
LEAKS = ("Traceback", "google.", "onhand.", "/src/", ".py", "class ")
phrases = Phrases()


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    index = mail_index()
    with serving(index, index) as running:
        yield running


def outcome(channel: grpc.Channel, method: str, raw: bytes, **options: Any) -> grpc.StatusCode:
    """How a call ends, which tells nothing of our inside."""
    options.setdefault("timeout", PATIENCE_S)
    try:
        future = raw_call(channel, method).future(raw, **options)
    except (ValueError, TypeError, UnicodeError):
        return Code.INTERNAL  # the client itself refuses to send it
    code, details = future.code(), future.details() or ""
    assert not [leak for leak in LEAKS if leak in details], details
    assert isinstance(code, grpc.StatusCode)
    return code


def request_of(fields: dict[str, Any]) -> tuple[str, bytes]:
    """The first method whose message has these fields, and that message; times may be what no time is."""
    for method, kind in REQUESTS.items():
        message = kind()
        if not set(fields) <= {field.name for field in message.DESCRIPTOR.fields}:
            continue
        plain = {name: value for name, value in fields.items() if name != "filter"}
        filters = dict(fields.get("filter") or {})
        times = {name: filters.pop(name) for name in [*filters] if isinstance(filters[name], dict)}
        if "query" in message.DESCRIPTOR.fields_by_name:
            plain.setdefault("query", "a")
        try:
            ParseDict({**plain, **({"filter": filters} if filters else {})}, message)
        except ParseError:
            return method, b"\xff"  # what JSON cannot say, no client of ours can send: a broken message is as bad
        for name, time in times.items():
            getattr(message.filter, name).CopyFrom(Timestamp(**time))
        return method, message.SerializeToString()
    return "", b""


def is_request(sent: Any) -> bool:
    return isinstance(sent, dict) and bool(request_of(sent)[0])


@requirement("grpc.fuzz", "grpc.hides-backends")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", each("grpc"))
def test_a_message_is_refused_or_answered(case: Case, running: Running) -> None:
    with raw_channel(running.address) as channel:
        code = ends(case, channel, running)
        named = {getattr(Code, name) for name in re.findall(r"[A-Z_]{4,}", case.detail) if hasattr(Code, name)}
        if case.expected == "reject":
            assert code is not Code.OK
            assert code is not Code.UNKNOWN
            assert not named or code in named | {Code.INVALID_ARGUMENT}, code
        elif case.expected == "accept":
            assert code is Code.OK
        elif case.expected not in ("bounded", "survive"):
            not_understood(case, "what is expected of a message")
    with raw_channel(running.address) as channel:
        assert keyword(channel, "dock").hits


def ends(  # noqa: PLR0911  # one for each form
    case: Case, channel: grpc.Channel, running: Running
) -> grpc.StatusCode:
    sent = case.sent
    if isinstance(sent, bytes) and case.expected == "survive":
        return noise(sent, running)
    if isinstance(sent, bytes):
        return outcome(channel, SEARCH + "SemanticSearch", sent)
    if isinstance(sent, tuple):
        return outcome(channel, SEARCH + "KeywordSearch", b"\n\x01a", metadata=(sent,))
    if isinstance(sent, str) and sent.startswith("/"):
        return outcome(channel, sent, b"")
    if isinstance(sent, dict) and "grpc-timeout" in sent:
        number, unit = int(sent["grpc-timeout"][:-1]), sent["grpc-timeout"][-1]
        timeout = number * UNITS_S[unit]
        return outcome(channel, SEARCH + "SemanticSearch", b"\n\x01a", timeout=timeout if timeout > 0 else -1)
    if is_request(sent):
        return outcome(channel, *request_of(sent))
    if isinstance(sent, dict) and all(isinstance(value, str) for value in sent.values()):  # metadata
        return outcome(channel, SEARCH + "KeywordSearch", b"\n\x01a", metadata=tuple(sent.items()))
    did = phrases.act(case, channel, running)
    assert isinstance(did, grpc.StatusCode)
    return did


def noise(raw: bytes, running: Running) -> grpc.StatusCode:
    """Bytes on a connection of their own: the server closes it, or waits for more."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S) as connection:
        with suppress(OSError):
            connection.sendall(raw)
        with raw_channel(running.address) as channel:
            assert keyword(channel, "dock").hits
    return Code.OK


@phrases.mean(r"cancel|rapid reset")
def cancels(case: Case, found: Any, channel: grpc.Channel, running: Running) -> grpc.StatusCode:
    call = raw_call(channel, SEARCH + "KeywordSearch")
    for _ in range(min(quantity(case.words, 1000), 1000) // 100):
        for future in [call.future(b"\n\x04dock") for _ in range(100)]:
            future.cancel()
    return Code.OK


@phrases.mean(r"watch")
def watches(case: Case, found: Any, channel: grpc.Channel, running: Running) -> grpc.StatusCode:
    stub = health_pb2_grpc.HealthStub(channel)
    many = min(quantity(case.words, 200), 200)
    watched = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S) for _ in range(many)]
    assert {next(watch).status for watch in watched} == {1}
    for watch in watched:
        watch.cancel()
    return Code.OK


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)
FRAMES = {  # in words of the cases: the bytes of one of them
    r"\bPING": lambda number: frame(6, 0, 0, number.to_bytes(8, "big")),
    r"SETTINGS": lambda number: frame(4, 0, 0, b"\0\3" + number.to_bytes(4, "big")),
    r"HPACK|dynamic table": lambda number: (
        frame(4, 0, 0, b"\0\1\xff\xff\xff\xff") + frame(1, 4, 2 * number + 1, b"\x40\x04name" + b"\x64" + b"v" * 100)
    ),
    r"CONTINUATION": lambda number: (
        frame(1, 0, 1, b"\x40\x01a\x01b") if number == 0 else frame(9, 0, 1, b"\x40\x01a\x01b")
    ),
    r"RST|reset": lambda number: frame(1, 4, 2 * number + 1, b"\x82") + frame(3, 0, 2 * number + 1, b"\0\0\0\x08"),
    r"WINDOW": lambda number: frame(8, 0, 0, b"\x7f\xff\xff\xff"),
    r"PRIORITY": lambda number: frame(2, 0, 2 * number + 1, b"\0\0\0\0\xff"),
    r"empty (?:DATA|frames)": lambda number: frame(0, 0, 1),
}
for pattern, made in FRAMES.items():

    @phrases.mean(pattern)
    def flood(case: Case, found: Any, channel: grpc.Channel, running: Running, made: Any = made) -> grpc.StatusCode:
        return noise(PREFACE + b"".join(map(made, range(min(quantity(case.words, 1000), 10_000)))), running)


@phrases.mean(r"connections|idle|slow|stalled|half")
def idle_connections(case: Case, found: Any, channel: grpc.Channel, running: Running) -> grpc.StatusCode:
    many = min(quantity(case.words, 100), 200)
    silent = [socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S) for _ in range(many)]
    try:
        assert keyword(channel, "dock").hits
    finally:
        for one in silent:
            one.close()
    return Code.OK


@phrases.mean(r"(?:two|duplicate|same).*\bid\b")
def one_id_twice(case: Case, found: Any, channel: grpc.Channel, running: Running) -> grpc.StatusCode:
    """The last of a batch counts."""
    with open_index(None, None) as index:
        index.put([Document("same", text="first"), Document("same", text="second")])
        kept = index.get("same")
        assert kept.text == "second"
    return Code.OK


@phrases.mean(r"gzip|compress|\bbomb\b|message of|[MG]i?B")
def large_message(case: Case, found: Any, channel: grpc.Channel, running: Running) -> grpc.StatusCode:
    raw = wire.KeywordSearchRequest(query="a" * min(quantity(case.words, 8 << 20), 8 << 20)).SerializeToString()
    return outcome(channel, SEARCH + "KeywordSearch", raw, compression=grpc.Compression.Gzip)
