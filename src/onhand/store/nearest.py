"""Find the rows of a numpy matrix that are nearest to a query: exactly, among all rows or among some.

Rows are selected by dot products in single precision, with a margin for rounding errors. The selected rows are then
scored in double precision, each by itself, so that a score does not depend on how its row was found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Ints = NDArray[np.int64]

GATHERED_ROWS = 1024  # rows that are copied together: a megabyte stays in the CPU cache until it is multiplied
# Copying a row from anywhere costs about two and a half times as much as reading it in order.
MIN_SCANNED_SHARE = 2 / 5
GROUPS = 32  # scores of which, at first, only the largest is compared


def rounding_error(query: Floats) -> float:
    """Return the largest error of a product of the query and a row of length one in single precision."""
    return len(query) * 2.0**-24 * float(np.linalg.norm(query))


def find_nearest(
    rows: Floats, query: Floats, allowed: Ints | None, deleted: Ints, limit: int, floor: float
) -> tuple[Ints, Floats]:
    """Return the places of at least all rows among the `limit` best, and their products in single precision."""
    if allowed is None:
        scores = rows @ query
        scores[deleted] = -np.inf
        best = top_places(scores, limit, floor, rounding_error(query))
        return best, scores[best]
    places = _remove_deleted(allowed, deleted, len(rows))
    is_scanned = len(places) > len(rows) * MIN_SCANNED_SHARE
    scores = (rows @ query)[places] if is_scanned else gather_products(rows, places, query)
    best = top_places(scores, limit, floor, rounding_error(query))
    return places[best], scores[best]


def gather_products(rows: Floats, places: Ints, query: Floats) -> Floats:
    """Return the products of some rows in single precision."""
    scores = np.empty(len(places), np.float32)
    for start in range(0, len(places), GATHERED_ROWS):
        some = slice(start, start + GATHERED_ROWS)
        scores[some] = rows[places[some]] @ query
    return scores


def exact_products(rows: Floats, places: Ints, query: Floats) -> NDArray[np.float64]:
    """Return the products of some rows in double precision, each by the same sequence of additions.

    They are clipped to -1 and 1, since the length of a stored row differs from one by the rounding of a 32-bit float.
    """
    exact, scores = query.astype(np.float64), np.empty(len(places), np.float64)
    for start in range(0, len(places), GATHERED_ROWS):
        some = slice(start, start + GATHERED_ROWS)
        scores[some] = (rows[places[some]] * exact).sum(axis=1)
    return scores.clip(-1.0, 1.0)


def top_places(scores: Floats, limit: int, floor: float, error: float) -> Ints:
    """Return the places of all scores that may be among the `limit` largest and may reach the floor."""
    least = max(kth_bound(scores, limit) - 2 * error, floor - error)
    places = np.flatnonzero(scores >= least) if least > -np.inf else np.flatnonzero(scores > -np.inf)
    if len(places) > limit:
        among = scores[places]
        places = places[among >= np.partition(among, len(among) - limit)[len(among) - limit] - 2 * error]
    return places


def kth_bound(scores: Floats, count: int) -> float:
    """Return a value that at least `count` of the scores reach, and not many more."""
    width = len(scores) // GROUPS
    if count > len(scores):
        return float("-inf")
    if width >= 4 * count:
        # The maxima of the groups are as many different scores; finding them is cheaper than partitioning all scores.
        scores, size = scores[: width * GROUPS].reshape(GROUPS, width).max(axis=0), width
    else:
        size = len(scores)
    return float(np.partition(scores, size - count)[size - count])


def find_places(docnums: Ints, wanted: Ints) -> Ints:
    """Return all places of the wanted docnums among others, leaving out those that are missing; both are ascending.

    A docnum may have several places, which follow each other; `wanted` has each docnum once.
    """
    if not len(docnums) or not len(wanted):
        return np.empty(0, np.int64)
    first, last = int(docnums[0]), int(docnums[-1])
    inside = wanted[slice(*np.searchsorted(wanted, [first, last + 1]))]
    if last - first == len(docnums) - 1:
        places = inside - first
        # Without gaps and repetitions every docnum is in its place; two of them could make up for each other.
        if _are_alone(docnums, places, inside):
            return places
    if len(inside) * 16 > len(docnums) and last - first < 16 * len(docnums):
        is_wanted = np.zeros(last - first + 1, np.bool_)
        is_wanted[inside - first] = True
        return np.flatnonzero(is_wanted[docnums - first])
    places = np.searchsorted(docnums, inside)
    if _are_alone(docnums, places, inside):
        return places
    counts = np.searchsorted(docnums, inside, side="right") - places
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    every: Ints = np.repeat(places, counts) + offsets
    return every


def _are_alone(docnums: Ints, places: Ints, wanted: Ints) -> bool:
    """Return whether each wanted docnum has its place and no other."""
    if not (docnums[places] == wanted).all():
        return False
    before, after = np.maximum(places - 1, 0), np.minimum(places + 1, len(docnums) - 1)
    return bool(
        ((docnums[before] < wanted) | (places == 0)).all()
        and ((docnums[after] > wanted) | (places == len(docnums) - 1)).all()
    )


def _remove_deleted(places: Ints, deleted: Ints, size: int) -> Ints:
    if not len(deleted):
        return places
    is_alive = np.ones(size, np.bool_)
    is_alive[deleted] = False
    return places[is_alive[places]]
