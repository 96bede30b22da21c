"""Which documents match best, worked out by numpy? For corpora of any size.

A query adds up its rare terms first, each over all documents that have it. As soon as the common ones together could
not lift a new document among the best, only the documents that are already there are looked up in them (MaxScore:
Turtle & Flood 1995). So a common term is seldom worked out for all of its documents; once it was, that is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onhand.document import Contribution, Filter, wanted_authors
from onhand.lexical.numpy_term import NO_SLOTS, Array, Term, Weights, best_of, joined, weights_of
from onhand.lexical.ranking import Ranking
from onhand.lexical.scoring import largest_first, query_weights
from onhand.lexical.searcher import scoring_of, time_bounds
from onhand.lexical.segment import AUTHOR, EVERY, NO_TIME, SCOPE, TAG, WORD, Segment

if TYPE_CHECKING:
    from onhand.lexical.searcher import Fetch

MAX_KEPT_BYTES = 256 * 1024 * 1024  # of terms: some 200 of the most common ones of a million documents
MAX_KEPT_FILTERS = 16
FEW = 4096  # allowed documents that are looked up one by one, rather than adding up every posting
PROBES = 256  # documents that are looked up in all terms, to know early how good the best are at least
PROBING_PAYS = 16_384  # postings of the next term: to add it costs more
LOOKUP = 16  # to look up a document of a term costs as much as to pass by so many
PASS = 16  # to look at a slot out of turn costs as much as to pass by so many
ROUNDING = 2**-23  # of a 32-bit float, as a share of it, up and down


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
        self._segments = segments
        self.documents = sum(segment.documents for segment in segments) - len(dead)
        self._lengths = [self._by_slot([segment.lengths[field] for segment in segments]) for field in self._fields()]
        self._scoring = scoring_of(ranks, [float(lengths.sum()) for lengths in self._lengths], self.documents)
        self._terms: OrderedDict[str, Term | None] = OrderedDict()
        self._kept_bytes = 0
        self._asked: tuple[str, dict[str, _Weighted]] = "", {}  # the last query and its terms, as it is explained next
        self._last: tuple[dict[str, _Weighted], bytes, list[_Found]] = {}, b"", []  # terms, slots, what was found
        self._filters: OrderedDict[Filter, Allowed] = OrderedDict()
        self._sums = np.zeros(self._size, dtype=np.float32)  # zero between searches, as is the next
        self._is_meant = np.zeros(self._size, dtype=bool)

    def search(self, query: str, limit: int, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        terms = self._terms_of(query)
        if not terms or limit < 1:
            return []
        weighted = sorted(terms.values(), key=lambda one: one.term.size)
        if allowed is not None and len(allowed.slots) <= FEW:
            near = allowed.slots
            sums = _sums_of(near, weighted)
        else:
            near, sums = self._near_best(weighted, limit, allowed)
        near = near[(sums > 0) & (sums >= _least(sums, limit) * _safe(weighted))].astype(np.intp)
        scores = self._exact(near, terms)
        best = scores >= _least(scores, limit)
        return sorted(zip(near[best].tolist(), scores[best].tolist(), strict=True), key=itemgetter(1), reverse=True)

    def explain(self, query: str, slots: Sequence[int]) -> list[tuple[Contribution, ...]]:
        ascending = sorted(slots)
        contributions: dict[int, list[Contribution]] = {slot: [] for slot in ascending}
        names = tuple(self._ranking.fields)
        found = self._found(np.array(ascending, dtype=np.intp), self._terms_of(query))
        for name, (term, weight), own, frequencies, norm in found:
            for field, frequency in enumerate(own):
                here = frequency.nonzero()[0].tolist()
                if here:
                    shares = weight * self._scoring.share(field, frequency, frequencies, norm, term.idf)
                    for place in here:
                        contributions[ascending[place]].append(Contribution(name, names[field], float(shares[place])))
        return [largest_first(contributions[slot]) for slot in slots]

    def telling(self, query: str, slot: int) -> dict[str, tuple[float, bool]]:
        known, unknown = self._terms_of(query), self._scoring.idf(0)
        weights = query_weights(self._ranking.tokenizer, query, self._ranking.count_repeats)
        return {
            term: (weight * known[term].term.idf, known[term].term.has(slot))
            if term in known
            else (weight * unknown, False)
            for term, weight in weights.items()
        }

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

    @cached_property
    def _living(self) -> Array:
        return self._slots(EVERY, "")

    @cached_property
    def _weights(self) -> Weights:
        return weights_of(self._scoring, self._lengths)

    def _near_best(self, weighted: list[_Weighted], limit: int, allowed: Allowed | None) -> tuple[Array, Array]:
        """Slots and sums of the best, and of all that may be as good."""
        added: list[_Weighted] = []
        try:
            least = self._add_rare(weighted, added, limit, allowed)
            left = weighted[len(added) :]
            rest = _top(left)
            slots = self._reaching(added, least - rest)
            if left and len(slots) > PROBES:
                least = max(least, _promised(slots, self._sums[slots], left, limit) * _safe(weighted))
            for one in left:
                slots = slots[self._sums[slots] >= least - rest]
                self._add_only(one, slots)
                rest -= one.top
            return slots, self._sums[slots]
        finally:
            self._reset(added)

    def _add_rare(
        self, weighted: list[_Weighted], added: list[_Weighted], limit: int, allowed: Allowed | None
    ) -> float:
        """Add up terms until no document that has only what is left can be among the best; a score that these have
        at least."""
        least = 0.0
        only = None if allowed is None else allowed.mask
        for number, one in enumerate(weighted, 1):
            left = weighted[number:]
            added.append(one)
            slots, sums = one.term.add_to(self._sums, one.weight, only)
            if not left or left[0].term.size > PROBING_PAYS:
                least = max(least, _promised(slots, sums, left, limit) * _safe(weighted))
            if _top(left) < least:
                break
        return least

    def _add_only(self, one: _Weighted, slots: Array) -> None:
        """Add a term to some documents."""
        if len(slots) * LOOKUP < one.term.size:
            self._sums[slots] += one.weight * one.term.scores_of(slots)
            return
        self._is_meant[slots] = True
        try:
            one.term.add_to(self._sums, one.weight, self._is_meant)
        finally:
            self._is_meant[slots] = False

    def _reaching(self, added: list[_Weighted], least: float) -> Array:
        """The slots whose sums are above zero and reach `least`, ascending."""
        least = max(least, 1e-30)
        sums = self._sums
        if self._are_many(added):
            return (sums >= least).nonzero()[0]
        parts = [one.term.slots[sums[one.term.slots] >= least] for one in added]
        return parts[0] if len(parts) == 1 else _each_once(np.concatenate(parts))

    def _are_many(self, added: list[_Weighted]) -> bool:
        """Whether to look at every slot is faster than to look at those of these terms."""
        return sum(one.term.size for one in added) * PASS > self._size

    def _exact(self, slots: Array, terms: dict[str, _Weighted]) -> Array:
        """The scores of a few documents, added up in the order of the query and in 64 bits."""
        total = np.zeros(len(slots))
        for _, (term, weight), own, frequencies, norm in self._found(slots, terms):
            alone: Any = 0.0
            for field, frequency in enumerate(own):
                if self._scoring.alone[field]:
                    alone = alone + self._scoring.alone[field] * self._scoring.gain(frequency, norm)
            scores = weight * self._scoring.score(frequencies, norm, term.idf, alone)
            total += np.where(sum(own) > 0, scores, 0.0)
        return total

    def _found(self, slots: Array, terms: dict[str, _Weighted]) -> Iterable[_Found]:
        """What a few documents have of each term; what was found last is kept, as what is scored is explained next."""
        if len(slots) > FEW:
            return self._find(slots, terms)
        key = slots.tobytes()
        if self._last[0] is not terms or self._last[1] != key:
            self._last = terms, key, list(self._find(slots, terms))
        return self._last[2]

    def _find(self, slots: Array, terms: dict[str, _Weighted]) -> Iterator[_Found]:
        if not terms or not len(slots):  # where nothing is, there is no average either
            return
        lengths = [own[slots] for own in self._lengths]
        weights = [self._scoring.weight(field, own) for field, own in enumerate(lengths)]
        norm = self._scoring.norm(lengths)
        for name, one in terms.items():
            own = [weight * counts for weight, counts in zip(weights, one.term.counts_of(slots), strict=True)]
            frequencies: Any = sum(own)
            yield _Found(name, one, own, np.where(frequencies > 0, frequencies, 1.0), norm)

    def _reset(self, added: list[_Weighted]) -> None:
        if self._are_many(added):
            self._sums.fill(0)
        else:
            for one in added:
                self._sums[one.term.slots] = 0

    def _terms_of(self, query: str) -> dict[str, _Weighted]:
        """The terms of a query that any document has."""
        if self._asked[0] != query:
            weights = query_weights(self._ranking.tokenizer, query, self._ranking.count_repeats)
            found = {term: _Weighted(own, weight) for term, weight in weights.items() if (own := self._term(term))}
            self._asked = query, found
        return self._asked[1]

    def _term(self, term: str) -> Term | None:
        if term in self._terms:
            self._terms.move_to_end(term)
            return self._terms[term]
        found = self._terms[term] = self._read(term)
        self._kept_bytes += _bytes(found)
        while self._kept_bytes > MAX_KEPT_BYTES and len(self._terms) > 100:  # of which a query may have some
            self._kept_bytes -= _bytes(self._terms.popitem(last=False)[1])
        return found

    def _read(self, term: str) -> Term | None:
        slots, counts = joined(self._fetch(WORD, term), len(self._lengths))
        if self._is_living is not None:
            living = self._is_living[slots]
            slots, counts = slots[living], [own[living] for own in counts]
        return Term(slots, counts, self._weights) if len(slots) else None

    def _slots(self, kind: int, term: str) -> Array:
        """The living documents that have something other than a word."""
        slots = joined(self._fetch(kind, term))[0].astype(np.intp)
        return slots if self._is_living is None else slots[self._is_living[slots]]

    def _fields(self) -> range:
        return range(len(self._ranking.fields))

    def _by_slot(self, parts: Sequence[Sequence[int]]) -> Array:
        """Numbers of all documents from those of the segments; 0 where a document was."""
        numbers = np.zeros(self._size, dtype=np.uint32)
        for segment, part in zip(self._segments, parts, strict=True):
            numbers[segment.first_slot : segment.last_slot + 1] = part
        numbers[self._dead] = 0
        return numbers

    def _mask(self, slots: Array) -> Array:
        mask = np.zeros(self._size, dtype=bool)
        mask[slots] = True
        return mask

    def _having(self, kind: int, terms: Iterable[str]) -> Array:
        having = [self._slots(kind, term) for term in terms]
        return self._mask(np.concatenate([NO_SLOTS, *having]))

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


class _Weighted(NamedTuple):
    """A term with its weight in a query."""

    term: Term
    weight: float

    @property
    def top(self) -> float:
        return self.weight * self.term.top


class _Found(NamedTuple):
    """What some documents have of a term."""

    name: str
    weighted: _Weighted
    own: list[Array]  # weighted frequency in each field
    frequencies: Array  # in all of them; 1 where a document has not got the term, by which one may divide
    norm: Any


def _top(weighted: Iterable[_Weighted]) -> float:
    """What some terms together add at most."""
    return sum(one.top for one in weighted)


def _safe(weighted: Sequence[_Weighted]) -> float:
    """What to take a sum times so that rounding lifts none of its equals above it; a score takes a dozen steps."""
    return 1 - (len(weighted) + 16) * ROUNDING


def _sums_of(slots: Array, weighted: Iterable[_Weighted]) -> Array:
    sums = np.zeros(len(slots), dtype=np.float32)
    for one in weighted:
        sums += one.weight * one.term.scores_of(slots)
    return sums


def _promised(slots: Array, sums: Array, left: Sequence[_Weighted], limit: int) -> float:
    """A score that the last of the best has at least, as so many of some documents have it when `left` is added."""
    if left:
        slots, sums = best_of(max(PROBES, limit), slots, sums)
    for one in left:
        sums = sums + one.weight * one.term.scores_of(slots)
    return float(np.partition(sums, -limit)[-limit]) if len(sums) >= limit else 0.0


def _bytes(term: Term | None) -> int:
    return 100 if term is None else term.bytes


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
