"""Fuse the rankings by keyword and by meaning into one, by their scores or by their ranks.

The reasons and the measurements are in docs/adr/0012-fusion.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from onhand.document import Match
from onhand.errors import InputError
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

METHODS = ("scores", "rrf")
LAYERS = ("keyword", "semantic")

RRF_K = 60  # Cormack, Clarke & Büttcher 2009
# How many words, each adding as much as a word can, are worth as much as a cosine of 1. On public sets, values from 2.2
# to 3.4 differ by less than half a point on average, and this one is never a point below the better layer.
WORDS_PER_COSINE = 2.8

# A search has found something if, for one of its best hits, the share of the query's term weights that it has, plus its
# cosine in units of the embedder's least one, reaches this. On ten public sets, five of six queries of other sets do
# not reach it, and one of a hundred of their own.
MIN_EVIDENCE = 0.54
COSINE_EVIDENCE = 0.4  # of a hit whose cosine is the least that the embedder declares as related
JUDGED = 5  # hits that are looked at


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


def add_scores(
    layers: Mapping[str, Sequence[Match]], most_per_word: float, weights: Mapping[str, float] | None = None
) -> list[Fused]:
    """Rank by the sum of keyword score and cosine, both in units that do not depend on the query.

    `layers` has the score of every candidate in each layer that knows it. A keyword score is a sum over the matching
    words, each of which adds at most `most_per_word`. So its size says how much evidence the words are: two common
    ones, or ten rare ones. The sum s becomes s / (1 + s), from 0 to 1.
    """
    layer_weights = _complete_weights(weights)
    units = {"keyword": WORDS_PER_COSINE * most_per_word, "semantic": 1.0}
    places: dict[str, dict[str, tuple[int, float]]] = {}
    for name, matches in layers.items():
        for rank, match in enumerate(matches, 1):
            evidence = layer_weights[name] * max(match.score, 0.0) / units[name]
            places.setdefault(match.id, {})[name] = (rank, evidence)
    return _sort_fused({id: _saturate(seen) for id, seen in places.items()})


def has_evidence(term_share: float, cosine: float, least_cosine: float) -> bool:
    """Return whether a document that has this share of a query's term weights is more than the best of a bad list."""
    return term_share + COSINE_EVIDENCE * max(cosine, 0.0) / least_cosine >= MIN_EVIDENCE


def _saturate(seen: Mapping[str, tuple[int, float]]) -> dict[str, tuple[int, float]]:
    """Return the evidence of each layer as its share of a score from 0 to 1."""
    total = sum(evidence for _, evidence in seen.values())
    return {name: (rank, evidence / (1 + total)) for name, (rank, evidence) in seen.items()}


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


def _sort_fused(places: Mapping[str, Mapping[str, tuple[int, float]]]) -> list[Fused]:
    fused = [Fused(id, min(1.0, sum(share for _, share in seen.values())), seen) for id, seen in places.items()]
    return sorted(fused, key=lambda one: (-one.score, one.id))
