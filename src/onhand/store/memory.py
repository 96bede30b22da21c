"""Documents in memory for the lifetime of the process; the reference implementation of a Store."""

from __future__ import annotations

from onhand.document import EVERYTHING, Document, Filter, Match, Passage, from_microseconds, to_microseconds
from onhand.lexical.index import LexicalIndex
from onhand.lexical.scoring import Ranking, get_ranking
from onhand.lexical.segment import Row
from onhand.store.store import (
    MAX_TALLIED,
    Damage,
    Entry,
    Excerpt,
    Head,
    PassageCounts,
    Summary,
    Tally,
    content_hash,
    excerpt_of,
    head_of,
    parse_order,
    refuse_other_facts,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from onhand.document import Contribution

SPARE_DOCNUMS = 10_000  # plus four for each document; then the index is built again with new docnums


class MemoryStore:
    """A Store in memory. It is not thread-safe: hold a lock to share it between threads."""

    def __init__(self, ranking: Ranking | None = None) -> None:
        self._ranking = ranking or get_ranking()
        self._lexical = LexicalIndex(self._ranking)
        self._documents: dict[str, Document] = {}
        self._vectors: dict[str, array[float]] = {}
        self._passages: dict[str, tuple[Passage, ...]] = {}  # of the documents that have several
        self._left_out: dict[str, int] = {}  # bytes, of the documents with more passages than vectors
        self._facts: dict[str, str] = {}
        self._generation = 0

    @property
    def ranking(self) -> Ranking:
        return self._ranking

    def snapshot(self) -> MemoryStore:
        return self

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *exc: object) -> None:
        """Do nothing, since nobody else writes."""

    def upsert(
        self,
        entries: Sequence[Entry],
        facts: Mapping[str, str] | None = None,
        *,
        only_unchanged: bool = False,
        more: bool = False,
    ) -> None:
        refuse_other_facts(self._facts, facts or {})
        self._generation += 1
        if only_unchanged:
            unchanged = self.compare([entry.document for entry in entries])
            entries = [entry for entry in entries if unchanged.get(entry.document.id)]
        for document, vector, passages, left_out in entries:
            self._index_document(document)
            self._documents[document.id] = document
            self._drop_vectors(document.id)
            if vector is not None:
                self._vectors[document.id] = vector
                if passages:
                    self._passages[document.id] = passages
                if left_out:
                    self._left_out[document.id] = left_out
        self._facts |= facts or {}
        if self._lexical.last_docnum > SPARE_DOCNUMS + 4 * len(self._documents):
            self.rebuild()

    def delete(self, ids: Collection[str]) -> int:
        self._generation += 1
        stored = [document_id for document_id in dict.fromkeys(ids) if document_id in self._documents]
        for document_id in stored:
            self._lexical.remove(document_id)
            del self._documents[document_id]
            self._drop_vectors(document_id)
        return len(stored)

    def get(self, document_id: str) -> Document | None:
        return self._documents.get(document_id)

    def heads(self, ids: Sequence[str]) -> list[Head]:
        return [head_of(self._documents[document_id]) for document_id in ids if document_id in self._documents]

    def vector(self, document_id: str) -> array[float] | None:
        return self._vectors.get(document_id)

    def excerpts(self, vector: array[float], ids: Collection[str]) -> dict[str, Excerpt]:
        from onhand.store.vectors import find_nearest_passage

        return {
            document_id: excerpt_of(
                self._documents[document_id].text.encode(),
                find_nearest_passage(vector, self._vectors[document_id], passages),
            )
            for document_id in ids
            if (passages := self._passages.get(document_id))
        }

    def compare(self, documents: Sequence[Document]) -> dict[str, bool]:
        stored = self._documents
        return {one.id: _is_same(stored[one.id], one) for one in documents if one.id in stored}

    def keyword(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = 10,
        among: Collection[str] | None = None,
        *,
        explain: bool = True,
    ) -> list[Match]:
        matches = self._lexical.search(query, limit, filter, among)
        if not explain:
            return matches
        explanations = self._lexical.explain(query, [match.id for match in matches])
        return [Match(match.id, match.score, why) for match, why in zip(matches, explanations, strict=True)]

    def explain(self, query: str, ids: Collection[str]) -> dict[str, tuple[Contribution, ...]]:
        stored = [document_id for document_id in ids if document_id in self._documents]
        explained = zip(stored, self._lexical.explain(query, stored), strict=True)
        return {document_id: contributions for document_id, contributions in explained if contributions}

    def has_words(self, query: str) -> bool:
        return bool(self._ranking.tokenizer.query_terms(query))

    def term_weights(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        return self._lexical.term_weights(query, document_id) if document_id in self._documents else {}

    def nearest(
        self,
        vector: array[float],
        filter: Filter = EVERYTHING,
        limit: int = 10,
        min_score: float | None = None,
        among: Collection[str] | None = None,
    ) -> list[Match]:
        from heapq import nsmallest
        from itertools import chain

        from onhand.store.vectors import best_of_each, cosines, split_vectors

        allowed = self._allowed_ids(filter, among)
        ids = list(self._vectors) if allowed is None else sorted(allowed & self._vectors.keys())
        vectors = [self._vectors[document_id] for document_id in ids]
        if self._passages:
            counts = [len(self._passages.get(document_id, ())) or 1 for document_id in ids]
            vectors = list(chain.from_iterable(map(split_vectors, vectors, counts)))
            ids = [document_id for document_id, count in zip(ids, counts, strict=True) for _ in range(count)]
        scored = list(zip(ids, cosines(vector, vectors), strict=True))
        found = best_of_each(scored) if self._passages else scored
        passing = found if min_score is None else [pair for pair in found if pair[1] >= min_score]
        best = nsmallest(limit, passing, key=lambda pair: (-pair[1], pair[0]))
        return [Match(document_id, score, ()) for document_id, score in best]

    def scan(
        self, filter: Filter = EVERYTHING, order_by: str = "created_time desc", limit: int = 10, offset: int = 0
    ) -> list[str]:
        documents = [self._documents[document_id] for document_id in self._filter_ids(filter)]
        for field, descending in reversed(parse_order(order_by)):
            documents.sort(key=_SORT_KEYS[field], reverse=descending)
        return [document.id for document in documents[offset : offset + limit]]

    def count(self, filter: Filter = EVERYTHING) -> int:
        return self._lexical.reader().count(filter)

    def summary(self) -> Summary:
        documents = self._documents.values()
        times = [to_microseconds(document.created_time) for document in documents if document.created_time]
        return Summary(
            len(documents),
            _count_values(document.author for document in documents),
            _count_values(tag for document in documents for tag in document.tags),
            _count_values(document.scope for document in documents),
            min(times, default=None),
            max(times, default=None),
        )

    def vectors(self) -> int:
        return len(self._vectors)

    def passages(self) -> PassageCounts:
        extra = sum(len(passages) - 1 for passages in self._passages.values())
        return PassageCounts(len(self._vectors) + extra, len(self._left_out), sum(self._left_out.values()))

    def without_vector(self, limit: int, filter: Filter = EVERYTHING, max_passages: int = 1) -> list[str]:
        allowed = self._allowed_ids(filter, None)
        ids = self._documents.keys() if allowed is None else allowed
        cut = [one for one in self._left_out if one in ids and (len(self._passages.get(one, ())) or 1) < max_passages]
        return sorted({*(ids - self._vectors.keys()), *cut})[:limit]

    def clear_vectors(self, facts: Mapping[str, str]) -> None:
        self._generation += 1
        self._vectors.clear()
        self._passages.clear()
        self._left_out.clear()
        self._facts |= facts

    def set_facts(self, facts: Mapping[str, str]) -> None:
        self._generation += 1
        self._facts |= facts

    def facts(self) -> dict[str, str]:
        return dict(self._facts)

    def generation(self) -> str:
        return str(self._generation)

    def check(self) -> list[Damage]:
        return []

    def rebuild(self) -> None:
        self._lexical = LexicalIndex(self._ranking)
        for document in self._documents.values():
            self._index_document(document)

    def close(self) -> None:
        """Do nothing, since nothing is open."""

    def state(self) -> tuple[Any, ...]:
        """Return what `restore` takes, in types that `marshal` can write."""
        documents = [
            (*document[:6], document.created_time and to_microseconds(document.created_time), *document[7:])
            for document in self._documents.values()
        ]
        vectors = {document_id: vector.tobytes() for document_id, vector in self._vectors.items()}
        passages = {document_id: tuple(map(tuple, places)) for document_id, places in self._passages.items()}
        return documents, vectors, passages, self._left_out, self._facts, self._lexical.state()

    def restore(self, state: tuple[Any, ...]) -> None:
        """Load the state of another store with the same ranking."""
        documents, vectors, passages, self._left_out, facts, words = state
        self._documents = {row[0]: _decode_document(row) for row in documents}
        self._vectors = _decode_vectors(vectors) if vectors else {}
        self._passages = {one: tuple(Passage(*place) for place in places) for one, places in passages.items()}
        self._facts = facts
        self._lexical.restore(words, lambda document_id, docnum: Row(docnum, *self._row(self._documents[document_id])))

    def _drop_vectors(self, document_id: str) -> None:
        if self._vectors.pop(document_id, None) is not None:
            self._passages.pop(document_id, None)
            self._left_out.pop(document_id, None)

    def _index_document(self, document: Document) -> None:
        self._lexical.add(document.id, *self._row(document))

    def _row(self, document: Document) -> tuple[Any, ...]:
        """Return the parts of a document that the index needs: texts, author, tags, scope and time."""
        texts = self._ranking.texts(document.title, document.text, document.metadata)
        created = document.created_time
        created_us = None if created is None else to_microseconds(created)
        return texts, document.author, document.tags, document.scope, created_us

    def _allowed_ids(self, filter: Filter, among: Collection[str] | None) -> set[str] | None:
        """Return the ids that a search may find, or None if it may find all."""
        if filter == EVERYTHING:
            return None if among is None else set(among)
        allowed = set(self._filter_ids(filter))
        return allowed if among is None else allowed.intersection(among)

    def _filter_ids(self, filter: Filter) -> Iterable[str]:
        """Return the ids of the documents that pass a filter."""
        return self._documents if filter == EVERYTHING else self._lexical.ids(filter)


def _decode_vectors(vectors: Mapping[str, bytes]) -> dict[str, array[float]]:
    from array import array

    return {document_id: array("f", vector) for document_id, vector in vectors.items()}


def _decode_document(row: tuple[Any, ...]) -> Document:
    if row[6] is None:
        return tuple.__new__(Document, row)  # faster, and there may be tens of thousands
    return Document._make((*row[:6], from_microseconds(row[6]), *row[7:]))


def _is_same(left: Document, right: Document) -> bool:
    """Return whether nothing differs. The hash also tells 1 from True, which are equal in Python."""
    return left == right and (not left.metadata or content_hash(left) == content_hash(right))


_SORT_KEYS: Mapping[str, Callable[[Document], Any]] = {
    # A document without a time counts as older than any.
    "created_time": lambda document: (document.created_time is not None, document.created_time),
    "title": lambda document: document.title,
    "author": lambda document: document.author,
    "scope": lambda document: document.scope,
    "document_id": lambda document: document.id,
}


def _count_values(values: Iterable[str]) -> Tally:
    counts: dict[str, int] = {}
    for value in values:
        if value:
            counts[value] = counts.get(value, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Tally(tuple(ordered[:MAX_TALLIED]), len(ordered))
