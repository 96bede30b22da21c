"""Synchronous and asynchronous clients with the names, arguments, results and errors of an Index.

    with Client("127.0.0.1:50051") as client:
        client.keyword("dock sensors").hits[0].title

`AsyncClient` has the same methods as coroutines. Each method is written once, as a generator that yields the requests
to send, receives the responses, and returns what the Index would return. It does not know how messages travel; the two
clients drive it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import grpc
from google.protobuf.message import Message

from onhand.document import EVERYTHING, Document, Filter
from onhand.errors import InputError, OnhandError, StoreError
from onhand.grpc import DEFAULT_PORT, translate
from onhand.grpc import search_pb2 as wire
from onhand.grpc.statuses import error_of
from onhand.net import LOOPBACK_HOST, is_loopback
from onhand.search.index import AS_DECLARED, BATCH, DEFAULT_LIMIT, MAX_LIMIT, Stats, Written
from onhand.search.result import SearchResult
from onhand.search.validation import check_min_score, validate_document, validate_filter, validate_id, validate_query

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_ADDRESS = f"{LOOPBACK_HOST}:{DEFAULT_PORT}"
DEFAULT_TIMEOUT_S = 30.0
MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # of a response; a server sends less unless its operator raised the limit
BATCH_BYTES = 1024 * 1024  # of documents in one message
MAX_IDS = 1_000  # of documents to delete in one message


class RequestStream:
    """A stream of request messages. If producing one fails, it ends and keeps the error, which gRPC would swallow."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.error: Exception | None = None
        self._messages = messages

    def __iter__(self) -> Iterator[Message]:
        try:
            yield from self._messages
        except Exception as error:
            self.error = error


class RpcRequest(NamedTuple):
    """An RPC to send: its message or stream of messages, and the type of its response."""

    service: str
    method: str
    request: Message | RequestStream
    response: type[Message]


RpcGenerator = Generator[RpcRequest, Any, T]


def keyword(
    query: str,
    filter: Filter = EVERYTHING,
    limit: int = DEFAULT_LIMIT,
    min_score: float | None = None,
    *,
    explain: bool = True,
) -> RpcGenerator[SearchResult]:
    """Return the documents that best match the query's words; `explain` adds which words matched."""
    request = wire.KeywordSearchRequest(query=validate_query(query), filter=_filter_message(filter), explain=explain)
    if min_score is not None:
        request.min_score = check_min_score(min_score, 0.0)
    return (yield from _fetch_pages("KeywordSearch", request, request.query, limit))


def semantic(
    query: str,
    filter: Filter = EVERYTHING,
    limit: int = DEFAULT_LIMIT,
    min_score: float | str | None = AS_DECLARED,
) -> RpcGenerator[SearchResult]:
    """Return the documents closest in meaning to the query, with a cosine of at least `min_score`."""
    request = wire.SemanticSearchRequest(query=validate_query(query), filter=_filter_message(filter))
    if min_score != AS_DECLARED:
        request.min_score = _wire_min_score(min_score, -1.0)
    return (yield from _fetch_pages("SemanticSearch", request, request.query, limit))


def filter(
    filter: Filter = EVERYTHING, limit: int = DEFAULT_LIMIT, order_by: str = "created_time desc"
) -> RpcGenerator[SearchResult]:
    """Return the documents that pass the filter, in order, without scores."""
    request = wire.FilterRequest(filter=_filter_message(filter), order_by=order_by)
    return (yield from _fetch_pages("FilterDocuments", request, "", limit))


def fused(
    query: str,
    filter: Filter = EVERYTHING,
    limit: int = DEFAULT_LIMIT,
    min_score: float | str | None = AS_DECLARED,
    *,
    explain: bool = True,
) -> RpcGenerator[SearchResult]:
    """Search by words and by meaning; without an embedder, search by words alone, with a note that says so."""
    request = wire.FusedSearchRequest(query=validate_query(query), filter=_filter_message(filter), explain=explain)
    if min_score != AS_DECLARED:
        request.min_score = _wire_min_score(min_score, 0.0)
    return (yield from _fetch_pages("FusedSearch", request, request.query, limit))


def get(document_id: str) -> RpcGenerator[Document]:
    """Return a whole document, in as many calls as that takes."""
    request = wire.GetDocumentRequest(document_id=validate_id(document_id))
    texts: list[str] = []
    size = None
    while True:
        response = yield RpcRequest("SearchService", "GetDocument", request, wire.GetDocumentResponse)
        if size not in (None, response.part.total_bytes):
            raise StoreError(f"document {document_id[:200]!r} changed while it was being read: try again")
        size = response.part.total_bytes
        texts.append(response.document.text)
        if response.part.end_byte >= size:
            return translate.document_of(response.document)._replace(text="".join(texts))
        request.first_byte = response.part.end_byte


def put(documents: Iterable[Document]) -> RpcGenerator[Written]:
    """Add documents, or replace those with the same id; unchanged documents are not written again."""
    stream = RequestStream(translate.put_messages(map(validate_document, documents), BATCH, BATCH_BYTES))
    response = yield RpcRequest("WriteService", "PutDocuments", stream, wire.PutDocumentsResponse)
    if stream.error:
        raise stream.error
    return translate.written_of(response)


def delete(ids: Collection[str]) -> RpcGenerator[int]:
    """Delete documents, and return how many of them existed."""
    all_ids = [validate_id(document_id) for document_id in ([ids] if isinstance(ids, str) else ids)]
    deleted = 0
    for start in range(0, len(all_ids), MAX_IDS):
        request = wire.DeleteDocumentsRequest(document_ids=all_ids[start : start + MAX_IDS])
        response = yield RpcRequest("WriteService", "DeleteDocuments", request, wire.DeleteDocumentsResponse)
        deleted += response.deleted
    return deleted


def stats() -> RpcGenerator[Stats]:
    """Return what the index contains, and whether semantic search is available."""
    response = yield RpcRequest("WriteService", "GetStats", wire.GetStatsRequest(), wire.GetStatsResponse)
    return translate.stats_of(response)


def _fetch_pages(method: str, request: Any, query: str, limit: int) -> RpcGenerator[SearchResult]:
    """Request pages until there are `limit` hits, or no more pages."""
    value: object = limit  # callers may ignore the annotation
    if not isinstance(value, int) or value < 1:
        raise InputError(f"limit is {limit!r}, but must be at least 1", "limit")
    responses: list[wire.SearchResponse] = []
    missing = limit
    while True:
        request.limit = min(missing, MAX_LIMIT)
        response = yield RpcRequest("SearchService", method, request, wire.SearchResponse)
        responses.append(response)
        missing -= len(response.hits)
        request.page_token = response.next_page_token
        if not request.page_token or missing < 1 or not response.hits:
            return translate.result_of(responses, query, limit)


def _filter_message(filter: Filter) -> wire.Filter:
    return translate.filter_message(validate_filter(filter))


def _wire_min_score(min_score: float | str | None, least: float) -> float:
    return translate.ANY_SCORE if min_score is None else check_min_score(min_score, least, 1.0)


class _Channel:
    """The connection to a server."""

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        token: str = "",
        tls: bool = False,
        ca: bytes = b"",
        certificate: bytes = b"",
        private_key: bytes = b"",
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Open a channel.

        `tls` trusts this machine's certificate authorities, `ca` (PEM) trusts only that one, and `certificate` is the
        client's own.
        """
        self._timeout_s = timeout_s
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
        if is_loopback(address.rpartition(":")[0].strip("[]")):
            options.append(("grpc.enable_http_proxy", 0))  # a proxy could not reach this machine
        elif token and not (tls or ca):
            raise InputError(
                "a token is not sent unencrypted to another machine: pass tls=True, or its certificate authority as ca"
            )
        if tls or ca:
            credentials = grpc.ssl_channel_credentials(ca or None, private_key or None, certificate or None)
            self._channel = self._connections.secure_channel(address, credentials, options)
        else:
            self._channel = self._connections.insecure_channel(address, options)

    _connections: Any = grpc

    def _call(self, request: RpcRequest) -> Any:
        """Send a request. Return the response or, in an event loop, an awaitable of it."""
        service = wire.DESCRIPTOR.services_by_name[request.service].full_name
        kind = self._channel.stream_unary if isinstance(request.request, RequestStream) else self._channel.unary_unary
        method = kind(
            f"/{service}/{request.method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=request.response.FromString,
        )
        if isinstance(request.request, RequestStream):  # it lasts as long as the caller takes to produce documents
            return method(iter(request.request), metadata=self._metadata)
        return method(request.request, timeout=self._timeout_s, metadata=self._metadata)


def _sync_method(rpcs: Callable[P, RpcGenerator[T]]) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._drive(rpcs(*args, **kwargs))

    return update_wrapper(method, rpcs)


def _async_method(rpcs: Callable[P, RpcGenerator[T]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self._drive(rpcs(*args, **kwargs))

    return update_wrapper(method, rpcs)


class Client(_Channel):
    """A client that blocks until the server responds. Threads may share it."""

    keyword = _sync_method(keyword)
    semantic = _sync_method(semantic)
    filter = _sync_method(filter)
    fused = _sync_method(fused)
    get = _sync_method(get)
    put = _sync_method(put)
    delete = _sync_method(delete)
    stats = _sync_method(stats)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _drive(self, rpcs: RpcGenerator[T]) -> T:
        response = None
        while True:
            try:
                request = rpcs.send(response)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                response = self._call(request)
            except grpc.RpcError as error:
                raise _to_onhand_error(error) from None


class AsyncClient(_Channel):
    """A client for use inside an event loop."""

    _connections = grpc.aio

    keyword = _async_method(keyword)
    semantic = _async_method(semantic)
    filter = _async_method(filter)
    fused = _async_method(fused)
    get = _async_method(get)
    put = _async_method(put)
    delete = _async_method(delete)
    stats = _async_method(stats)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _drive(self, rpcs: RpcGenerator[T]) -> T:
        response = None
        while True:
            try:
                request = rpcs.send(response)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                response = await self._call(request)
            except grpc.RpcError as error:
                raise _to_onhand_error(error) from None


def _to_onhand_error(error: Any) -> OnhandError:
    trailers = dict(tuple(error.trailing_metadata() or ()))  # an iterable of pairs that only looks like a mapping
    return error_of(error.code(), error.details() or "", trailers)
