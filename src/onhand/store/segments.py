"""Segments in SQLite: writers build and merge them and remove deleted documents, searches read them.

Every function runs in the transaction of its caller.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge as merge_sorted
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from onhand.lexical import segment as segments
from onhand.lexical.index import IndexReader, Tail
from onhand.lexical.segment import (
    MAX_DELETED_SHARE,
    Posting,
    Row,
    Segment,
    SegmentBuilder,
    decode_array,
    encode_array,
    segments_to_merge,
)

if TYPE_CHECKING:
    from onhand.lexical.scoring import Ranking

MAX_TAIL_DOCUMENTS = 64  # in no segment yet: reading them costs each new process some milliseconds
MAX_TAIL_BYTES = 256 * 1024
MAX_BULK_DOCUMENTS = 65_536  # in no segment yet while more follow: building is faster in large steps
MAX_BULK_BYTES = 24 * 1024 * 1024  # of text, which bounds the memory that building a segment takes
MAX_DOCNUM = 2**32 - 1


class StoredSegment(NamedTuple):
    """A segment with its number and its tombstones."""

    number: int
    segment: Segment
    deleted: array[int]  # docnums whose postings are still there, ascending


class Snapshot(NamedTuple):
    """The index in one generation of the file. A segment is read again only when it changes."""

    generation: Any
    stored: dict[tuple[int, int], StoredSegment]  # number, bytes of tombstones → segment
    reader: IndexReader


def read_snapshot(
    connection: sqlite3.Connection, ranking: Ranking, generation: Any, previous: Snapshot | None
) -> Snapshot:
    """Read what changed since the previous snapshot."""
    known = previous.stored if previous else {}
    keys = connection.execute("SELECT number, length(deleted) FROM segments ORDER BY first_docnum").fetchall()
    stored = {key: known.get(key) or read_segment(connection, key[0]) for key in keys}
    deleted = [docnum for one in stored.values() for docnum in one.deleted]
    places = {number: place for place, (number, _) in enumerate(keys)}
    numbers = ",".join(map(str, places))
    statement = f"SELECT segment, size, data FROM postings WHERE segment IN ({numbers}) AND kind = ? AND term = ?"

    def fetch(kind: int, term: str) -> list[tuple[int, bytes]]:
        rows = connection.execute(statement, (kind, term))
        found = sorted((places[number], size, data) for number, size, data in rows)
        return [(size, data) for _, size, data in found]

    tail = Tail(ranking, read_rows(connection, ranking, last_docnum(connection) + 1, MAX_DOCNUM))
    reader = IndexReader(ranking, [one.segment for one in stored.values()], deleted, fetch, tail)
    return Snapshot(generation, stored, reader)


def index_tail(connection: sqlite3.Connection, ranking: Ranking) -> None:
    """Build a segment from the documents that are in none, if there are too many to be read at every start."""
    if is_overdue(connection):
        while _build_next(connection, ranking):
            pass
        _merge_newest(connection)


def is_overdue(connection: sqlite3.Connection) -> bool:
    """Return whether too many documents are in no segment."""
    if count_waiting(connection) > MAX_TAIL_DOCUMENTS:
        return True
    (waiting_bytes,) = connection.execute(
        "SELECT coalesce(sum(length(text) + length(title) + length(tags) + length(author)), 0) "
        "FROM documents WHERE docnum > ?",
        (last_docnum(connection),),
    ).fetchone()
    return bool(waiting_bytes > MAX_TAIL_BYTES)


def count_waiting(connection: sqlite3.Connection) -> int:
    """Return how many documents are in no segment, counting those that were deleted from among them."""
    (last,) = connection.execute("SELECT coalesce(max(docnum), 0) FROM documents").fetchone()
    return max(0, int(last) - last_docnum(connection))


def delete(connection: sqlite3.Connection, docnums: Iterable[int]) -> None:
    """Write tombstones for those of the documents that are in a segment."""
    last = last_docnum(connection)
    for number, tombstones in _group_by_segment(connection, [docnum for docnum in docnums if docnum <= last]).items():
        documents, data = connection.execute(
            "SELECT documents, deleted FROM segments WHERE number = ?", (number,)
        ).fetchone()
        deleted = decode_array("I", data)
        for docnum in tombstones:
            insort(deleted, docnum)
        connection.execute("UPDATE segments SET deleted = ? WHERE number = ?", (encode_array(deleted), number))
        if len(deleted) > documents * MAX_DELETED_SHARE:
            _merge(connection, [read_segment(connection, number)])


def rebuild(connection: sqlite3.Connection, ranking: Ranking) -> None:
    """Build every segment again from the documents."""
    connection.execute("DELETE FROM segments")
    connection.execute("DELETE FROM postings")
    while _build_next(connection, ranking):
        pass
    _merge_newest(connection)


def last_docnum(connection: sqlite3.Connection) -> int:
    """Return the last docnum that is in a segment."""
    last: int = connection.execute("SELECT coalesce(max(last_docnum), 0) FROM segments").fetchone()[0]
    return last


def read_rows(
    connection: sqlite3.Connection, ranking: Ranking, first: int, last: int, limit: int = -1
) -> Iterator[Row]:
    """Yield the parts that a segment indexes of the documents from one docnum to another."""
    metadata_column = "metadata" if ranking.reads_metadata() else "'{}'"
    found = connection.execute(
        f"SELECT docnum, title, text, {metadata_column}, author, tags, scope, created_us FROM documents "
        "WHERE docnum BETWEEN ? AND ? ORDER BY docnum LIMIT ?",
        (first, last, limit),
    )
    for docnum, title, text, metadata_json, author, tags, scope, created_us in found:
        metadata = json.loads(metadata_json) if metadata_json != "{}" else {}
        texts = ranking.texts(title, text.decode("utf-8", "replace"), metadata)
        yield Row(docnum, texts, author, json.loads(tags) if tags != "[]" else (), scope, created_us)


def read_segment(connection: sqlite3.Connection, number: int) -> StoredSegment:
    """Read a segment from the file."""
    first, last, documents, lengths, created, deleted = connection.execute(
        "SELECT first_docnum, last_docnum, documents, lengths, created_us, deleted FROM segments WHERE number = ?",
        (number,),
    ).fetchone()
    if len(created) != 8 * (last - first + 1) or first > last:
        raise ValueError(f"segment {number} is not what was written")  # checked before that much memory is allocated
    size = 4 * (last - first + 1)
    fields = tuple(decode_array("I", lengths[start : start + size]) for start in range(0, len(lengths), size))
    segment = Segment(first, last, documents, fields, decode_array("q", created))
    return StoredSegment(number, segment, decode_array("I", deleted))


def read_postings(connection: sqlite3.Connection, number: int) -> Iterable[tuple[int, str, int, bytes]]:
    """Return the postings of a segment, ordered by kind and term."""
    return connection.execute(
        "SELECT kind, term, size, data FROM postings WHERE segment = ? ORDER BY kind, term", (number,)
    )


def _build_next(connection: sqlite3.Connection, ranking: Ranking) -> bool:
    """Build a segment from the next documents that are in none, and return whether there were any."""
    first = last_docnum(connection) + 1
    waiting = read_rows(connection, ranking, first, MAX_DOCNUM, MAX_BULK_DOCUMENTS)
    earliest = next(waiting, None)
    if earliest is None:
        return False
    built = SegmentBuilder(ranking, chain([earliest], waiting))
    _insert(connection, built.segment, built.postings())
    return True


def _insert(connection: sqlite3.Connection, segment: Segment, postings: Iterable[Posting]) -> None:
    lengths = b"".join(encode_array(array("I", own)) for own in segment.lengths)
    created = encode_array(array("q", segment.created_us))
    number = connection.execute(
        "INSERT INTO segments (first_docnum, last_docnum, documents, lengths, created_us, deleted) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (segment.first_docnum, segment.last_docnum, segment.documents, lengths, created, b""),
    ).lastrowid
    connection.executemany(
        "INSERT INTO postings (segment, kind, term, size, data) VALUES (?, ?, ?, ?, ?)",
        ((number, kind, term, size, data) for kind, term, size, data in postings),
    )


def _merge_newest(connection: sqlite3.Connection) -> None:
    """Merge the newest segments as long as there are many of a size."""
    while True:
        sizes = connection.execute("SELECT number, documents FROM segments ORDER BY first_docnum DESC").fetchall()
        count = segments_to_merge([documents for _, documents in sizes])
        if not count:
            return
        _merge(connection, [read_segment(connection, number) for number, _ in reversed(sizes[:count])])


def _merge(connection: sqlite3.Connection, old: Sequence[StoredSegment]) -> None:
    """Replace consecutive segments by one without their deleted documents."""
    deleted = frozenset(docnum for one in old for docnum in one.deleted)
    merged = segments.merge([segments.without(one.segment, one.deleted) for one in old])
    numbers = ",".join(str(one.number) for one in old)
    if merged.documents:
        # Each is already in order, so merging them here saves SQLite from sorting everything.
        ordered = [read_postings(connection, one.number) for one in old]
        postings = merge_sorted(*ordered, key=itemgetter(0, 1))  # stable: those of an earlier segment come first
        _insert(connection, merged, segments.merge_postings(postings, deleted, len(merged.lengths)))
    connection.execute(f"DELETE FROM postings WHERE segment IN ({numbers})")
    connection.execute(f"DELETE FROM segments WHERE number IN ({numbers})")


def _group_by_segment(connection: sqlite3.Connection, docnums: Iterable[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for docnum in docnums:
        number = connection.execute(
            "SELECT number FROM segments WHERE first_docnum <= ? ORDER BY first_docnum DESC LIMIT 1", (docnum,)
        ).fetchone()
        if number:
            found.setdefault(number[0], []).append(docnum)
    return found
