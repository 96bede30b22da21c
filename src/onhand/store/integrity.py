"""Check that a file contains what was written: SQLite checks the structure of its pages, this module their content."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING
from zlib import crc32

from onhand.errors import StoreError
from onhand.lexical import segment as segments
from onhand.store import segments as stored_segments
from onhand.store.sqlite import DOCUMENT, to_document
from onhand.store.sqlite_file import UNREADABLE
from onhand.store.store import Damage, content_hash

if TYPE_CHECKING:
    from onhand.lexical.scoring import Ranking

MAX_REPORTED = 20  # damages of one kind

REBUILD = "run `onhand docs check --rebuild`"
IMPORT = "delete it with `onhand docs delete`, and import it again"
RESTORE = "restore a backup, or import the documents into a new file"
REEMBED = "run `onhand docs reembed`"


def find_damages(connection: sqlite3.Connection, ranking: Ranking) -> list[Damage]:
    """Return everything that is not as it was written, by reading every byte."""
    found: list[Damage] = []
    parts = (
        (_check_pages(connection), RESTORE),
        (_check_documents(connection), RESTORE),
        (_check_vectors(connection), RESTORE),
        (_check_segments(connection, ranking), REBUILD),
    )
    for part, advice in parts:
        count = 0
        for damage in _report_unreadable(part, advice):
            count += 1
            if count <= MAX_REPORTED:
                found.append(damage)
        if count > MAX_REPORTED:
            found.append(Damage(f"and {count - MAX_REPORTED} more like it", found[-1].advice))
    return found


def _report_unreadable(part: Iterator[Damage], advice: str) -> Iterator[Damage]:
    """Yield the damages of a part; an error while reading it is one of them."""
    try:
        yield from part
    except (StoreError, sqlite3.Error, *UNREADABLE) as error:
        yield Damage(f"the content cannot be read: {error}", advice)


def _check_pages(connection: sqlite3.Connection) -> Iterator[Damage]:
    for (message,) in connection.execute("PRAGMA integrity_check"):
        if message != "ok":
            yield Damage(f"SQLite: {message}", RESTORE)


def _check_documents(connection: sqlite3.Connection) -> Iterator[Damage]:
    for row in connection.execute(f"SELECT hash, {DOCUMENT} FROM documents ORDER BY docnum"):
        try:
            is_intact = content_hash(to_document(row[1:])) == row[0]
        except UNREADABLE:
            is_intact = False
        if not is_intact:
            yield Damage(f"document {row[1]!r} is not what was written", IMPORT)


def _check_vectors(connection: sqlite3.Connection) -> Iterator[Damage]:
    joined = connection.execute(
        "SELECT id, documents.passages, checksum, vectors.passages, data "
        "FROM documents LEFT JOIN vectors USING (docnum) ORDER BY docnum"
    )
    for document_id, count, checksum, passages, data in joined:
        if bool(count) != (data is not None):
            yield Damage(f"document {document_id!r} {'lost its vector' if count else 'has a stray vector'}", IMPORT)
        elif data is not None and crc32(data, crc32(passages or b"")) != checksum:
            yield Damage(f"the vector of document {document_id!r} is not what was written", IMPORT)
    strays = "SELECT count(*) FROM vectors WHERE docnum NOT IN (SELECT docnum FROM documents)"
    (count,) = connection.execute(strays).fetchone()
    if count:
        yield Damage(f"{count} vectors have no document", REEMBED)


def _check_segments(connection: sqlite3.Connection, ranking: Ranking) -> Iterator[Damage]:
    """Compare each segment with one that is built again from its documents."""
    covered = 0
    for (number,) in connection.execute("SELECT number FROM segments ORDER BY first_docnum").fetchall():
        stored = stored_segments.read_segment(connection, number)
        first, last = stored.segment.first_docnum, stored.segment.last_docnum
        rows = list(stored_segments.read_rows(connection, ranking, first, last))
        covered += len(rows)
        remaining = segments.without(stored.segment, stored.deleted)
        postings = stored_segments.read_postings(connection, number)
        found = list(segments.merge_postings(postings, frozenset(stored.deleted), len(ranking.fields)))
        if rows:
            builder = segments.SegmentBuilder(ranking, rows)
            built, expected_postings = builder.segment, list(builder.postings())
        else:
            built, expected_postings = remaining, []
        if found != expected_postings or remaining.documents != len(rows) or not _is_equal(built, remaining):
            yield Damage(f"the segment of docnums {first} to {last} does not match its documents", REBUILD)
    (expected,) = connection.execute(
        "SELECT count(*) FROM documents WHERE docnum <= ?", (stored_segments.last_docnum(connection),)
    ).fetchone()
    if covered != expected:
        yield Damage(f"{expected - covered} documents are in no segment and cannot be found by words", REBUILD)
    orphans = "SELECT count(*) FROM postings WHERE segment NOT IN (SELECT number FROM segments)"
    (count,) = connection.execute(orphans).fetchone()
    if count:
        yield Damage(f"{count} postings belong to no segment", REBUILD)


def _is_equal(built: segments.Segment, remaining: segments.Segment) -> bool:
    """Return whether lengths and times are equal; a segment may begin and end with deleted documents."""
    start = built.first_docnum - remaining.first_docnum
    end = start + built.last_docnum - built.first_docnum + 1
    return built.created_us == remaining.created_us[start:end] and all(
        own == other[start:end] and sum(own) == sum(other)
        for own, other in zip(built.lengths, remaining.lengths, strict=True)
    )
