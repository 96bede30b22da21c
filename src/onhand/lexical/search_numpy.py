"""Evaluate queries with numpy, for an index of any size.

In a small index, or with few postings, a query adds up exact scores. Any other query first adds up its rare terms, in
32 bits. As soon as the common terms together cannot lift a new document among the best, they are looked up only for the
documents found so far (MaxScore: Turtle & Flood 1995), and the documents near the best are scored exactly. So a common
term is seldom computed for all of its documents; when it is, the result is cached.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onhand.document import Contribution, Filter, filter_author_keys
from onhand.lexical.scoring import Ranking, Scoring, largest_first, scoring_of, time_bounds
from onhand.lexical.segment import AUTHOR, EVERY, NO_TIME, SCOPE, TAG, WORD, Segment, count_width

if TYPE_CHECKING:
    from onhand.lexical.index import Fetch, Tail, Weights

Array = np.ndarray[Any, np.dtype[Any]]

MAX_KEPT_BYTES = 256 * 1024 * 1024  # of cached terms: about 200 of the most common ones of a million documents
MAX_KEPT_FILTERS = 16
SMALL_INDEX = 131_072  # docnums; their scores stay in the processor's cache, so skipping documents never pays
DIRECT_POSTINGS = 32_768  # of a query; in a larger index, one with at most so many adds up all of them
FEW_DOCUMENTS = 4096  # so many allowed documents are looked up one by one, instead of adding up every posting
PROBES = 256  # documents that are looked up in all terms, for an early lower bound of the best scores
PROBING_PAYS = 16_384  # probing is cheaper than adding a term with more postings
LOOKUP = 16  # postings of a term that can be added up in the time of looking up one document
PASS = 16  # documents that can be scanned in the time of one random access
GROUPS, GROUPS_PER_HIT = 256, 8  # of documents, whose maxima tell a lower bound of the best scores early
ROUNDING = 2**-23  # relative rounding error of a 32-bit float
SHORT = 2048  # in a shorter posting, skipping documents does not pay
SAMPLE = 16_384  # scores from which the best of more are estimated
_DOCNUMS: np.dtype[Any] = np.dtype("<u4")  # as postings have them
_COUNTS: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 4: np.dtype("<u4")}  # by width in bytes
NO_DOCNUMS: Array = np.empty(0, _DOCNUMS)


class Allowed(NamedTuple):
    """The documents that pass a filter."""

    mask: Array  # by docnum
    docnums: Array  # ascending


class NumpySearcher:
    """Adds up the scores of the terms, skipping documents that cannot be among the best."""

    def __init__(
        self, ranking: Ranking, segments: Sequence[Segment], deleted: Sequence[int], fetch: Fetch, tail: Tail | None
    ) -> None:
        self._names = tuple(ranking.fields)
        self._columns = NumpyColumns(segments, deleted, fetch, tail, len(self._names))
        self._lengths = [self._columns.lengths(field) for field in range(len(self._names))]
        totals = [float(own.sum()) for own in self._lengths]
        self._scoring = scoring_of(ranking, totals, self._columns.documents)
        self._terms = TermCache(self._read_term)
        self._last_terms: tuple[Weights, dict[str, _Weighted]] = {}, {}  # of the last query, which is explained next
        self._last_found: tuple[dict[str, _Weighted], bytes, list[_Found]] = {}, b"", []  # terms, docnums, frequencies
        self._filters: OrderedDict[Filter, Allowed] = OrderedDict()
        self._scores = np.zeros(self._columns.size)  # zero between searches, as are the next two
        self._sums = np.zeros(self._columns.size, dtype=np.float32)
        self._is_meant = np.zeros(self._columns.size, dtype=bool)

    def search(self, weights: Weights, limit: int, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        terms = self._terms_of(weights)
        if not terms or limit < 1:
            return []
        postings = sum([one.term.size for one in terms.values()])
        lookups = postings if allowed is None else len(allowed.docnums) * len(terms)
        if postings <= self._direct_postings and postings <= lookups * LOOKUP:
            scan_all = postings * PASS > len(self._scores)
            docnums, scores = self._add_all(terms.values(), limit, allowed, scan_all)
        else:
            docnums, scores = self._near_best(terms, limit, allowed)
        if len(scores) > 2 * limit:  # a few more cost less than leaving them out
            best = (scores >= _kth_best(scores, limit)).nonzero()[0]
            docnums, scores = docnums[best], scores[best]
        return list(zip(docnums.tolist(), scores.tolist(), strict=True))

    def explain(self, weights: Weights, docnums: Sequence[int]) -> list[tuple[Contribution, ...]]:
        ascending = sorted(docnums)
        contributions: dict[int, list[Contribution]] = {docnum: [] for docnum in ascending}
        found = self._find(np.array(ascending, dtype=np.intp), self._terms_of(weights))
        for name, (term, weight), own, frequencies, norm in found:
            for field, frequency in enumerate(own):
                here = frequency.nonzero()[0].tolist()
                if here:
                    shares = weight * self._scoring.share(field, frequency, frequencies, norm, term.idf)
                    for place in here:
                        added = Contribution(name, self._names[field], float(shares[place]))
                        contributions[ascending[place]].append(added)
        return [largest_first(contributions[docnum]) for docnum in docnums]

    def term_weights(self, weights: Weights, docnum: int) -> dict[str, tuple[float, bool]]:
        known, unknown = self._terms_of(weights), self._scoring.idf(0)
        return {
            name: (weight * known[name].term.idf, known[name].term.has(docnum))
            if name in known
            else (weight * unknown, False)
            for name, weight in weights.items()
        }

    def evaluate_filter(self, filter: Filter) -> Allowed:
        found = self._filters.get(filter)
        if found is None:
            mask = self._columns.filter_mask(filter)
            found = self._filters[filter] = Allowed(mask, mask.nonzero()[0])
            if len(self._filters) > MAX_KEPT_FILTERS:
                self._filters.popitem(last=False)
        return found

    def intersect(self, allowed: Allowed | None, docnums: Iterable[int]) -> Allowed:
        mask = self._columns.mask(np.fromiter(docnums, np.intp))
        if allowed is not None:
            mask &= allowed.mask
        return Allowed(mask, mask.nonzero()[0])

    def docnums(self, allowed: Allowed | None) -> Array:
        return self._columns.all_docnums if allowed is None else allowed.docnums

    def deleted_docnums(self) -> Array:
        return (~self._columns.mask(self._columns.all_docnums)).nonzero()[0]

    @property
    def _direct_postings(self) -> int:
        return sys.maxsize if self._columns.size <= SMALL_INDEX else DIRECT_POSTINGS

    @cached_property
    def _weights(self) -> DocumentWeights:
        return document_weights(self._scoring, self._lengths)

    def _add_all(
        self, weighted: Collection[_Weighted], limit: int, allowed: Allowed | None, scan_all: bool
    ) -> tuple[Array, Array]:
        """Return the docnums that have any of these terms and may be among the best, and their scores."""
        scores = self._scores
        for term, weight in weighted:
            added = self._exact_scores(term)
            scores[term.indices] += added if weight == 1.0 else weight * added
        if scan_all and allowed is not None:
            scores *= allowed.mask
        least = _best_of_groups(scores, limit) if scan_all else 0.0
        docnums = _docnums_reaching(weighted, scores, least or 1e-300, scan_all)
        if not scan_all and allowed is not None:
            docnums = docnums[allowed.mask[docnums]]
        values = scores[docnums]
        _reset(weighted, scores, scan_all)
        return docnums, values

    def _exact_scores(self, term: NumpyTerm) -> Array:
        """Return the 64-bit score of a term in each document that has it."""
        if term.exact is None:
            term.exact = self._score(*self._frequencies(term.docnums, term.counts), term.idf)
        return term.exact

    def _near_best(self, terms: dict[str, _Weighted], limit: int, allowed: Allowed | None) -> tuple[Array, Array]:
        """Return docnums and scores of the best documents, and of some that are close to them."""
        weighted = sorted(terms.values(), key=lambda one: one.term.size)
        if allowed is not None and len(allowed.docnums) <= FEW_DOCUMENTS:
            near = allowed.docnums
            sums = _sums_of(near, weighted)
        else:
            near, sums = self._max_score(weighted, limit, allowed)
        near = near[(sums > 0) & (sums >= _kth_best(sums, limit) * _rounding_margin(weighted))].astype(np.intp)
        scores = np.zeros(len(near))
        for _, (term, weight), own, frequencies, norm in self._find(near, terms):  # in the order of the query
            scores += np.where(sum(own) > 0, weight * self._score(own, frequencies, norm, term.idf), 0.0)
        return near, scores

    def _max_score(self, weighted: list[_Weighted], limit: int, allowed: Allowed | None) -> tuple[Array, Array]:
        """Return docnums and sums of the best documents, and of all that may be as good."""
        added: list[_Weighted] = []
        try:
            least = self._add_rare(weighted, added, limit, allowed)
            left = weighted[len(added) :]
            rest = _upper_bound(left)
            scan_all = self._should_scan_all(added)
            docnums = _docnums_reaching(added, self._sums, max(least - rest, 1e-30), scan_all)
            if left and len(docnums) > PROBES:
                least = max(least, _lower_bound(docnums, self._sums[docnums], left, limit) * _rounding_margin(weighted))
            for one in left:
                docnums = docnums[self._sums[docnums] >= least - rest]
                self._add_only(one, docnums)
                rest -= one.top
            return docnums, self._sums[docnums]
        finally:
            _reset(added, self._sums, self._should_scan_all(added))

    def _add_rare(
        self, weighted: list[_Weighted], added: list[_Weighted], limit: int, allowed: Allowed | None
    ) -> float:
        """Add up terms until no document that has only the remaining ones can be among the best.

        Return a lower bound of the best scores.
        """
        least = 0.0
        only = None if allowed is None else allowed.mask
        for number, one in enumerate(weighted, 1):
            left = weighted[number:]
            added.append(one)
            docnums, sums = one.term.add_to(self._sums, one.weight, only)
            if not left or left[0].term.size > PROBING_PAYS:
                least = max(least, _lower_bound(docnums, sums, left, limit) * _rounding_margin(weighted))
            if _upper_bound(left) < least:
                break
        return least

    def _add_only(self, one: _Weighted, docnums: Array) -> None:
        """Add the scores of a term to some documents."""
        if len(docnums) * LOOKUP < one.term.size:
            self._sums[docnums] += one.weight * one.term.scores_of(docnums)
            return
        self._is_meant[docnums] = True
        try:
            one.term.add_to(self._sums, one.weight, self._is_meant)
        finally:
            self._is_meant[docnums] = False

    def _should_scan_all(self, added: Collection[_Weighted]) -> bool:
        """Return whether scanning all documents is faster than visiting those that have these terms."""
        return sum([one.term.size for one in added]) * PASS > len(self._sums)

    def _score(self, own: list[Array], frequencies: Array, norm: Any, idf: float) -> Any:
        scoring = self._scoring
        alone: Any = None
        for field, share in self._weights.alone:
            added = share * scoring.gain(own[field], norm)
            alone = added if alone is None else alone + added
        return scoring.score(frequencies, norm, idf, alone)

    def _frequencies(self, docnums: Array, counts: Sequence[Array]) -> tuple[list[Array], Array, Any]:
        """Return the weighted frequencies in each field and in all of them, and the length norm."""
        weights = self._weights
        if self._scoring.per_field_length:
            own = [weight[docnums] * count for weight, count in zip(weights.exact_fields, counts, strict=True)]
            norm = weights.exact_norm
        else:
            own = [  # converting is faster than multiplying by 1
                count.astype(np.float64) if weight == 1.0 else weight * count
                for weight, count in zip(weights.exact_fields, counts, strict=True)
            ]
            norm = weights.exact_norm[docnums]
        return own, sum(own[1:], own[0]), norm

    def _find(self, docnums: Array, terms: dict[str, _Weighted]) -> Iterable[_Found]:
        """Return the frequencies of each term in some documents; the last result is cached for `explain`."""
        if len(docnums) > FEW_DOCUMENTS:
            return self._find_anew(docnums, terms)
        key = docnums.tobytes()
        if self._last_found[0] is not terms or self._last_found[1] != key:
            self._last_found = terms, key, list(self._find_anew(docnums, terms))
        return self._last_found[2]

    def _find_anew(self, docnums: Array, terms: dict[str, _Weighted]) -> Iterator[_Found]:
        if terms and len(docnums):  # without documents there is no average length
            for name, one in terms.items():
                own, frequencies, norm = self._frequencies(docnums, one.term.counts_of(docnums))
                yield _Found(name, one, own, np.where(frequencies > 0, frequencies, 1.0), norm)

    def _terms_of(self, weights: Weights) -> dict[str, _Weighted]:
        """Return the terms of a query that any document has."""
        if self._last_terms[0] is not weights:
            found = {
                name: _Weighted(term, weight) for name, weight in weights.items() if (term := self._terms.get(name))
            }
            self._last_terms = weights, found
        return self._last_terms[1]

    def _read_term(self, name: str) -> NumpyTerm | None:
        docnums, counts = self._columns.read_term(name)
        is_direct = len(docnums) <= self._direct_postings
        return NumpyTerm(docnums, counts, self._weights, is_direct) if len(docnums) else None


class NumpyColumns:
    """One state of an index as arrays, without its deleted documents: postings, lengths and times of all segments."""

    def __init__(
        self, segments: Sequence[Segment], deleted: Sequence[int], fetch: Fetch, tail: Tail | None, fields: int
    ) -> None:
        self._fields = fields
        self._parts = [*segments, tail.segment()] if tail else segments
        self._fetch = fetch
        self._tail = tail
        self._deleted = np.array(deleted, dtype=np.intp)
        self.size = self._parts[-1].last_docnum + 1 if self._parts else 1
        self.documents = sum(part.documents for part in self._parts) - len(deleted)
        self._is_alive = ~self.mask(self._deleted) if len(deleted) else None

    @cached_property
    def all_docnums(self) -> Array:
        return self._docnums_of(EVERY, "")

    def mask(self, docnums: Array) -> Array:
        """Return a mask by docnum."""
        mask = np.zeros(self.size, dtype=bool)
        mask[docnums] = True
        return mask

    def lengths(self, field: int) -> Array:
        """Return the length of a field by docnum, 0 where there is no document."""
        numbers = np.zeros(self.size, dtype=np.uint32)
        for part in self._parts:
            numbers[part.first_docnum : part.last_docnum + 1] = part.lengths[field]
        numbers[self._deleted] = 0
        return numbers

    def read_term(self, name: str) -> tuple[Array, list[Array]]:
        """Return the docnums that have a term, ascending, and its frequencies in each field."""
        docnums, counts = join_postings(self._fetch(WORD, name), self._fields)
        if self._is_alive is not None:
            is_alive = self._is_alive[docnums]
            docnums, counts = docnums[is_alive], [own[is_alive] for own in counts]
        return _append(docnums, counts, self._tail.counts(name)) if self._tail else (docnums, counts)

    def filter_mask(self, filter: Filter) -> Array:
        """Return a mask of the documents that pass a filter."""
        mask = self._time_mask(filter)
        if filter.author:
            mask &= self._any_of(AUTHOR, filter_author_keys(filter))
        for tag in filter.tags:
            mask &= self._any_of(TAG, [tag])
        if filter.scope:
            mask &= self._any_of(SCOPE, filter.scope)
        return mask

    def _docnums_of(self, kind: int, key: str) -> Array:
        """Return the documents that have an author, a tag or a scope."""
        docnums = join_postings(self._fetch(kind, key))[0].astype(np.intp)
        if self._is_alive is not None:
            docnums = docnums[self._is_alive[docnums]]
        in_tail = self._tail.docnums(kind, key) if self._tail else []
        return np.concatenate([docnums, np.array(in_tail, dtype=np.intp)]) if in_tail else docnums

    def _any_of(self, kind: int, keys: Iterable[str]) -> Array:
        found = [self._docnums_of(kind, key) for key in keys]
        return self.mask(np.concatenate([NO_DOCNUMS, *found]))

    def _time_mask(self, filter: Filter) -> Array:
        mask = self.mask(self.all_docnums)
        after, before = time_bounds(filter)
        if after is None and before is None:
            return mask
        created = np.full(self.size, NO_TIME, dtype=np.int64)
        for part in self._parts:
            created[part.first_docnum : part.last_docnum + 1] = part.created_us
        mask &= created != NO_TIME
        if after is not None:
            mask &= created >= after
        if before is not None:
            mask &= created < before
        return mask


class TermCache:
    """The most recently used terms, up to MAX_KEPT_BYTES. A term that no document has is cached as None."""

    def __init__(self, read_term: Callable[[str], NumpyTerm | None]) -> None:
        self._read_term = read_term
        self._terms: OrderedDict[str, NumpyTerm | None] = OrderedDict()
        self._bytes = 0

    def get(self, name: str) -> NumpyTerm | None:
        terms = self._terms
        if name in terms:
            terms.move_to_end(name)
            return terms[name]
        term = terms[name] = self._read_term(name)
        self._bytes += _term_bytes(term)
        while self._bytes > MAX_KEPT_BYTES and len(self._terms) > 100:  # the current query may have several of them
            self._bytes -= _term_bytes(self._terms.popitem(last=False)[1])
        return term


class DocumentWeights(NamedTuple):
    """The weights and norms of documents, by docnum or one number for all, and their extremes."""

    scoring: Scoring
    exact_fields: list[Any]  # the weight of one occurrence in each field, in 64 bits
    exact_norm: Any
    fields: list[Any]  # the same in 32 bits
    norm: Any
    alone: list[tuple[int, float]]  # the fields that also count by themselves, and how much
    heaviest: list[float]
    least_norm: float

    def score(self, idf: float, docnums: Array, counts: Sequence[Array]) -> Array:
        """Return the 32-bit scores of a term in documents with these frequencies in each field."""
        norm = _take(self.norm, docnums)
        frequency = np.zeros(len(docnums), dtype=np.float32)
        alone = np.zeros(len(docnums), dtype=np.float32)
        for weight, own, share in zip(self.fields, counts, self.scoring.alone, strict=True):
            here = _where(own)
            part = np.multiply(_take(weight, docnums[here]), own[here], dtype=np.float32)
            frequency[here] += part
            if share:
                alone[here] += share * self.scoring.gain(part, _take(norm, here))
        scores: Array = self.scoring.score(frequency, norm, idf, alone)
        return scores

    def top(self, idf: float, most: Sequence[int]) -> float:
        """Return the largest possible score of a term whose frequencies in each field are at most `most`."""
        frequencies = [weight * count for weight, count in zip(self.heaviest, most, strict=True)]
        gains = [self.scoring.gain(frequency, self.least_norm) for frequency in frequencies]
        alone = sum(share * gain for share, gain in zip(self.scoring.alone, gains, strict=True))
        return float(self.scoring.score(sum(frequencies), self.least_norm, idf, alone))


def document_weights(scoring: Scoring, lengths: Sequence[Array]) -> DocumentWeights:
    """Return the weights of documents with fields of these lengths."""
    # An empty field is never weighted, so its length may be set to 1 to avoid a division by zero.
    exact_fields = [scoring.weight(field, np.maximum(own, 1)) for field, own in enumerate(lengths)]
    exact_norm = scoring.norm(lengths)
    fields, norm = [_to_32_bits(own) for own in exact_fields], _to_32_bits(exact_norm)
    heaviest = [float(np.max(own)) for own in fields]
    alone = [(field, share) for field, share in enumerate(scoring.alone) if share]
    return DocumentWeights(scoring, exact_fields, exact_norm, fields, norm, alone, heaviest, float(np.min(norm)))


def _to_32_bits(values: Any) -> Any:
    return values.astype(np.float32) if isinstance(values, np.ndarray) else values


class NumpyTerm:
    """The documents that have a term, its frequencies, and its scores."""

    def __init__(self, docnums: Array, counts: Sequence[Array], weights: DocumentWeights, is_direct: bool) -> None:
        size = self.size = len(docnums)
        self.docnums = docnums  # ascending
        self.idf = weights.scoring.idf(size)
        self.counts = counts  # for each field
        self.exact: Array | None = None  # 64-bit scores, when they have been needed
        self._weights = weights
        self._is_direct = is_direct  # whether all of it may be added up
        self._scores: Array | None = None  # 32-bit scores, when they have been computed for all documents

    @cached_property
    def indices(self) -> Array:
        """Its docnums as numpy looks up by them, converted once; for terms of which all is added up."""
        return self.docnums.astype(np.intp)

    @cached_property
    def top(self) -> float:
        """An upper bound of its scores, exact when all scores are known."""
        return self._weights.top(self.idf, [int(own.max()) for own in self.counts])

    @property
    def bytes(self) -> int:
        """The most memory that it takes."""
        # Docnums and scores, both in 32 bits; also both in 64 bits once all of it was added up.
        numbers = self.size * (24 if self._is_direct else 8)
        return numbers + len(self.counts) * self.counts[0].nbytes + 1000

    def add_to(self, sums: Array, weight: float, only: Array | None = None) -> tuple[Array, Array]:
        """Add its weighted scores to the sums of its documents, and return their docnums and new sums.

        With `only`, a mask by docnum, add to some of them.
        """
        docnums = self.docnums.astype(np.intp)
        if only is None:
            scores = self._all_scores(docnums)
        else:
            places = only[docnums].nonzero()[0]
            if len(places) * 2 > self.size:
                self._all_scores(docnums)  # computing the others costs little more, and saves the next time
            docnums = docnums[places]
            scores = self._scores_at(places, docnums)
        changed: Array = sums[docnums] + np.float32(weight) * scores
        sums[docnums] = changed
        return docnums, changed

    def has(self, docnum: int) -> bool:
        """Return whether a document has the term."""
        place = int(self.docnums.searchsorted(self.docnums.dtype.type(docnum)))
        return place < self.size and int(self.docnums[place]) == docnum

    def scores_of(self, docnums: Array) -> Array:
        """Return its scores in some documents, 0 in those that do not have it."""
        places, is_there = self._locate(docnums)
        found = self._scores_at(places, docnums.astype(np.intp))
        found *= is_there
        return found

    def counts_of(self, docnums: Array) -> list[Array]:
        """Return its frequencies in some documents, in each field."""
        places, is_there = self._locate(docnums)
        return [own[places] * is_there for own in self.counts]

    def _locate(self, docnums: Array) -> tuple[Array, Array]:
        """Return the positions of docnums in its posting, and whether they are there."""
        wanted = docnums.astype(self.docnums.dtype)  # otherwise numpy would convert the whole posting
        places = self.docnums.searchsorted(wanted)
        places[places == self.size] = 0
        return places, self.docnums[places] == wanted

    def _all_scores(self, docnums: Array) -> Array:
        if self._scores is None:
            self._scores = self._weights.score(self.idf, docnums, self.counts)
            self.top = float(self._scores.max())
        return self._scores

    def _scores_at(self, places: Array, docnums: Array) -> Array:
        """Return the scores of these documents with the frequencies at these positions of its posting."""
        known = self.exact if self._scores is None else self._scores
        if known is not None:
            return known[places]
        return self._weights.score(self.idf, docnums, [own[places] for own in self.counts])


class _Weighted(NamedTuple):
    """A term with its weight in a query."""

    term: NumpyTerm
    weight: float

    @property
    def top(self) -> float:
        return self.weight * self.term.top


class _Found(NamedTuple):
    """The weighted frequencies of a term in some documents."""

    name: str
    weighted: _Weighted
    own: list[Array]  # weighted frequency in each field
    frequencies: Array  # in all fields; 1 where a document does not have the term, to avoid a division by zero
    norm: Any


def _upper_bound(weighted: Iterable[_Weighted]) -> float:
    """Return the largest possible sum of the scores of some terms."""
    return sum(one.top for one in weighted)


def _rounding_margin(weighted: Sequence[_Weighted]) -> float:
    """Return a factor that lowers a sum by more than rounding errors; a score takes a dozen operations."""
    return 1 - (len(weighted) + 16) * ROUNDING


def _sums_of(docnums: Array, weighted: Iterable[_Weighted]) -> Array:
    sums = np.zeros(len(docnums), dtype=np.float32)
    for one in weighted:
        sums += one.weight * one.term.scores_of(docnums)
    return sums


def _lower_bound(docnums: Array, sums: Array, left: Sequence[_Weighted], limit: int) -> float:
    """Return a lower bound of the k-th best score: `limit` documents reach it when the terms of `left` are added."""
    if left:
        docnums, sums = _select_best(max(PROBES, limit), docnums, sums)
    for one in left:
        sums = sums + one.weight * one.term.scores_of(docnums)
    return float(np.partition(sums, -limit)[-limit]) if len(sums) >= limit else 0.0


def _select_best(count: int, docnums: Array, scores: Array) -> tuple[Array, Array]:
    """Return about `count` of the best documents and their scores, in ascending order of docnums."""
    if len(docnums) <= count:
        return docnums, scores
    sample = scores[:: 1 + len(scores) // SAMPLE]
    rank = 1 + len(sample) * count // len(scores)
    places = (scores >= np.partition(sample, -rank)[-rank]).nonzero()[0][: 2 * count]
    return docnums[places], scores[places]


def _docnums_reaching(added: Iterable[_Weighted], sums: Array, least: float, scan_all: bool) -> Array:
    """Return the docnums with sums of at least `least`, which is above zero, in ascending order."""
    if scan_all:
        return (sums >= least).nonzero()[0]
    parts = [one.term.indices[sums[one.term.indices] >= least] for one in added]
    return parts[0] if len(parts) == 1 else _sort_unique(np.concatenate(parts))


def _reset(added: Iterable[_Weighted], sums: Array, scan_all: bool) -> None:
    if scan_all:
        sums.fill(0)
    else:
        for one in added:
            sums[one.term.indices] = 0


def _term_bytes(term: NumpyTerm | None) -> int:
    return 100 if term is None else term.bytes


def _kth_best(scores: Array, limit: int) -> Any:
    """Return the k-th best score, or 0 if there are fewer."""
    if len(scores) <= limit:
        return 0
    ordered = scores.copy()
    ordered.partition(len(scores) - limit)
    return ordered[-limit]


def _best_of_groups(scores: Array, limit: int) -> float:
    """Return a lower bound of the k-th best score, close to it: the k-th best of the maxima of groups of documents."""
    groups = max(GROUPS, GROUPS_PER_HIT * limit)
    size = len(scores) // groups
    return float(_kth_best(scores[: size * groups].reshape(size, groups).max(axis=0), limit)) if size else 0.0


def _sort_unique(docnums: Array) -> Array:
    """Return docnums in ascending order without repeats, for arrays of this size faster than `np.unique`."""
    docnums.sort()
    is_new = np.empty(len(docnums), dtype=bool)
    is_new[:1] = True
    np.not_equal(docnums[1:], docnums[:-1], out=is_new[1:])
    return docnums[is_new]


def join_postings(postings: Sequence[tuple[int, bytes]], fields: int = 0) -> tuple[Array, list[Array]]:
    """Join the postings of a term, and return ascending docnums and its frequencies in each field."""
    if not postings:
        return NO_DOCNUMS, [NO_DOCNUMS] * fields
    if len(postings) == 1:
        return _decode(*postings[0], fields)
    docnums, counts = zip(*[_decode(*posting, fields) for posting in postings], strict=True)
    return np.concatenate(docnums), list(map(np.concatenate, zip(*counts, strict=True)))


def _decode(size: int, data: bytes, fields: int) -> tuple[Array, list[Array]]:
    width = count_width(size, data, fields)
    counts = [np.frombuffer(data, _COUNTS[width], size, size * (4 + width * field)) for field in range(fields)]
    return np.frombuffer(data, _DOCNUMS, size), counts


def _append(docnums: Array, counts: Sequence[Array], tail: Sequence[Mapping[int, int]]) -> tuple[Array, list[Array]]:
    """Append the docnums and frequencies of the tail."""
    in_tail = sorted(set().union(*tail))
    if not in_tail:
        return docnums, list(counts)
    added = [np.array([own.get(docnum, 0) for docnum in in_tail], dtype=np.uint32) for own in tail]
    return np.concatenate([docnums, np.array(in_tail, dtype="<u4")]), [
        np.concatenate(pair) for pair in zip(counts, added, strict=True)
    ]


def _where(counts: Array) -> Any:
    """Return the positions of nonzero frequencies if they are few, as in a title, otherwise all positions."""
    if len(counts) < SHORT or np.count_nonzero(counts) * 2 > len(counts):
        return slice(None)
    return (counts != 0).nonzero()[0]


def _take(values: Any, docnums: Array) -> Any:
    """Return the values of some documents, or the one value of all."""
    return values[docnums] if isinstance(values, np.ndarray) else values
