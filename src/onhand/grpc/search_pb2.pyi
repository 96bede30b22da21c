import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Filter(_message.Message):
    __slots__ = ("author", "tags", "created_after", "created_before", "scope")
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AFTER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    author: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    created_after: _timestamp_pb2.Timestamp
    created_before: _timestamp_pb2.Timestamp
    scope: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, author: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., created_after: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., scope: _Optional[_Iterable[str]] = ...) -> None: ...

class KeywordSearchRequest(_message.Message):
    __slots__ = ("query", "filter", "limit", "page_token", "explain", "min_score")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    query: str
    filter: Filter
    limit: int
    page_token: str
    explain: bool
    min_score: float
    def __init__(self, query: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., limit: _Optional[int] = ..., page_token: _Optional[str] = ..., explain: bool = ..., min_score: _Optional[float] = ...) -> None: ...

class SemanticSearchRequest(_message.Message):
    __slots__ = ("query", "filter", "limit", "min_score", "page_token")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    query: str
    filter: Filter
    limit: int
    min_score: float
    page_token: str
    def __init__(self, query: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., limit: _Optional[int] = ..., min_score: _Optional[float] = ..., page_token: _Optional[str] = ...) -> None: ...

class FilterRequest(_message.Message):
    __slots__ = ("filter", "limit", "order_by", "page_token")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    filter: Filter
    limit: int
    order_by: str
    page_token: str
    def __init__(self, filter: _Optional[_Union[Filter, _Mapping]] = ..., limit: _Optional[int] = ..., order_by: _Optional[str] = ..., page_token: _Optional[str] = ...) -> None: ...

class FusedSearchRequest(_message.Message):
    __slots__ = ("query", "filter", "limit", "page_token", "explain", "min_score")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    query: str
    filter: Filter
    limit: int
    page_token: str
    explain: bool
    min_score: float
    def __init__(self, query: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., limit: _Optional[int] = ..., page_token: _Optional[str] = ..., explain: bool = ..., min_score: _Optional[float] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("hits", "next_page_token", "total_size", "notes", "reason", "min_score")
    HITS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[SearchHit]
    next_page_token: str
    total_size: int
    notes: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    min_score: float
    def __init__(self, hits: _Optional[_Iterable[_Union[SearchHit, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total_size: _Optional[int] = ..., notes: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., min_score: _Optional[float] = ...) -> None: ...

class SearchHit(_message.Message):
    __slots__ = ("document_id", "title", "snippet", "score", "author", "created_time", "exact_score", "tags", "scope", "kind", "layers", "first_line", "last_line", "first_byte", "end_byte")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SNIPPET_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    EXACT_SCORE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    FIRST_LINE_FIELD_NUMBER: _ClassVar[int]
    LAST_LINE_FIELD_NUMBER: _ClassVar[int]
    FIRST_BYTE_FIELD_NUMBER: _ClassVar[int]
    END_BYTE_FIELD_NUMBER: _ClassVar[int]
    document_id: str
    title: str
    snippet: str
    score: float
    author: str
    created_time: _timestamp_pb2.Timestamp
    exact_score: float
    tags: _containers.RepeatedScalarFieldContainer[str]
    scope: str
    kind: str
    layers: _containers.RepeatedCompositeFieldContainer[Layer]
    first_line: int
    last_line: int
    first_byte: int
    end_byte: int
    def __init__(self, document_id: _Optional[str] = ..., title: _Optional[str] = ..., snippet: _Optional[str] = ..., score: _Optional[float] = ..., author: _Optional[str] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., exact_score: _Optional[float] = ..., tags: _Optional[_Iterable[str]] = ..., scope: _Optional[str] = ..., kind: _Optional[str] = ..., layers: _Optional[_Iterable[_Union[Layer, _Mapping]]] = ..., first_line: _Optional[int] = ..., last_line: _Optional[int] = ..., first_byte: _Optional[int] = ..., end_byte: _Optional[int] = ...) -> None: ...

class Layer(_message.Message):
    __slots__ = ("name", "rank", "score", "share", "terms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    name: str
    rank: int
    score: float
    share: float
    terms: _containers.RepeatedCompositeFieldContainer[Contribution]
    def __init__(self, name: _Optional[str] = ..., rank: _Optional[int] = ..., score: _Optional[float] = ..., share: _Optional[float] = ..., terms: _Optional[_Iterable[_Union[Contribution, _Mapping]]] = ...) -> None: ...

class Contribution(_message.Message):
    __slots__ = ("term", "field", "score")
    TERM_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    term: str
    field: str
    score: float
    def __init__(self, term: _Optional[str] = ..., field: _Optional[str] = ..., score: _Optional[float] = ...) -> None: ...

class GetDocumentRequest(_message.Message):
    __slots__ = ("document_id", "first_line", "last_line", "first_byte", "max_bytes")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_LINE_FIELD_NUMBER: _ClassVar[int]
    LAST_LINE_FIELD_NUMBER: _ClassVar[int]
    FIRST_BYTE_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    document_id: str
    first_line: int
    last_line: int
    first_byte: int
    max_bytes: int
    def __init__(self, document_id: _Optional[str] = ..., first_line: _Optional[int] = ..., last_line: _Optional[int] = ..., first_byte: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class GetDocumentResponse(_message.Message):
    __slots__ = ("document", "part")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    document: Document
    part: Part
    def __init__(self, document: _Optional[_Union[Document, _Mapping]] = ..., part: _Optional[_Union[Part, _Mapping]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("first_line", "last_line", "total_lines", "first_byte", "end_byte", "total_bytes")
    FIRST_LINE_FIELD_NUMBER: _ClassVar[int]
    LAST_LINE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LINES_FIELD_NUMBER: _ClassVar[int]
    FIRST_BYTE_FIELD_NUMBER: _ClassVar[int]
    END_BYTE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    first_line: int
    last_line: int
    total_lines: int
    first_byte: int
    end_byte: int
    total_bytes: int
    def __init__(self, first_line: _Optional[int] = ..., last_line: _Optional[int] = ..., total_lines: _Optional[int] = ..., first_byte: _Optional[int] = ..., end_byte: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class Document(_message.Message):
    __slots__ = ("document_id", "title", "text", "author", "tags", "scope", "created_time", "metadata_json", "kind", "source")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    document_id: str
    title: str
    text: str
    author: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    scope: str
    created_time: _timestamp_pb2.Timestamp
    metadata_json: str
    kind: str
    source: str
    def __init__(self, document_id: _Optional[str] = ..., title: _Optional[str] = ..., text: _Optional[str] = ..., author: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., scope: _Optional[str] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., metadata_json: _Optional[str] = ..., kind: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class PutDocumentsRequest(_message.Message):
    __slots__ = ("documents",)
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    documents: _containers.RepeatedCompositeFieldContainer[Document]
    def __init__(self, documents: _Optional[_Iterable[_Union[Document, _Mapping]]] = ...) -> None: ...

class PutDocumentsResponse(_message.Message):
    __slots__ = ("added", "changed", "unchanged")
    ADDED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    added: int
    changed: int
    unchanged: int
    def __init__(self, added: _Optional[int] = ..., changed: _Optional[int] = ..., unchanged: _Optional[int] = ...) -> None: ...

class DeleteDocumentsRequest(_message.Message):
    __slots__ = ("document_ids",)
    DOCUMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    document_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, document_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteDocumentsResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    def __init__(self, deleted: _Optional[int] = ...) -> None: ...

class GetStatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatsResponse(_message.Message):
    __slots__ = ("documents", "vectors", "embedder", "semantic", "passages", "cut_documents", "left_out_bytes", "semantic_weight")
    class EmbedderEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    EMBEDDER_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    CUT_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    documents: int
    vectors: int
    embedder: _containers.ScalarMap[str, str]
    semantic: str
    passages: int
    cut_documents: int
    left_out_bytes: int
    semantic_weight: float
    def __init__(self, documents: _Optional[int] = ..., vectors: _Optional[int] = ..., embedder: _Optional[_Mapping[str, str]] = ..., semantic: _Optional[str] = ..., passages: _Optional[int] = ..., cut_documents: _Optional[int] = ..., left_out_bytes: _Optional[int] = ..., semantic_weight: _Optional[float] = ...) -> None: ...
