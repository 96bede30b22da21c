"""What is asked of a server for each thing that the Index can do? Written once, for callers that wait and that await.

An exchange is a generator: it yields what is to be sent, gets what came back, and returns what the Index would. It does
not know how messages travel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import Message

from onhand.document import EVERYTHING, Document, Filter
from onhand.errors import InputError, StoreError
from onhand.grpc import search_pb2 as wire
from onhand.grpc import translate
from onhand.search.accept import accepted, accepted_filter, accepted_id, accepted_query
from onhand.search.index import AS_DECLARED, BATCH, DEFAULT_LIMIT, MAX_LIMIT, Stats, Written
from onhand.search.result import Result

T = TypeVar("T")

BATCH_BYTES = 1024 * 1024  # of documents in one message
MAX_IDS = 1_000  # of documents to delete in one message


class Stream:
    """Messages, one after the other. They end where making one fails: what sends them would swallow the error."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.error: Exception | None = None
        self._messages = messages

    def __iter__(self) -> Iterator[Message]:
        try:
            yield from self._messages
        except Exception as error:
            self.error = error


class Ask(NamedTuple):
    """A call to make: a message, or a stream of them, and what comes back."""

    service: str
    method: str
    request: Message | Stream
    response: type[Message]


Exchange = Generator[Ask, Any, T]


def keyword(
    query: str, filter: Filter = EVERYTHING, limit: int = DEFAULT_LIMIT, *, explain: bool = True
) -> Exchange[Result]:
    """The documents that share the most telling words with the query; without `explain`, not which words."""
    query, asked = accepted_query(query), translate.filter_message(accepted_filter(filter))

    def page(size: int, token: str) -> Ask:
        request = wire.KeywordSearchRequest(query=query, filter=asked, limit=size, page_token=token, explain=explain)
        return Ask("SearchService", "KeywordSearch", request, wire.SearchResponse)

    return (yield from _pages(page, query, limit))


def semantic(
    query: str,
    filter: Filter = EVERYTHING,
    limit: int = DEFAULT_LIMIT,
    min_score: float | str | None = AS_DECLARED,
) -> Exchange[Result]:
    """The documents that mean most nearly what the query does, with a cosine of at least `min_score`."""
    query, asked = accepted_query(query), translate.filter_message(accepted_filter(filter))
    least = _least_score(min_score)

    def page(size: int, token: str) -> Ask:
        request = wire.SemanticSearchRequest(query=query, filter=asked, limit=size, page_token=token)
        if least is not None:
            request.min_score = least
        return Ask("SearchService", "SemanticSearch", request, wire.SearchResponse)

    return (yield from _pages(page, query, limit))


def filter(
    filter: Filter = EVERYTHING, limit: int = DEFAULT_LIMIT, order_by: str = "created_time desc"
) -> Exchange[Result]:
    """The documents that a filter lets through, in order; nothing is scored."""
    asked = translate.filter_message(accepted_filter(filter))

    def page(size: int, token: str) -> Ask:
        request = wire.FilterRequest(filter=asked, limit=size, order_by=order_by, page_token=token)
        return Ask("SearchService", "FilterDocuments", request, wire.SearchResponse)

    return (yield from _pages(page, "", limit))


def fused(
    query: str, filter: Filter = EVERYTHING, limit: int = DEFAULT_LIMIT, *, explain: bool = True
) -> Exchange[Result]:
    """Words and meaning together, from 0 to 1; words alone, and a note that says so, where there is no embedder."""
    query, asked = accepted_query(query), translate.filter_message(accepted_filter(filter))

    def page(size: int, token: str) -> Ask:
        request = wire.FusedSearchRequest(query=query, filter=asked, limit=size, page_token=token, explain=explain)
        return Ask("SearchService", "FusedSearch", request, wire.SearchResponse)

    return (yield from _pages(page, query, limit))


def get(document_id: str) -> Exchange[Document]:
    """A document in full, in as many calls as it needs."""
    request = wire.GetDocumentRequest(document_id=accepted_id(document_id))
    texts: list[str] = []
    size = None
    while True:
        got = yield Ask("SearchService", "GetDocument", request, wire.GetDocumentResponse)
        if size not in (None, got.part.total_bytes):
            raise StoreError(f"document {document_id[:200]!r} was changed while it was read: ask again")
        size = got.part.total_bytes
        texts.append(got.document.text)
        if got.part.end_byte >= size:
            return translate.document_of(got.document)._replace(text="".join(texts))
        request.first_byte = got.part.end_byte


def put(documents: Iterable[Document]) -> Exchange[Written]:
    """Keep documents, each in place of the one of its id; those that are there unchanged cost nothing."""
    stream = Stream(translate.put_messages(map(accepted, documents), BATCH, BATCH_BYTES))
    got = yield Ask("WriteService", "PutDocuments", stream, wire.PutDocumentsResponse)
    if stream.error:
        raise stream.error
    return translate.written_of(got)


def delete(ids: Collection[str]) -> Exchange[int]:
    """Take documents out; how many there were."""
    wanted = [accepted_id(document_id) for document_id in ([ids] if isinstance(ids, str) else ids)]
    deleted = 0
    for start in range(0, len(wanted), MAX_IDS):
        request = wire.DeleteDocumentsRequest(document_ids=wanted[start : start + MAX_IDS])
        got = yield Ask("WriteService", "DeleteDocuments", request, wire.DeleteDocumentsResponse)
        deleted += got.deleted
    return deleted


def stats() -> Exchange[Stats]:
    """What is in the index, and whether meaning can be searched."""
    got = yield Ask("WriteService", "GetStats", wire.GetStatsRequest(), wire.GetStatsResponse)
    return translate.stats_of(got)


def _pages(page: Callable[[int, str], Ask], query: str, limit: int) -> Exchange[Result]:
    """Pages until there are as many hits as were asked for, or no more."""
    given: object = limit
    if not isinstance(given, int) or given < 1:
        raise InputError(f"the limit is {limit!r}: ask for at least one", "limit")
    responses: list[wire.SearchResponse] = []
    missing, token = limit, ""
    while True:
        response = yield page(min(missing, MAX_LIMIT), token)
        responses.append(response)
        missing -= len(response.hits)
        token = response.next_page_token
        if not token or missing < 1 or not response.hits:
            return translate.result_of(responses, query, limit)


def _least_score(min_score: float | str | None) -> float | None:
    """What a message says of it: nothing where it is as declared."""
    if min_score == AS_DECLARED:
        return None
    if min_score is None:
        return translate.ANY_SCORE
    if not isinstance(min_score, int | float) or not -1 <= min_score <= 1:
        raise InputError(f"min_score is a cosine, from -1 to 1, or None, not {min_score!r}", "min_score")
    return float(min_score)
