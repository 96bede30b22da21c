"""Which of the questions here are most like this one? By meaning where there are vectors, else by words.

Both give similarities of at most 1 for a number of questions that fit in memory: the best, and what comes near it.
They know neither answers nor who asks. Not safe between threads: their owner holds a lock.
"""

import sys
from array import array
from collections import Counter
from math import log, sqrt
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from onhand.document import Document
from onhand.lexical.ranking import ranking
from onhand.search.index import Index
from onhand.store.memory import MemoryStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

MANY = 200  # vectors, above which numpy saves more time than it takes to import
NEAREST = 10  # questions by words, of which the best and its rival are taken
HEAD = 0.375  # of a vector's numbers, read for all; less leaves too many for which the rest has to be read
ALIGNED = 16  # numbers: rows of a multiple of these are read faster
SLACK = 1e-5  # what single precision may be off
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
        self._matrix: _Matrix | None = None

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
        places = self._candidates(vector, floor, margin)
        found = [Near(self._numbers[place], _product(self._rows[place], vector)) for place in places]
        return _within(margin, floor, found)

    def _candidates(self, vector: "array[float]", floor: float, margin: float) -> "range | list[int]":
        if self._matrix is None and (len(self._rows) >= MANY or "numpy" in sys.modules) and _has_numpy():
            self._matrix = _Matrix(self._rows)
        count = len(self._rows)
        return range(count) if self._matrix is None else self._matrix.near(count, vector, floor, margin)


class _Matrix:
    """Rows of numbers, of which a first part is kept apart and read for every question.

    Of two vectors of length one, what the other parts can add is at most the product of their lengths (Cauchy and
    Schwarz). So rows are left out only when they cannot reach the floor.
    """

    def __init__(self, rows: "list[array[float]]") -> None:
        import numpy

        self._numpy: Any = numpy
        self._dimension = len(rows[0]) if rows else 0
        self._split = max(1, round(self._dimension * HEAD / ALIGNED) * ALIGNED)
        capacity = max(64, 2 * len(rows))
        self._heads: Floats = numpy.empty((capacity, self._split), numpy.float32)
        self._tails: Floats = numpy.empty((capacity, self._dimension - self._split), numpy.float32)
        self._lengths: Floats = numpy.empty(capacity, numpy.float32)
        for place, row in enumerate(rows):
            self.put(place, row)

    def put(self, place: int, row: "array[float]") -> None:
        if place >= len(self._heads):
            self._grow()
        values = self._numpy.frombuffer(row, self._numpy.float32)
        self._heads[place] = values[: self._split]
        self._tails[place] = values[self._split :]
        self._lengths[place] = self._numpy.linalg.norm(values[self._split :])

    def near(self, count: int, vector: "array[float]", floor: float, margin: float) -> list[int]:
        """The places of the best row and, if it reaches the floor, of those within the margin, and hardly any other."""
        numpy = self._numpy
        if not count:
            return []
        query = numpy.frombuffer(vector, numpy.float32)
        head, tail = query[: self._split], query[self._split :]
        products = self._heads[:count] @ head
        reach = products + self._lengths[:count] * numpy.linalg.norm(tail)
        likely = int(reach.argmax())
        found = float(products[likely] + self._tails[likely] @ tail)  # the best is no worse
        places, exact = self._above(found - SLACK - (margin if found >= floor - SLACK else 0.0), products, reach, tail)
        best = float(exact.max())
        if found < floor - SLACK <= best:
            places, exact = self._above(best - SLACK - margin, products, reach, tail)
        least = best - SLACK - (margin if best >= floor - SLACK else 0.0)
        return [int(place) for place in places[exact >= least]]

    def _above(self, least: float, products: "Floats", reach: "Floats", tail: "Floats") -> "tuple[Any, Floats]":
        """The places of the rows whose product is at least that, and their products."""
        numpy = self._numpy
        places = numpy.flatnonzero(reach >= least)
        if len(places) > len(reach) // 8:  # `least` tells little apart: read on for all
            exact = products + self._tails[: len(reach)] @ tail
            places = numpy.flatnonzero(exact >= least)
            return places, exact[places]
        exact = products[places] + self._tails[places] @ tail
        return places[exact >= least], exact[exact >= least]

    def _grow(self) -> None:
        numpy = self._numpy
        for name in ("_heads", "_tails", "_lengths"):
            old = getattr(self, name)
            new = numpy.empty((2 * len(old), *old.shape[1:]), numpy.float32)
            new[: len(old)] = old
            setattr(self, name, new)


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


def _product(one: "array[float]", other: "array[float]") -> float:
    product: float = sum(map(mul, one, other))
    return round(max(-1.0, min(1.0, product)), DECIMALS)
