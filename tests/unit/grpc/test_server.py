"""The server over real connections: results, errors, limits, deadlines, writes and shutdown."""

import asyncio
import socket
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from threading import Event
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from certificates import Authority
from grpc_serving import (
    PATIENCE_S,
    SEARCH,
    WRITE,
    Running,
    ask,
    failed,
    keyword,
    mail_index,
    raw_call,
    raw_channel,
    serving,
)
from mail import Concepts, mails
from onhand import Document, InputError, StoreError, open_index
from onhand.corpora.documents import Documents
from onhand.document import EVERYTHING, Filter, Match
from onhand.errors import RemoteError
from onhand.grpc import Client, GrpcServer, ServerSettings
from onhand.grpc import search_pb2 as wire
from onhand.grpc.statuses import DETAILS
from onhand.search.index import Index
from onhand.store.memory import MemoryStore
from requirements import requirement

Code = grpc.StatusCode


@pytest.fixture
def running() -> Iterator[Running]:
    with serving() as it:
        yield it


@pytest.fixture
def channel(running: Running) -> Iterator[grpc.Channel]:
    with raw_channel(running.address) as it:
        yield it


class Slow(Concepts):
    """An embedder that takes its time: `entered` says that it was asked, and it goes on when `go_on` is set."""

    def __init__(self) -> None:
        self.entered, self.go_on = Event(), Event()
        self.is_slow = False

    def embed(self, texts: Sequence[str], kind: str = "document") -> "list[array[float]]":
        if self.is_slow:
            self.entered.set()
            assert self.go_on.wait(PATIENCE_S)
        return super().embed(texts, kind)


class CountingStore(MemoryStore):
    """Says how often meaning was compared."""

    compared = 0

    def nearest(self, *args, **kwargs) -> list[Match]:  # type: ignore[no-untyped-def]
        self.compared += 1
        return super().nearest(*args, **kwargs)


def slow_index() -> tuple[Index, Slow, CountingStore]:
    embedder, store = Slow(), CountingStore()
    index = Index(store, embedder)
    index.put(mails())
    embedder.is_slow = True
    return index, embedder, store


def info_of(error: Any) -> tuple[ErrorInfo, BadRequest]:
    info, bad = ErrorInfo(), BadRequest()
    for detail in Status.FromString(dict(error.trailing_metadata())[DETAILS]).details:
        detail.Unpack(info)
        detail.Unpack(bad)
    return info, bad


@requirement("grpc.three-calls")
def test_the_three_founding_calls_return_hits(channel: grpc.Channel) -> None:
    assert keyword(channel, "forecast projections").hits[0].document_id == "mail-forecast"
    request = wire.SemanticSearchRequest(query="Q3 forecast", filter=wire.Filter(author=["sarah"], tags=["email"]))
    meant, _ = ask(channel, SEARCH + "SemanticSearch", request, wire.SearchResponse)
    assert meant.hits[0].title == "Q3 revenue model - draft for review"
    assert meant.min_score == 0.5
    listed = wire.FilterRequest(filter=wire.Filter(author=["sarah"], tags=["email"]), limit=50)
    answer, _ = ask(channel, SEARCH + "FilterDocuments", listed, wire.SearchResponse)
    assert (len(answer.hits), answer.total_size, answer.next_page_token) == (23, 23, "")


@requirement("grpc.added-calls")
def test_a_fused_search_and_a_whole_document_are_returned(channel: grpc.Channel) -> None:
    request = wire.FusedSearchRequest(query="Q3 projections", explain=True)
    fused, _ = ask(channel, SEARCH + "FusedSearch", request, wire.SearchResponse)
    assert {layer.name for layer in fused.hits[0].layers} == {"keyword", "semantic"}
    got, _ = ask(
        channel,
        SEARCH + "GetDocument",
        wire.GetDocumentRequest(document_id=fused.hits[0].document_id, first_line=3, last_line=4),
        wire.GetDocumentResponse,
    )
    assert got.document.text.startswith("attached are the quarterly projections")
    assert (got.part.first_line, got.part.last_line, got.part.total_lines) == (3, 4, 6)


@requirement("grpc.errors")
def test_an_empty_result_has_a_reason(channel: grpc.Channel) -> None:
    answer = keyword(channel, "zyzzyva")
    assert not answer.hits
    assert answer.reason


@requirement("grpc.errors")
@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("KeywordSearch", wire.KeywordSearchRequest(), "query"),
        ("KeywordSearch", wire.KeywordSearchRequest(query="\u200d"), "query"),
        ("KeywordSearch", wire.KeywordSearchRequest(query="a" * 50_001), "query"),
        ("KeywordSearch", wire.KeywordSearchRequest(query="a", limit=-1), "limit"),
        ("KeywordSearch", wire.KeywordSearchRequest(query="a", page_token="AAAA"), "page_token"),
        ("SemanticSearch", wire.SemanticSearchRequest(query="a", min_score=float("nan")), "min_score"),
        ("SemanticSearch", wire.SemanticSearchRequest(query="a", min_score=float("inf")), "min_score"),
        ("SemanticSearch", wire.SemanticSearchRequest(query="a", min_score=1.5), "min_score"),
        ("FilterDocuments", wire.FilterRequest(order_by="created_time desc; drop table x"), "order_by"),
        ("FilterDocuments", wire.FilterRequest(order_by="title, title"), "order_by"),
        ("FilterDocuments", wire.FilterRequest(filter=wire.Filter(tags=["t"] * 10_000)), "filter.tags"),
        (
            "FusedSearch",
            wire.FusedSearchRequest(query="a", filter=wire.Filter(created_after=Timestamp(nanos=2_000_000_000))),
            "filter.created_after",
        ),
        ("GetDocument", wire.GetDocumentRequest(document_id="mail-forecast", first_line=99), "first_line"),
        ("GetDocument", wire.GetDocumentRequest(), "document_id"),
        ("GetDocument", wire.GetDocumentRequest(document_id="a\0b"), "document_id"),
        ("GetDocument", wire.GetDocumentRequest(document_id="a" * 2**20), "document_id"),
    ],
)
def test_invalid_arguments_are_reported_with_their_field(
    channel: grpc.Channel, method: str, request_: wire.KeywordSearchRequest, field: str
) -> None:
    error = failed(channel, SEARCH + method, request_.SerializeToString())
    assert error.code() is Code.INVALID_ARGUMENT
    info, bad = info_of(error)
    assert info.reason == "INVALID_INPUT"
    assert info.metadata["request_id"] == dict(error.trailing_metadata())["x-request-id"]
    (violation,) = bad.field_violations
    assert violation.field == field


@requirement("grpc.errors", "grpc.hides-backends")
@pytest.mark.parametrize(
    "raw", [b"\x08" + b"\xff" * 11 + b"\x01", b"\x00\x00", b"\n\x02\xff\xfe", b"\n\x7fabc", b"\xff" * 100]
)
def test_a_malformed_message_is_rejected_without_a_class_name(channel: grpc.Channel, raw: bytes) -> None:
    error = failed(channel, SEARCH + "KeywordSearch", raw)
    assert error.code() is Code.INVALID_ARGUMENT
    assert info_of(error)[0].reason == "MALFORMED_MESSAGE"
    for leak in ("Error", "google", "protobuf", "class", "Python"):
        assert leak not in str(error.details())


@requirement("grpc.hides-backends")
def test_health_and_reflection_reject_malformed_messages_without_a_class_name(channel: grpc.Channel) -> None:
    reflection: Any = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    watch: Any = channel.unary_stream("/grpc.health.v1.Health/Watch")
    calls: list[Any] = [
        lambda: raw_call(channel, "/grpc.health.v1.Health/Check")(b"\xff\xff", timeout=PATIENCE_S),
        lambda: list(reflection(iter([b"\xff\xff"]), timeout=PATIENCE_S)),
        lambda: list(watch(b"\xff\xff", timeout=PATIENCE_S)),
    ]
    for call in calls:
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() is Code.INVALID_ARGUMENT
        assert "the message cannot be decoded" in str(caught.value.details())


def test_unknown_fields_and_values_are_ignored(channel: grpc.Channel) -> None:
    call = raw_call(channel, SEARCH + "KeywordSearch")
    unknown = b"\n\x04dock" + b"\xfa\x7f\x03abc"
    assert wire.SearchResponse.FromString(call(unknown, timeout=PATIENCE_S)).hits


@requirement("grpc.errors", "grpc.hides-backends")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreError("/srv/private/documents.db: the disk is full"), Code.UNAVAILABLE),
        (RuntimeError("/srv/private secret"), Code.INTERNAL),
        (MemoryError(), Code.INTERNAL),
        (RecursionError("maximum"), Code.INTERNAL),
        (StopIteration(), Code.INTERNAL),
        (SystemExit(3), Code.INTERNAL),
    ],
    ids=lambda value: type(value).__name__,
)
def test_server_errors_reveal_no_path_or_class(error: BaseException, code: grpc.StatusCode) -> None:
    class Broken(MemoryStore):
        def keyword(self, *args, **kwargs) -> list[Match]:  # type: ignore[no-untyped-def]
            raise error

    with serving(Index(Broken())) as running, raw_channel(running.address) as channel:
        told = failed(channel, SEARCH + "KeywordSearch", b"\n\x04dock")
        assert told.code() is code
        assert not [leak for leak in ("/srv", "Error", "secret", "Broken") if leak in f"{told.details()}"]


@requirement("grpc.hides-backends")
def test_a_semantic_search_without_an_embedder_gives_advice_and_no_details() -> None:
    index = open_index(None, embedder=None)
    index.put(mails())
    with serving(index) as running, raw_channel(running.address) as channel:
        error = failed(channel, SEARCH + "SemanticSearch", b"\n\x04dock")
        assert error.code() is Code.FAILED_PRECONDITION
        assert "use keyword search" in str(error.details())


@requirement("grpc.paging")
def test_pages_have_no_gaps_or_repetitions(channel: grpc.Channel) -> None:
    whole = [hit.document_id for hit in keyword(channel, "ticket", limit=50).hits]
    assert len(whole) == 29
    found: list[str] = []
    token = ""
    while True:
        page = keyword(channel, "ticket", limit=7, page_token=token)
        found += [hit.document_id for hit in page.hits]
        token = page.next_page_token
        if not token:
            break
    assert found == whole


@requirement("grpc.paging")
def test_limits_have_a_default_and_a_maximum_and_tokens_belong_to_a_search(channel: grpc.Channel) -> None:
    first = keyword(channel, "ticket")
    assert len(first.hits) == 10
    assert len(keyword(channel, "ticket", limit=2_147_483_647).hits) == 29
    other = wire.KeywordSearchRequest(query="hello", page_token=first.next_page_token)
    error = failed(channel, SEARCH + "KeywordSearch", other.SerializeToString())
    assert error.code() is Code.INVALID_ARGUMENT
    by_title = wire.FilterRequest(order_by="title desc, created_time", limit=3)
    answer, _ = ask(channel, SEARCH + "FilterDocuments", by_title, wire.SearchResponse)
    assert [hit.title for hit in answer.hits] == ["Refunds", "Q3 revenue model - draft for review", "On-call rota"]
    assert answer.total_size == 31


@requirement("grpc.deadlines")
def test_an_expired_call_is_not_begun_and_work_stops_between_layers() -> None:
    index, embedder, store = slow_index()
    with serving(index) as running, raw_channel(running.address) as channel:
        call = raw_call(channel, SEARCH + "SemanticSearch").future(b"\n\x0bQ3 forecast", timeout=PATIENCE_S)
        assert embedder.entered.wait(PATIENCE_S)
        call.cancel()
        # The server reads what a connection carries in order: once it answers this, it knows of the cancellation.
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
        late = failed(channel, SEARCH + "KeywordSearch", b"\n\x04dock", timeout=0.001)
        assert late.code() is Code.DEADLINE_EXCEEDED
        embedder.go_on.set()
        assert keyword(channel, "dock").hits
        assert store.compared == 0
        embedder.is_slow = False
        request = wire.SemanticSearchRequest(query="Q3 forecast")
        assert ask(channel, SEARCH + "SemanticSearch", request, wire.SearchResponse)[0].hits
        assert store.compared == 1


@requirement("grpc.deadlines")
def test_queued_work_of_a_gone_caller_is_never_begun() -> None:
    index, embedder, store = slow_index()
    with serving(index) as running, raw_channel(running.address) as channel:
        first = raw_call(channel, SEARCH + "SemanticSearch").future(b"\n\x0bQ3 forecast", timeout=PATIENCE_S)
        assert embedder.entered.wait(PATIENCE_S)
        for _ in range(20):  # more than there are threads
            late = failed(channel, SEARCH + "SemanticSearch", b"\n\x0bQ3 forecast", timeout=0.02)
            assert late.code() is Code.DEADLINE_EXCEEDED
        embedder.go_on.set()
        assert first.result(PATIENCE_S)
        running.stop()
        assert store.compared == 1


@requirement("grpc.security")
def test_calls_beyond_the_limit_are_rejected_and_the_others_answered() -> None:
    index, embedder, _ = slow_index()
    with serving(index, settings=ServerSettings(max_in_flight=8)) as running, raw_channel(running.address) as channel:
        call = raw_call(channel, SEARCH + "SemanticSearch")
        refused, done = [], Event()

        def note(future: Any) -> None:
            if future.code() is Code.RESOURCE_EXHAUSTED:
                refused.append(future)
            if len(refused) == 5:
                done.set()

        futures = [call.future(b"\n\x0bQ3 forecast", timeout=PATIENCE_S) for _ in range(13)]
        for future in futures:
            future.add_done_callback(note)
        assert done.wait(PATIENCE_S)
        assert info_of(refused[0])[0].reason == "TOO_MANY_REQUESTS"
        stub = health_pb2_grpc.HealthStub(channel)  # which no bound on searches stops
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S).status == 1
        embedder.go_on.set()
        assert sum(future.code() is Code.OK for future in futures) == 8
        assert keyword(channel, "dock").hits


@requirement("grpc.security")
@pytest.mark.parametrize(("connections", "calls"), [(1, 2_500), (5, 1_000)])
def test_thousands_of_concurrent_calls_are_answered_or_told_to_retry(connections: int, calls: int) -> None:
    with serving() as running, ExitStack() as opened:
        channels = [opened.enter_context(raw_channel(running.address)) for _ in range(connections)]
        asked = [raw_call(channel, SEARCH + "KeywordSearch") for channel in channels]
        futures = [call.future(b"\n\x04dock", timeout=PATIENCE_S) for _ in range(calls) for call in asked]
        codes = Counter(future.code() for future in futures)
        assert set(codes) <= {Code.OK, Code.RESOURCE_EXHAUSTED}
        assert codes[Code.OK] >= 64  # as many as may wait
        assert keyword(channels[0], "dock").hits


@requirement("grpc.security")
def test_oversized_messages_and_headers_are_rejected() -> None:
    settings = ServerSettings(max_message_bytes=65_536)
    with serving(settings=settings) as running, raw_channel(running.address) as channel:
        huge = wire.KeywordSearchRequest(query="a" * 70_000).SerializeToString()
        assert failed(channel, SEARCH + "KeywordSearch", huge).code() is Code.RESOURCE_EXHAUSTED
        packed = failed(channel, SEARCH + "KeywordSearch", huge * 500, compression=grpc.Compression.Gzip)
        assert packed.code() is Code.RESOURCE_EXHAUSTED
        headers = (("x", "a" * 65_536),)
        error = failed(channel, SEARCH + "KeywordSearch", b"\n\x04dock", metadata=headers)
        assert error.code() is Code.RESOURCE_EXHAUSTED
        assert keyword(channel, "dock").hits


@requirement("grpc.security")
def test_an_oversized_response_is_an_error_with_advice() -> None:
    index = open_index(None, embedder=None)
    words = " ".join(f"word{number}" for number in range(2_000))
    index.put(Document(f"{number}", text=words) for number in range(50))
    settings = ServerSettings(max_message_bytes=65_536)
    with serving(index, settings=settings) as running, raw_channel(running.address) as channel:
        request = wire.KeywordSearchRequest(query=words, limit=50, explain=True).SerializeToString()
        error = failed(channel, SEARCH + "KeywordSearch", request)
        assert error.code() is Code.INVALID_ARGUMENT
        assert "without explain" in str(error.details())
        assert len(keyword(channel, words, limit=50).hits) == 50


def test_a_long_document_is_sent_in_parts_and_joined_by_the_client() -> None:
    index = open_index(None, embedder=None)
    text = "ä line of text\n" * 400_000 + "ü" * 3_000_000
    index.put([Document("long", text=text)])
    with serving(index) as running, Client(running.address) as client, raw_channel(running.address) as channel:
        request = wire.GetDocumentRequest(document_id="long")
        got, _ = ask(channel, SEARCH + "GetDocument", request, wire.GetDocumentResponse)
        assert 0 < got.part.end_byte <= 2 * 1024 * 1024 < got.part.total_bytes
        assert client.get("long").text == text


@requirement("grpc.writes-are-opt-in")
@pytest.mark.parametrize("method", ["PutDocuments", "DeleteDocuments", "GetStats"])
def test_writing_is_impossible_unless_enabled(channel: grpc.Channel, method: str) -> None:
    assert failed(channel, WRITE + method, b"").code() is Code.UNIMPLEMENTED


@requirement("grpc.writes-are-opt-in", "grpc.writes")
def test_documents_are_put_and_deleted_if_enabled() -> None:
    index = open_index(None, Concepts())
    with serving(index, index) as running, Client(running.address) as client:
        written = client.put([*mails(), mails()[0]._replace(title="the later of two")])
        assert (written.added, written.changed, written.unchanged) == (31, 0, 0)
        assert client.get("mail-000").title == "the later of two"
        assert client.put(mails()).unchanged == 30
        assert client.stats() == index.stats()
        assert client.delete(["mail-000", "nope"]) == 1
        assert index.stats().documents == 30


@requirement("grpc.writes")
def test_a_bad_document_in_a_stream_is_rejected_with_the_number_of_stored_ones() -> None:
    index = open_index(None, embedder=None)
    with serving(index, index) as running, raw_channel(running.address) as channel:
        good = [wire.Document(document_id=str(number), text="text") for number in range(300)]
        messages = [
            wire.PutDocumentsRequest(documents=good),
            wire.PutDocumentsRequest(documents=[wire.Document(document_id="bad", metadata_json="[")]),
        ]
        call: Any = channel.stream_unary(WRITE + "PutDocuments")
        with pytest.raises(grpc.RpcError) as caught:
            call((message.SerializeToString() for message in messages), timeout=PATIENCE_S)
        assert caught.value.code() is Code.INVALID_ARGUMENT
        assert info_of(caught.value)[0].metadata["documents_kept"] == "256"
        assert index.stats().documents == 256


@requirement("grpc.health-and-reflection")
def test_health_is_reported_per_service_and_overall(channel: grpc.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", "search.v1.SearchService"):
        assert stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S).status == 1
    for service in ("search.v1.WriteService", "nope"):
        with pytest.raises(grpc.RpcError) as error:
            stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S)
        assert error.value.code() is Code.NOT_FOUND


@requirement("grpc.health-and-reflection")
def test_reflection_describes_the_contract(channel: grpc.Channel) -> None:
    described = ProtoReflectionDescriptorDatabase(channel)
    assert set(described.get_services()) == {
        "search.v1.SearchService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    file = described.FindFileContainingSymbol("search.v1.SearchService")
    assert [method.name for method in file.service[0].method][:3] == [
        "KeywordSearch",
        "SemanticSearch",
        "FilterDocuments",
    ]


@requirement("grpc.health-and-reflection")
def test_stopping_finishes_running_calls_and_notifies_health_watchers() -> None:
    index, embedder, _ = slow_index()
    with serving(index) as running, raw_channel(running.address) as channel:
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
        begun = raw_call(channel, SEARCH + "SemanticSearch").future(b"\n\x0bQ3 forecast", timeout=PATIENCE_S)
        assert embedder.entered.wait(PATIENCE_S)
        ended = asyncio.run_coroutine_threadsafe(running.server.stop(PATIENCE_S), running.loop)
        assert next(watched).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watched.cancel()
        embedder.go_on.set()
        assert wire.SearchResponse.FromString(begun.result(PATIENCE_S)).hits
        ended.result(PATIENCE_S)
        assert failed(channel, SEARCH + "KeywordSearch", b"\n\x04dock").code() is Code.UNAVAILABLE


@requirement("grpc.security")
def test_tls_works_and_mutual_tls_rejects_callers_without_a_certificate() -> None:
    authority, stranger = Authority(), Authority()
    server, caller, forged = authority.pair("server"), authority.pair("caller"), stranger.pair("caller")
    settings = ServerSettings(certificate=server.certificate, private_key=server.private_key, client_ca=authority.pem)
    with serving(settings=settings) as running:
        address = running.address
        with Client(address, ca=authority.pem, certificate=caller[0], private_key=caller[1]) as client:
            assert client.keyword("dock").hits
        refused = [
            Client(address, timeout_s=10),
            Client(address, ca=authority.pem, timeout_s=10),
            Client(address, ca=stranger.pem, certificate=caller[0], private_key=caller[1], timeout_s=10),
            Client(address, ca=authority.pem, certificate=forged[0], private_key=forged[1], timeout_s=10),
        ]
        for client in refused:
            with client, pytest.raises(RemoteError, match=r"\((UNAVAILABLE|DEADLINE_EXCEEDED)\)"):
                client.keyword("dock")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (ServerSettings(certificate=b"x"), "needs its private key"),
        (ServerSettings(private_key=b"x"), "needs a certificate"),
        (ServerSettings(client_ca=b"x"), "needs a certificate"),
        (ServerSettings(certificate=b"no", private_key=b"no"), "cannot be used"),
    ],
)
def test_incomplete_tls_settings_are_rejected(settings: ServerSettings, why: str) -> None:
    server = GrpcServer(Documents(mail_index()), settings=settings)
    with pytest.raises(InputError, match=why):
        asyncio.run(server.start("127.0.0.1", 0))


def test_a_taken_port_is_reported(running: Running) -> None:
    second = GrpcServer(Documents(mail_index()))
    with pytest.raises(InputError, match="the port is taken"):
        asyncio.run(second.start("127.0.0.1", running.port))


@pytest.mark.parametrize("method", ["/search.v1.SearchService/Nope", "/../../etc/passwd", "/", "/x/y/z"])
def test_an_unknown_method_is_unimplemented(channel: grpc.Channel, method: str) -> None:
    assert failed(channel, method, b"").code() is Code.UNIMPLEMENTED


@pytest.mark.parametrize(
    "noise", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 1000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 999]
)
def test_garbage_on_the_port_does_not_disturb_others(running: Running, channel: grpc.Channel, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S) as connection:
        connection.sendall(noise)
        assert keyword(channel, "dock").hits


def test_a_valid_request_id_is_kept_and_an_invalid_one_replaced(channel: grpc.Channel) -> None:
    request = wire.KeywordSearchRequest(query="dock")
    for given, kept in [("trace-1.a", True), ("a b", False), ("x" * 200, False), ('{"a": 1}', False)]:
        metadata = (("x-request-id", given),)
        _, call = ask(channel, SEARCH + "KeywordSearch", request, wire.SearchResponse, metadata=metadata)
        assert (dict(call.trailing_metadata())["x-request-id"] == given) is kept


def test_filters_are_applied(channel: grpc.Channel) -> None:
    bob = keyword(channel, "ticket", filter=wire.Filter(author=["bob"]), limit=50)
    assert {hit.author for hit in bob.hits} == {"bob@tidewheel.example"}
    assert len(bob.hits) == len(mail_index().keyword("ticket", Filter(author=("bob",)), 50).hits)
    assert keyword(channel, "ticket", filter=wire.Filter(), limit=50).hits == keyword(channel, "ticket", limit=50).hits
    assert Filter() == EVERYTHING
