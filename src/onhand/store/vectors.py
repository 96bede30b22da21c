"""Which vectors are nearest to this one? The seam between a store and a copy of its vectors that is fast to search.

The truth is the store's own table. What is kept here is derived from it, belongs to one generation of it (`token`),
and can be thrown away at any time. A vector is known by its docnum: a number that only grows and is never used again.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from operator import mul
from typing import TYPE_CHECKING, Protocol

from onhand.errors import EmbedderError, StoreError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from onhand.store.store import Damage

    Docnums = Sequence[int] | NDArray[np.int64]
    RowsAbove = Callable[[int], Iterable[tuple[int, bytes]]]


class Vectors(Protocol):
    """A searchable copy of a table of vectors. Safe between threads."""

    note: str | None  # why it is slower or larger than it could be, for whoever operates it

    @property
    def last_docnum(self) -> int:
        """The highest docnum that is in the copy; -1 when there is none."""

    def __len__(self) -> int:
        """How many vectors are in the copy, deleted ones included."""

    def catch_up(self, rows_above: RowsAbove) -> None:
        """Take over the committed rows above the last docnum: little-endian floats, by ascending docnum."""

    def nearest(
        self,
        query: array[float] | bytes,
        *,
        allowed: Docnums | None = None,
        deleted: Docnums = (),
        limit: int = 10,
        min_score: float | None = None,
        upto: int | None = None,
    ) -> list[tuple[int, float]]:
        """The docnums with the largest products and these, descending; all that tie with the last one come too.

        `allowed` and `dead` are ascending; docnums above `upto` do not count.
        """

    def check(self) -> list[Damage]:
        """What is not as it was written."""

    def discard(self) -> None:
        """Forget the copy; the next catch-up makes it anew."""

    def close(self) -> None:
        """Let go of files."""


def open_vectors(path: str | os.PathLike[str], dimension: int, token: str) -> Vectors:
    """The copy that is kept at a path, whatever state it is in; one in memory where numpy is not installed."""
    try:
        from onhand.store.mmap_vectors import MappedVectors
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        return PlainVectors(dimension)
    return MappedVectors(path, dimension, token)


def checked_row(docnum: int, data: bytes, dimension: int, last: int) -> None:
    """Refuse a row of the table that cannot be a vector or that is out of turn."""
    if len(data) != dimension * 4:
        raise StoreError(
            f"the vector of docnum {docnum} has {len(data)} bytes instead of {dimension * 4}: embed the documents again"
        )
    if docnum <= last:
        raise StoreError(f"docnum {docnum} comes after docnum {last}: give the rows in ascending order, each once")


def not_finite(docnum: int) -> StoreError:
    """What to say of a vector with numbers that no vector has."""
    return StoreError(f"the vector of docnum {docnum} is not finite: embed the documents again")


def bad_query(numbers: int, dimension: int) -> EmbedderError:
    """What to say of a query that cannot be compared with the vectors."""
    if numbers != dimension:
        return EmbedderError(f"the query has {numbers} numbers and the vectors {dimension}: use the index's own model")
    return EmbedderError("the query's vector is not finite: the model that made it cannot be used")


class PlainVectors:
    """Vectors in memory, compared by plain Python: right, and slow."""

    def __init__(self, dimension: int) -> None:
        self.note: str | None = "numpy is not installed: vectors are compared one by one, in memory"
        self._dimension = dimension
        self._kept: tuple[list[int], list[array[float]]] = ([], [])

    @property
    def last_docnum(self) -> int:
        docnums = self._kept[0]
        return docnums[-1] if docnums else -1

    def __len__(self) -> int:
        return len(self._kept[0])

    def catch_up(self, rows_above: RowsAbove) -> None:
        docnums, rows = list(self._kept[0]), list(self._kept[1])
        for docnum, data in rows_above(self.last_docnum):
            checked_row(docnum, data, self._dimension, docnums[-1] if docnums else -1)
            row = _floats(data)
            if not _finite(row):
                raise not_finite(docnum)
            docnums.append(docnum)
            rows.append(row)
        self._kept = docnums, rows

    def nearest(
        self,
        query: array[float] | bytes,
        *,
        allowed: Docnums | None = None,
        deleted: Docnums = (),
        limit: int = 10,
        min_score: float | None = None,
        upto: int | None = None,
    ) -> list[tuple[int, float]]:
        wanted = _floats(query) if isinstance(query, bytes) else query
        if len(wanted) != self._dimension or not _finite(wanted):
            raise bad_query(len(wanted), self._dimension)
        docnums, rows = self._kept
        end = len(docnums) if upto is None else bisect_right(docnums, upto)
        gone, may = set(map(int, deleted)), None if allowed is None else set(map(int, allowed))
        found = [
            (
                docnum,
                max(-1.0, min(1.0, sum(map(mul, wanted, row)))),
            )  # rows are of length one but for a float's last bit
            for docnum, row in zip(docnums[:end], rows, strict=False)
            if docnum not in gone and (may is None or docnum in may)
        ]
        return _cut(found, limit, min_score)

    def check(self) -> list[Damage]:
        return []

    def discard(self) -> None:
        self._kept = ([], [])

    def close(self) -> None:
        """Nothing is open."""


def _cut(found: list[tuple[int, float]], limit: int, min_score: float | None) -> list[tuple[int, float]]:
    found = [hit for hit in found if min_score is None or hit[1] >= min_score]
    found.sort(key=lambda hit: (-hit[1], hit[0]))
    if limit <= 0 or len(found) <= limit:
        return found if limit > 0 else []
    return [hit for hit in found if hit[1] >= found[limit - 1][1]]


def _floats(data: bytes) -> array[float]:
    floats = array("f")
    floats.frombytes(data[: len(data) // 4 * 4])
    if sys.byteorder == "big":
        floats.byteswap()
    return floats


def _finite(row: array[float]) -> bool:
    from math import isfinite

    return all(map(isfinite, row))
