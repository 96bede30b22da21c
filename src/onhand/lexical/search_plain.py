"""Evaluate queries in plain Python, for a small index or a process that searches only once."""

from __future__ import annotations

from math import inf

from onhand.document import EVERYTHING, Contribution, filter_author_keys
from onhand.lexical.scoring import largest_first, scoring_of, time_bounds
from onhand.lexical.segment import AUTHOR, EVERY, NO_TIME, SCOPE, TAG, WORD, decode
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onhand.document import Filter
    from onhand.lexical.index import Fetch, Tail, Weights
    from onhand.lexical.scoring import Ranking
    from onhand.lexical.segment import Segment


class PlainSearcher:
    """Scores every posting of every term of a query."""

    def __init__(
        self, ranking: Ranking, segments: Sequence[Segment], deleted: Sequence[int], fetch: Fetch, tail: Tail | None
    ) -> None:
        parts = [*segments, tail.segment()] if tail else segments
        self._names = tuple(ranking.fields)
        self._deleted = frozenset(deleted)
        self._fetch = fetch
        self._tail = tail
        self._parts = parts
        self._first = parts[0].first_docnum if parts else 0
        self._lengths = [self._by_docnum([part.lengths[field] for part in parts]) for field in range(len(self._names))]
        documents = sum([part.documents for part in parts]) - len(self._deleted)
        self._scoring = scoring_of(ranking, [sum(own) for own in self._lengths], documents)
        self._terms: dict[str, PlainTerm] = {}

    def search(self, weights: Weights, limit: int, allowed: frozenset[int] | None = None) -> list[tuple[int, float]]:
        scores: dict[int, float] = {}
        for name, weight in weights.items():
            added = self._term(name).scores
            if not scores:
                scores = {docnum: weight * score for docnum, score in added.items()}
                continue
            score_so_far = scores.get
            for docnum, score in added.items():
                scores[docnum] = score_so_far(docnum, 0.0) + weight * score
        if allowed is not None:
            scores = {docnum: scores[docnum] for docnum in allowed & scores.keys()}
        least = sorted(scores.values(), reverse=True)[:limit][-1] if scores and limit > 0 else inf
        return [(docnum, score) for docnum, score in scores.items() if score >= least]

    def explain(self, weights: Weights, docnums: Sequence[int]) -> list[tuple[Contribution, ...]]:
        return [self._explain(docnum, weights) for docnum in docnums]

    def term_weights(self, weights: Weights, docnum: int) -> dict[str, tuple[float, bool]]:
        terms = {name: self._term(name) for name in weights}
        return {name: (weights[name] * term.idf, docnum in term.scores) for name, term in terms.items()}

    def evaluate_filter(self, filter: Filter) -> frozenset[int]:
        allowed = self._in_time(filter)
        if filter.author:
            allowed &= self._having(AUTHOR, filter_author_keys(filter))
        for tag in filter.tags:
            allowed &= self._having(TAG, [tag])
        if filter.scope:
            allowed &= self._having(SCOPE, filter.scope)
        return frozenset(allowed)

    def intersect(self, allowed: frozenset[int] | None, docnums: Iterable[int]) -> frozenset[int]:
        return frozenset(docnums) if allowed is None else allowed.intersection(docnums)

    def docnums(self, allowed: frozenset[int] | None) -> list[int]:
        return sorted(self._in_time(EVERYTHING) if allowed is None else allowed)

    def deleted_docnums(self) -> list[int]:
        last = self._parts[-1].last_docnum if self._parts else 0
        return sorted(set(range(last + 1)).difference(self.docnums(None)))

    def _by_docnum(self, columns: Sequence[Sequence[int]]) -> list[int]:
        """Join a column of all segments, starting at the first docnum; 0 where there is no document."""
        joined: list[int] = []
        for part, column in zip(self._parts, columns, strict=True):
            joined += [0] * (part.first_docnum - self._first - len(joined))
            joined += column
        for docnum in self._deleted:
            joined[docnum - self._first] = 0
        return joined

    def _term(self, name: str) -> PlainTerm:
        term = self._terms.get(name)
        if term is None:
            term = self._terms[name] = self._read_term(name)
        return term

    def _read_term(self, name: str) -> PlainTerm:
        scoring, first = self._scoring, self._first
        counts = self._counts(name)
        frequencies: dict[int, float] = {}
        alone: dict[int, float] = {}
        for field, having in enumerate(counts):
            lengths, share = self._lengths[field], scoring.alone[field]
            for docnum, count in having.items():
                frequency = scoring.weight(field, lengths[docnum - first]) * count
                frequencies[docnum] = frequencies.get(docnum, 0.0) + frequency
                if share:
                    alone[docnum] = alone.get(docnum, 0.0) + share * scoring.gain(frequency, self._norm(docnum))
        idf = scoring.idf(len(frequencies))
        scores = {
            docnum: scoring.score(frequency, self._norm(docnum), idf, alone.get(docnum))
            for docnum, frequency in frequencies.items()
        }
        return PlainTerm(idf, counts, scores)

    def _counts(self, term: str) -> list[dict[int, int]]:
        """Return for each field the docnums that have a term, and its frequency."""
        counts: list[dict[int, int]] = [{} for _ in self._names]
        for posting in self._fetch(WORD, term):
            docnums, columns = decode(posting, len(counts))
            for own, column in zip(counts, columns, strict=True):
                own.update((docnum, count) for docnum, count in zip(docnums, column, strict=True) if count)
        for own in counts:
            for docnum in self._deleted & own.keys():
                del own[docnum]
        if self._tail:
            for own, waiting in zip(counts, self._tail.counts(term), strict=True):
                own.update(waiting)
        return counts

    def _norm(self, docnum: int) -> float:
        if self._scoring.per_field_length:
            return self._scoring.formula.k1
        return float(self._scoring.norm([own[docnum - self._first] for own in self._lengths]))

    def _explain(self, docnum: int, weights: Weights) -> tuple[Contribution, ...]:
        scoring, norm = self._scoring, self._norm(docnum)
        lengths = [own[docnum - self._first] for own in self._lengths]
        contributions = []
        for name, weight in weights.items():
            term = self._term(name)
            if docnum in term.scores:
                shares = [
                    scoring.weight(field, lengths[field]) * counts[docnum] if docnum in counts else 0.0
                    for field, counts in enumerate(term.counts)
                ]
                frequency = sum(shares)
                contributions += [
                    Contribution(
                        name, self._names[field], weight * scoring.share(field, share, frequency, norm, term.idf)
                    )
                    for field, share in enumerate(shares)
                    if share
                ]
        return largest_first(contributions)

    def _having(self, kind: int, keys: Iterable[str]) -> set[int]:
        found: set[int] = set()
        for key in keys:
            found.update(*[decode(posting)[0] for posting in self._fetch(kind, key)])
            found.update(self._tail.docnums(kind, key) if self._tail else ())
        return found

    def _in_time(self, filter: Filter) -> set[int]:
        allowed = self._having(EVERY, [""]) - self._deleted
        after, before = time_bounds(filter)
        if after is None and before is None:
            return allowed
        created = self._by_docnum([part.created_us for part in self._parts])
        return {docnum for docnum in allowed if _is_between(created[docnum - self._first], after, before)}


class PlainTerm(Record):
    """A term and its scores in one state of an index."""

    idf: float
    counts: Sequence[Mapping[int, int]]  # for each field, docnum → term frequency
    scores: Mapping[int, float]  # by docnum


def _is_between(created_us: int, after: int | None, before: int | None) -> bool:
    return created_us != NO_TIME and (after is None or created_us >= after) and (before is None or created_us < before)
