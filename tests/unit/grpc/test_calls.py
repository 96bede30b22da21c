"""The log, spans and metrics of calls, and what they leave out."""

import json
import logging
from logging.handlers import QueueHandler
from queue import Queue
from threading import Thread
from time import time

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from grpc_serving import SEARCH, failed, keyword, raw_call, raw_channel, serving
from onhand import InputError, open_index
from onhand.document import Match
from onhand.errors import StoreError
from onhand.grpc import Client, ServerSettings
from onhand.grpc.calls import log
from onhand.grpc.telemetry import OpenTelemetry, serve_metrics
from onhand.search.index import Index
from onhand.store.memory import MemoryStore
from requirements import requirement

SECRET = "zephyranthes"


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "onhand.grpc"]


@requirement("grpc.observability")
def test_each_call_is_logged_with_its_request_id_and_without_the_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "onhand.grpc")
    with serving() as running, raw_channel(running.address) as channel:
        keyword(channel, SECRET)
        keyword(channel, "dock", limit=3)
        request_id = (("x-request-id", "mine-1"),)
        failed(
            channel,
            SEARCH + "KeywordSearch",
            b"\n\x0c" + SECRET.encode() + b"\x18\xff\xff\xff\xff\x0f",
            metadata=request_id,
        )
    calls = [line for line in lines(caplog) if line["event"] == "call"]
    assert [(line["method"], line["code"], line.get("hits")) for line in calls] == [
        (SEARCH + "KeywordSearch", "OK", 0),
        (SEARCH + "KeywordSearch", "OK", 3),
        (SEARCH + "KeywordSearch", "INVALID_ARGUMENT", None),
    ]
    assert calls[2]["request_id"] == "mine-1"
    assert len({line["request_id"] for line in calls}) == 3
    assert SECRET not in caplog.text
    assert [line["event"] for line in lines(caplog)][:1] == ["started"]
    assert lines(caplog)[-1]["event"] == "stopped"


def test_log_records_behave_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "onhand.grpc")
    before = time()
    log(logging.WARNING, "refused", method="/a/b")
    log(logging.DEBUG, "not asked for")
    (line,) = caplog.records
    assert before <= line.created <= time()
    ordinary = logging.makeLogRecord({})  # made by Python itself, a moment later
    assert ordinary.relativeCreated - line.relativeCreated == pytest.approx(
        (ordinary.created - line.created) * 1000, abs=0.01
    )
    parts = "%(asctime)s|%(msecs)d|%(levelname)s|%(name)s|%(filename)s|%(lineno)d|%(threadName)s|%(message)s"
    *_, level, name, _, _, _, message = logging.Formatter(parts).format(line).split("|")
    assert (level, name, json.loads(message)) == ("WARNING", "onhand.grpc", {"event": "refused", "method": "/a/b"})
    assert QueueHandler(Queue()).prepare(line).getMessage() == message
    assert str(line.msg) == message
    assert (line.process, line.processName) == (ordinary.process, ordinary.processName)


def test_a_log_record_names_its_thread(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "onhand.grpc")
    thread = Thread(target=lambda: log(logging.INFO, "started"), name="a-thread")
    thread.start()
    thread.join()
    (line,) = caplog.records
    assert (line.threadName, line.thread) == ("a-thread", thread.ident)


@requirement("grpc.observability")
def test_queries_are_logged_if_the_operator_enables_that(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "onhand.grpc")
    forged = 'dock\n{"event": "call"}\x1b[2J'
    with serving(settings=ServerSettings(log_queries=True)) as running, raw_channel(running.address) as channel:
        keyword(channel, forged)
    (call,) = [line for line in lines(caplog) if line["event"] == "call"]
    assert call["query"] == forged
    assert all(record.getMessage().isprintable() for record in caplog.records if record.name == "onhand.grpc")


@requirement("grpc.observability")
def test_the_log_has_error_details_that_the_caller_does_not_get(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryStore):
        def keyword(self, *args, **kwargs) -> list[Match]:  # type: ignore[no-untyped-def]
            raise StoreError("/srv/documents.db: the disk is full")

    caplog.set_level(logging.INFO, "onhand.grpc")
    with serving(Index(Broken())) as running, raw_channel(running.address) as channel:
        failed(channel, SEARCH + "KeywordSearch", b"\n\x04dock")
    (call,) = [line for line in lines(caplog) if line["event"] == "call"]
    assert (call["code"], call["error"]) == ("UNAVAILABLE", "StoreError: /srv/documents.db: the disk is full")


def test_a_rejected_call_is_logged_without_its_contents(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "onhand.grpc")
    settings = ServerSettings(token="a-token-of-enough-characters")
    with serving(settings=settings) as running, raw_channel(running.address) as channel:
        error = failed(channel, SEARCH + "KeywordSearch", b"", metadata=(("authorization", f"Bearer {SECRET}"),))
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    (refused,) = [line for line in lines(caplog) if line["event"] == "refused"]
    assert refused == {"event": "refused", "method": SEARCH + "KeywordSearch", "code": "UNAUTHENTICATED"}
    assert SECRET not in caplog.text


@requirement("grpc.observability")
def test_spans_continue_the_callers_trace_and_metrics_count_by_method_and_status() -> None:
    exporter, provider, registry = InMemorySpanExporter(), TracerProvider(), CollectorRegistry()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = OpenTelemetry(registry, provider)
    parent = f"00-{0xABC:032x}-{0xDEF:016x}-01"
    metadata = (("traceparent", parent), ("x-request-id", "mine-1"))
    with serving(telemetry=telemetry) as running, raw_channel(running.address) as channel:
        call = raw_call(channel, SEARCH + "KeywordSearch")
        call(b"\n\x0c" + SECRET.encode(), metadata=metadata, timeout=60)
        failed(channel, SEARCH + "KeywordSearch", b"")
    good, bad = exporter.get_finished_spans()
    assert good.name == "search.v1.SearchService/KeywordSearch"
    assert good.kind is trace.SpanKind.SERVER
    assert good.context is not None
    assert good.context.trace_id == 0xABC
    assert good.attributes is not None
    assert (good.attributes["onhand.request_id"], good.attributes["rpc.grpc.status_code"]) == ("mine-1", "OK")
    assert bad.status.status_code is trace.StatusCode.ERROR
    shown = generate_latest(registry).decode()
    assert f'onhand_grpc_calls_total{{code="OK",method="{SEARCH}KeywordSearch"}} 1.0' in shown
    assert f'onhand_grpc_calls_total{{code="INVALID_ARGUMENT",method="{SEARCH}KeywordSearch"}} 1.0' in shown
    assert "onhand_grpc_calls_running 0.0" in shown
    assert SECRET not in shown + "".join(span.to_json() for span in (good, bad))


@requirement("grpc.observability")
def test_metrics_are_served_and_a_taken_port_is_reported() -> None:
    from urllib.request import urlopen

    registry = CollectorRegistry()
    OpenTelemetry(registry)
    server, port = serve_metrics("127.0.0.1", 0, registry)
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as got:
            assert b"onhand_grpc_calls_running" in got.read()
        with pytest.raises(InputError, match="cannot serve metrics"):
            serve_metrics("127.0.0.1", port, registry)
    finally:
        server.shutdown()
        server.server_close()


def test_writes_are_logged_with_the_number_of_documents(caplog: pytest.LogCaptureFixture) -> None:
    from mail import mails

    caplog.set_level(logging.INFO, "onhand.grpc")
    index = open_index(None, embedder=None)
    with serving(index, index) as running, Client(running.address) as client:
        client.put(mails())
    (call,) = [line for line in lines(caplog) if line["event"] == "call"]
    assert (call["method"], call["documents"]) == ("/search.v1.WriteService/PutDocuments", 31)
