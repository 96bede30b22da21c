"""A real gRPC server on a free port of this machine, in an event loop of its own, for the tests of the door."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, NamedTuple

import grpc

from mail import Concepts, mails
from onhand import open_index
from onhand.corpora.documents import Documents
from onhand.grpc import GrpcServer, ServerSettings
from onhand.grpc import search_pb2 as wire
from onhand.grpc.calls import CallTelemetry
from onhand.search.index import Index

SEARCH, WRITE = "/search.v1.SearchService/", "/search.v1.WriteService/"
PATIENCE_S = 60  # of a test for what should come at once: the machine may be busy


class Running(NamedTuple):
    """A server that runs, and the loop that it runs in."""

    server: GrpcServer
    port: int
    loop: asyncio.AbstractEventLoop

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self, grace_s: float = PATIENCE_S) -> None:
        """Stop it, and wait until it has."""
        asyncio.run_coroutine_threadsafe(self.server.stop(grace_s), self.loop).result(PATIENCE_S)


def mail_index() -> Index:
    """The small corpus of mail, in memory, with an embedder."""
    index = open_index(None, Concepts())
    index.put(mails())
    return index


@contextmanager
def serving(
    index: Index | None = None,
    writer: Index | None = None,
    settings: ServerSettings = ServerSettings(),  # noqa: B008  # immutable
    telemetry: CallTelemetry | None = None,
) -> Iterator[Running]:
    """A server over an index, until the block ends."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    server = GrpcServer(Documents(index or mail_index()), writer, settings, telemetry)
    try:
        port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(PATIENCE_S)
        running = Running(server, port, loop)
        try:
            yield running
        finally:
            running.stop()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def raw_channel(address: str) -> Iterator[grpc.Channel]:
    """A channel for messages as they are."""
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]) as it:
        yield it


def raw_call(channel: grpc.Channel, method: str) -> Any:
    """A method that takes bytes and gives bytes."""
    return channel.unary_unary(method)


def ask(channel: grpc.Channel, method: str, request: Any, response: Any, **options: Any) -> Any:
    """The answer to a message, and the call that it came by."""
    options.setdefault("timeout", PATIENCE_S)
    raw, call = raw_call(channel, method).with_call(request.SerializeToString(), **options)
    return response.FromString(raw), call


def keyword(channel: grpc.Channel, query: str, **fields: Any) -> wire.SearchResponse:
    """What a search by words answers."""
    request = wire.KeywordSearchRequest(query=query, **fields)
    answer: wire.SearchResponse = ask(channel, SEARCH + "KeywordSearch", request, wire.SearchResponse)[0]
    return answer


def failed(channel: grpc.Channel, method: str, raw: bytes, **options: Any) -> Any:
    """The error that a call ends with."""
    options.setdefault("timeout", PATIENCE_S)
    try:
        raw_call(channel, method)(raw, **options)
    except grpc.RpcError as error:
        return error
    raise AssertionError(f"{method} did not fail")
