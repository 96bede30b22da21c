"""What do terms add to the documents of a large index in memory, and which come best? Worked out by numpy.

Scores are the same to the last bit as without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onhand.lexical.bm25 import Field, Impact, Weighted
    from onhand.lexical.numpy_term import Array
    from onhand.lexical.scoring import Scoring


class NumpyImpacts:
    """An index as it is at one moment; good until its next change."""

    def __init__(self, scoring: Scoring, fields: Sequence[Field], slots: int) -> None:
        self._scoring = scoring
        self._fields = fields
        self._slots = slots  # how many there are
        self._lengths = [np.array(field.lengths) for field in fields]
        self._norms = scoring.norm(self._lengths)

    def of(self, words: Sequence[str]) -> Impact:
        """The slots that have any of these words, and what that adds to their scores."""
        scoring = self._scoring
        weighted = []
        alone: Any = None  # by slot
        for number, (field, lengths) in enumerate(zip(self._fields, self._lengths, strict=True)):
            postings, of_words = field.postings.together(words)
            if of_words:
                slots, counts = _counted(postings, of_words)
                weight = scoring.weight(number, lengths[slots]) if scoring.per_field_length else field.weight
                weighted.append((slots, weight * counts))
                if field.alone:
                    alone = np.zeros(self._slots) if alone is None else alone
                    alone[slots] += field.alone * scoring.gain(weight * counts, self._norms_of(slots))
        slots, frequencies = weighted[0] if len(weighted) == 1 else _merged(weighted, self._slots)
        added = 0.0 if alone is None else alone[slots]
        return slots, scoring.score(frequencies, self._norms_of(slots), scoring.idf(len(slots)), added)

    def best(
        self, weighted: Iterable[Weighted], limit: int | None, among: Sequence[int] | None
    ) -> Iterable[tuple[int, float]]:
        """The best slots and their scores, in no order; of equals at the limit all, so that the id decides."""
        scores = np.zeros(self._slots)
        for weight, (slots, added) in weighted:
            if len(slots):
                scores[slots] += added if weight == 1.0 else weight * added
        if among is None:
            found = (scores > 0).nonzero()[0]  # several times faster over booleans than over floats
        else:
            slots = np.array(among, dtype=int)
            found = slots[scores[slots] > 0]
        values = scores[found]
        if limit is not None and len(found) > limit:
            kept = values >= np.partition(values, len(found) - limit)[len(found) - limit]
            found, values = found[kept], values[kept]
        return zip(found.tolist(), values.tolist(), strict=True)

    def _norms_of(self, slots: Array) -> Any:
        return self._norms if self._scoring.per_field_length else self._norms[slots]


def _counted(postings: bytes, words: int) -> tuple[Array, Any]:
    """The slots of the postings of some words, each once, and how often each stands in them."""
    occurrences = np.frombuffer(postings, dtype=np.uintc)
    if words > 1:
        occurrences = np.sort(occurrences)
    occurrences = occurrences.astype(np.intp)
    is_new = occurrences[1:] != occurrences[:-1]
    if np.count_nonzero(is_new) == len(is_new):
        return occurrences, 1.0
    starts = np.concatenate(([0], is_new.nonzero()[0] + 1, [len(occurrences)]))
    return occurrences[starts[:-1]], starts[1:] - starts[:-1]


def _merged(weighted: Iterable[tuple[Array, Any]], size: int) -> tuple[Array, Array]:
    """One frequency per slot from those of several fields."""
    frequencies = np.zeros(size)
    for slots, added in weighted:
        frequencies[slots] += added
    slots = (frequencies > 0).nonzero()[0]
    return slots, frequencies[slots]
