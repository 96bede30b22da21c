"""How do two rankings become one? Ranks or scores of the layers, joined.

It knows matches, not how they were found. Why so, and how well it does: docs/adr/0012-fusion.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp, isfinite, log

from onhand.document import Match
from onhand.errors import InputError
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

METHODS = ("adaptive", "rrf")
LAYERS = ("keyword", "semantic")

RRF_K = 60  # Cormack, Clarke & Büttcher 2009

# A query's own scores, as far down as this, say how it is to be taken; further down nothing answers it.
LOOKED_AT = 100
# In words that only one document has: where the best match has so much, words and meaning weigh the same. Read off
# public sets (benchmarks/quality.py): from 2.4 to 4 nothing changes by more than noise.
EVEN_EVIDENCE = 3.0
# How steeply words outweigh meaning as their evidence grows; 1 to 2 do alike.
STEEPNESS = 1.5
# Of the spread of a query's cosines: how far below the best one a neighbour has lost most of its share. 0.35 to 0.7
# do alike.
NEARBY = 0.5
MIN_SPREAD = 0.01  # of cosines: closer ones are equal but for rounding


class Fused(Record):
    """A document with its place in each ranking that has it."""

    id: str
    score: float  # from 0 to 1
    places: Mapping[str, tuple[int, float]]  # layer → its rank there, from 1, and what the layer added


def reciprocal_rank(layers: Mapping[str, Sequence[Match]], weights: Mapping[str, float] | None = None) -> list[Fused]:
    """By the sum of weight / (60 + rank) over the layers, as a share of what the first of every layer would have."""
    weigh = _checked(weights, tuple(layers))
    best = sum(weigh[name] for name in layers) / (RRF_K + 1) or 1.0
    places: dict[str, dict[str, tuple[int, float]]] = {}
    for name, matches in layers.items():
        for rank, match in enumerate(matches, 1):
            places.setdefault(match.id, {})[name] = (rank, weigh[name] / (RRF_K + rank) / best)
    return _ranked(places)


def adaptive(
    layers: Mapping[str, Sequence[Match]],
    whole: Mapping[str, Sequence[Match]],
    documents: int,
    weights: Mapping[str, float] | None = None,
) -> list[Fused]:
    """By a mean of scores, in which words weigh the more, the more evidence the best match by words has.

    `layers` has every candidate's score in each layer that knows it; `whole` has the best of each layer, and
    `documents` their number, without any filter. What depends on the query is taken from `whole` alone, so a candidate
    has the same score under any filter.
    """
    weigh = _balance(whole, documents, _checked(weights))
    places: dict[str, dict[str, tuple[int, float]]] = {}
    for name, matches in layers.items():
        share = _SHARES[name](whole[name][:LOOKED_AT])
        for rank, match in enumerate(matches, 1):
            places.setdefault(match.id, {})[name] = (rank, weigh[name] * share(match.score))
    return _ranked(places)


def _checked(weights: Mapping[str, float] | None, layers: Sequence[str] = LAYERS) -> dict[str, float]:
    """The weight of each layer, 1 where none is given."""
    given: Mapping[str, Any] = weights or {}  # whose numbers nobody has checked
    for name, weight in given.items():
        if name not in layers:
            raise InputError(f"weights are for {' and '.join(layers)}; there is no layer {name!r}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not (isfinite(weight) and weight >= 0):
            raise InputError(f"the weight of {name} is a number from 0 upwards, not {weight!r}")
    weigh = {name: float(given.get(name, 1.0)) for name in layers}
    if not any(weigh.values()):
        raise InputError("every layer has weight 0: give one of them more")
    return weigh


def _balance(whole: Mapping[str, Sequence[Match]], documents: int, weigh: Mapping[str, float]) -> dict[str, float]:
    """What each layer counts for this query; together 1.

    A score by words is a sum over the words that match, each counting up to the logarithm of the number of documents.
    So its size, unlike a cosine's, tells how much there is to go by: two common words, or ten rare ones.
    """
    found = _best(whole.get("keyword", ())) / log(documents + 2)
    evidence = {
        "keyword": (found / EVEN_EVIDENCE) ** STEEPNESS,
        "semantic": 1.0 if whole.get("semantic") else 0.0,
    }
    counts = {name: weigh[name] * evidence[name] for name in LAYERS}
    total = sum(counts.values())
    return {name: count / total if total else 0.0 for name, count in counts.items()}


def _by_words(best: Sequence[Match]) -> Callable[[float], float]:
    """As a part of the best score."""
    most = _best(best)
    return lambda score: min(1.0, score / most) if most else 0.0


def _by_meaning(best: Sequence[Match]) -> Callable[[float], float]:
    """By the distance from the best cosine, measured against how far the query's cosines spread: models differ in that,
    and no document is so far away that its order is lost."""
    most = best[0].score if best else 0.0
    spread = max(most - best[-1].score, MIN_SPREAD) if best else 1.0
    return lambda score: min(1.0, exp((score - most) / (NEARBY * spread)))


_SHARES = {"keyword": _by_words, "semantic": _by_meaning}


def _best(matches: Sequence[Match]) -> float:
    return matches[0].score if matches else 0.0


def _ranked(places: Mapping[str, Mapping[str, tuple[int, float]]]) -> list[Fused]:
    fused = [Fused(id, min(1.0, sum(share for _, share in seen.values())), seen) for id, seen in places.items()]
    return sorted(fused, key=lambda one: (-one.score, one.id))
