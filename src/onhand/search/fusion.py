"""Fuse two rankings into one, by the ranks or by the scores of their matches.

The reasons and the measurements are in docs/adr/0012-fusion.md.
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

# The best scores of each layer that determine how much the layer counts for a query; further down, nothing is relevant.
SAMPLE = 100
# The keyword score at which words and meaning weigh the same, in words that only one document has. On public data
# sets (benchmarks/quality.py), values from 2.4 to 4 differ by no more than noise.
EVEN_EVIDENCE = 3.0
# How steeply words outweigh meaning as their evidence grows; values from 1 to 2 perform alike.
STEEPNESS = 1.5
# How far below the best cosine a neighbour has lost most of its share, as a fraction of the spread of the cosines;
# values from 0.35 to 0.7 perform alike.
NEARBY = 0.5
MIN_SPREAD = 0.01  # closer cosines are equal except for rounding


class Fused(Record):
    """A document with its place in each layer that ranks it."""

    id: str
    score: float  # from 0 to 1
    places: Mapping[str, tuple[int, float]]  # layer → its rank there, from 1, and what the layer adds


def reciprocal_rank(layers: Mapping[str, Sequence[Match]], weights: Mapping[str, float] | None = None) -> list[Fused]:
    """Rank by the sum of weight / (60 + rank) over the layers, as a fraction of the largest possible sum."""
    layer_weights = _complete_weights(weights, tuple(layers))
    best = sum(layer_weights[name] for name in layers) / (RRF_K + 1) or 1.0
    places: dict[str, dict[str, tuple[int, float]]] = {}
    for name, matches in layers.items():
        for rank, match in enumerate(matches, 1):
            places.setdefault(match.id, {})[name] = (rank, layer_weights[name] / (RRF_K + rank) / best)
    return _sort_fused(places)


def adaptive(
    layers: Mapping[str, Sequence[Match]],
    whole: Mapping[str, Sequence[Match]],
    documents: int,
    weights: Mapping[str, float] | None = None,
) -> list[Fused]:
    """Rank by a weighted mean of scores, in which words weigh more, the stronger the best keyword match is.

    `layers` has the score of every candidate in each layer that knows it. `whole` has the best matches of each layer,
    and `documents` is the number of documents, both without any filter. What depends on the query is derived from
    `whole` alone, so a candidate has the same score under any filter.
    """
    layer_weights = _balance_layers(whole, documents, _complete_weights(weights))
    places: dict[str, dict[str, tuple[int, float]]] = {}
    for name, matches in layers.items():
        share = _SHARES[name](whole[name][:SAMPLE])
        for rank, match in enumerate(matches, 1):
            places.setdefault(match.id, {})[name] = (rank, layer_weights[name] * share(match.score))
    return _sort_fused(places)


def _complete_weights(weights: Mapping[str, float] | None, layers: Sequence[str] = LAYERS) -> dict[str, float]:
    """Return the weight of each layer, 1 by default; raise InputError if a weight is not valid."""
    requested: Mapping[str, Any] = weights or {}  # not validated yet
    for name, weight in requested.items():
        if name not in layers:
            raise InputError(f"Unknown layer {name!r}. Weights are for {' and '.join(layers)}.")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not (isfinite(weight) and weight >= 0):
            raise InputError(f"The weight of {name} must be a number of at least 0, not {weight!r}.")
    layer_weights = {name: float(requested.get(name, 1.0)) for name in layers}
    if not any(layer_weights.values()):
        raise InputError("All layers have weight 0. Give at least one of them a larger weight.")
    return layer_weights


def _balance_layers(
    whole: Mapping[str, Sequence[Match]], documents: int, layer_weights: Mapping[str, float]
) -> dict[str, float]:
    """Return how much each layer counts for this query; together 1.

    A keyword score is a sum over the matching words, each at most about the logarithm of the number of documents. So
    its size, unlike that of a cosine, tells how strong the evidence is: two common words, or ten rare ones.
    """
    found = _best_score(whole.get("keyword", ())) / log(documents + 2)
    evidence = {
        "keyword": (found / EVEN_EVIDENCE) ** STEEPNESS,
        "semantic": 1.0 if whole.get("semantic") else 0.0,
    }
    counts = {name: layer_weights[name] * evidence[name] for name in LAYERS}
    total = sum(counts.values())
    return {name: count / total if total else 0.0 for name, count in counts.items()}


def _keyword_share(best: Sequence[Match]) -> Callable[[float], float]:
    """Return a function that maps a score to its fraction of the best one."""
    most = _best_score(best)
    return lambda score: min(1.0, score / most) if most else 0.0


def _semantic_share(best: Sequence[Match]) -> Callable[[float], float]:
    """Return a function that maps a cosine to a share that decays with its distance from the best one.

    The distance is measured in the spread of the query's cosines, in which models differ. The share never becomes
    zero, so the order of distant documents is preserved.
    """
    most = best[0].score if best else 0.0
    spread = max(most - best[-1].score, MIN_SPREAD) if best else 1.0
    return lambda score: min(1.0, exp((score - most) / (NEARBY * spread)))


_SHARES = {"keyword": _keyword_share, "semantic": _semantic_share}


def _best_score(matches: Sequence[Match]) -> float:
    return matches[0].score if matches else 0.0


def _sort_fused(places: Mapping[str, Mapping[str, tuple[int, float]]]) -> list[Fused]:
    fused = [Fused(id, min(1.0, sum(share for _, share in seen.values())), seen) for id, seen in places.items()]
    return sorted(fused, key=lambda one: (-one.score, one.id))
