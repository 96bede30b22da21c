"""The lexical index: segments and a tail, searched as one.

The tail has the documents that are in no segment yet. The first query scans their texts for its terms, which costs a
cold process far less than indexing them; a second query indexes them. An `IndexReader` sees one state of an index,
wherever its segments are stored; a `LexicalIndex` stores them in memory. Neither is thread-safe.
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
    Posting,
    Row,
    Segment,
    SegmentBuilder,
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

    # kind, term → size and data of the posting in each segment that has the term, in the order of the segments
    Fetch = Callable[[int, str], Sequence[tuple[int, bytes]]]
    Weights = Mapping[str, float]  # of the terms of a query
else:
    Protocol = object  # a cold search must not import `typing`

# The largest tail, in documents and characters of text, that the first query scans.
MAX_SCANNED_DOCUMENTS, MAX_SCANNED_CHARS = 1000, 2**20
# The largest tail that every query scans, because that costs no more than indexing it and merging the segments.
ALWAYS_SCANNED_DOCUMENTS, ALWAYS_SCANNED_CHARS = 8, 8192
MAX_SCANNED_TERMS = 64  # of a query; for more terms, indexing is faster
NUMPY_PAYS = 20_000  # documents from which on numpy saves more time than its import takes
NUMPY_IS_FASTER = 2000  # documents from which on numpy is faster once it is imported


class Searcher(Protocol):
    """Evaluates queries over one state of an index. There are two, with equal scores: plain Python and numpy."""

    def search(self, weights: Weights, limit: int, allowed: Any = None) -> list[tuple[int, float]]:
        """Return the top-k docnums and their scores, with all ties and perhaps a few more, in no particular order."""

    def explain(self, weights: Weights, docnums: Sequence[int]) -> list[tuple[Contribution, ...]]:
        """Return what each term in each field adds to the scores of these documents."""

    def term_weights(self, weights: Weights, docnum: int) -> dict[str, tuple[float, bool]]:
        """Return the weight of each term times its idf, and whether a document has the term."""

    def evaluate_filter(self, filter: Filter) -> Any:
        """Return the documents that pass a filter, as `search` takes them."""

    def intersect(self, allowed: Any, docnums: Iterable[int]) -> Any:
        """Return those of the allowed documents (None: all) that are among the docnums."""

    def docnums(self, allowed: Any) -> Any:
        """Return the docnums of the allowed documents (None: all), in ascending order."""

    def deleted_docnums(self) -> Any:
        """Return the docnums up to the last one that have no document, in ascending order."""


class Tail:
    """Documents that are in no segment yet."""

    def __init__(
        self, ranking: Ranking, rows: Iterable[Row] = (), lengths: Mapping[int, Sequence[int]] | None = None
    ) -> None:
        self._ranking = ranking
        self._spacers = ranking.spacers()
        self.rows = {row.docnum: row for row in rows}
        self._lengths = dict(lengths or {})  # docnum → number of words in each field
        self._spaced: dict[int, list[str]] = {}  # docnum → the words of each field, separated by spaces
        self._counts: dict[str, list[dict[int, int]]] = {}  # term → for each field, docnum → term frequency
        self._was_scanned = False

    def add(self, row: Row) -> None:
        self.rows[row.docnum] = row
        self._counts = {}

    def remove(self, docnum: int) -> None:
        for by_docnum in (self.rows, self._lengths, self._spaced):
            by_docnum.pop(docnum, None)
        self._counts = {}

    def lengths(self) -> dict[int, Sequence[int]]:
        """Return for each docnum the number of words in each field."""
        for docnum in self.rows:
            if docnum not in self._lengths:
                self._lengths[docnum] = [count_words(text) for text in self._spaced_texts(docnum)]
        return self._lengths

    def segment(self) -> Segment:
        """Return the tail as a segment without postings."""
        lengths, first, last = self.lengths(), min(self.rows), max(self.rows)
        no_words = [0] * len(self._ranking.fields)
        by_docnum = [lengths.get(docnum, no_words) for docnum in range(first, last + 1)]
        created = [
            NO_TIME if row is None or row.created_us is None else row.created_us
            for row in map(self.rows.get, range(first, last + 1))
        ]
        return Segment(first, last, len(self.rows), list(zip(*by_docnum, strict=True)), created)

    def is_too_large_to_scan(self) -> bool:
        return len(self.rows) > MAX_SCANNED_DOCUMENTS or self._chars() > MAX_SCANNED_CHARS

    def should_be_indexed(self, terms: Collection[str]) -> bool:
        """Return whether the documents should be indexed rather than scanned for these terms."""
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
        """Return, for each field, the docnums that have a term and its frequency."""
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
    """Searches one state of an index, any number of times."""

    def __init__(
        self, ranking: Ranking, segments: Sequence[Segment], deleted: Sequence[int], fetch: Fetch, tail: Tail
    ) -> None:
        self._ranking = ranking
        self._segments = list(segments)
        self._deleted = deleted
        self._fetch = fetch
        self._tail: Tail | None = tail if tail.rows else None
        self._searcher: Searcher | None = None
        self._last_query: tuple[str, Weights] = "", {}  # a search is often followed by explanations of its hits
        self.indexed_tail: SegmentBuilder | None = None
        self.documents = sum([segment.documents for segment in segments]) - len(deleted) + len(tail.rows)
        self.last_docnum = max(tail.rows) if tail.rows else segments[-1].last_docnum if segments else 0

    def search(
        self, query: str, limit: int, filter: Filter = EVERYTHING, among: Iterable[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return the top-k docnums and their scores, with all ties and perhaps a few more, in no particular order."""
        weights = self._query_weights(query)
        searcher = self._searcher_for(weights)
        return searcher.search(weights, limit, _allowed_documents(searcher, filter, among))

    def explain(self, query: str, docnums: Sequence[int]) -> list[tuple[Contribution, ...]]:
        """Return what each term in each field adds to the scores of these documents, largest first."""
        weights = self._query_weights(query)
        return self._searcher_for(weights).explain(weights, docnums)

    def term_weights(self, query: str, docnum: int) -> dict[str, tuple[float, bool]]:
        """Return the weight of each term of a query times its idf, and whether a document has the term."""
        weights = self._query_weights(query)
        return self._searcher_for(weights).term_weights(weights, docnum)

    def docnums(self, filter: Filter = EVERYTHING, among: Iterable[int] | None = None) -> Any:
        """Return the docnums that pass a filter, in ascending order."""
        searcher = self._searcher_for({})
        return searcher.docnums(_allowed_documents(searcher, filter, among))

    def deleted_docnums(self) -> Any:
        """Return the docnums up to the last one that have no document, in ascending order."""
        return self._searcher_for({}).deleted_docnums()

    def count(self, filter: Filter = EVERYTHING) -> int:
        return self.documents if filter == EVERYTHING else len(self.docnums(filter))

    def index_tail(self) -> None:
        """Replace the tail by a segment in memory."""
        if self._tail is None:
            return
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
            searcher_class = _choose_searcher(self.documents)
            self._searcher = searcher_class(self._ranking, self._segments, self._deleted, self._fetch, self._tail)
        return self._searcher


def _allowed_documents(searcher: Searcher, filter: Filter, among: Iterable[int] | None) -> Any:
    allowed = None if filter == EVERYTHING else searcher.evaluate_filter(filter)
    return allowed if among is None else searcher.intersect(allowed, among)


def _choose_searcher(documents: int) -> Callable[..., Searcher]:
    """Return the evaluator for an index with this many documents."""
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
    """A segment in memory with its encoded postings: merged from others, or restored."""

    def __init__(self, segment: Segment, postings: dict[tuple[int, str], tuple[int, bytes]]) -> None:
        self.segment = segment
        self.by_term = postings  # ordered by kind and term

    def posting(self, kind: int, term: str) -> tuple[int, bytes] | None:
        return self.by_term.get((kind, term))

    def postings(self) -> Iterator[Posting]:
        return (Posting(*key, *posting) for key, posting in self.by_term.items())


class LexicalIndex:
    """An index in memory that ranks documents by their BM25 scores."""

    def __init__(self, ranking: Ranking | None = None) -> None:
        self.ranking = ranking or get_ranking()
        self.ranking.check()
        self._docnums: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self.last_docnum = 0  # docnums are never reused
        self._segments: list[tuple[MemorySegment | SegmentBuilder, set[int]]] = []  # each with its tombstones
        self._tail = Tail(self.ranking)
        self._reader: IndexReader | None = None  # until the next change

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

        `texts` are the texts of all fields in order, some texts by field name, or the text of the first field.
        """
        if isinstance(texts, str):
            texts = {next(iter(self.ranking.fields)): texts}
        if not isinstance(texts, tuple):
            texts = tuple([texts.get(name, "") for name in self.ranking.fields])
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"The text of a field must be a str, not {type(text).__name__}.")
        if document_id in self._docnums:
            self.remove(document_id)
        self._begin_change()
        docnum = self.last_docnum = self.last_docnum + 1
        self._tail.add(Row(docnum, texts, author, tags, scope, created_us))
        self._docnums[document_id] = docnum
        self._ids[docnum] = document_id

    def remove(self, document_id: str) -> None:
        """Remove a document; raise KeyError if it is not there."""
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
        """Return the best matches by descending score, then by id; with `among`, only these ids.

        Neither the filter nor `among` changes a score.
        """
        if limit < 1:
            return []
        docnums = None if among is None else [one for one in map(self._docnums.get, among) if one is not None]
        found, ids = self.reader().search(query, limit, filter, docnums), self._ids
        ranked = sorted([(-score, ids[docnum]) for docnum, score in found])
        return [Match(document_id, -negative, ()) for negative, document_id in ranked[:limit]]

    def explain(self, query: str, ids: Sequence[str]) -> list[tuple[Contribution, ...]]:
        """Return what each term in each field adds to the scores of these documents; the sum is the score."""
        return self.reader().explain(query, [self._docnums[document_id] for document_id in ids])

    def term_weights(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        """Return the weight of each term of a query times its idf, and whether a document has the term."""
        return self.reader().term_weights(query, self._docnums[document_id])

    def ids(self, filter: Filter) -> list[str]:
        """Return the ids of the documents that pass a filter, in the order in which they were added."""
        return [self._ids[docnum] for docnum in self.reader().docnums(filter)]

    def reader(self) -> IndexReader:
        """Return a reader of the current state."""
        if self._reader is None:
            parts = [part for part, _ in self._segments]

            def fetch(kind: int, term: str) -> list[tuple[int, bytes]]:
                return [posting for part in parts if (posting := part.posting(kind, term))] if parts else []

            deleted = [docnum for _, tombstones in self._segments for docnum in sorted(tombstones)]
            segments = [part.segment for part in parts]
            self._reader = IndexReader(self.ranking, segments, deleted, fetch, self._tail)
        return self._reader

    def state(self) -> tuple[Any, ...]:
        """Return what `restore` takes, in types that `marshal` can write."""
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
        """Load a state; `row_of` returns the row of a document in the tail."""
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
        self._reader = None

    def _begin_change(self) -> None:
        """Discard the reader; a tail that it indexed becomes a segment."""
        if self._reader is not None and self._reader.indexed_tail is not None:
            self._segments.append((self._reader.indexed_tail, set()))
            self._tail = Tail(self.ranking)
            while count := segments_to_merge([part.segment.documents for part, _ in reversed(self._segments)]):
                self._merge(len(self._segments) - count, len(self._segments))
        self._reader = None

    def _merge(self, start: int, end: int) -> None:
        """Replace consecutive segments by one without their deleted documents."""
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
    """Return the number of words in a text whose words are separated by spaces."""
    if text.isascii():  # without creating a string for each word
        return (b" " + text.encode().translate(_OUTLINE)).count(b" x")
    return len(text.split())


def count_terms(
    terms: Collection[str],
    rows: Iterable[tuple[int, Sequence[str]]],
    fields: int,
    forms: Callable[[str], tuple[str, ...]],
) -> dict[str, list[dict[int, int]]]:
    """Return for each term and each field the docnums that have the term, and its frequency.

    The texts are scanned as strings; splitting them into words would take several times as long.
    """
    found: dict[str, list[dict[int, int]]] = {term: [{} for _ in range(fields)] for term in terms}
    pieces = sorted({_piece_of(term) for term in terms}, key=len)
    sought = [(_piece_of(term), term) for term in terms]
    # Each piece with the pieces inside it: if one of them is missing from a text, so is the piece.
    within = [(piece, frozenset(short for short in pieces if short in piece and short != piece)) for piece in pieces]
    for docnum, texts in rows:
        for field, text in enumerate(texts):
            lower = text.lower() if text.isascii() else text.casefold()
            whole = lower.replace("-", "").replace("_", "")
            present: set[str] = set()
            for piece, shorter in within:
                if shorter <= present and piece in whole:
                    present.add(piece)
            if present:
                for piece, term in sought:
                    if piece in present:
                        count = sum([forms(word).count(term) for word in _words_with(piece, text, lower, whole)])
                        if count:
                            found[term][field][docnum] = count
    return found


def _piece_of(term: str) -> str:
    """Return what every word with this form contains: all but a last `y` or `i`, which may come from the stemmer."""
    return term[:-1] if term.endswith(("y", "i")) and len(term) > 1 else term


def _words_with(piece: str, text: str, lower: str, whole: str) -> Iterator[str]:
    """Yield all words of a text that have a piece, and perhaps others; `whole` is `lower` without `-` and `_`."""
    if len(lower) != len(text) or lower.count(piece) < whole.count(piece):  # such as `readfile` in `read_file`
        yield from text.split()
        return
    place = lower.find(piece)
    while place >= 0:
        end = text.find(" ", place)
        end = len(text) if end < 0 else end
        yield text[text.rfind(" ", 0, place) + 1 : end]
        place = lower.find(piece, end)
