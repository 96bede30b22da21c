"""What does a term add to the documents that have it, worked out by numpy? For some of them, or once for all.

Scores are 32-bit floats here, which is enough to tell which documents come near to the best. It knows nothing of
queries, nor where postings are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onhand.lexical.bm25 import Scoring
from onhand.lexical.segment import count_bytes

Array = np.ndarray[Any, np.dtype[Any]]

DENSE = 8  # a term that more than every eighth document has is kept as a number for every slot: to add it is faster
BEST = 256  # documents of a term that are known as its best: a filter may leave few of them
MANY = 8  # looking up one document costs as much as working out so many in their order


class Weights(NamedTuple):
    """What the formula takes from each document, and what makes most of it."""

    scoring: Scoring
    fields: list[Any]  # what one occurrence in each field counts: by slot, or one number for all
    norm: Any  # likewise
    heaviest: list[float]
    least_norm: float

    def top(self, idf: float, most: Sequence[int]) -> float:
        """What a term adds at most that no document has more often in each field than `most`."""
        frequencies = [weight * count for weight, count in zip(self.heaviest, most, strict=True)]
        gains = [self.scoring.gain(frequency, self.least_norm) for frequency in frequencies]
        alone = sum(own * gain for own, gain in zip(self.scoring.alone, gains, strict=True))
        return float(self.scoring.score(sum(frequencies), self.least_norm, idf, alone))


def weights_of(scoring: Scoring, lengths: Sequence[Array]) -> Weights:
    """The weights of documents with fields of those lengths."""
    # Where there is no word nothing is ever weighed: 1 instead of 0, by which one may divide whatever the formula.
    fields = [scoring.weight(field, np.maximum(own, 1).astype(np.float32)) for field, own in enumerate(lengths)]
    norm = scoring.norm([own.astype(np.float32) for own in lengths])
    return Weights(scoring, fields, norm, [float(np.max(own)) for own in fields], float(np.min(norm)))


class Term:
    """The documents that have a term, how often, and what it adds to them."""

    def __init__(self, slots: Array, counts: Sequence[Array], weights: Weights, slot_count: int) -> None:
        self.slots = slots  # ascending
        self.size = len(slots)
        self.idf = weights.scoring.idf(self.size)
        self.top = weights.top(self.idf, [int(own.max()) for own in counts])
        self.is_dense = self.size * DENSE >= slot_count
        self._counts = counts  # for each field
        self._weights = weights
        self._slot_count = slot_count
        self._scores: Array | None = None  # once they were worked out for all: by slot if dense, otherwise as `slots`
        self._best = slots

    @property
    def bytes(self) -> int:
        """How much memory it takes at most."""
        own = self.slots.nbytes + sum(counts.nbytes for counts in self._counts)
        return own + 4 * (self._slot_count if self.is_dense else self.size) + 1000

    def best(self) -> Array:
        """The slots of its best documents, ascending."""
        self._all_scores()
        return self._best

    def add_to(self, sums: Array, weight: float) -> None:
        """Add what it adds, so many times, to a number for every slot."""
        scores = self._all_scores()
        weighted = scores if weight == 1.0 else scores * np.float32(weight)
        if self.is_dense:
            sums += weighted
        else:
            sums[self.slots.astype(np.intp)] += weighted

    def scores_of(self, slots: Array) -> Array:
        """What it adds to some documents, which need not have it."""
        if self._scores is not None or len(slots) * MANY > self.size:
            scores = self._all_scores()
            if self.is_dense:
                return scores[slots]
            places, is_there = self._find(slots)
            found = scores[places]
        else:
            places, is_there = self._find(slots)
            found = self._score(slots, [own[places] for own in self._counts])
        found *= is_there
        return found

    def counts_of(self, slots: Array) -> list[Array]:
        """How often some documents have it, in each field."""
        places, is_there = self._find(slots)
        return [own[places] * is_there for own in self._counts]

    def _find(self, slots: Array) -> tuple[Array, Array]:
        """Where some slots are among its own, and whether they are."""
        wanted = slots.astype(self.slots.dtype)  # otherwise all of its own would be converted
        places = self.slots.searchsorted(wanted)
        places[places == self.size] = 0
        return places, self.slots[places] == wanted

    def _all_scores(self) -> Array:
        if self._scores is None:
            slots = self.slots.astype(np.intp)
            scores = self._score(slots, self._counts)
            if self.size > BEST:
                self._best = self.slots[np.sort(np.argpartition(scores, -BEST)[-BEST:])]
            self.top = float(scores.max())
            if self.is_dense:
                self._scores = np.zeros(self._slot_count, dtype=np.float32)
                self._scores[slots] = scores
            else:
                self._scores = scores
        return self._scores

    def _score(self, slots: Array, counts: Sequence[Array]) -> Array:
        """What it adds to documents that have it so often."""
        scoring, weights, norm, _, _ = self._weights
        norm = _of(norm, slots)
        frequency: Any = 0.0
        alone: Any = 0.0
        for weight, own, share in zip(weights, counts, scoring.alone, strict=True):
            part = np.multiply(_of(weight, slots), own, dtype=np.float32)
            frequency = frequency + part
            if share:
                alone = alone + share * scoring.gain(part, norm)
        scores: Array = scoring.score(frequency, norm, self.idf, alone)
        return scores


def joined(postings: Sequence[tuple[int, bytes]], fields: int = 0) -> tuple[Array, list[Array]]:
    """The slots of the postings of a term, ascending, and how often it stands in each field."""
    parts = [_decoded(size, data, fields) for size, data in postings]
    if not parts:
        return NO_SLOTS, [NO_SLOTS] * fields
    slots, *counts = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    return slots, counts


NO_SLOTS: Array = np.empty(0, dtype="<u4")


def _decoded(size: int, data: bytes, fields: int) -> list[Array]:
    width = count_bytes(size, data, fields)
    counts = [np.frombuffer(data, f"<u{width}", size, size * (4 + width * field)) for field in range(fields)]
    return [np.frombuffer(data, "<u4", size), *counts]


def _of(values: Any, slots: Array) -> Any:
    """Those of some documents, where each has its own."""
    return values[slots] if isinstance(values, np.ndarray) else values
