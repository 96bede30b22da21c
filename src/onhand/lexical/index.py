"""The lexical index: segments and a tail, searched as one.

The tail holds the documents that are in no segment yet. Its texts are scanned for the terms of a first query, which
costs a cold process far less than indexing them; a second query has them indexed. An `IndexReader` is one state of an
index, wherever its segments are kept; a `LexicalIndex` keeps them in memory. Not safe for concurrent use.
"""

from __future__ import annotations

import sys

from onhand.document import EVERYTHING, Contribution, Match, author_keys
from onhand.lexical.scoring import get_ranking, query_weights
from onhand.lexical.segment import (
    AUTHOR,
    EVERY,
    MAX_DELETED_SHARE,
    NO_TIME,
    SCOPE,
    TAG,
    Row,
    Segment,
    decode_array,
    encode_array,
    merge,
    merge_postings,
    segments_to_merge,
    without,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    from onhand.document import Filter
    from onhand.lexical.scoring import Ranking
    from onhand.lexical.segment import Posting, SegmentBuilder

    # kind, term → size and data of the posting in each segment that has the term, in the order of the segments
    Fetch = Callable[[int, str], Sequence[tuple[int, bytes]]]
    Weights = Mapping[str, float]  # of the terms of a query
else:
    Protocol = object  # a search from cold does without `typing`

# Documents, and characters of their texts, up to which a tail is scanned for a first query.
MAX_SCANNED_DOCUMENTS, MAX_SCANNED_CHARS = 1000, 2**20
# Up to which it is scanned for every query: that costs no more than to index them and to merge the segments.
ALWAYS_SCANNED_DOCUMENTS, ALWAYS_SCANNED_CHARS = 8, 8192
MAX_SCANNED_TERMS = 64  # of a query; for more, indexing is faster
NUMPY_PAYS = 20_000  # documents from which on searching gains more than the import of numpy costs
NUMPY_IS_FASTER = 2000  # documents from which on it is, where numpy has been imported


class Searcher(Protocol):
    """Evaluates queries over one state of an index: `search_plain` or `search_numpy`, which agree in their scores."""

    def search(self, weights: Weights, limit: int, allowed: Any = None) -> list[tuple[int, float]]:
        """Return docnums and scores of the best matches and of all that tie with the last one, best first."""

    def explain(self, weights: Weights, docnums: Sequence[int]) -> list[tuple[Contribution, ...]]:
        """Return what each term in each field added to the scores of these documents."""

    def term_weights(self, weights: Weights, docnum: int) -> dict[str, tuple[float, bool]]:
        """Return the weight of each term times its idf, and whether a document has the term."""

    def allowed(self, filter: Filter) -> Any:
        """Return the documents that a filter lets through, for `search`."""

    def among(self, allowed: Any, docnums: Iterable[int]) -> Any:
        """Restrict allowed documents (None: all) to some docnums."""

    def docnums(self, allowed: Any) -> Any:
        """Return the docnums of the allowed documents (None: all), in ascending order."""

    def deleted(self) -> Any:
        """Return the docnums up to the last one that have no document, in ascending order."""


class Tail:
    """Documents that are in no segment yet."""

    def __init__(
        self, ranking: Ranking, rows: Iterable[Row] = (), lengths: Mapping[int, Sequence[int]] | None = None
    ) -> None:
        self._ranking = ranking
        self._spacers = ranking.spacers()
        self.rows = {row.docnum: row for row in rows}
        self._lengths = dict(lengths or {})  # docnum → for each field, how many words it has
        self._spaced: dict[int, list[str]] = {}  # docnum → its texts as they are scanned
        self._counts: dict[str, list[dict[int, int]]] = {}  # term → for each field, docnum → how often it has the term
        self._was_scanned = False

    def add(self, row: Row) -> None:
        self.rows[row.docnum] = row
        self._counts = {}

    def remove(self, docnum: int) -> None:
        for kept in (self.rows, self._lengths, self._spaced):
            kept.pop(docnum, None)
        self._counts = {}

    def lengths(self) -> dict[int, Sequence[int]]:
        """Return for each docnum how many words each field has."""
        for docnum in self.rows:
            if docnum not in self._lengths:
                self._lengths[docnum] = [count_words(text) for text in self._spaced_texts(docnum)]
        return self._lengths

    def segment(self) -> Segment:
        """Return what a searcher needs to know of the documents besides the terms that they have."""
        lengths, first, last = self.lengths(), min(self.rows), max(self.rows)
        none = [0] * len(self._ranking.fields)
        by_docnum = [lengths.get(docnum, none) for docnum in range(first, last + 1)]
        created = [
            NO_TIME if row is None or row.created_us is None else row.created_us
            for row in map(self.rows.get, range(first, last + 1))
        ]
        return Segment(first, last, len(self.rows), list(zip(*by_docnum, strict=True)), created)

    def is_too_large_to_scan(self) -> bool:
        return len(self.rows) > MAX_SCANNED_DOCUMENTS or self._chars() > MAX_SCANNED_CHARS

    def should_be_indexed(self, terms: Collection[str]) -> bool:
        """Return whether to index the documents rather than to scan them for these terms."""
        if all(term in self._counts for term in terms):
            return False
        if len(terms) > MAX_SCANNED_TERMS or self.is_too_large_to_scan():
            return True
        return self._was_scanned and (len(self.rows) > ALWAYS_SCANNED_DOCUMENTS or self._chars() > ALWAYS_SCANNED_CHARS)

    def scan(self, terms: Collection[str]) -> None:
        """Count these terms in all texts."""
        missing = [term for term in terms if term not in self._counts]
        if missing:
            rows = [(docnum, self._spaced_texts(docnum)) for docnum in self.rows]
            self._counts |= count_terms(missing, rows, len(self._ranking.fields), self._ranking.tokenizer.forms)
            self._was_scanned = True

    def counts(self, term: str) -> list[dict[int, int]]:
        """Return, for each field, the docnums that have a term and how often."""
        self.scan([term])
        return self._counts[term]

    def docnums(self, kind: int, key: str) -> list[int]:
        """Return the documents that have an author, a tag or a scope."""
        return [docnum for docnum, row in self.rows.items() if key in _KEYS[kind](row)]

    def _spaced_texts(self, docnum: int) -> list[str]:
        spaced = self._spaced.get(docnum)
        if spaced is None:
            texts = self.rows[docnum].texts
            spaced = [space(text) for space, text in zip(self._spacers, texts, strict=True)]
            self._spaced[docnum] = spaced
        return spaced

    def _chars(self) -> int:
        return sum([len(text) for row in self.rows.values() for text in row.texts])


_KEYS: dict[int, Callable[[Row], Collection[str]]] = {
    AUTHOR: lambda row: author_keys(row.author),
    TAG: lambda row: row.tags,
    SCOPE: lambda row: (row.scope,),
    EVERY: lambda row: ("",),
}


class IndexReader:
    """One state of an index, which answers any number of queries."""

    def __init__(
        self, ranking: Ranking, segments: Sequence[Segment], deleted: Sequence[int], fetch: Fetch, tail: Tail
    ) -> None:
        self._ranking = ranking
        self._segments = list(segments)
        self._deleted = deleted
        self._fetch = fetch
        self._tail: Tail | None = tail if tail.rows else None
        self._searcher: Searcher | None = None
        self._last_query: tuple[str, Weights] = "", {}  # since each hit of it is explained
        self.indexed_tail: SegmentBuilder | None = None
        waiting = len(tail.rows)
        self.documents = sum([segment.documents for segment in segments]) - len(deleted) + waiting
        self.last_docnum = max(tail.rows) if waiting else segments[-1].last_docnum if segments else 0

    def search(
        self, query: str, limit: int, filter: Filter = EVERYTHING, among: Iterable[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return docnums and scores of the best matches and of all that tie with the last one, best first."""
        weights = self._query_weights(query)
        searcher = self._searcher_for(weights)
        return searcher.search(weights, limit, _allowed(searcher, filter, among))

    def explain(self, query: str, docnums: Sequence[int]) -> list[tuple[Contribution, ...]]:
        """Return what each term in each field added to the scores of these documents, largest first."""
        weights = self._query_weights(query)
        return self._searcher_for(weights).explain(weights, docnums)

    def term_weights(self, query: str, docnum: int) -> dict[str, tuple[float, bool]]:
        """Return the weight of each term of a query times its idf, and whether a document has the term."""
        weights = self._query_weights(query)
        return self._searcher_for(weights).term_weights(weights, docnum)

    def docnums(self, filter: Filter = EVERYTHING, among: Iterable[int] | None = None) -> Any:
        """Return the docnums that a filter lets through, in ascending order."""
        searcher = self._searcher_for({})
        return searcher.docnums(_allowed(searcher, filter, among))

    def deleted(self) -> Any:
        """Return the docnums up to the last one that have no document, in ascending order."""
        return self._searcher_for({}).deleted()

    def count(self, filter: Filter = EVERYTHING) -> int:
        return self.documents if filter == EVERYTHING else len(self.docnums(filter))

    def index_tail(self) -> None:
        """Make a segment of the tail, in memory."""
        if self._tail is None:
            return
        from onhand.lexical.segment import SegmentBuilder

        built = self.indexed_tail = SegmentBuilder(self._ranking, self._tail.rows.values())
        fetch = self._fetch

        def fetch_all(kind: int, term: str) -> Sequence[tuple[int, bytes]]:
            last = built.posting(kind, term)
            return [*fetch(kind, term), last] if last else fetch(kind, term)

        self._segments.append(built.segment)
        self._fetch, self._tail, self._searcher = fetch_all, None, None

    def _query_weights(self, query: str) -> Weights:
        if self._last_query[0] != query:
            weights = query_weights(self._ranking.tokenizer, query, self._ranking.count_repeats)
            self._last_query = query, weights
        return self._last_query[1]

    def _searcher_for(self, terms: Collection[str]) -> Searcher:
        if self._tail is not None:
            if self._tail.should_be_indexed(terms):
                self.index_tail()
            else:
                self._tail.scan(terms)
        if self._searcher is None:
            new = _searcher_class(self.documents)
            self._searcher = new(self._ranking, self._segments, self._deleted, self._fetch, self._tail)
        return self._searcher


def _allowed(searcher: Searcher, filter: Filter, among: Iterable[int] | None) -> Any:
    allowed = None if filter == EVERYTHING else searcher.allowed(filter)
    return allowed if among is None else searcher.among(allowed, among)


def _searcher_class(documents: int) -> Callable[..., Searcher]:
    """Return the evaluator for an index of this size."""
    if documents >= (NUMPY_IS_FASTER if sys.modules.get("numpy") else NUMPY_PAYS):
        try:
            from onhand.lexical.search_numpy import NumpySearcher
        except ImportError:
            pass
        else:
            return NumpySearcher
    from onhand.lexical.search_plain import PlainSearcher

    return PlainSearcher


class MemorySegment:
    """A segment in memory that was merged from others or restored."""

    def __init__(self, segment: Segment, postings: dict[tuple[int, str], tuple[int, bytes]]) -> None:
        self.segment = segment
        self.by_term = postings  # ordered by kind and term

    def posting(self, kind: int, term: str) -> tuple[int, bytes] | None:
        return self.by_term.get((kind, term))

    def postings(self) -> Iterator[Posting]:
        from onhand.lexical.segment import Posting

        return (Posting(*key, *posting) for key, posting in self.by_term.items())


class LexicalIndex:
    """An index in memory that ranks documents by the words that they share with a query."""

    def __init__(self, ranking: Ranking | None = None) -> None:
        self.ranking = ranking or get_ranking()
        self.ranking.check()
        self._docnums: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self.last_docnum = 0  # that was given out; none is given out twice
        self._segments: list[tuple[MemorySegment | SegmentBuilder, set[int]]] = []  # with the docnums deleted from it
        self._tail = Tail(self.ranking)
        self._current: IndexReader | None = None  # until the next change

    def __len__(self) -> int:
        return len(self._docnums)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._docnums

    def add(
        self,
        document_id: str,
        texts: str | Mapping[str, str] | tuple[str, ...],
        author: str = "",
        tags: Sequence[str] = (),
        scope: str = "",
        created_us: int | None = None,
    ) -> None:
        """Add a document, or replace the one with this id.

        Its texts are those of all fields, or some by the names of their fields, or the one of the first field.
        """
        if isinstance(texts, str):
            texts = {next(iter(self.ranking.fields)): texts}
        if not isinstance(texts, tuple):
            texts = tuple([texts.get(name, "") for name in self.ranking.fields])
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"the text of a field is a str, not a {type(text).__name__}")
        if document_id in self._docnums:
            self.remove(document_id)
        self._begin_change()
        docnum = self.last_docnum = self.last_docnum + 1
        self._tail.add(Row(docnum, texts, author, tags, scope, created_us))
        self._docnums[document_id] = docnum
        self._ids[docnum] = document_id

    def remove(self, document_id: str) -> None:
        """Remove a document; one that is not there is an error (KeyError)."""
        docnum = self._docnums.pop(document_id)
        del self._ids[docnum]
        self._begin_change()
        if docnum in self._tail.rows:
            self._tail.remove(docnum)
            return
        place = max(place for place, (part, _) in enumerate(self._segments) if part.segment.first_docnum <= docnum)
        part, deleted = self._segments[place]
        deleted.add(docnum)
        if len(deleted) > part.segment.documents * MAX_DELETED_SHARE:
            self._merge(place, place + 1)

    def search(
        self, query: str, limit: int = 10, filter: Filter = EVERYTHING, among: Collection[str] | None = None
    ) -> list[Match]:
        """Return the best matches by descending score, then by id; with `among`, only of these ids.

        A score depends on all documents, whichever of them may be found.
        """
        if limit < 1:
            return []
        docnums = None if among is None else [self._docnums[one] for one in among if one in self._docnums]
        found, ids = self.reader().search(query, limit, filter, docnums), self._ids
        ranked = sorted([(-score, ids[docnum]) for docnum, score in found])
        return [Match(document_id, -negative, ()) for negative, document_id in ranked[:limit]]

    def explain(self, query: str, ids: Sequence[str]) -> list[tuple[Contribution, ...]]:
        """Return what each term in each field added to the scores of these documents; they add up to the score."""
        return self.reader().explain(query, [self._docnums[document_id] for document_id in ids])

    def term_weights(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        """Return the weight of each term of a query times its idf, and whether a document has the term."""
        return self.reader().term_weights(query, self._docnums[document_id])

    def ids(self, filter: Filter) -> list[str]:
        """Return the ids of the documents that a filter lets through, in the order in which they were added."""
        return [self._ids[docnum] for docnum in self.reader().docnums(filter)]

    def reader(self) -> IndexReader:
        """Return the present state of the index."""
        if self._current is None:
            parts = [part for part, _ in self._segments]

            def fetch(kind: int, term: str) -> list[tuple[int, bytes]]:
                return [posting for part in parts if (posting := part.posting(kind, term))]

            deleted = [docnum for _, some in self._segments for docnum in sorted(some)]
            segments = [part.segment for part in parts]
            self._current = IndexReader(self.ranking, segments, deleted, fetch, self._tail)
        return self._current

    def state(self) -> tuple[Any, ...]:
        """Return what `restore` takes, of types that `marshal` knows."""
        if self._tail.is_too_large_to_scan():
            self.reader().index_tail()
        self._begin_change()
        segments = [
            (
                *part.segment[:3],
                [encode_array(own) for own in part.segment.lengths],  # type: ignore[arg-type]
                encode_array(part.segment.created_us),  # type: ignore[arg-type]
                {(kind, term): (size, data) for kind, term, size, data in part.postings()},
                sorted(deleted),
            )
            for part, deleted in self._segments
        ]
        return self._docnums, self.last_docnum, segments, self._tail.lengths()

    def restore(self, state: tuple[Any, ...], row_of: Callable[[str, int], Row]) -> None:
        """Become the index that had this state; `row_of` makes the row of a document of the tail."""
        self._docnums, self.last_docnum, segments, lengths = state
        self._ids = {docnum: document_id for document_id, docnum in self._docnums.items()}
        self._segments = [
            (
                MemorySegment(
                    Segment(
                        first,
                        last,
                        documents,
                        tuple([decode_array("I", data) for data in fields]),
                        decode_array("q", created),
                    ),
                    postings,
                ),
                set(deleted),
            )
            for first, last, documents, fields, created, postings, deleted in segments
        ]
        self._tail = Tail(self.ranking, [row_of(self._ids[docnum], docnum) for docnum in lengths], lengths)
        self._current = None

    def _begin_change(self) -> None:
        """Give up the present state; what was indexed for it is kept as a segment."""
        if self._current is not None and self._current.indexed_tail is not None:
            self._segments.append((self._current.indexed_tail, set()))
            self._tail = Tail(self.ranking)
            while count := segments_to_merge([part.segment.documents for part, _ in reversed(self._segments)]):
                self._merge(len(self._segments) - count, len(self._segments))
        self._current = None

    def _merge(self, start: int, end: int) -> None:
        """Put one segment, without deleted documents, in the place of some."""
        from heapq import merge as merge_sorted

        old = self._segments[start:end]
        merged = merge([without(part.segment, deleted) for part, deleted in old])
        if not merged.documents:
            self._segments[start:end] = []
            return
        deleted = frozenset().union(*[own for _, own in old])
        ordered = merge_sorted(*[part.postings() for part, _ in old], key=lambda posting: posting[:2])
        postings = {
            (kind, term): (size, data)
            for kind, term, size, data in merge_postings(ordered, deleted, len(merged.lengths))
        }
        self._segments[start:end] = [(MemorySegment(merged, postings), set())]


_OUTLINE = bytes(0x20 if code == 0x20 else ord("x") for code in range(256))


def count_words(text: str) -> int:
    """Return how many words a spaced text has."""
    if text.isascii():  # without making a string of each
        return (b" " + text.encode().translate(_OUTLINE)).count(b" x")
    return len(text.split())


def count_terms(
    terms: Collection[str],
    rows: Iterable[tuple[int, Sequence[str]]],
    fields: int,
    forms: Callable[[str], tuple[str, ...]],
) -> dict[str, list[dict[int, int]]]:
    """Return for each term and each field the docnums whose spaced text there has it, and how often.

    The texts are searched as they are: to take them apart into words would take several times as long.
    """
    found: dict[str, list[dict[int, int]]] = {term: [{} for _ in range(fields)] for term in terms}
    pieces = sorted({_piece_of(term) for term in terms}, key=len)
    sought = [(_piece_of(term), term) for term in terms]
    # With each piece, those that are in it: where one of these is missing, it need not be looked for.
    within = [(piece, frozenset(short for short in pieces if short in piece and short != piece)) for piece in pieces]
    for docnum, texts in rows:
        for field, text in enumerate(texts):
            lower = text.lower() if text.isascii() else text.casefold()
            whole = lower.replace("-", "").replace("_", "")
            there: set[str] = set()
            for piece, shorter in within:
                if shorter <= there and piece in whole:
                    there.add(piece)
            if there:
                for piece, term in sought:
                    if piece in there:
                        often = sum([forms(word).count(term) for word in _words_having(piece, text, lower, whole)])
                        if often:
                            found[term][field][docnum] = often
    return found


def _piece_of(term: str) -> str:
    """Return what every word with this form contains: a stem may have put a last `y` or `i` there."""
    return term[:-1] if term.endswith(("y", "i")) and len(term) > 1 else term


def _words_having(piece: str, text: str, lower: str, whole: str) -> Iterator[str]:
    """Yield every word of a text that has a piece, and perhaps others; `whole` is `lower` without what joins parts."""
    if len(lower) != len(text) or lower.count(piece) < whole.count(piece):  # some of it is in `read`, some in `_file`
        yield from text.split()
        return
    place = lower.find(piece)
    while place >= 0:
        end = text.find(" ", place)
        end = len(text) if end < 0 else end
        yield text[text.rfind(" ", 0, place) + 1 : end]
        place = lower.find(piece, end)
