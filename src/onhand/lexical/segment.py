"""Segments: the postings of consecutive documents, written once and afterwards only merged.

A document is known by its docnum, a number that is never reused. Later segments have larger docnums, so the postings
of several segments are joined by concatenating them. A segment knows neither scores nor where its bytes are stored.
"""

from __future__ import annotations

import sys
from _operator import itemgetter  # what `operator` exports, without its Python part
from itertools import chain, groupby, repeat

from onhand.document import author_keys
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from onhand.lexical.scoring import Ranking

    Columns = tuple[Sequence[int], list[Sequence[int]]]  # docnums, and for each field the term frequencies

# Kinds of postings. Only those of words have frequencies. EVERY has one posting, for the term "": all documents.
WORD, AUTHOR, TAG, SCOPE, EVERY = 0, 100, 101, 102, 103
NO_TIME = -(2**63)  # the time of a document without one: earlier than any other

SMALL_SEGMENT = 64  # documents
FAN = 8  # segments of one size that are merged into one of the next size
NUMPY_COUNTS_FASTER = 4096  # occurrences in a segment from which on numpy is faster
NUMPY_PAYS = 500_000  # occurrences from which on it saves more time than its import takes
MAX_DELETED_SHARE = 0.25  # of a segment; above it, the segment is rewritten without its deleted documents


class Row(Record):
    """The parts of a document that a segment indexes."""

    docnum: int
    texts: Sequence[str]  # one for each field
    author: str = ""
    tags: Sequence[str] = ()
    scope: str = ""
    created_us: int | None = None


class Posting(Record):
    """The documents that have a term, in ascending order, and its frequency in each field; little-endian."""

    kind: int
    term: str
    size: int  # number of documents
    data: bytes  # docnums of 4 bytes; for a word, then its frequencies in each field, of 1 or 4 bytes


class Segment(Record):
    """Consecutive documents, without their postings."""

    first_docnum: int
    last_docnum: int
    documents: int
    lengths: Sequence[Sequence[int]]  # for each field, words by docnum - first_docnum; 0 where there is no document
    created_us: Sequence[int]  # by docnum - first_docnum


class SegmentBuilder:
    """Builds a segment of at least one document in memory.

    It numbers the words, and encodes a posting when it is read, because most terms are never looked up.
    """

    def __init__(self, ranking: Ranking, rows: Iterable[Row]) -> None:
        self._forms = ranking.tokenizer.forms
        self._numbers = _Numbers()  # of the words
        self._columns = [new_array("I") for _ in ranking.fields]  # the words of all documents, one after the other
        self._keys = {kind: _Occurrences() for kind in (AUTHOR, TAG, SCOPE, EVERY)}
        self._terms: _PlainTerms | _NumpyTerms | None = None  # set when the words are grouped by term
        self.segment = self._add_rows(ranking, rows)

    def posting(self, kind: int, term: str) -> tuple[int, bytes] | None:
        """Return the size and the data of a posting, or None if no document has the term."""
        if kind != WORD:
            data = self._keys[kind].get(term)
            return (len(data) // 4, bytes(data)) if data else None
        terms = self._terms or self._group_words()
        return terms.encode(term) if term in terms.words else None

    def postings(self) -> Iterator[Posting]:
        """Yield all postings, ordered by kind and term."""
        terms = self._terms or self._group_words()
        for term in sorted(terms.words):
            yield Posting(WORD, term, *terms.encode(term))
        for kind, keys in self._keys.items():
            for term, data in sorted(keys.items()):
                yield Posting(kind, term, len(data) // 4, bytes(data))

    def _add_rows(self, ranking: Ranking, rows: Iterable[Row]) -> Segment:
        lengths = [new_array("I") for _ in ranking.fields]
        created = new_array("q")
        fields = list(zip(ranking.readers(), lengths, self._columns, strict=True))
        number_of = self._numbers.__getitem__
        authors, tagged, scopes, every = self._keys.values()
        first = last = documents = 0
        for docnum, texts, author, tags, scope, created_us in rows:
            first = first or docnum
            if docnum != last + 1:
                _pad(lengths, created, docnum - first)  # deleted documents leave gaps
            last, documents = docnum, documents + 1
            created.append(NO_TIME if created_us is None else created_us)
            own = docnum.to_bytes(4, "little")
            for (read, length, column), text in zip(fields, texts, strict=True):
                words = read(text)
                length.append(len(words))
                column.extend(map(number_of, words))
            for key in author_keys(author) if author else ():
                authors[key].extend(own)
            for tag in dict.fromkeys(tags):
                tagged[tag].extend(own)
            scopes[scope].extend(own)
            every[""].extend(own)
        return Segment(first, last, documents, tuple(lengths), created)

    def _group_words(self) -> _PlainTerms | _NumpyTerms:
        """Group the words by the terms among their forms."""
        forms, grouped = self._forms, _Lists()
        for number, word in enumerate(self._numbers):
            for form in forms(word):
                grouped[form].append(number)
        occurrences = sum([len(column) for column in self._columns])
        kind = _NumpyTerms if _should_use_numpy(occurrences) else _PlainTerms
        self._terms = kind(grouped, self._columns, self.segment)
        return self._terms


def _should_use_numpy(occurrences: int) -> bool:
    """Return whether numpy is there and faster for so many words."""
    if sys.modules.get("numpy"):
        return occurrences >= NUMPY_COUNTS_FASTER
    if occurrences < NUMPY_PAYS:
        return False
    try:
        import numpy  # noqa: F401
    except ImportError:
        return False
    return True


class _PlainTerms:
    """The terms of a segment, with the numbers of their words; occurrences are counted term by term."""

    def __init__(self, words: Mapping[str, Sequence[int]], columns: Sequence[Sequence[int]], segment: Segment) -> None:
        self.words = words
        self._occurrences = []  # for each field and word, the docnum of each occurrence, as bytes
        docnums = [docnum.to_bytes(4, "little") for docnum in range(segment.first_docnum, segment.last_docnum + 1)]
        for column, lengths in zip(columns, segment.lengths, strict=True):
            found = _Occurrences()
            for number, docnum in zip(column, chain.from_iterable(map(repeat, docnums, lengths)), strict=True):
                found[number].extend(docnum)
            self._occurrences.append(found)

    def encode(self, term: str) -> tuple[int, bytes]:
        words = self.words[term]
        if len(words) == len(self._occurrences) == 1:
            data = bytes(self._occurrences[0][words[0]])  # ascending, because documents are added in order
            if len(set(decode_array("I", data))) * 4 == len(data):
                return len(data) // 4, data + b"\1" * (len(data) // 4)
        return _encode_small([b"".join([own[word] for word in words if word in own]) for own in self._occurrences])


def _encode_small(parts: Sequence[bytes]) -> tuple[int, bytes]:
    """Encode a posting from the docnums of all occurrences of a term in each field."""
    from collections import Counter

    counts: list[Mapping[int, int]] = [Counter(decode_array("I", part)) for part in parts]
    docnums = sorted(set().union(*counts))
    columns = [[own.get(docnum, 0) for docnum in docnums] for own in counts]
    return len(docnums), encode_array(new_array("I", docnums)) + _encode_counts(columns)


class _NumpyTerms:
    """The terms of a segment, with the numbers of their words; occurrences are counted with numpy, all in one step."""

    def __init__(self, words: Mapping[str, Sequence[int]], columns: Sequence[Sequence[int]], segment: Segment) -> None:
        import numpy as np

        self.words = words
        self._places = {term: place for place, term in enumerate(words)}
        # An occurrence is one number: its term, then the docnum (32 bits), then the field.
        field_bits = len(columns).bit_length()
        shift = 32 + field_bits
        sizes = np.fromiter(map(len, words.values()), np.int64, len(words))
        by_term = np.fromiter(chain.from_iterable(words.values()), np.int64, int(sizes.sum()))
        by_word = by_term.argsort(kind="stable")
        terms = np.repeat(np.arange(len(words), dtype=np.int64) << shift, sizes)[by_word]  # of one word after the other
        numbers_end = 1 + max(max(column, default=0) for column in columns)
        ends = np.bincount(by_term, minlength=numbers_end).cumsum()
        docnums = np.arange(segment.first_docnum, segment.last_docnum + 1, dtype=np.int64) << field_bits
        occurrences = []
        for field, (column, lengths) in enumerate(zip(columns, segment.lengths, strict=True)):
            found, docs = np.asarray(column), np.repeat(docnums | field, lengths)
            places = np.concatenate(([0], ends[:-1]))
            while len(found):
                has_more = (places < ends)[found]
                if not has_more.all():
                    found, docs = found[has_more], docs[has_more]
                occurrences.append(terms[places[found]] | docs)
                places += 1  # the next term of each word
        keys = np.concatenate(occurrences)
        del occurrences, found, docs  # they are as large as the keys
        keys, often = _count_keys(keys)
        postings, fields_of_keys = keys >> field_bits, keys & ((1 << field_bits) - 1)
        is_first = np.ones(len(postings), dtype=bool)
        np.not_equal(postings[1:], postings[:-1], out=is_first[1:])
        counts = np.zeros((len(columns), int(is_first.sum())), "<u4")
        counts[fields_of_keys, is_first.cumsum() - 1] = often
        postings = postings[is_first]
        self._counts = counts.astype("u1") if counts.max() < 256 else counts
        self._docnums = postings.astype("<u4")  # the lower half
        self._bounds = postings.searchsorted(np.arange(len(words) + 1, dtype=np.int64) << 32).tolist()

    def encode(self, term: str) -> tuple[int, bytes]:
        place = self._places[term]
        start, end = self._bounds[place], self._bounds[place + 1]
        counts = self._counts[:, start:end]
        if counts.itemsize > 1 and counts.max() < 256:
            counts = counts.astype("u1")  # as narrow as `_encode_small` makes it
        return end - start, self._docnums[start:end].tobytes() + counts.tobytes()


def _count_keys(keys: Any) -> tuple[Any, Any]:
    """Return the distinct keys in ascending order, and how often each occurs.

    `np.unique` hashes the keys, which takes longer than sorting them.
    """
    import numpy as np

    keys.sort()
    is_new = np.ones(len(keys) + 1, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=is_new[1:-1])
    places = is_new.nonzero()[0]
    return keys[places[:-1]], np.diff(places)


class _Numbers(dict[str, int]):
    """Numbers words in the order in which they come."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class _Occurrences(dict["Any", bytearray]):
    """The docnum of each occurrence of a word or key, as bytes, which the garbage collector does not traverse."""

    def __missing__(self, key: Any) -> bytearray:
        added = self[key] = bytearray()
        return added


class _Lists(dict[str, list[int]]):
    def __missing__(self, key: str) -> list[int]:
        added: list[int] = []
        self[key] = added
        return added


def segments_to_merge(sizes: Sequence[int]) -> int:
    """Return how many of the newest segments to merge into one, or 0; `sizes` has all, newest first."""
    bound = SMALL_SEGMENT
    while True:
        count = next((place for place, size in enumerate(sizes) if size > bound), len(sizes))
        if count >= FAN:
            return count
        if count == len(sizes):
            return 0
        bound *= FAN


def merge(segments: Sequence[Segment]) -> Segment:
    """Merge consecutive segments from which deleted documents have been removed."""
    lengths = [new_array("I") for _ in segments[0].lengths]
    created = new_array("q")
    first = segments[0].first_docnum
    for segment in segments:
        _pad(lengths, created, segment.first_docnum - first)
        for joined, own in zip(lengths, segment.lengths, strict=True):
            joined.extend(own)
        created.extend(segment.created_us)
    documents = sum(segment.documents for segment in segments)
    return Segment(first, segments[-1].last_docnum, documents, tuple(lengths), created)


def merge_postings(
    postings: Iterable[tuple[int, str, int, bytes]], deleted: frozenset[int], fields: int
) -> Iterator[Posting]:
    """Merge postings of several segments, ordered by kind, term and segment, without the deleted documents."""
    for (kind, term), group in groupby(postings, key=itemgetter(0, 1)):
        parts = [(size, data) for _, _, size, data in group]
        own = fields if kind == WORD else 0
        joined = _join_without(parts, own, deleted) if deleted else _join(parts, own)
        if joined[0]:
            yield Posting(kind, term, *joined)


def without(segment: Segment, deleted: Iterable[int]) -> Segment:
    """Return the segment without its deleted documents, which leave gaps."""
    lengths = tuple(new_array("I", own) for own in segment.lengths)
    created = new_array("q", segment.created_us)
    count = 0
    for docnum in deleted:
        for own in lengths:
            own[docnum - segment.first_docnum] = 0
        created[docnum - segment.first_docnum] = NO_TIME
        count += 1
    return segment._replace(documents=segment.documents - count, lengths=lengths, created_us=created)


def count_width(size: int, data: bytes, fields: int) -> int:
    """Return the width of the frequencies of a posting in bytes; raise ValueError if the posting is damaged."""
    if len(data) == size * (4 + fields):
        return 1
    if len(data) == size * (4 + 4 * fields):
        return 4
    raise ValueError(f"a posting of {size} documents has {len(data)} bytes")


def decode(posting: tuple[int, bytes], fields: int = 0) -> Columns:
    """Return the docnums of a posting, and for each field the frequency of the term in each document."""
    size, data = posting
    width = count_width(size, data, fields)
    code = "B" if width == 1 else "I"
    return decode_array("I", data[: 4 * size]), [
        decode_array(code, _counts_in(posting, width, field)) for field in range(fields)
    ]


def new_array(typecode: str, values: Iterable[int] = ()) -> array[int]:
    """Return an array. The import is here because a cold search without segments does not need it."""
    from array import array

    return array(typecode, values)


def encode_array(numbers: array[int]) -> bytes:
    """Return numbers as bytes, little-endian on every machine."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def decode_array(typecode: str, data: bytes) -> array[int]:
    """Return the numbers that `encode_array` wrote."""
    numbers = new_array(typecode)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _pad(lengths: Sequence[array[int]], created: array[int], size: int) -> None:
    """Fill columns with gaps up to a size."""
    missing = size - len(created)
    for own in lengths:
        own.extend(new_array("I", [0]) * missing)
    created.extend(new_array("q", [NO_TIME]) * missing)


def _encode_counts(columns: Sequence[Sequence[int]]) -> bytes:
    is_narrow = all(max(own, default=0) < 256 for own in columns)
    return b"".join([bytes(own) if is_narrow else encode_array(new_array("I", own)) for own in columns])


def _counts_in(posting: tuple[int, bytes], width: int, field: int) -> bytes:
    size, data = posting
    return data[size * (4 + width * field) : size * (4 + width * (field + 1))]


def _join(parts: list[tuple[int, bytes]], fields: int) -> tuple[int, bytes]:
    if len(parts) == 1:
        return parts[0]
    widths = {count_width(size, data, fields) for size, data in parts}
    if len(widths) > 1:
        parts = [_widen(part, fields) for part in parts]
    docnums = [data[: 4 * size] for size, data in parts]
    counts = [_counts_in(part, max(widths), field) for field in range(fields) for part in parts]
    return sum(size for size, _ in parts), b"".join(docnums + counts)


def _widen(posting: tuple[int, bytes], fields: int) -> tuple[int, bytes]:
    docnums, counts = decode(posting, fields)
    return len(docnums), b"".join(encode_array(new_array("I", own)) for own in (docnums, *counts))


def _join_without(parts: list[tuple[int, bytes]], fields: int, deleted: frozenset[int]) -> tuple[int, bytes]:
    docnums, counts = decode(_join(parts, fields), fields)
    alive = [place for place, docnum in enumerate(docnums) if docnum not in deleted]
    remaining, *columns = ([own[place] for place in alive] for own in (docnums, *counts))
    return len(remaining), encode_array(new_array("I", remaining)) + _encode_counts(columns)
