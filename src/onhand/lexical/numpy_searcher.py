"""Which documents match best, worked out by numpy? For corpora of any size.

What a term adds to every document that has it is kept once it was worked out. A query adds up its rare terms first; as
soon as the common ones together could not lift a new document among the best, only the documents that are already
there are looked up in them (MaxScore: Turtle & Flood 1995).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onhand.document import Contribution, Filter, wanted_authors
from onhand.lexical.bm25 import largest_first, query_weights
from onhand.lexical.ranking import Ranking
from onhand.lexical.searcher import scoring_of, time_bounds
from onhand.lexical.segment import AUTHOR, EVERY, NO_TIME, SCOPE, TAG, Segment

if TYPE_CHECKING:
    from onhand.lexical.searcher import Fetch

Array = np.ndarray[Any, np.dtype[Any]]

MAX_KEPT_BYTES = 256 * 1024 * 1024  # of terms: some 200 of the most common ones of a million documents
MAX_KEPT_FILTERS = 16
DENSE = 8  # a term that more than every eighth document has is kept as a number for every document: adding is faster
BEST = 128  # how many of a term's best scores are known without looking
FEW = 4096  # allowed documents that are looked up one by one, rather than adding up every posting
SAMPLE = 64  # every so manyth document tells how good the best are at least
SLACK = 1e-5  # sums of 32-bit floats; what comes so near to the best is scored exactly before it is left out


class Allowed(NamedTuple):
    """The documents that a filter lets through."""

    mask: Array  # by slot
    slots: Array  # ascending


class NumpySearcher:
    """Adds up what each term adds, skipping what cannot be among the best."""

    def __init__(self, ranks: Ranking, segments: Sequence[Segment], dead: Sequence[int], fetch: Fetch) -> None:
        self._ranking = ranks
        self._fetch = fetch
        self.last_slot = segments[-1].last_slot if segments else 0
        self._size = self.last_slot + 1
        self._dead = np.array(dead, dtype=np.intp)
        self._is_living = ~self._mask(self._dead) if len(dead) else None
        self._living = self._joined(fetch((EVERY,), "")[0])[0]
        self._segments = segments
        self.documents = len(self._living)
        self._lengths = [self._by_slot([segment.lengths[field] for segment in segments]) for field in self._fields()]
        self._scoring = scoring_of(ranks, [float(lengths.sum()) for lengths in self._lengths], self.documents)
        self._norms = None if ranks.per_field_length else self._scoring.norm(self._lengths)
        self._field_weights: list[Array | None] = [None for _ in self._lengths]
        self._terms: OrderedDict[str, _Term] = OrderedDict()
        self._kept_bytes = 0
        self._filters: OrderedDict[Filter, Allowed] = OrderedDict()
        self._sums = np.zeros(self._size, dtype=np.float32)

    def search(self, query: str, limit: int, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        terms = self._terms_of(query)
        if not terms or limit < 1:
            return []
        weighted = sorted(terms.values(), key=lambda one: one.term.size)
        if allowed is not None and len(allowed.slots) <= FEW:
            slots = allowed.slots
            sums: Any = sum(one.weight * one.term.scores_of(slots) for one in weighted)
            near = slots[sums > _least(sums, limit) * (1 - SLACK)]
        else:
            try:
                near = self._near_best(weighted, limit, allowed)
            finally:
                self._reset(weighted)
        scores = self._exact(near, terms)
        best = scores >= _least(scores, limit)
        return sorted(zip(near[best].tolist(), scores[best].tolist(), strict=True), key=itemgetter(1), reverse=True)

    def explain(self, query: str, slots: Sequence[int]) -> list[tuple[Contribution, ...]]:
        contributions: list[list[Contribution]] = [[] for _ in slots]
        names = tuple(self._ranking.fields)
        for name, (term, weight), own, frequencies, norm in self._found(
            np.array(slots, dtype=np.intp), self._terms_of(query)
        ):
            for field, frequency in enumerate(own):
                if len(term.fields[field][0]):
                    shares = weight * self._scoring.share(field, frequency, frequencies, norm, term.idf)
                    for place in frequency.nonzero()[0].tolist():
                        contributions[place].append(Contribution(name, names[field], float(shares[place])))
        return [largest_first(own) for own in contributions]

    def allowed(self, filter: Filter) -> Allowed:
        found = self._filters.get(filter)
        if found is None:
            mask = self._in_time(filter)
            if filter.author:
                mask &= self._having(AUTHOR, wanted_authors(filter))
            for tag in filter.tags:
                mask &= self._having(TAG, [tag])
            if filter.scope:
                mask &= self._having(SCOPE, filter.scope)
            found = self._filters[filter] = Allowed(mask, mask.nonzero()[0])
            if len(self._filters) > MAX_KEPT_FILTERS:
                self._filters.popitem(last=False)
        return found

    def among(self, allowed: Allowed | None, slots: Iterable[int]) -> Allowed:
        mask = self._mask(np.array(sorted(slots), dtype=np.intp))
        if allowed is not None:
            mask &= allowed.mask
        return Allowed(mask, mask.nonzero()[0])

    def count(self, allowed: Allowed | None) -> int:
        return self.documents if allowed is None else len(allowed.slots)

    def slots(self, allowed: Allowed | None) -> Array:
        return self._living if allowed is None else allowed.slots

    def gone(self) -> Array:
        return (~self._mask(self._living)).nonzero()[0]

    def _near_best(self, weighted: list[_Weighted], limit: int, allowed: Allowed | None) -> Array:
        """The slots of the best, and of all that may be as good; those of terms with few documents come first."""
        least = 0.0 if allowed is not None else max(one.kth_best(limit) for one in weighted)
        rest = sum(one.top for one in weighted)
        sums = self._sums
        added: list[_Weighted] = []
        for one in weighted:
            if rest < least * (1 - SLACK):  # no document that has only what is left can be among the best
                break
            one.add_to(sums)
            added.append(one)
            rest -= one.top
        left = weighted[len(added) :]
        least = max(least, self._least_of_some(added, limit, allowed))
        slots = self._reaching(added, least * (1 - SLACK) - (rest if left else 0.0), allowed)
        found: Any = sums[slots]
        for one in left:
            found = found + one.weight * one.term.scores_of(slots)
        kept: Array = slots[found >= _least(found, limit) * (1 - SLACK)]
        return kept

    def _least_of_some(self, added: list[_Weighted], limit: int, allowed: Allowed | None) -> float:
        """A score that the last of the best has at least: that of some of the documents."""
        first = added[0].term
        is_short = first.slots is not None and first.size > limit
        slots: Any = first.slots if is_short else np.arange(0, self._size, SAMPLE)
        if allowed is not None:
            slots = slots[allowed.mask[slots]]
        sums = self._sums[slots]
        return float(_least(sums, limit)) if len(sums) >= limit else 0.0

    def _reaching(self, added: list[_Weighted], least: float, allowed: Allowed | None) -> Array:
        """The slots whose sums are above zero and reach `least`."""
        least = max(least, 1e-30)
        sums = self._sums
        if sum(one.term.size for one in added) * 4 > self._size or any(one.term.slots is None for one in added):
            slots = (sums >= least).nonzero()[0]
        else:
            parts = [one.term.slots[sums[one.term.slots] >= least] for one in added if one.term.slots is not None]
            slots = parts[0] if len(parts) == 1 else _each_once(np.concatenate(parts))
        return slots if allowed is None else slots[allowed.mask[slots]]

    def _exact(self, slots: Array, terms: Mapping[str, _Weighted]) -> Array:
        """The scores of a few documents, added up in the order of the query and in 64 bits."""
        total = np.zeros(len(slots))
        for _, (term, weight), own, frequencies, norm in self._found(slots, terms):
            alone: Any = 0.0
            for field, frequency in enumerate(own):
                if self._scoring.alone[field] and len(term.fields[field][0]):
                    alone = alone + self._scoring.alone[field] * self._scoring.gain(frequency, norm)
            scores = weight * self._scoring.score(frequencies, norm, term.idf, alone)
            total += np.where(sum(own) > 0, scores, 0.0)
        return total

    def _found(
        self, slots: Array, terms: Mapping[str, _Weighted]
    ) -> Iterator[tuple[str, _Weighted, list[Array], Array, Any]]:
        """Each term, with its weighted frequency in each field of a few documents and in all fields, and their norm;
        where a document has not got the term, the latter is 1, by which one may divide."""
        if not terms or not len(slots):  # where nothing is, there is no average either
            return
        lengths = [own[slots] for own in self._lengths]
        weights = [self._scoring.weight(field, own) for field, own in enumerate(lengths)]
        norm = self._scoring.norm(lengths)
        for name, one in terms.items():
            own = [weight * _counts_of(field, slots) for weight, field in zip(weights, one.term.fields, strict=True)]
            frequencies: Any = sum(own)
            yield name, one, own, np.where(frequencies > 0, frequencies, 1.0), norm

    def _reset(self, weighted: list[_Weighted]) -> None:
        if any(one.term.slots is None for one in weighted):
            self._sums.fill(0)
        else:
            for one in weighted:
                self._sums[one.term.slots] = 0

    def _terms_of(self, query: str) -> dict[str, _Weighted]:
        """The terms of a query that any document has."""
        weights = query_weights(self._ranking.tokenizer, query, self._ranking.count_repeats)
        return {term: _Weighted(entry, weight) for term, weight in weights.items() if (entry := self._term(term)).size}

    def _term(self, term: str) -> _Term:
        found = self._terms.get(term)
        if found is None:
            found = self._terms[term] = self._read(term)
            self._kept_bytes += found.bytes
            while self._kept_bytes > MAX_KEPT_BYTES and len(self._terms) > 100:  # of which a query may have some
                self._kept_bytes -= self._terms.popitem(last=False)[1].bytes
        else:
            self._terms.move_to_end(term)
        return found

    def _read(self, term: str) -> _Term:
        fields = [self._joined(postings) for postings in self._fetch(self._fields(), term)]
        weighted = [
            (field, slots, self._weights_of(field, slots) * counts)
            for field, (slots, counts) in enumerate(fields)
            if len(slots)
        ]
        if not weighted:
            return _Term(0.0, fields, 0, None, None, 0.0, _NONE)
        slots, frequencies = weighted[0][1:] if len(weighted) == 1 else self._merged(weighted)
        norm = self._scoring.norm(()) if self._norms is None else self._norms[slots]
        idf = self._scoring.idf(len(slots))
        alone = self._alone(weighted, slots, norm)
        scores = self._scoring.score(frequencies, norm, idf, alone).astype(np.float32)
        best = np.sort(np.partition(scores, -BEST)[-BEST:] if len(scores) > BEST else scores)[::-1]
        top = float(best[0])
        if len(slots) * DENSE < self._size:
            return _Term(idf, fields, len(slots), slots, scores, top, best)
        dense = np.zeros(self._size, dtype=np.float32)
        dense[slots] = scores
        return _Term(idf, fields, len(slots), None, dense, top, best)

    def _weights_of(self, field: int, slots: Array) -> Any:
        """What one occurrence in a field counts in each of these documents."""
        if not self._ranking.per_field_length:
            return self._scoring.weight(field, None)
        kept = self._field_weights[field]
        if kept is None:
            if len(slots) * DENSE < self._size:
                return self._scoring.weight(field, self._lengths[field][slots])
            kept = self._field_weights[field] = self._scoring.weight(field, self._lengths[field])
        return kept[slots]

    def _merged(self, weighted: list[tuple[int, Array, Array]]) -> tuple[Array, Array]:
        """One frequency per slot from those of several fields."""
        every = _each_once(np.concatenate([slots for _, slots, _ in weighted]))
        frequencies = np.zeros(len(every))
        for _, slots, added in weighted:
            frequencies[every.searchsorted(slots)] += added
        return every, frequencies

    def _alone(self, weighted: list[tuple[int, Array, Array]], slots: Array, norm: Any) -> Any:
        """What fields add by themselves to what a term counts in these documents."""
        alone: Any = 0.0
        for field, own, frequencies in weighted:
            if self._scoring.alone[field]:
                alone = np.zeros(len(slots)) if isinstance(alone, float) else alone
                places = slots.searchsorted(own)
                norms = norm if self._norms is None else norm[places]
                alone[places] += self._scoring.alone[field] * self._scoring.gain(frequencies, norms)
        return alone

    def _joined(self, postings: Sequence[tuple[int, bytes]]) -> tuple[Array, Array]:
        """The living slots of the postings of a term, ascending, and how often it stands there."""
        if not postings:
            return _NO_SLOTS, _NO_SLOTS
        parts = [_decoded(size, data) for size, data in postings]
        slots, counts = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        slots = slots.astype(np.intp)
        if self._is_living is not None:
            living = self._is_living[slots]
            slots, counts = slots[living], counts[living]
        return slots, counts

    def _fields(self) -> range:
        return range(len(self._ranking.fields))

    def _by_slot(self, parts: Sequence[Sequence[int]]) -> Array:
        """Numbers of all documents from those of the segments; 0 where a document was."""
        numbers = np.zeros(self._size)
        for segment, part in zip(self._segments, parts, strict=True):
            numbers[segment.first_slot : segment.last_slot + 1] = part
        numbers[self._dead] = 0
        return numbers

    def _mask(self, slots: Array) -> Array:
        mask = np.zeros(self._size, dtype=bool)
        mask[slots] = True
        return mask

    def _having(self, kind: int, terms: Iterable[str]) -> Array:
        having = [self._joined(self._fetch((kind,), term)[0])[0] for term in terms]
        return self._mask(np.concatenate([_NO_SLOTS, *having]))

    def _in_time(self, filter: Filter) -> Array:
        mask = self._mask(self._living)
        after, before = time_bounds(filter)
        if after is None and before is None:
            return mask
        created = np.full(self._size, NO_TIME, dtype=np.int64)
        for segment in self._segments:
            created[segment.first_slot : segment.last_slot + 1] = segment.created_us
        mask &= created != NO_TIME
        if after is not None:
            mask &= created >= after
        if before is not None:
            mask &= created < before
        return mask


class _Term(NamedTuple):
    """What a term adds to the documents that have it."""

    idf: float
    fields: list[tuple[Array, Array]]  # for each field, the slots that have it and how often
    size: int  # how many documents have it
    slots: Array | None  # None where `scores` has a number for every document
    scores: Array | None
    top: float
    best: Array  # the best scores, descending

    @property
    def bytes(self) -> int:
        own = sum(slots.nbytes + counts.nbytes for slots, counts in self.fields)
        return own + (self.scores.nbytes if self.scores is not None else 0) + 500

    def scores_of(self, slots: Array) -> Array:
        """What it adds to these documents."""
        if self.slots is None:
            return np.zeros(len(slots), np.float32) if self.scores is None else self.scores[slots]
        assert self.scores is not None
        places = self.slots.searchsorted(slots)
        places[places == len(self.slots)] = 0
        found: Array = self.scores[places] * (self.slots[places] == slots)
        return found


class _Weighted(NamedTuple):
    """A term with its weight in a query."""

    term: _Term
    weight: float

    @property
    def top(self) -> float:
        return self.weight * self.term.top

    def kth_best(self, k: int) -> float:
        """What at least k documents have of it; 0 if that is not known."""
        return self.weight * float(self.term.best[k - 1]) if k <= len(self.term.best) else 0.0

    def add_to(self, sums: Array) -> None:
        scores = self.term.scores
        assert scores is not None
        weighted = scores if self.weight == 1.0 else scores * np.float32(self.weight)
        if self.term.slots is None:
            sums += weighted
        else:
            sums[self.term.slots] += weighted


_NO_SLOTS: Array = np.empty(0, dtype=np.intp)
_NONE: Array = np.empty(0, dtype=np.float32)


def _decoded(size: int, data: bytes) -> tuple[Array, Array]:
    slots = np.frombuffer(data, "<u4", size)
    width = (len(data) - 4 * size) // size
    return slots, np.frombuffer(data, f"<u{width}", size, 4 * size) if width else slots


def _least(scores: Array, limit: int) -> Any:
    """The score of the last of the best; 0 if there are not so many."""
    return np.partition(scores, -limit)[-limit] if len(scores) > limit else 0


def _each_once(slots: Array) -> Array:
    """Ascending and without repeats; faster than numpy's own for arrays of this size."""
    slots.sort()
    is_new = np.empty(len(slots), dtype=bool)
    is_new[:1] = True
    np.not_equal(slots[1:], slots[:-1], out=is_new[1:])
    return slots[is_new]


def _counts_of(field: tuple[Array, Array], slots: Array) -> Array:
    own, counts = field
    if not len(own):
        return np.zeros(len(slots), dtype=int)
    places = own.searchsorted(slots)
    places[places == len(own)] = 0
    found: Array = counts[places] * (own[places] == slots)
    return found
