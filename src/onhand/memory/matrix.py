"""Which of many vectors come near this one? All that do, and without reading most of their numbers.

Of each row a shadow is kept: its parts in the directions in which most rows lie, and the length of the rest. The
product of two shadows is at least that of their rows (Cauchy and Schwarz), whatever the directions are. So the shadows
are read for every question, and the rows only where their shadow reaches what is looked for. It needs numpy, and knows
places and numbers alone.
"""

from array import array
from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

DIRECTIONS = 63  # and the rest: a row of 64 numbers. Half as many leave ten times the rows to be read
FEW = 1000  # rows, below which to read them all takes no longer
SHORT = 256  # numbers of a row, likewise
SAMPLE = 1000  # rows that directions are learnt from
ROUNDS = 3  # of learning; more change little
LEAST_SHARE = 0.4  # of the squared lengths of a sample that its directions must have: vectors by chance have a third
SLACK = 1e-5  # what single precision may be off
ROUNDING = 1e-5  # added to the square of the rest, which is a difference: it may be too large, never too small


class Matrix:
    """Rows of length one, by place. Not safe between threads: its owner holds a lock."""

    def __init__(self, rows: "Sequence[array[float]]") -> None:
        self._make_room(np.array(rows, np.float32), max(64, 2 * len(rows)))

    def put(self, place: int, row: "array[float]") -> None:
        """Set a row; the first place that has none may be given too."""
        if place == len(self._rows):
            self._make_room(self._rows, 2 * place)
        self._rows[place] = np.frombuffer(row, np.float32)
        if self._directions is not None:
            self._shadows[place] = _shadow(self._rows[place], self._directions)

    def near(self, count: int, vector: "array[float]", floor: float, margin: float) -> list[tuple[int, float]]:
        """Of the first `count` rows, the place and product of the best and, if it reaches the floor, of all within the
        margin; hardly any other, in no order."""
        query = np.frombuffer(vector, np.float32)
        places = self._likely(count, query, floor, margin)
        rows = self._rows[:count] if places is None else self._rows[places]
        rough = rows @ query
        best = float(rough.max(initial=-1.0))
        near = np.flatnonzero(rough >= best - SLACK - (margin if best >= floor - SLACK else 0.0))
        exact = (rows[near] * query.astype(np.float64)).sum(axis=1)  # equal rows get equal sums
        return list(zip((near if places is None else places[near]).tolist(), exact.tolist(), strict=True))

    def _likely(self, count: int, query: Floats, floor: float, margin: float) -> "NDArray[np.intp] | None":
        """Places among which are the best and, if it reaches the floor, all within the margin; None: anywhere."""
        if self._directions is None or not count:
            return None
        reach = self._shadows[:count] @ _shadow(query, self._directions)
        found = float(self._rows[reach.argmax()] @ query)  # the best is no worse
        places = np.flatnonzero(reach >= min(found, max(found, floor) - margin) - SLACK)
        return places if len(places) <= count // 8 else None  # to pick so many takes longer than to read all

    def _make_room(self, rows: Floats, capacity: int) -> None:
        """Keep these rows, with room for more, and learn in which directions they lie."""
        self._rows = np.empty((capacity, rows.shape[1]), np.float32)
        self._rows[: len(rows)] = rows
        self._directions = _directions(rows) if len(rows) >= FEW and rows.shape[1] >= SHORT else None
        if self._directions is not None:
            self._shadows = np.empty((capacity, DIRECTIONS + 1), np.float32)
            for place, row in enumerate(rows):
                self._shadows[place] = _shadow(row, self._directions)


def _directions(rows: Floats) -> Floats | None:
    """The directions in which most of the rows lie, as columns at right angles; None when there are no such."""
    some = rows[:: -(-len(rows) // SAMPLE)]
    found: Any = np.random.default_rng(0).standard_normal((rows.shape[1], DIRECTIONS), np.float32)
    for _ in range(ROUNDS):  # turns them towards where the rows are (subspace iteration)
        found = np.linalg.qr(some.T @ (some @ found))[0]
    return found if np.square(some @ found).sum() >= LEAST_SHARE * len(some) else None


def _shadow(row: Floats, directions: Floats) -> Floats:
    shadow = np.empty(DIRECTIONS + 1, np.float32)
    parts = np.dot(row, directions, out=shadow[:-1])
    shadow[-1] = sqrt(max(0.0, 1.0 - float(parts @ parts)) + ROUNDING)
    return shadow
