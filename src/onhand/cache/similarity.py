"""The entries of a cache, found by the same question or by a similar one.

Questions are compared by meaning where there are vectors, otherwise by words. Nothing here is safe between threads:
the cache holds a lock.
"""

import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from math import log, sqrt
from operator import mul
from typing import Any, NamedTuple, Protocol

from onhand.cache.entry import CacheEntry, normalize_query
from onhand.document import Document
from onhand.lexical.scoring import get_ranking
from onhand.search.index import Index
from onhand.store.memory import MemoryStore

# Of a question that is compared with others. A model reads only the beginning of a text: two long questions that begin
# alike would be the same to it.
MAX_COMPARED_CHARS = 1000
MANY_VECTORS = 200  # above this, numpy saves more time than it takes to import
MAX_LEXICAL_CANDIDATES = 10
DECIMALS = 9  # so that equal questions are equally similar in whatever order their products were added up
FLOAT32_ERROR = 1e-5  # of a product in single precision


class Neighbor(NamedTuple):
    """The number of a question and its similarity, at most 1."""

    number: int
    similarity: float


class SimilarityIndex(Protocol):
    """Questions that can be compared with each other."""

    def __len__(self) -> int: ...

    def put(self, number: int, query: str, vector: "array[float] | None") -> None: ...

    def remove(self, number: int) -> None: ...

    def find_near(self, query: str, vector: "array[float] | None", floor: float, margin: float) -> list[Neighbor]:
        """Return the most similar question and, if it reaches `floor`, all within `margin` of it.

        They are in descending order of similarity, the oldest of equals first.
        """


class VectorIndex:
    """Compares vectors of length one; with numpy, if that is installed, when there are many or it is loaded anyway."""

    def __init__(self) -> None:
        self._rows: dict[int, array[float]] = {}
        self._matrix: Any = None  # the rows for numpy, as long as none has changed

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, number: int, query: str, vector: "array[float] | None") -> None:
        assert vector is not None
        self._rows[number] = vector
        self._matrix = None

    def remove(self, number: int) -> None:
        del self._rows[number]
        self._matrix = None

    def find_near(self, query: str, vector: "array[float] | None", floor: float, margin: float) -> list[Neighbor]:
        assert vector is not None
        is_worth_it = len(self._rows) >= MANY_VECTORS or (self._rows and "numpy" in sys.modules)
        if is_worth_it and _has_numpy():
            products: Iterable[tuple[int, float]] = self._products_near_best(vector, floor, margin)
        else:
            products = ((number, sum(map(mul, row, vector))) for number, row in self._rows.items())
        near = [Neighbor(number, round(max(-1.0, min(1.0, product)), DECIMALS)) for number, product in products]
        return _within_margin(near, floor, margin)

    def _products_near_best(self, vector: "array[float]", floor: float, margin: float) -> list[tuple[int, float]]:
        """Return the best product and all that may be within the margin, chosen in single precision by one scan."""
        import numpy as np

        if self._matrix is None:
            rows = np.frombuffer(b"".join(self._rows.values()), np.float32)
            self._matrix = np.fromiter(self._rows, np.int64), rows.reshape(len(self._rows), -1)
        numbers, rows = self._matrix
        query = np.frombuffer(vector, np.float32)
        rough = rows @ query
        best = float(rough.max())
        reach = margin if best >= floor - FLOAT32_ERROR else 0.0
        near = np.flatnonzero(rough >= best - reach - 2 * FLOAT32_ERROR)
        exact = (rows[near] * query.astype(np.float64)).sum(axis=1)  # equal rows get equal sums
        return list(zip(numbers[near].tolist(), exact.tolist(), strict=True))


class WordIndex:
    """Compares words by the cosine of their weights, where a rare word weighs more. Candidates come from an Index."""

    def __init__(self) -> None:
        self._tokenizer = get_ranking().tokenizer
        self._index = Index(MemoryStore())
        self._terms: dict[int, frozenset[str]] = {}
        self._frequencies: Counter[str] = Counter()  # term → how many questions have it

    def __len__(self) -> int:
        return len(self._terms)

    def put(self, number: int, query: str, vector: "array[float] | None") -> None:
        terms = frozenset(self._tokenizer.terms(query))
        self._index.put([Document(str(number), text=query)])
        self._terms[number] = terms
        self._frequencies.update(terms)

    def remove(self, number: int) -> None:
        self._index.delete([str(number)])
        terms = self._terms.pop(number)
        self._frequencies.subtract(terms)
        for term in terms:
            if not self._frequencies[term]:
                del self._frequencies[term]

    def find_near(self, query: str, vector: "array[float] | None", floor: float, margin: float) -> list[Neighbor]:
        terms = frozenset(self._tokenizer.terms(query))
        numbers = [int(rank.id) for rank in self._index.rank(query, MAX_LEXICAL_CANDIDATES).ranked]
        near = [Neighbor(number, self._similarity(terms, self._terms[number])) for number in numbers]
        return _within_margin(near, floor, margin)

    def _similarity(self, one: frozenset[str], other: frozenset[str]) -> float:
        lengths = self._weight(one) * self._weight(other)
        return round(min(1.0, self._weight(one & other) / sqrt(lengths)), DECIMALS) if lengths else 0.0

    def _weight(self, terms: frozenset[str]) -> float:
        # Sorted, because sums of floats depend on the order, and sets have none.
        return sum(log(1 + len(self._terms) / (1 + self._frequencies[term])) ** 2 for term in sorted(terms))


class EntryTable:
    """The entries of a cache. A question has one entry in a scope; the least recently used one is evicted first."""

    def __init__(self, max_entries: int, *, by_words: bool) -> None:
        self._max_entries = max_entries
        self._by_words = by_words
        self.next_id = 1
        self.clear()

    def clear(self) -> None:
        """Remove everything, and forget how many were evicted."""
        self._entries: dict[int, CacheEntry] = {}  # the least recently used first
        self._ids: dict[tuple[str, str], int] = {}  # scope and question → id
        self._indexes: dict[str, SimilarityIndex] = {}  # by scope
        self._comparable: set[int] = set()
        self.dimension = 0  # of the vectors; 0: there are none
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CacheEntry]:
        return iter(list(self._entries.values()))

    @property
    def not_compared(self) -> int:
        """How many entries only the same question can find."""
        return len(self._entries) - len(self._comparable)

    def get(self, scope: str, query: str) -> CacheEntry | None:
        """Return the entry of the same question."""
        id = self._ids.get((scope, normalize_query(query)))
        return None if id is None else self._entries[id]

    def find_near(
        self, scope: str, query: str, vector: "array[float] | None", floor: float, margin: float
    ) -> list[tuple[CacheEntry, float]]:
        """Return the most similar entry and, if it reaches `floor`, all within `margin`, with their similarities."""
        index = self._indexes.get(scope)
        near = index.find_near(query, vector, floor, margin) if index is not None else []
        return [(self._entries[one.number], one.similarity) for one in near]

    def add(self, entry: CacheEntry, embedder: str) -> bool:
        """Add an entry, which similar questions will find if `embedder` made its vector; False if there is no room."""
        self.next_id = max(self.next_id, entry.id + 1)
        if not self._max_entries:
            return False
        replaced = self.get(entry.scope, entry.query)
        if replaced is not None:
            self.remove(replaced.id)
        while len(self._entries) >= self._max_entries:
            self.remove(next(iter(self._entries)))
            self.evicted += 1
        self._entries[entry.id] = entry
        self._ids[entry.scope, normalize_query(entry.query)] = entry.id
        if self._is_comparable(entry, embedder):
            self._index_of(entry.scope).put(entry.id, entry.query, entry.vector)
            self._comparable.add(entry.id)
            self.dimension = len(entry.vector or ())
        return True

    def use(self, entry: CacheEntry) -> CacheEntry:
        """Count a hit of an entry and make it the last one to be evicted, if it is still there."""
        current = self._entries.pop(entry.id, None)
        latest = current or entry  # other threads may have used it since it was looked up
        used = latest._replace(hit_count=latest.hit_count + 1)
        if current is not None:
            self._entries[entry.id] = used
        return used

    def remove(self, id: int) -> None:
        """Remove an entry, if it is there."""
        entry = self._entries.pop(id, None)
        if entry is None:
            return
        del self._ids[entry.scope, normalize_query(entry.query)]
        if id in self._comparable:
            self._comparable.remove(id)
            index = self._indexes[entry.scope]
            index.remove(id)
            if not len(index):  # scopes come and go with every change of a prompt
                del self._indexes[entry.scope]
            self.dimension = self.dimension if self._comparable else 0

    def _is_comparable(self, entry: CacheEntry, embedder: str) -> bool:
        if len(entry.query) > MAX_COMPARED_CHARS:
            return False
        if self._by_words:
            return True
        if entry.vector is None or not embedder or entry.embedder != embedder:
            return False
        return self.dimension in (0, len(entry.vector))

    def _index_of(self, scope: str) -> SimilarityIndex:
        if scope not in self._indexes:
            self._indexes[scope] = WordIndex() if self._by_words else VectorIndex()
        return self._indexes[scope]


def _within_margin(near: list[Neighbor], floor: float, margin: float) -> list[Neighbor]:
    near.sort(key=lambda one: (-one.similarity, one.number))
    if not near or near[0].similarity < floor:
        return near[:1]
    return [one for one in near if one.similarity >= near[0].similarity - margin]


def _has_numpy() -> bool:
    return find_spec("numpy") is not None
