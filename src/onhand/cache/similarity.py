"""Indexes that find the most similar of many questions: by meaning, if there are vectors, or by words.

They are not thread-safe; their owner holds a lock.
"""

import sys
from array import array
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec
from math import log, sqrt
from operator import mul
from typing import Any, NamedTuple, Protocol

from onhand.document import Document
from onhand.lexical.scoring import get_ranking
from onhand.search.index import Index
from onhand.store.memory import MemoryStore

# Longer questions are not compared. A model reads only the beginning of a text, so that two long questions that begin
# alike would be the same to it.
MAX_COMPARED_CHARS = 1000
MANY_VECTORS = 200  # from here on, numpy saves more time than its import takes
MAX_LEXICAL_CANDIDATES = 10
DECIMALS = 9  # rounding makes equal questions equally similar, whatever the order of summation
FLOAT32_ERROR = 1e-5  # of a dot product in single precision


class Neighbor(NamedTuple):
    """The number of a question and its similarity, at most 1."""

    number: int
    similarity: float


class SimilarityIndex(Protocol):
    """Questions that can be compared with each other."""

    def __len__(self) -> int: ...

    def put(self, number: int, query: str, vector: "array[float] | None") -> None: ...

    def remove(self, number: int) -> None: ...

    def find_near(self, query: str, vector: "array[float] | None", floor: float, reach: float) -> list[Neighbor]:
        """Return the most similar question and, if its similarity is at least `floor`, the next one and all in reach.

        Those are in reach that are at most `reach` less similar. They are sorted by descending similarity, then by
        number.
        """


class VectorIndex:
    """Compares unit vectors, with numpy if it is installed and there are many vectors or it is loaded already."""

    def __init__(self) -> None:
        self._rows: dict[int, array[float]] = {}
        self._matrix: Any = None  # the numbers and rows for numpy, until a row changes

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, number: int, query: str, vector: "array[float] | None") -> None:
        assert vector is not None
        self._rows[number] = vector
        self._matrix = None

    def remove(self, number: int) -> None:
        del self._rows[number]
        self._matrix = None

    def find_near(self, query: str, vector: "array[float] | None", floor: float, reach: float) -> list[Neighbor]:
        assert vector is not None
        is_worth_it = len(self._rows) >= MANY_VECTORS or (self._rows and "numpy" in sys.modules)
        if is_worth_it and _has_numpy():
            products: Iterable[tuple[int, float]] = self._products_near_best(vector, floor, reach)
        else:
            products = ((number, sum(map(mul, row, vector))) for number, row in self._rows.items())
        near = [Neighbor(number, round(max(-1.0, min(1.0, product)), DECIMALS)) for number, product in products]
        return _within_reach(near, floor, reach)

    def _products_near_best(self, vector: "array[float]", floor: float, reach: float) -> list[tuple[int, float]]:
        """Return the two best dot products and all that may be in reach, chosen by a single-precision scan."""
        import numpy as np

        if self._matrix is None:
            rows = np.frombuffer(b"".join(self._rows.values()), np.float32)
            self._matrix = np.fromiter(self._rows, np.int64), rows.reshape(len(self._rows), -1)
        numbers, rows = self._matrix
        query = np.frombuffer(vector, np.float32)
        rough = rows @ query
        place = int(rough.argmax())
        best, rough[place] = float(rough[place]), -np.inf
        least = min(best - reach, float(rough.max())) if best >= floor - FLOAT32_ERROR else best
        rough[place] = best
        near = np.flatnonzero(rough >= least - 2 * FLOAT32_ERROR)
        exact = (rows[near] * query.astype(np.float64)).sum(axis=1)  # equal rows get equal sums
        return list(zip(numbers[near].tolist(), exact.tolist(), strict=True))


class WordIndex:
    """Compares questions by the cosine of their term weights. Candidates come from an in-memory Index."""

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

    def find_near(self, query: str, vector: "array[float] | None", floor: float, reach: float) -> list[Neighbor]:
        terms = frozenset(self._tokenizer.terms(query))
        numbers = [int(rank.id) for rank in self._index.rank(query, MAX_LEXICAL_CANDIDATES).ranked]
        near = [Neighbor(number, self._similarity(terms, self._terms[number])) for number in numbers]
        return _within_reach(near, floor, reach)

    def _similarity(self, one: frozenset[str], other: frozenset[str]) -> float:
        lengths = self._weight(one) * self._weight(other)
        return round(min(1.0, self._weight(one & other) / sqrt(lengths)), DECIMALS) if lengths else 0.0

    def _weight(self, terms: frozenset[str]) -> float:
        # Sets have no order, but sums of floats depend on it, so the terms are sorted.
        return sum(log(1 + len(self._terms) / (1 + self._frequencies[term])) ** 2 for term in sorted(terms))


def _within_reach(near: list[Neighbor], floor: float, reach: float) -> list[Neighbor]:
    near.sort(key=lambda one: (-one.similarity, one.number))
    if not near or near[0].similarity < floor:
        return near[:1]
    return near[:2] + [one for one in near[2:] if one.similarity >= near[0].similarity - reach]


def _has_numpy() -> bool:
    return find_spec("numpy") is not None
