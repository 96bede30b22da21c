"""Which of the questions here are most like this one? By meaning where there are vectors, else by words.

Both give similarities of at most 1 for a number of questions that fit in memory: the best, and what comes near it.
They know neither answers nor who asks. Not safe between threads: their owner holds a lock.
"""

import sys
from array import array
from collections import Counter
from collections.abc import Iterable
from math import log, sqrt
from operator import mul
from typing import TYPE_CHECKING, NamedTuple, Protocol

from onhand.document import Document
from onhand.lexical.ranking import ranking
from onhand.search.index import Index
from onhand.store.memory import MemoryStore

if TYPE_CHECKING:
    from onhand.memory.matrix import Matrix

MANY = 200  # vectors, above which numpy saves more time than it takes to import
NEAREST = 10  # questions by words, of which the best and its rival are taken
DECIMALS = 9  # so that equal questions are equally similar however they were added up


class Near(NamedTuple):
    """A question's number and its similarity."""

    number: int
    similarity: float


class Shelf(Protocol):
    """Questions that can be compared with each other."""

    def __len__(self) -> int: ...

    def put(self, number: int, query: str, vector: "array[float] | None") -> None: ...

    def remove(self, number: int) -> None: ...

    def near(self, query: str, vector: "array[float] | None", floor: float, margin: float) -> list[Near]:
        """The most similar question and, if it reaches `floor`, all within `margin` of it; best first, then oldest."""


class VectorShelf:
    """Compares vectors of length one; with numpy, if that is there, once there are many or it is loaded anyway."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._rows: list[array[float]] = []
        self._places: dict[int, int] = {}
        self._matrix: Matrix | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, number: int, query: str, vector: "array[float] | None") -> None:
        assert vector is not None
        self._places[number] = len(self._rows)
        self._numbers.append(number)
        self._rows.append(vector)
        if self._matrix is not None:
            self._matrix.put(len(self._rows) - 1, vector)

    def remove(self, number: int) -> None:
        """Take one out; the last takes its place."""
        place = self._places.pop(number)
        last_number, last_row = self._numbers.pop(), self._rows.pop()
        if place < len(self._rows):
            self._numbers[place], self._rows[place], self._places[last_number] = last_number, last_row, place
            if self._matrix is not None:
                self._matrix.put(place, last_row)

    def near(self, query: str, vector: "array[float] | None", floor: float, margin: float) -> list[Near]:
        assert vector is not None
        found = self._products(vector, floor, margin)
        return _within(margin, floor, [Near(self._numbers[place], _rounded(product)) for place, product in found])

    def _products(self, vector: "array[float]", floor: float, margin: float) -> "Iterable[tuple[int, float]]":
        """The places of the best and of what may come near it, with their products."""
        is_worth_it = len(self._rows) >= MANY or (self._rows and "numpy" in sys.modules)
        if self._matrix is None and is_worth_it and _has_numpy():
            from onhand.memory.matrix import Matrix

            self._matrix = Matrix(self._rows)
        if self._matrix is None:
            return ((place, sum(map(mul, row, vector))) for place, row in enumerate(self._rows))
        return self._matrix.near(len(self._rows), vector, floor, margin)


class WordShelf:
    """Compares words: the cosine of their weights, where a rare word weighs more. Candidates come from an Index."""

    def __init__(self) -> None:
        self._tokenizer = ranking().tokenizer
        self._index = Index(MemoryStore())
        self._terms: dict[int, frozenset[str]] = {}
        self._having: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._terms)

    def put(self, number: int, query: str, vector: "array[float] | None") -> None:
        terms = frozenset(self._tokenizer.terms(query))
        self._index.put([Document(str(number), text=query)])
        self._terms[number] = terms
        self._having.update(terms)

    def remove(self, number: int) -> None:
        self._index.delete([str(number)])
        terms = self._terms.pop(number)
        self._having.subtract(terms)
        for term in terms:
            if not self._having[term]:
                del self._having[term]

    def near(self, query: str, vector: "array[float] | None", floor: float, margin: float) -> list[Near]:
        terms = frozenset(self._tokenizer.terms(query))
        numbers = [int(rank.id) for rank in self._index.rank(query, NEAREST).ranked]
        found = [Near(number, self._similarity(terms, self._terms[number])) for number in numbers]
        return _within(margin, floor, found)

    def _similarity(self, one: frozenset[str], other: frozenset[str]) -> float:
        lengths = self._weight(one) * self._weight(other)
        return round(min(1.0, self._weight(one & other) / sqrt(lengths)), DECIMALS) if lengths else 0.0

    def _weight(self, terms: frozenset[str]) -> float:
        # In the order of the terms: sums of floats depend on it, and sets have none of their own.
        return sum(log(1 + len(self._terms) / (1 + self._having[term])) ** 2 for term in sorted(terms))


def _within(margin: float, floor: float, found: list[Near]) -> list[Near]:
    """The best and, if it reaches the floor, those within the margin, in order."""
    found.sort(key=lambda one: (-one.similarity, one.number))
    if not found or found[0].similarity < floor:
        return found[:1]
    return [one for one in found if one.similarity >= found[0].similarity - margin]


def _has_numpy() -> bool:
    from importlib.util import find_spec

    return find_spec("numpy") is not None


def _rounded(product: float) -> float:
    return round(max(-1.0, min(1.0, product)), DECIMALS)
