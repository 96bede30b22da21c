"""How do two rankings become one? Ranks or scores of the layers, joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onhand.document import Match
from onhand.record import Record

RRF_K = 60  # Cormack, Clarke & Büttcher 2009


class Fused(Record):
    """A document with its place in each ranking that has it."""

    id: str
    score: float  # from 0 to 1
    places: Mapping[str, tuple[int, float]]  # layer → its rank there, from 1, and what the layer added


METHODS = ("adaptive", "rrf")


def reciprocal_rank(layers: Mapping[str, Sequence[Match]], weights: Mapping[str, float] | None = None) -> list[Fused]:
    """By the sum of weight / (60 + rank) over the layers, as a share of what the first of every layer would have."""
    weigh = {name: (weights or {}).get(name, 1.0) for name in layers}
    best = sum(weigh.values()) / (RRF_K + 1) or 1.0
    places: dict[str, dict[str, tuple[int, float]]] = {}
    for name, matches in layers.items():
        for rank, match in enumerate(matches, 1):
            places.setdefault(match.id, {})[name] = (rank, weigh[name] / (RRF_K + rank) / best)
    return _ranked(places)


def adaptive(
    layers: Mapping[str, Sequence[Match]],
    whole: Mapping[str, Sequence[Match]],
    weights: Mapping[str, float] | None = None,
) -> list[Fused]:
    """By the weighted sum of scores, each as a share of the best that its layer has in the whole index."""
    weigh = {name: (weights or {}).get(name, 1.0) for name in layers}
    total = sum(weigh.values()) or 1.0
    places: dict[str, dict[str, tuple[int, float]]] = {}
    for name, matches in layers.items():
        best = max((match.score for match in whole[name]), default=1.0)
        for rank, match in enumerate(matches, 1):
            places.setdefault(match.id, {})[name] = (rank, max(0.0, match.score / best) * weigh[name] / total)
    return _ranked(places)


def _ranked(places: Mapping[str, Mapping[str, tuple[int, float]]]) -> list[Fused]:
    fused = [Fused(id, sum(share for _, share in seen.values()), seen) for id, seen in places.items()]
    return sorted(fused, key=lambda one: (-one.score, one.id))
