"""The RPCs behind each method of the clients, written once as generators for sync and async clients alike.

A generator yields the requests to send, receives the responses, and returns what the Index would return. It does not
know how messages travel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import Message

from onhand.document import EVERYTHING, Document, Filter
from onhand.errors import InputError, StoreError
from onhand.grpc import search_pb2 as wire
from onhand.grpc import translate
from onhand.search.index import AS_DECLARED, BATCH, DEFAULT_LIMIT, MAX_LIMIT, Stats, Written
from onhand.search.result import Result
from onhand.search.validation import validate_document, validate_filter, validate_id, validate_query

T = TypeVar("T")

BATCH_BYTES = 1024 * 1024  # of documents in one message
MAX_IDS = 1_000  # of documents to delete in one message


class RequestStream:
    """A stream of request messages. It ends when producing one fails and keeps the error, which gRPC would swallow."""

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
    query: str, filter: Filter = EVERYTHING, limit: int = DEFAULT_LIMIT, *, explain: bool = True
) -> RpcGenerator[Result]:
    """Return the documents that best match the query's words; `explain` adds which words matched."""
    query, filter_wire = validate_query(query), translate.filter_message(validate_filter(filter))

    def page(size: int, token: str) -> RpcRequest:
        request = wire.KeywordSearchRequest(
            query=query, filter=filter_wire, limit=size, page_token=token, explain=explain
        )
        return RpcRequest("SearchService", "KeywordSearch", request, wire.SearchResponse)

    return (yield from _fetch_pages(page, query, limit))


def semantic(
    query: str,
    filter: Filter = EVERYTHING,
    limit: int = DEFAULT_LIMIT,
    min_score: float | str | None = AS_DECLARED,
) -> RpcGenerator[Result]:
    """Return the documents closest in meaning to the query, with a cosine of at least `min_score`."""
    query, filter_wire = validate_query(query), translate.filter_message(validate_filter(filter))
    least = _wire_min_score(min_score)

    def page(size: int, token: str) -> RpcRequest:
        request = wire.SemanticSearchRequest(query=query, filter=filter_wire, limit=size, page_token=token)
        if least is not None:
            request.min_score = least
        return RpcRequest("SearchService", "SemanticSearch", request, wire.SearchResponse)

    return (yield from _fetch_pages(page, query, limit))


def filter(
    filter: Filter = EVERYTHING, limit: int = DEFAULT_LIMIT, order_by: str = "created_time desc"
) -> RpcGenerator[Result]:
    """Return the documents that pass the filter, in order, without scores."""
    filter_wire = translate.filter_message(validate_filter(filter))

    def page(size: int, token: str) -> RpcRequest:
        request = wire.FilterRequest(filter=filter_wire, limit=size, order_by=order_by, page_token=token)
        return RpcRequest("SearchService", "FilterDocuments", request, wire.SearchResponse)

    return (yield from _fetch_pages(page, "", limit))


def fused(
    query: str, filter: Filter = EVERYTHING, limit: int = DEFAULT_LIMIT, *, explain: bool = True
) -> RpcGenerator[Result]:
    """Search by keywords and semantics; without an embedder, by keywords alone, with a note that says so."""
    query, filter_wire = validate_query(query), translate.filter_message(validate_filter(filter))

    def page(size: int, token: str) -> RpcRequest:
        request = wire.FusedSearchRequest(
            query=query, filter=filter_wire, limit=size, page_token=token, explain=explain
        )
        return RpcRequest("SearchService", "FusedSearch", request, wire.SearchResponse)

    return (yield from _fetch_pages(page, query, limit))


def get(document_id: str) -> RpcGenerator[Document]:
    """Return a whole document, in as many calls as that takes."""
    request = wire.GetDocumentRequest(document_id=validate_id(document_id))
    texts: list[str] = []
    size = None
    while True:
        got = yield RpcRequest("SearchService", "GetDocument", request, wire.GetDocumentResponse)
        if size not in (None, got.part.total_bytes):
            raise StoreError(f"document {document_id[:200]!r} changed while it was being read: try again")
        size = got.part.total_bytes
        texts.append(got.document.text)
        if got.part.end_byte >= size:
            return translate.document_of(got.document)._replace(text="".join(texts))
        request.first_byte = got.part.end_byte


def put(documents: Iterable[Document]) -> RpcGenerator[Written]:
    """Add documents or replace those with the same id; unchanged ones cost nothing."""
    stream = RequestStream(translate.put_messages(map(validate_document, documents), BATCH, BATCH_BYTES))
    got = yield RpcRequest("WriteService", "PutDocuments", stream, wire.PutDocumentsResponse)
    if stream.error:
        raise stream.error
    return translate.written_of(got)


def delete(ids: Collection[str]) -> RpcGenerator[int]:
    """Delete documents and return how many there were."""
    wanted = [validate_id(document_id) for document_id in ([ids] if isinstance(ids, str) else ids)]
    deleted = 0
    for start in range(0, len(wanted), MAX_IDS):
        request = wire.DeleteDocumentsRequest(document_ids=wanted[start : start + MAX_IDS])
        got = yield RpcRequest("WriteService", "DeleteDocuments", request, wire.DeleteDocumentsResponse)
        deleted += got.deleted
    return deleted


def stats() -> RpcGenerator[Stats]:
    """Return what the index contains and whether semantic search is available."""
    got = yield RpcRequest("WriteService", "GetStats", wire.GetStatsRequest(), wire.GetStatsResponse)
    return translate.stats_of(got)


def _fetch_pages(page: Callable[[int, str], RpcRequest], query: str, limit: int) -> RpcGenerator[Result]:
    """Pages until there are as many hits as were filter_wire for, or no more."""
    given: object = limit
    if not isinstance(given, int) or given < 1:
        raise InputError(f"limit is {limit!r}, but must be at least 1", "limit")
    responses: list[wire.SearchResponse] = []
    missing, token = limit, ""
    while True:
        response = yield page(min(missing, MAX_LIMIT), token)
        responses.append(response)
        missing -= len(response.hits)
        token = response.next_page_token
        if not token or missing < 1 or not response.hits:
            return translate.result_of(responses, query, limit)


def _wire_min_score(min_score: float | str | None) -> float | None:
    """Return the value for the message, or None to use the embedder's declared one."""
    if min_score == AS_DECLARED:
        return None
    if min_score is None:
        return translate.ANY_SCORE
    if not isinstance(min_score, int | float) or not -1 <= min_score <= 1:
        raise InputError(f"min_score is a cosine, from -1 to 1, or None, not {min_score!r}", "min_score")
    return float(min_score)
