"""What does each method of the contract call? A message comes in, one call is made, a message goes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from onhand.corpora.documents import Documents
from onhand.corpora.parts import shortened
from onhand.document import Document
from onhand.errors import InputError
from onhand.grpc import search_pb2 as wire
from onhand.grpc import translate
from onhand.search.index import Index, Written

SEARCH = wire.DESCRIPTOR.services_by_name["SearchService"].full_name
WRITE = wire.DESCRIPTOR.services_by_name["WriteService"].full_name
MAX_TEXT_BYTES = 2 * 1024 * 1024  # of a document at once: a client takes 4 MiB of a message unless it is told otherwise
MAX_IDS = 10_000  # of one call that deletes


class Method(NamedTuple):
    """A method that takes one message: what it reads, and what it answers."""

    request: type[Message]
    answer: Callable[[Any], Message]


def search_methods(documents: Documents) -> dict[str, Method]:
    """The methods of the service that finds, by name."""

    def keyword(request: wire.KeywordSearchRequest) -> wire.SearchResponse:
        filter = translate.asked_filter(request)
        answer = documents.keyword(
            request.query, filter, request.limit or None, request.page_token, explain=request.explain
        )
        return translate.response_of(answer)

    def semantic(request: wire.SemanticSearchRequest) -> wire.SearchResponse:
        filter, min_score = translate.asked_filter(request), translate.min_score_of(request)
        answer = documents.semantic(request.query, filter, request.limit or None, min_score, request.page_token)
        return translate.response_of(answer)

    def filtered(request: wire.FilterRequest) -> wire.SearchResponse:
        filter = translate.asked_filter(request)
        answer = documents.filter(filter, request.limit or None, request.order_by, request.page_token)
        return translate.response_of(answer)

    def fused(request: wire.FusedSearchRequest) -> wire.SearchResponse:
        filter = translate.asked_filter(request)
        answer = documents.fused(
            request.query, filter, request.limit or None, request.page_token, explain=request.explain
        )
        return translate.response_of(answer)

    def get(request: wire.GetDocumentRequest) -> wire.GetDocumentResponse:
        reading = documents.get(request.document_id, **translate.range_of(request))
        part = shortened(reading.part, MAX_TEXT_BYTES, lambda text: len(text.encode()))
        document = translate.document_message(reading.document._replace(text=part.text))
        return wire.GetDocumentResponse(document=document, part=translate.part_message(part))

    return {
        "KeywordSearch": Method(wire.KeywordSearchRequest, keyword),
        "SemanticSearch": Method(wire.SemanticSearchRequest, semantic),
        "FilterDocuments": Method(wire.FilterRequest, filtered),
        "FusedSearch": Method(wire.FusedSearchRequest, fused),
        "GetDocument": Method(wire.GetDocumentRequest, get),
    }


def write_methods(index: Index) -> dict[str, Method]:
    """The methods of the service that writes, by name, but the one that takes a stream."""

    def delete(request: wire.DeleteDocumentsRequest) -> wire.DeleteDocumentsResponse:
        if len(request.document_ids) > MAX_IDS:
            raise InputError(f"delete at most {MAX_IDS:,} documents in one call", "document_ids")
        return wire.DeleteDocumentsResponse(deleted=index.delete(list(request.document_ids)))

    def stats(request: wire.GetStatsRequest) -> wire.GetStatsResponse:
        return translate.stats_message(index.stats())

    return {
        "DeleteDocuments": Method(wire.DeleteDocumentsRequest, delete),
        "GetStats": Method(wire.GetStatsRequest, stats),
    }


def put_batch(index: Index, documents: list[Document], before: Written) -> Written:
    """Keep some documents of many; what became of all of them so far."""
    return Written(*map(sum, zip(before, index.put(documents), strict=True)))
