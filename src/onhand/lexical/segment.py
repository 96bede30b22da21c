"""Where do terms occur, in a form that can be kept? Postings of a run of documents, built once and then only merged.

A document is a slot: a number that only grows, so that what is in a later segment has the larger slots and postings of
several segments are joined by putting one behind the other. Knows nothing of scores, nor of where bytes are kept.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from operator import itemgetter

from onhand.document import author_keys
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.lexical.ranking import Ranking

# What a posting is of. Only those of words say how often; EVERY has one posting, of the term "": all documents.
WORD, AUTHOR, TAG, SCOPE, EVERY = 0, 100, 101, 102, 103
NO_TIME = -(2**63)  # of a document that has none: earlier than any


class Row(Record):
    """What a segment takes of a document."""

    slot: int
    texts: tuple[str, ...]  # one for each field
    author: str
    tags: Sequence[str]
    scope: str
    created_us: int | None


class Posting(Record):
    """The slots that have a term, ascending, and how often in each field; `data` has both, little-endian."""

    kind: int
    term: str
    size: int  # how many slots
    data: bytes  # size × 4 bytes of slots; of a word then, for each field, size × 1 or 4 bytes of how often


class Segment(Record):
    """A run of documents without their postings."""

    first_slot: int
    last_slot: int
    documents: int
    lengths: tuple[array[int], ...]  # for each field, in words, by slot - first_slot; 0 where there is no document
    created_us: array[int]  # by slot - first_slot


def build(rows: Iterable[Row], ranks: Ranking) -> tuple[Segment, list[Posting]]:
    """A segment of documents in the order of their slots; there must be one at least."""
    postings: dict[int, defaultdict[str, array[int]]] = {
        kind: defaultdict(partial(array, "I")) for kind in (WORD, AUTHOR, TAG, SCOPE, EVERY)
    }
    fields, readers = len(ranks.fields), ranks.readers()
    lengths = tuple(array("I") for _ in range(fields))
    created = array("q")
    forms = _Forms(ranks.tokenizer.forms)
    first = last = documents = 0
    for slot, texts, author, tags, scope, created_us in rows:
        first = first or slot
        _pad(lengths, created, slot - first)  # where documents were
        last, documents = slot, documents + 1
        created.append(NO_TIME if created_us is None else created_us)
        words = [read(text) for read, text in zip(readers, texts, strict=True)]
        for own, those in zip(lengths, words, strict=True):
            own.append(len(those))
        counts = [_counts(those, forms) for those in words]
        for term in set().union(*counts):
            entry = postings[WORD][term]
            entry.append(slot)
            for count in counts:
                entry.append(count.get(term, 0))
        for key in author_keys(author):
            postings[AUTHOR][key].append(slot)
        for tag in dict.fromkeys(tags):
            postings[TAG][tag].append(slot)
        postings[SCOPE][scope].append(slot)
        postings[EVERY][""].append(slot)
    encoded = [
        _encoded(kind, term, entry, 1 + counted_fields(kind, fields))
        for kind, entries in postings.items()
        for term, entry in sorted(entries.items())
    ]
    return Segment(first, last, documents, lengths, created), encoded


def counted_fields(kind: int, fields: int) -> int:
    """For how many fields a posting of that kind has counts."""
    return fields if kind == WORD else 0


def count_bytes(size: int, data: bytes, fields: int) -> int:
    """How many bytes each count of a posting has; refuses what cannot have been written."""
    if len(data) == size * (4 + fields):
        return 1
    if len(data) == size * (4 + 4 * fields):
        return 4
    raise ValueError(f"a posting of {size} slots has {len(data)} bytes")


def decode(posting: tuple[int, bytes], fields: int = 0) -> tuple[array[int], list[array[int]]]:
    """The slots of a posting, and for each field how often each slot has the term there."""
    size, data = posting
    width = count_bytes(size, data, fields)
    code = "B" if width == 1 else "I"
    counts = [numbers(code, _counts_in(posting, width, field)) for field in range(fields)]
    return numbers("I", data[: 4 * size]), counts


def merge(segments: Sequence[Segment]) -> Segment:
    """One segment of several that follow each other; what is dead in them must be gone already."""
    fields = len(segments[0].lengths)
    lengths = tuple(array("I") for _ in range(fields))
    created = array("q")
    first = segments[0].first_slot
    for segment in segments:
        _pad(lengths, created, segment.first_slot - first)
        for joined, own in zip(lengths, segment.lengths, strict=True):
            joined.extend(own)
        created.extend(segment.created_us)
    documents = sum(segment.documents for segment in segments)
    return Segment(first, segments[-1].last_slot, documents, lengths, created)


def merge_postings(
    postings: Iterable[tuple[int, str, int, bytes]], dead: frozenset[int], fields: int
) -> Iterator[Posting]:
    """Postings of several segments, ordered by kind, term and segment, as those of one, without the dead."""
    for (kind, term), group in groupby(postings, key=itemgetter(0, 1)):
        parts = [(size, data) for _, _, size, data in group]
        own = counted_fields(kind, fields)
        joined = _joined(parts, own) if not dead else _joined_without(parts, own, dead)
        if joined[0]:
            yield Posting(kind, term, *joined)


def without(segment: Segment, dead: Iterable[int]) -> Segment:
    """The segment with holes where the dead were."""
    lengths = tuple(array("I", own) for own in segment.lengths)
    created = array("q", segment.created_us)
    gone = 0
    for slot in dead:
        for own in lengths:
            own[slot - segment.first_slot] = 0
        created[slot - segment.first_slot] = NO_TIME
        gone += 1
    return segment._replace(documents=segment.documents - gone, lengths=lengths, created_us=created)


class _Forms(dict[str, tuple[str, ...]]):
    """The forms of each word that was met."""

    def __init__(self, find: Callable[[str], tuple[str, ...]]) -> None:
        self._find = find

    def __missing__(self, word: str) -> tuple[str, ...]:
        found = self[word] = self._find(word)
        return found


def _counts(words: list[str], forms: Mapping[str, tuple[str, ...]]) -> Mapping[str, int]:
    """How often each term occurs among words."""
    return Counter(chain.from_iterable(map(forms.__getitem__, words)))


def _pad(lengths: tuple[array[int], ...], created: array[int], size: int) -> None:
    """Fill up to a size with holes."""
    missing = size - len(created)
    for own in lengths:
        own.extend(array("I", [0]) * missing)
    created.extend(array("q", [NO_TIME]) * missing)


def _encoded(kind: int, term: str, entries: array[int], step: int) -> Posting:
    """A posting of entries that have a slot and its counts one after the other."""
    slots, *counts = (entries[start::step] for start in range(step))
    return Posting(kind, term, len(slots), little(slots) + _spelled_counts(counts))


def _spelled_counts(counts: Sequence[array[int]]) -> bytes:
    is_narrow = all(max(own, default=0) < 256 for own in counts)
    return b"".join(bytes(own.tolist()) if is_narrow else little(array("I", own)) for own in counts)


def _counts_in(posting: tuple[int, bytes], width: int, field: int) -> bytes:
    size, data = posting
    return data[size * (4 + width * field) : size * (4 + width * (field + 1))]


def _joined(parts: list[tuple[int, bytes]], fields: int) -> tuple[int, bytes]:
    if len(parts) == 1:
        return parts[0]
    widths = {count_bytes(size, data, fields) for size, data in parts}
    if len(widths) > 1:
        parts = [_widened(part, fields) for part in parts]
    slots = [data[: 4 * size] for size, data in parts]
    counts = [_counts_in(part, max(widths), field) for field in range(fields) for part in parts]
    return sum(size for size, _ in parts), b"".join(slots + counts)


def _widened(posting: tuple[int, bytes], fields: int) -> tuple[int, bytes]:
    slots, counts = decode(posting, fields)
    return len(slots), b"".join(little(array("I", own)) for own in (slots, *counts))


def _joined_without(parts: list[tuple[int, bytes]], fields: int, dead: frozenset[int]) -> tuple[int, bytes]:
    slots, counts = decode(_joined(parts, fields), fields)
    kept = [place for place, slot in enumerate(slots) if slot not in dead]
    left, *often = (array("I", [own[place] for place in kept]) for own in (slots, *counts))
    return len(left), little(left) + _spelled_counts(often)


def little(given: array[int]) -> bytes:
    """Numbers as bytes, little-endian on every machine."""
    if sys.byteorder == "big":
        given = given[:]
        given.byteswap()
    return given.tobytes()


def numbers(typecode: str, data: bytes) -> array[int]:
    """What `little` spelled."""
    read = array(typecode)
    read.frombytes(data)
    if sys.byteorder == "big":
        read.byteswap()
    return read
