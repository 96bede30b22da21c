"""The unary methods of the contract. Each takes a message, makes one call and returns a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from onhand.corpora.documents import Documents, shorten_part
from onhand.errors import InputError
from onhand.grpc import search_pb2 as wire
from onhand.grpc import translate
from onhand.search.index import Index

SEARCH = wire.DESCRIPTOR.services_by_name["SearchService"].full_name
WRITE = wire.DESCRIPTOR.services_by_name["WriteService"].full_name
MAX_TEXT_BYTES = 2 * 1024 * 1024  # of a document in one response; clients accept messages of 4 MiB by default
MAX_IDS = 10_000  # in one delete call


class RpcMethod(NamedTuple):
    """A unary method: the type of its request, and the function that answers it."""

    request: type[Message]
    answer: Callable[[Any], Message]


def search_methods(documents: Documents) -> dict[str, RpcMethod]:
    """Return the methods of the search service by name."""

    def keyword(request: wire.KeywordSearchRequest) -> wire.SearchResponse:
        answer = documents.keyword(
            request.query,
            translate.request_filter(request),
            request.limit or None,
            request.page_token,
            request.min_score if request.HasField("min_score") else None,
            explain=request.explain,
        )
        return translate.response_of(answer)

    def semantic(request: wire.SemanticSearchRequest) -> wire.SearchResponse:
        filter, min_score = translate.request_filter(request), translate.min_score_of(request)
        answer = documents.semantic(request.query, filter, request.limit or None, min_score, request.page_token)
        return translate.response_of(answer)

    def filter_documents(request: wire.FilterRequest) -> wire.SearchResponse:
        filter = translate.request_filter(request)
        answer = documents.filter(filter, request.limit or None, request.order_by, request.page_token)
        return translate.response_of(answer)

    def fused(request: wire.FusedSearchRequest) -> wire.SearchResponse:
        filter, min_score = translate.request_filter(request), translate.min_score_of(request)
        answer = documents.fused(
            request.query, filter, request.limit or None, request.page_token, min_score, explain=request.explain
        )
        return translate.response_of(answer)

    def get(request: wire.GetDocumentRequest) -> wire.GetDocumentResponse:
        reading = documents.get(request.document_id, **translate.range_of(request))
        part = shorten_part(reading.part, MAX_TEXT_BYTES, lambda text: len(text.encode()))
        document = translate.document_message(reading.document._replace(text=part.text))
        return wire.GetDocumentResponse(document=document, part=translate.part_message(part))

    return {
        "KeywordSearch": RpcMethod(wire.KeywordSearchRequest, keyword),
        "SemanticSearch": RpcMethod(wire.SemanticSearchRequest, semantic),
        "FilterDocuments": RpcMethod(wire.FilterRequest, filter_documents),
        "FusedSearch": RpcMethod(wire.FusedSearchRequest, fused),
        "GetDocument": RpcMethod(wire.GetDocumentRequest, get),
    }


def write_methods(index: Index) -> dict[str, RpcMethod]:
    """Return the unary methods of the write service by name."""

    def delete(request: wire.DeleteDocumentsRequest) -> wire.DeleteDocumentsResponse:
        if len(request.document_ids) > MAX_IDS:
            raise InputError(f"one call can delete at most {MAX_IDS:,} documents: send several calls", "document_ids")
        return wire.DeleteDocumentsResponse(deleted=index.delete(list(request.document_ids)))

    def stats(request: wire.GetStatsRequest) -> wire.GetStatsResponse:
        return translate.stats_message(index.stats())

    return {
        "DeleteDocuments": RpcMethod(wire.DeleteDocumentsRequest, delete),
        "GetStats": RpcMethod(wire.GetStatsRequest, stats),
    }
