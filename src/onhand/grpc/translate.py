"""Translate the messages of the contract into onhand's records and back, without any decisions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from struct import pack, unpack
from typing import TYPE_CHECKING, Any

from google.protobuf.timestamp_pb2 import Timestamp

from onhand.corpora.document_tools import MAX_NAME_CHARS, MAX_TITLE_CHARS, shorten
from onhand.document import EVERYTHING, Contribution, Document, Filter
from onhand.errors import InputError
from onhand.grpc import search_pb2 as wire
from onhand.search.index import AS_DECLARED, Stats, Written
from onhand.search.result import Hit, Layer, SearchResult
from onhand.store.store import Excerpt, PassageCounts

if TYPE_CHECKING:
    from onhand.corpora.documents import DocumentsPage, TextPart

    Searching = wire.KeywordSearchRequest | wire.SemanticSearchRequest | wire.FilterRequest | wire.FusedSearchRequest

ANY_SCORE = -1.0  # means "no minimum score" in a message, because no cosine is lower
MAX_TAGS_CHARS = 2_000  # of one hit's tags
MAX_METADATA_CHARS = 1_000_000
_PLACES = re.compile(r"(?<![\w.])(?:[A-Za-z]:\\|/)[^\s'\":,;)]*|\bhttps?://[^\s'\",;)]*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999


def request_filter(request: Searching) -> Filter:
    """Return the filter of a request."""
    # Most requests have none, and checking for that takes a sixth of the time of decoding an empty one.
    return filter_of(request.filter) if request.HasField("filter") else EVERYTHING


def filter_of(message: wire.Filter) -> Filter:
    """Return the filter in a message. Finer bounds are rounded up to the microseconds of document times."""
    after = _time(message.created_after, "filter.created_after", up=True) if message.HasField("created_after") else None
    before = (
        _time(message.created_before, "filter.created_before", up=True) if message.HasField("created_before") else None
    )
    return Filter(tuple(message.author), tuple(message.tags), after, before, tuple(message.scope))


def filter_message(filter: Filter) -> wire.Filter:
    """Return the filter as a message."""
    return wire.Filter(
        author=filter.author,
        tags=filter.tags,
        created_after=time_message(filter.created_after),
        created_before=time_message(filter.created_before),
        scope=filter.scope,
    )


def min_score_of(request: wire.SemanticSearchRequest | wire.FusedSearchRequest) -> float | str | None:
    """Return the minimum score of a request, in the form that the methods of `Index` take."""
    if not request.HasField("min_score"):
        return AS_DECLARED
    if request.min_score == ANY_SCORE:
        return None
    is_single = isinstance(request, wire.SemanticSearchRequest)
    return shortest_decimal(request.min_score) if is_single else request.min_score


def shortest_decimal(single: float) -> float:
    """Return the shortest decimal number that a 32-bit float represents: 0.7 rather than 0.699999988."""
    for digits in range(6, 9):
        candidate = float(f"{single:.{digits}g}")
        if abs(candidate) < 1e38 and unpack("f", pack("f", candidate))[0] == single:
            return candidate
    return single


def response_of(answer: DocumentsPage) -> wire.SearchResponse:
    """Return a page of hits as a message."""
    response = wire.SearchResponse(
        next_page_token=answer.next_page_token,
        notes=map(_redact_locations, answer.notes),
        reason=_redact_locations(answer.reason or ""),
    )
    for hit in answer.hits:
        _add_hit(response, hit)
    if answer.total is not None:
        response.total_size = answer.total
    if answer.min_score is not None:
        response.min_score = answer.min_score
    return response


def _add_hit(response: wire.SearchResponse, hit: Hit) -> None:
    # Filling a hit in place avoids the copy that appending a finished message would make.
    message = response.hits.add(
        document_id=hit.document_id,
        title=shorten(hit.title, MAX_TITLE_CHARS),
        snippet=hit.snippet,
        score=hit.score,
        author=shorten(hit.author, MAX_NAME_CHARS),
        created_time=time_message(hit.created_time),
        exact_score=hit.score,
        tags=_fit_tags(hit.tags),
        scope=shorten(hit.scope, MAX_NAME_CHARS),
        kind=shorten(hit.kind, MAX_NAME_CHARS),
    )
    if hit.excerpt is not None:
        message.first_line, message.last_line = hit.excerpt.lines
        message.first_byte, message.end_byte = hit.excerpt.bytes or (0, 0)
    for name, rank, score, share, terms in hit.layers:
        layer = message.layers.add(name=name, rank=rank, score=score, share=share)
        for term, field, part in terms:
            layer.terms.add(term=term, field=field, score=part)


def _fit_tags(tags: Sequence[str]) -> list[str]:
    room, fitting = MAX_TAGS_CHARS, []
    for tag in tags:
        room -= len(tag)
        if room < 0:
            break
        fitting.append(tag)
    return fitting


def result_of(responses: Sequence[wire.SearchResponse], query: str, limit: int) -> SearchResult:
    """Return the pages of one search as the result of an Index. The text of a hit is its snippet."""
    first, last = responses[0], responses[-1]
    hits = [_hit_of(hit, query) for response in responses for hit in response.hits]
    return SearchResult(
        tuple(hits[:limit]),
        None if hits else first.reason or None,
        tuple(dict.fromkeys(note for response in responses for note in response.notes)),
        first.min_score if first.HasField("min_score") else None,
        first.total_size if first.HasField("total_size") else None,
        bool(last.next_page_token) or len(hits) > limit,
    )


def _hit_of(hit: wire.SearchHit, query: str) -> Hit:
    text = escape(hit.snippet, quote=False)  # so that the snippet made from this text is the one received
    return Hit(
        document_id=hit.document_id,
        title=hit.title,
        author=hit.author,
        tags=tuple(hit.tags),
        scope=hit.scope,
        created_time=_time(hit.created_time, "created_time") if hit.HasField("created_time") else None,
        kind=hit.kind,
        source_path="",
        score=hit.exact_score,
        layers=tuple(_layer_of(layer) for layer in hit.layers),
        text=text,
        query=query,
        excerpt=_excerpt_of(hit, text),
    )


def _excerpt_of(hit: wire.SearchHit, text: str) -> Excerpt | None:
    if not hit.first_line:
        return None
    return Excerpt(text, (hit.first_line, hit.last_line), (hit.first_byte, hit.end_byte) if hit.end_byte else None)


def _layer_of(layer: wire.Layer) -> Layer:
    terms = tuple(Contribution(term.term, term.field, term.score) for term in layer.terms)
    return Layer(layer.name, layer.rank, layer.score, layer.share, terms)


def document_of(message: wire.Document) -> Document:
    """Return the document in a message."""
    return Document(
        message.document_id,
        message.title,
        message.text,
        message.author,
        tuple(message.tags),
        message.scope,
        _time(message.created_time, "documents.created_time") if message.HasField("created_time") else None,
        _metadata(message),
        message.kind or "document",
        message.source,
    )


def document_message(document: Document, with_source: bool = False) -> wire.Document:
    """Return a document as a message. Its source is included only for the server that stores it."""
    return wire.Document(
        document_id=document.id,
        title=document.title,
        text=document.text,
        author=document.author,
        tags=document.tags,
        scope=document.scope,
        created_time=time_message(document.created_time),
        metadata_json=json.dumps(document.metadata, ensure_ascii=False) if document.metadata else "",
        kind=document.kind,
        source=document.source_path if with_source else "",
    )


def part_message(part: TextPart) -> wire.Part:
    """Return the position of a part of a text as a message."""
    return wire.Part(
        first_line=part.first_line,
        last_line=part.last_line,
        total_lines=part.lines,
        first_byte=part.first_byte,
        end_byte=part.end_byte,
        total_bytes=part.bytes,
    )


def range_of(request: wire.GetDocumentRequest) -> dict[str, int]:
    """Return the requested lines or bytes as keyword arguments of `Documents.get`."""
    names = ("first_line", "last_line", "first_byte", "max_bytes")
    return {name: getattr(request, name) for name in names if request.HasField(name)}


def written_message(written: Written) -> wire.PutDocumentsResponse:
    """Return the counts of written documents as a message."""
    return wire.PutDocumentsResponse(added=written.added, changed=written.changed, unchanged=written.unchanged)


def written_of(message: wire.PutDocumentsResponse) -> Written:
    """Return the counts of written documents."""
    return Written(message.added, message.changed, message.unchanged)


def stats_message(stats: Stats) -> wire.GetStatsResponse:
    """Return the statistics of an index as a message."""
    return wire.GetStatsResponse(
        documents=stats.documents,
        vectors=stats.vectors,
        embedder=stats.embedder,
        semantic=_redact_locations(stats.semantic),
        passages=stats.passages.vectors,
        cut_documents=stats.passages.cut_documents,
        left_out_bytes=stats.passages.left_out_bytes,
        semantic_weight=stats.semantic_weight,
    )


def stats_of(message: wire.GetStatsResponse) -> Stats:
    """Return the statistics of an index."""
    passages = PassageCounts(message.passages, message.cut_documents, message.left_out_bytes)
    embedder, weight = dict(message.embedder), message.semantic_weight
    return Stats(message.documents, message.vectors, embedder, message.semantic, passages, weight)


def put_messages(
    documents: Iterable[Document], max_documents: int, max_bytes: int
) -> Iterable[wire.PutDocumentsRequest]:
    """Yield messages of at most `max_documents` documents and, unless a single document is larger, `max_bytes`."""
    batch: list[wire.Document] = []
    room = max_bytes
    for document in documents:
        message = document_message(document, with_source=True)
        size = message.ByteSize()
        if batch and (len(batch) >= max_documents or size > room):
            yield wire.PutDocumentsRequest(documents=batch)
            batch, room = [], max_bytes
        batch.append(message)
        room -= size
    if batch:
        yield wire.PutDocumentsRequest(documents=batch)


def _redact_locations(text: str) -> str:
    """Replace paths and web addresses in a text, which would reveal something about this machine."""
    return _PLACES.sub("…", text)


def time_message(time: datetime | None) -> Timestamp | None:
    """Return a time as a message, or None, which omits the field."""
    if time is None:
        return None
    since = time - _EPOCH  # a timedelta has integer parts, which makes this cheap
    return Timestamp(seconds=since.days * 86_400 + since.seconds, nanos=since.microseconds * 1000)


def _time(message: Timestamp, field: str, up: bool = False) -> datetime:
    if not 0 <= message.nanos <= 999_999_999 or not _FIRST_SECOND <= message.seconds <= _LAST_SECOND:
        raise InputError(f"{field} must be a time in the years 1 to 9999, with nanos from 0 to 999,999,999", field)
    micros = -(-message.nanos // 1000) if up else message.nanos // 1000
    try:
        return _EPOCH + timedelta(seconds=message.seconds, microseconds=micros)
    except OverflowError:  # rounded up past the year 9999
        return datetime.max.replace(tzinfo=UTC)


def _metadata(message: wire.Document) -> dict[str, Any]:
    if not message.metadata_json:
        return {}
    field = "documents.metadata_json"
    if len(message.metadata_json) > MAX_METADATA_CHARS:
        raise InputError(f"{field} has more than {MAX_METADATA_CHARS:,} characters: store less metadata", field)
    try:
        metadata = json.loads(message.metadata_json)
    except (ValueError, RecursionError):
        raise InputError(f"{field} of document {message.document_id[:200]!r} must be JSON", field) from None
    if not isinstance(metadata, dict):
        raise InputError(f"{field} of document {message.document_id[:200]!r} must be a JSON object", field)
    return metadata
