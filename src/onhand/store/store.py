"""The Store protocol, and the records that go into a store and come out of it.

A filter and an order mean the same in every store: `passes` and `parse_order` define them, and a store may evaluate
them in a faster way.
"""

from __future__ import annotations

from onhand.document import EVERYTHING, Passage, author_keys, filter_author_keys, to_microseconds
from onhand.errors import InputError, StoreError
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from onhand.document import Contribution, Document, Filter, Match
    from onhand.lexical.scoring import Ranking
else:
    Protocol = object  # a cold search must not import `typing`

HEAD_CHARS = 100_000  # of a text; the snippet of a hit is taken from them
MAX_TALLIED = 10  # values of a field that a summary lists


class Entry(Record):
    """A document to be stored and, if there is an embedder, its vector or those of its passages."""

    document: Document
    vector: array[float] | None = None  # type code "f", length one; those of several passages follow each other
    passages: tuple[Passage, ...] = ()  # if there is one vector for each; none if the document is one passage
    left_out: int = 0  # bytes of the text that no vector represents, since there were too many passages


class Excerpt(Record):
    """The text of a passage and where it is; `bytes` is None if it consists of whole lines."""

    text: str
    lines: tuple[int, int]  # as in Passage
    bytes: tuple[int, int] | None


class PassageCounts(Record):
    """How many vectors there are, and what no vector represents."""

    vectors: int = 0  # of passages; a short document is one
    cut_documents: int = 0  # documents with more passages than are embedded
    left_out_bytes: int = 0  # of their texts

    def describe_left_out(self) -> str:
        """Return a note on what no vector represents; empty if that is nothing."""
        if not self.cut_documents:
            return ""
        documents = "1 document has" if self.cut_documents == 1 else f"{self.cut_documents:,} documents have"
        return (
            f"{documents} more passages than are embedded: {self.left_out_bytes:,} bytes at the end are found by words "
            "but not by meaning. To embed them, raise documents.max_passages and run `onhand docs reembed`"
        )


class Head(Record):
    """The part of a document that a list of hits shows: no metadata, and at most HEAD_CHARS of its text."""

    id: str
    title: str
    text: str
    author: str
    tags: tuple[str, ...]
    scope: str
    created_us: int | None  # microseconds since 1970
    kind: str
    source_path: str


class Tally(Record):
    """How often each value of a field occurs."""

    most: tuple[tuple[str, int], ...] = ()  # up to MAX_TALLIED values with their counts, by count, then by value
    distinct: int = 0  # the number of different values


class Summary(Record):
    """What a store contains. Empty authors, tags and scopes are not counted."""

    documents: int = 0
    authors: Tally = Tally()
    tags: Tally = Tally()
    scopes: Tally = Tally()
    earliest_us: int | None = None  # of the times of creation, in microseconds since 1970
    latest_us: int | None = None


class Damage(Record):
    """Something in a store that is not as it was written, and what to do about it."""

    what: str
    advice: str


def head_of(document: Document) -> Head:
    """Return the head of a document."""
    created = document.created_time
    return Head(
        document.id,
        document.title,
        document.text[:HEAD_CHARS],
        document.author,
        document.tags,
        document.scope,
        None if created is None else to_microseconds(created),
        document.kind,
        document.source_path,
    )


def excerpt_of(raw: bytes, passage: Passage, start: int = 0) -> Excerpt:
    """Return the excerpt of a passage; `raw` is the text in UTF-8 from the byte `start` on."""
    first, end = passage.first_byte - start, passage.end_byte - start
    is_whole = raw[max(first - 1, 0) : first] in (b"", b"\n") and raw[end : end + 1] in (b"", b"\n", b"\r")
    place = None if is_whole else (passage.first_byte, passage.end_byte)
    return Excerpt(raw[first:end].decode("utf-8", "replace"), (passage.first_line, passage.last_line), place)


def content_hash(document: Document) -> str:
    """Return a hash that is equal for two documents only if nothing in them differs."""
    from onhand.text import digest

    document_id, title, text, author, tags, scope, created, metadata, kind, source_path = document
    created_us = None if created is None else to_microseconds(created)
    known = sort_json(metadata) if metadata else ""
    # `ascii` quotes every text, so parts cannot run into each other. It takes a sixth of the time of JSON.
    content = (document_id, title, text, author, tuple(tags), scope, created_us, known, kind, source_path)
    return digest(ascii(content).encode())


def sort_json(metadata: Mapping[str, Any]) -> str:
    """Return metadata as JSON that does not depend on the order of its names."""
    import json

    return json.dumps(metadata, sort_keys=True)


def refuse_other_facts(stored: Mapping[str, str], facts: Mapping[str, str]) -> None:
    """Raise StoreError if a fact differs from the stored one, so that vectors of two models are never mixed."""
    for name, value in facts.items():
        if stored.get(name, value) != value:
            raise StoreError(
                f"{name} is {stored[name]!r} in this index, not {value!r}. Nothing was written. "
                "Run `onhand docs reembed` to change it, or open the index with the other embedder."
            )


def passes(document: Document, filter: Filter) -> bool:
    """Return whether a document has one of the authors, all of the tags, one of the scopes and a time in the range."""
    created = document.created_time
    return (
        (not filter.author or not filter_author_keys(filter).isdisjoint(author_keys(document.author)))
        and set(filter.tags).issubset(document.tags)
        and (not filter.scope or document.scope in filter.scope)
        and (filter.created_after is None or (created is not None and created >= filter.created_after))
        and (filter.created_before is None or (created is not None and created < filter.created_before))
    )


ORDER_FIELDS = ("created_time", "title", "author", "scope", "document_id")


class SortKey(Record):
    """A field to order by."""

    field: str
    descending: bool


def parse_order(order_by: str) -> list[SortKey]:
    """Return the fields to order by. The last one is always the id, so that no two documents are equal."""
    if not isinstance(order_by, str):
        raise InputError(f"order_by must be a string such as 'created_time desc', not {type(order_by).__name__}.")
    keys = [_parse_key(part) for part in order_by.split(",")] if order_by.strip() else [SortKey("created_time", True)]
    named = [key.field for key in keys]
    repeated = next((field for field in named if named.count(field) > 1), None)
    if repeated:
        raise InputError(f"order_by names {repeated} twice.", "order_by")
    return keys if "document_id" in named else [*keys, SortKey("document_id", False)]


def _parse_key(part: str) -> SortKey:
    words = part.split()
    if not words or words[0] not in ORDER_FIELDS or words[1:] not in ([], ["asc"], ["desc"]):
        raise InputError(
            f"cannot order by {part.strip()[:100]!r}: use {', '.join(ORDER_FIELDS[:-1])} or {ORDER_FIELDS[-1]}, "
            "followed by ' desc' for descending order",
            "order_by",
        )
    return SortKey(words[0], words[1:] == ["desc"])


class Store(Protocol):
    """Stores documents and finds them. A write is durable, all or nothing, when the call returns.

    A filter is part of the search and is never applied to a list that was already cut. Equal scores are ordered by id.
    """

    @property
    def ranking(self) -> Ranking:
        """The ranking of `keyword`."""

    def snapshot(self) -> AbstractContextManager[object]:
        """Return a context in which every call sees the same state, whatever other processes write."""

    def upsert(
        self,
        entries: Sequence[Entry],
        facts: Mapping[str, str] | None = None,
        *,
        only_unchanged: bool = False,
        more: bool = False,
    ) -> None:
        """Store documents, each in place of the one with its id, and facts about the whole store.

        If a fact differs from the stored one, StoreError is raised and nothing is written. With `only_unchanged`, an
        entry is stored only if the same document is still there, because its vector was computed from it. With `more`,
        further calls follow at once, so indexing may wait for them.
        """

    def delete(self, ids: Collection[str]) -> int:
        """Delete documents, and return how many there were."""

    def get(self, document_id: str) -> Document | None:
        """Return a complete document."""

    def heads(self, ids: Sequence[str]) -> list[Head]:
        """Return the heads of those documents that exist, in the order of the ids."""

    def vector(self, document_id: str) -> array[float] | None:
        """Return the vector of a document, or those of its passages one after the other; None if it is damaged."""

    def excerpts(self, vector: array[float], ids: Collection[str]) -> dict[str, Excerpt]:
        """Return the passage with the largest cosine of each of the documents that have several."""

    def compare(self, documents: Sequence[Document]) -> dict[str, bool]:
        """Return, for each document whose id is stored, whether the stored document is identical."""

    def keyword(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = 10,
        among: Collection[str] | None = None,
        *,
        explain: bool = True,
    ) -> list[Match]:
        """Return the documents with the best BM25 scores for the query; with `among`, only these ids.

        Without `explain`, matches have no contributions, which cost more than the search itself.
        """

    def explain(self, query: str, ids: Collection[str]) -> dict[str, tuple[Contribution, ...]]:
        """Return, for those of the documents that match, what each term of the query adds to their score."""

    def has_words(self, query: str) -> bool:
        """Return whether a query has any term to look up."""

    def term_weights(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        """Return the weight (idf) of each term of a query, and whether a document has the term.

        A term that no document has weighs most. The result is empty if the document does not exist.
        """

    def nearest(
        self,
        vector: array[float],
        filter: Filter = EVERYTHING,
        limit: int = 10,
        min_score: float | None = None,
        among: Collection[str] | None = None,
    ) -> list[Match]:
        """Return the documents with the largest cosine, at least `min_score`; with `among`, only these ids.

        The cosine of a document is that of its best passage.
        """

    def scan(
        self, filter: Filter = EVERYTHING, order_by: str = "created_time desc", limit: int = 10, offset: int = 0
    ) -> list[str]:
        """Return the ids of the documents that pass the filter, in order."""

    def count(self, filter: Filter = EVERYTHING) -> int:
        """Return the number of documents that pass the filter."""

    def summary(self) -> Summary:
        """Return the number of documents, their most frequent authors, tags and scopes, and the range of times."""

    def vectors(self) -> int:
        """Return the number of documents that have a vector."""

    def passages(self) -> PassageCounts:
        """Return the number of passages that have a vector, and what was left out."""

    def without_vector(self, limit: int, filter: Filter = EVERYTHING, max_passages: int = 1) -> list[str]:
        """Return ids, in order, of documents that pass the filter and have no vector.

        A document that has some but not all of its passages' vectors, and fewer than `max_passages`, counts as well.
        """

    def clear_vectors(self, facts: Mapping[str, str]) -> None:
        """Delete all vectors, and store facts about the embedder of the next ones."""

    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Store facts in place of those with the same names."""

    def facts(self) -> dict[str, str]:
        """Return the facts that were stored with the documents."""

    def generation(self) -> str:
        """Return a value that changes with every write of any process, for callers that cache something."""

    def check(self) -> list[Damage]:
        """Return everything that is not as it was written."""

    def rebuild(self) -> None:
        """Build everything again that is derived from the documents."""

    def close(self) -> None:
        """Close all files; the store cannot be used afterwards."""
