"""Which documents match best, worked out in plain Python? For corpora that a command searches once and ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from operator import itemgetter

from onhand.document import EVERYTHING, Contribution, Filter, wanted_authors
from onhand.lexical.scoring import largest_first, query_weights
from onhand.lexical.searcher import scoring_of, time_bounds
from onhand.lexical.segment import AUTHOR, EVERY, NO_TIME, SCOPE, TAG, WORD, Segment, decode
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.lexical.ranking import Ranking
    from onhand.lexical.searcher import Fetch


class PlainSearcher:
    """Looks at every posting of every term of a query."""

    def __init__(self, ranks: Ranking, segments: Sequence[Segment], dead: Sequence[int], fetch: Fetch) -> None:
        self._ranking = ranks
        self._segments = segments
        self._dead = frozenset(dead)
        self._fetch = fetch
        self.last_slot = segments[-1].last_slot if segments else 0
        self.documents = sum(segment.documents for segment in segments) - len(self._dead)
        self._scoring = scoring_of(ranks, [self._total(field) for field in range(len(ranks.fields))], self.documents)
        self._terms: dict[str, _Term] = {}

    def search(self, query: str, limit: int, allowed: frozenset[int] | None = None) -> list[tuple[int, float]]:
        scores: dict[int, float] = {}
        for term, weight in self._weights(query).items():
            for slot, score in self._term(term).scores.items():
                scores[slot] = scores.get(slot, 0.0) + weight * score
        if allowed is not None:
            scores = {slot: scores[slot] for slot in allowed & scores.keys()}
        ranked = sorted(scores.items(), key=itemgetter(1), reverse=True)
        least = ranked[:limit][-1][1] if ranked and limit > 0 else inf
        return [(slot, score) for slot, score in ranked if score >= least]

    def explain(self, query: str, slots: Sequence[int]) -> list[tuple[Contribution, ...]]:
        weights = self._weights(query)
        return [self._explained(slot, weights) for slot in slots]

    def telling(self, query: str, slot: int) -> dict[str, tuple[float, bool]]:
        found = {term: (weight, self._term(term)) for term, weight in self._weights(query).items()}
        return {term: (weight * own.idf, slot in own.scores) for term, (weight, own) in found.items()}

    def allowed(self, filter: Filter) -> frozenset[int]:
        passing = self._in_time(filter)
        if filter.author:
            passing &= self._having(AUTHOR, wanted_authors(filter))
        for tag in filter.tags:
            passing &= self._having(TAG, [tag])
        if filter.scope:
            passing &= self._having(SCOPE, filter.scope)
        return frozenset(passing)

    def among(self, allowed: frozenset[int] | None, slots: Iterable[int]) -> frozenset[int]:
        return frozenset(slots) if allowed is None else allowed.intersection(slots)

    def count(self, allowed: frozenset[int] | None) -> int:
        return self.documents if allowed is None else len(allowed)

    def slots(self, allowed: frozenset[int] | None) -> list[int]:
        return sorted(self._in_time(EVERYTHING) if allowed is None else allowed)

    def gone(self) -> list[int]:
        return sorted(set(range(self.last_slot + 1)).difference(self.slots(None)))

    def _total(self, field: int) -> int:
        dead = sum(self._length(field, slot) for slot in self._dead)
        return sum(sum(segment.lengths[field]) for segment in self._segments) - dead

    def _length(self, field: int, slot: int) -> int:
        segment = self._segment_of(slot)
        return segment.lengths[field][slot - segment.first_slot]

    def _segment_of(self, slot: int) -> Segment:
        return next(segment for segment in reversed(self._segments) if segment.first_slot <= slot)

    def _term(self, term: str) -> _Term:
        found = self._terms.get(term)
        if found is None:
            found = self._terms[term] = self._read(term)
        return found

    def _read(self, term: str) -> _Term:
        scoring = self._scoring
        counts = self._counts(term)
        frequencies: dict[int, float] = {}
        alone: dict[int, float] = {}
        for field, having in enumerate(counts):
            for slot, count in having.items():
                frequency = scoring.weight(field, self._length(field, slot)) * count
                frequencies[slot] = frequencies.get(slot, 0.0) + frequency
                if scoring.alone[field]:
                    gain = scoring.gain(frequency, scoring.norm(self._lengths(slot)))
                    alone[slot] = alone.get(slot, 0.0) + scoring.alone[field] * gain
        idf = scoring.idf(len(frequencies))
        scores = {
            slot: scoring.score(frequency, scoring.norm(self._lengths(slot)), idf, alone.get(slot, 0.0))
            for slot, frequency in frequencies.items()
        }
        return _Term(idf, counts, scores)

    def _counts(self, term: str) -> list[dict[int, int]]:
        """For each field, how often the living have a term there."""
        counts: list[dict[int, int]] = [{} for _ in self._scoring.weights]
        for posting in self._fetch(WORD, term):
            slots, columns = decode(posting, len(counts))
            for own, column in zip(counts, columns, strict=True):
                own.update((slot, count) for slot, count in zip(slots, column, strict=True) if count)
        for own in counts:
            for slot in self._dead & own.keys():
                del own[slot]
        return counts

    def _lengths(self, slot: int) -> list[int]:
        return [self._length(field, slot) for field in range(len(self._scoring.weights))]

    def _weights(self, query: str) -> dict[str, float]:
        return query_weights(self._ranking.tokenizer, query, self._ranking.count_repeats)

    def _explained(self, slot: int, weights: Mapping[str, float]) -> tuple[Contribution, ...]:
        names = tuple(self._ranking.fields)
        scoring, lengths = self._scoring, self._lengths(slot)
        weigh = [scoring.weight(field, length) for field, length in enumerate(lengths)]
        norm = scoring.norm(lengths)
        contributions = []
        for name, weight in weights.items():
            term = self._term(name)
            if slot in term.scores:
                shares = [own * counts.get(slot, 0) for own, counts in zip(weigh, term.counts, strict=True)]
                frequency = sum(shares)
                contributions += [
                    Contribution(name, names[field], weight * scoring.share(field, share, frequency, norm, term.idf))
                    for field, share in enumerate(shares)
                    if share
                ]
        return largest_first(contributions)

    def _having(self, kind: int, terms: Iterable[str]) -> set[int]:
        postings = (posting for term in terms for posting in self._fetch(kind, term))
        return {slot for posting in postings for slot in decode(posting)[0]}

    def _in_time(self, filter: Filter) -> set[int]:
        living = self._having(EVERY, [""]) - self._dead
        after, before = time_bounds(filter)
        if after is None and before is None:
            return living
        return {slot for slot in living if _is_between(self._created_us(slot), after, before)}

    def _created_us(self, slot: int) -> int:
        segment = self._segment_of(slot)
        return segment.created_us[slot - segment.first_slot]


class _Term(Record):
    """A term as one moment of the index has it."""

    idf: float
    counts: Sequence[Mapping[int, int]]  # for each field, slot → how often
    scores: Mapping[int, float]


def _is_between(created_us: int, after: int | None, before: int | None) -> bool:
    return created_us != NO_TIME and (after is None or created_us >= after) and (before is None or created_us < before)
