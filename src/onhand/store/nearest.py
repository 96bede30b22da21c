"""Which rows of a matrix are nearest? Exactly, among all of them or among some.

Rows are chosen by products in single precision, with room for its errors; the chosen ones are scored again in double
precision, each row by itself. So a score does not depend on how its row was found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Ints = NDArray[np.int64]

GATHERED = 1024  # rows that are copied together: a megabyte stays in the cache until it is multiplied
# To copy a row from anywhere costs about two and a half times as much as to read it in passing.
SCAN_ABOVE = 2 / 5
GROUPS = 32  # values of which only the largest is compared at first


def slack(query: Floats) -> float:
    """How far the product of a query and a row of length one may be off in single precision."""
    return len(query) * 2.0**-24 * float(np.linalg.norm(query))


def chosen(
    rows: Floats, query: Floats, allowed: Ints | None, deleted: Ints, limit: int, floor: float
) -> tuple[Ints, Floats]:
    """The places of at least all rows that belong to the `limit` best, and their products in single precision."""
    if allowed is None:
        scores = rows @ query
        scores[deleted] = -np.inf
        kept = best(scores, limit, floor, slack(query))
        return kept, scores[kept]
    places = without(allowed, deleted, len(rows))
    few = len(places) <= len(rows) * SCAN_ABOVE
    scores = products(rows, places, query) if few else (rows @ query)[places]
    kept = best(scores, limit, floor, slack(query))
    return places[kept], scores[kept]


def products(rows: Floats, places: Ints, query: Floats) -> Floats:
    """The products of some rows, in single precision."""
    scores = np.empty(len(places), np.float32)
    for start in range(0, len(places), GATHERED):
        some = slice(start, start + GATHERED)
        scores[some] = rows[places[some]] @ query
    return scores


def precise(rows: Floats, places: Ints, query: Floats) -> NDArray[np.float64]:
    """The products of some rows, in double precision and each by the same sequence of additions.

    A row is of length one but for the last bit of a float; so as to be cosines, products end at 1.
    """
    exact, scores = query.astype(np.float64), np.empty(len(places), np.float64)
    for start in range(0, len(places), GATHERED):
        some = slice(start, start + GATHERED)
        scores[some] = (rows[places[some]] * exact).sum(axis=1)
    return scores.clip(-1.0, 1.0)


def best(scores: Floats, limit: int, floor: float, error: float) -> Ints:
    """The places of all scores that may be among the `limit` largest and not below the floor."""
    least = max(bar(scores, limit) - 2 * error, floor - error)
    kept = np.flatnonzero(scores >= least) if least > -np.inf else np.flatnonzero(scores > -np.inf)
    if len(kept) > limit:
        among = scores[kept]
        kept = kept[among >= np.partition(among, len(among) - limit)[len(among) - limit] - 2 * error]
    return kept


def bar(scores: Floats, count: int) -> float:
    """A value that at least `count` of the scores reach, and not many more do."""
    width = len(scores) // GROUPS
    if count > len(scores):
        return float("-inf")
    if width >= 4 * count:
        # The largest of each group are so many different scores; to find them is cheaper than to partition all.
        scores, size = scores[: width * GROUPS].reshape(GROUPS, width).max(axis=0), width
    else:
        size = len(scores)
    return float(np.partition(scores, size - count)[size - count])


def without(places: Ints, deleted: Ints, size: int) -> Ints:
    """Those places that are not among the dead."""
    if not len(deleted):
        return places
    alive = np.ones(size, np.bool_)
    alive[deleted] = False
    return places[alive[places]]


def places_of(docnums: Ints, wanted: Ints) -> Ints:
    """Where in ascending docnums the wanted ones are; those that are not there are left out."""
    if not len(docnums) or not len(wanted):
        return np.empty(0, np.int64)
    first, last = int(docnums[0]), int(docnums[-1])
    inside = wanted[slice(*np.searchsorted(wanted, [first, last + 1]))]
    if last - first == len(docnums) - 1:
        return inside - first
    if len(inside) * 16 > len(docnums) and last - first < 16 * len(docnums):
        asked = np.zeros(last - first + 1, np.bool_)
        asked[inside - first] = True
        return np.flatnonzero(asked[docnums - first])
    places = np.searchsorted(docnums, inside)
    there: Ints = places[docnums[places] == inside]
    return there
