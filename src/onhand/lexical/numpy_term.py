"""What does a term add to the documents that have it, worked out by numpy? For some of them, or once for all.

Scores are 32-bit floats here, which is enough to tell which documents come near to the best. It knows nothing of
queries, nor where postings are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from onhand.lexical.scoring import Scoring
from onhand.lexical.segment import count_bytes

Array = np.ndarray[Any, np.dtype[Any]]

SHORT = 2048  # documents of which it does not pay to leave any out
SAMPLE = 16_384  # scores, from which it is guessed how good the best of more are


class Weights(NamedTuple):
    """What the formula takes from each document, by slot or one number for all, and what makes most of it."""

    scoring: Scoring
    fields: list[Any]  # what one occurrence in each field counts
    norm: Any
    heaviest: list[float]
    least_norm: float

    def score(self, idf: float, slots: Array, counts: Sequence[Array]) -> Array:
        """What a term adds to documents that have it so often in each field."""
        norm = _of(self.norm, slots)
        frequency = np.zeros(len(slots), dtype=np.float32)
        alone = np.zeros(len(slots), dtype=np.float32)
        for weight, own, share in zip(self.fields, counts, self.scoring.alone, strict=True):
            here = _where(own)
            part = np.multiply(_of(weight, slots[here]), own[here], dtype=np.float32)
            frequency[here] += part
            if share:
                alone[here] += share * self.scoring.gain(part, _of(norm, here))
        scores: Array = self.scoring.score(frequency, norm, idf, alone)
        return scores

    def top(self, idf: float, most: Sequence[int]) -> float:
        """What a term adds at most that no document has more often in each field than `most`."""
        frequencies = [weight * count for weight, count in zip(self.heaviest, most, strict=True)]
        gains = [self.scoring.gain(frequency, self.least_norm) for frequency in frequencies]
        alone = sum(share * gain for share, gain in zip(self.scoring.alone, gains, strict=True))
        return float(self.scoring.score(sum(frequencies), self.least_norm, idf, alone))


def weights_of(scoring: Scoring, lengths: Sequence[Array]) -> Weights:
    """The weights of documents with fields of those lengths."""
    # Where there is no word nothing is ever weighed: 1 instead of 0, by which one may divide whatever the formula.
    fields = [scoring.weight(field, np.maximum(own, 1).astype(np.float32)) for field, own in enumerate(lengths)]
    norm = scoring.norm([own.astype(np.float32) for own in lengths])
    return Weights(scoring, fields, norm, [float(np.max(own)) for own in fields], float(np.min(norm)))


class Term:
    """The documents that have a term, how often, and what it adds to them."""

    def __init__(self, slots: Array, counts: Sequence[Array], weights: Weights) -> None:
        self.slots = slots  # ascending
        self.size = len(slots)
        self.idf = weights.scoring.idf(self.size)
        self._counts = counts  # for each field
        self._weights = weights
        self._scores: Array | None = None  # once they were worked out for all

    @cached_property
    def top(self) -> float:
        """What it adds at most; less than that, once all scores are known."""
        return self._weights.top(self.idf, [int(own.max()) for own in self._counts])

    @property
    def bytes(self) -> int:
        """How much memory it takes at most."""
        return self.slots.nbytes + sum(counts.nbytes for counts in self._counts) + 4 * self.size + 1000

    def add_to(self, sums: Array, weight: float, only: Array | None = None) -> tuple[Array, Array]:
        """Add what it adds, so many times, to a number for every slot, and give slots and numbers that this changed.

        With `only`, which says so by slot, to some of them.
        """
        slots = self.slots.astype(np.intp)
        if only is None:
            scores = self._all_scores(slots)
        else:
            places = only[slots].nonzero()[0]
            if len(places) * 2 > self.size:
                self._all_scores(slots)  # the others cost little more, and next time they are known
            slots = slots[places]
            scores = self._scores_at(places, slots)
        changed: Array = sums[slots] + np.float32(weight) * scores
        sums[slots] = changed
        return slots, changed

    def has(self, slot: int) -> bool:
        """Whether a document has it."""
        place = int(self.slots.searchsorted(self.slots.dtype.type(slot)))
        return place < self.size and int(self.slots[place]) == slot

    def scores_of(self, slots: Array) -> Array:
        """What it adds to some documents, which need not have it."""
        places, is_there = self._find(slots)
        found = self._scores_at(places, slots.astype(np.intp))
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

    def _all_scores(self, slots: Array) -> Array:
        if self._scores is None:
            self._scores = self._weights.score(self.idf, slots, self._counts)
            self.top = float(self._scores.max())
        return self._scores

    def _scores_at(self, places: Array, slots: Array) -> Array:
        """What it adds to documents of these slots if they have it as often as those at these of its places."""
        if self._scores is not None:
            return self._scores[places]
        return self._weights.score(self.idf, slots, [own[places] for own in self._counts])


def best_of(count: int, slots: Array, scores: Array) -> tuple[Array, Array]:
    """Of some documents and their scores about so many of the best, in their order."""
    if len(slots) <= count:
        return slots, scores
    sample = scores[:: 1 + len(scores) // SAMPLE]
    rank = 1 + len(sample) * count // len(scores)
    places = (scores >= np.partition(sample, -rank)[-rank]).nonzero()[0][: 2 * count]
    return slots[places], scores[places]


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


def _where(counts: Array) -> Any:
    """Where counts are not zero, if that is seldom: a title has few of the words of a text. Otherwise everywhere."""
    if len(counts) < SHORT or np.count_nonzero(counts) * 2 > len(counts):
        return slice(None)
    return (counts != 0).nonzero()[0]


def _of(values: Any, slots: Array) -> Any:
    """Those at some slots or places, where each has its own."""
    return values[slots] if isinstance(values, np.ndarray) else values
