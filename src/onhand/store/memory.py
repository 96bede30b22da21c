"""Documents in memory, for as long as the process lives: the reference for every other store."""

from __future__ import annotations

import sys
from _operator import mul

from onhand.document import EVERYTHING, Document, Filter, Match, from_microseconds, to_microseconds
from onhand.lexical.index import LexicalIndex
from onhand.lexical.scoring import Ranking, get_ranking
from onhand.lexical.segment import Row
from onhand.store.store import TALLIED, Damage, Entry, Head, Summary, Tally, content_hash, head_of, refuse_contradiction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from onhand.document import Contribution

SPARE_DOCNUMS = 10_000  # besides four for each document: then the index is built again with new ones
MANY_VECTORS = 100  # to compare these in Python takes longer than to hand them to numpy


class MemoryStore:
    """A Store that forgets. Not safe for concurrent use: hold a lock to share it between threads."""

    def __init__(self, ranks: Ranking | None = None) -> None:
        self._ranking = ranks or get_ranking()
        self._words = LexicalIndex(self._ranking)
        self._documents: dict[str, Document] = {}
        self._vectors: dict[str, array[float]] = {}
        self._facts: dict[str, str] = {}
        self._generation = 0

    def snapshot(self) -> MemoryStore:
        return self

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nobody else writes."""

    def upsert(
        self,
        entries: Sequence[Entry],
        facts: Mapping[str, str] | None = None,
        *,
        only_unchanged: bool = False,
        more: bool = False,
    ) -> None:
        refuse_contradiction(self._facts, facts or {})
        self._generation += 1
        if only_unchanged:
            unchanged = self.known([document for document, _ in entries])
            entries = [entry for entry in entries if unchanged.get(entry.document.id)]
        for document, vector in entries:
            self._add_words(document)
            self._documents[document.id] = document
            if vector is not None:
                self._vectors[document.id] = vector
            elif self._vectors:
                self._vectors.pop(document.id, None)
        self._facts |= facts or {}
        if self._words.last_docnum > SPARE_DOCNUMS + 4 * len(self._documents):
            self.rebuild()

    def delete(self, ids: Collection[str]) -> int:
        self._generation += 1
        there = [document_id for document_id in dict.fromkeys(ids) if document_id in self._documents]
        for document_id in there:
            self._words.remove(document_id)
            del self._documents[document_id]
            self._vectors.pop(document_id, None)
        return len(there)

    def get(self, document_id: str) -> Document | None:
        return self._documents.get(document_id)

    def heads(self, ids: Sequence[str]) -> list[Head]:
        return [head_of(self._documents[document_id]) for document_id in ids if document_id in self._documents]

    def known(self, documents: Sequence[Document]) -> dict[str, bool]:
        kept = self._documents
        return {document.id: _same(kept[document.id], document) for document in documents if document.id in kept}

    def keyword(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = 10,
        among: Collection[str] | None = None,
        *,
        explain: bool = True,
    ) -> list[Match]:
        matches = self._words.search(query, limit, filter, among)
        if not explain:
            return matches
        explanations = self._words.explain(query, [match.id for match in matches])
        return [Match(match.id, match.score, why) for match, why in zip(matches, explanations, strict=True)]

    def keyword_scores(self, query: str, ids: Collection[str]) -> list[Match]:
        return self.keyword(query, EVERYTHING, len(ids), ids, explain=False) if ids else []

    def explain(self, query: str, ids: Collection[str]) -> dict[str, tuple[Contribution, ...]]:
        known = [document_id for document_id in ids if document_id in self._documents]
        explained = zip(known, self._words.explain(query, known), strict=True)
        return {document_id: contributions for document_id, contributions in explained if contributions}

    def cosines(self, vector: array[float], ids: Collection[str]) -> list[Match]:
        return self.nearest(vector, EVERYTHING, len(ids), None, ids) if ids else []

    def has_words(self, query: str) -> bool:
        return bool(self._ranking.tokenizer.query_terms(query))

    def term_weights(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        return self._words.term_weights(query, document_id) if document_id in self._documents else {}

    def nearest(
        self,
        vector: array[float],
        filter: Filter = EVERYTHING,
        limit: int = 10,
        min_score: float | None = None,
        among: Collection[str] | None = None,
    ) -> list[Match]:
        from heapq import nsmallest

        allowed = self._allowed(filter, among)
        ids = list(self._vectors) if allowed is None else sorted(allowed & self._vectors.keys())
        scores = _cosines(vector, [self._vectors[document_id] for document_id in ids])
        kept = [pair for pair in zip(scores, ids, strict=True) if min_score is None or pair[0] >= min_score]
        best = nsmallest(limit, kept, key=lambda pair: (-pair[0], pair[1]))
        return [Match(document_id, score, ()) for score, document_id in best]

    def scan(
        self, filter: Filter = EVERYTHING, order_by: str = "created_time desc", limit: int = 10, offset: int = 0
    ) -> list[str]:
        from onhand.store.store import parse_order

        documents = [self._documents[document_id] for document_id in self._passing(filter)]
        for field, descending in reversed(parse_order(order_by)):
            documents.sort(key=_SORT_KEYS[field], reverse=descending)
        return [document.id for document in documents[offset : offset + limit]]

    def count(self, filter: Filter = EVERYTHING) -> int:
        return self._words.reader().count(filter)

    def summary(self) -> Summary:
        documents = self._documents.values()
        times = [to_microseconds(document.created_time) for document in documents if document.created_time]
        return Summary(
            len(documents),
            _tally(document.author for document in documents),
            _tally(tag for document in documents for tag in document.tags),
            _tally(document.scope for document in documents),
            min(times, default=None),
            max(times, default=None),
        )

    def vectors(self) -> int:
        return len(self._vectors)

    def without_vector(self, limit: int, filter: Filter = EVERYTHING) -> list[str]:
        allowed = self._allowed(filter, None)
        ids = self._documents.keys() if allowed is None else allowed
        return sorted(ids - self._vectors.keys())[:limit]

    def clear_vectors(self, facts: Mapping[str, str]) -> None:
        self._generation += 1
        self._vectors.clear()
        self._facts |= facts

    def facts(self) -> dict[str, str]:
        return dict(self._facts)

    def generation(self) -> str:
        return str(self._generation)

    def check(self) -> list[Damage]:
        return []

    def rebuild(self) -> None:
        self._words = LexicalIndex(self._ranking)
        for document in self._documents.values():
            self._add_words(document)

    def close(self) -> None:
        """Nothing is open."""

    def state(self) -> tuple[Any, ...]:
        """What `restore` takes, of types that marshal knows."""
        documents = [
            (*document[:6], document.created_time and to_microseconds(document.created_time), *document[7:])
            for document in self._documents.values()
        ]
        vectors = {document_id: vector.tobytes() for document_id, vector in self._vectors.items()}
        return documents, vectors, self._facts, self._words.state()

    def restore(self, state: tuple[Any, ...]) -> None:
        """Become what another was, of the same ranking, whose state this is."""
        documents, vectors, facts, words = state
        self._documents = {row[0]: _document(row) for row in documents}
        self._vectors = _unpacked(vectors) if vectors else {}
        self._facts = facts
        self._words.restore(words, lambda document_id, docnum: Row(docnum, *self._row(self._documents[document_id])))

    def _add_words(self, document: Document) -> None:
        self._words.add(document.id, *self._row(document))

    def _row(self, document: Document) -> tuple[Any, ...]:
        """Return what the index takes of a document: texts, author, tags, scope and time."""
        texts = self._ranking.texts(document.title, document.text, document.metadata)
        created = document.created_time
        created_us = None if created is None else to_microseconds(created)
        return tuple(texts.values()), document.author, document.tags, document.scope, created_us

    def _allowed(self, filter: Filter, among: Collection[str] | None) -> set[str] | None:
        """Return the ids that a search may find; None: every one."""
        if filter == EVERYTHING:
            return None if among is None else set(among)
        passing = set(self._passing(filter))
        return passing if among is None else passing.intersection(among)

    def _passing(self, filter: Filter) -> Iterable[str]:
        """Return the ids of the documents that a filter lets through."""
        return self._documents if filter == EVERYTHING else self._words.ids(filter)


def _unpacked(vectors: Mapping[str, bytes]) -> dict[str, array[float]]:
    from array import array

    return {document_id: array("f", vector) for document_id, vector in vectors.items()}


def _document(row: tuple[Any, ...]) -> Document:
    if row[6] is None:
        return tuple.__new__(Document, row)  # there may be tens of thousands
    return Document._make((*row[:6], from_microseconds(row[6]), *row[7:]))


def _same(left: Document, right: Document) -> bool:
    """Whether nothing differs; to Python 1 and True would be the same."""
    return left == right and (not left.metadata or content_hash(left) == content_hash(right))


_SORT_KEYS: Mapping[str, Callable[[Document], Any]] = {
    # A document without a time counts as older than any.
    "created_time": lambda document: (document.created_time is not None, document.created_time),
    "title": lambda document: document.title,
    "author": lambda document: document.author,
    "scope": lambda document: document.scope,
    "document_id": lambda document: document.id,
}


def _tally(values: Iterable[str]) -> Tally:
    counts: dict[str, int] = {}
    for value in values:
        if value:
            counts[value] = counts.get(value, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Tally(tuple(ordered[:TALLIED]), len(ordered))


def _cosines(vector: array[float], others: Sequence[array[float]]) -> list[float]:
    products: Iterable[float]
    if len(others) >= MANY_VECTORS and "numpy" in sys.modules:  # whoever made so many vectors has it
        import numpy

        rows = numpy.frombuffer(b"".join(others), dtype=numpy.float32).reshape(len(others), -1)
        products = (rows.astype(numpy.float64) @ numpy.array(vector, dtype=numpy.float64)).tolist()
    else:
        products = (float(sum(map(mul, vector, other))) for other in others)
    return [max(-1.0, min(1.0, product)) for product in products]  # of length one but for the last bit of a float
