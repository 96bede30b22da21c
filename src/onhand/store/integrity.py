"""Is a file still what was written? SQLite checks its pages' order; whether their content is ours, we check."""

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

MAX_NAMED = 20  # of a kind: the first few tell what happened

REBUILD = "run `onhand docs check --rebuild`"
IMPORT = "delete it with `onhand docs delete`, and import it again"
RESTORE = "restore a copy, or import the documents into a new file"
REEMBED = "run `onhand docs reembed`"


def damages(connection: sqlite3.Connection, ranks: Ranking) -> list[Damage]:
    """What is not as it was written, by looking at every byte."""
    found: list[Damage] = []
    parts = (
        (_pages(connection), RESTORE),
        (_documents(connection), RESTORE),
        (_vectors(connection), RESTORE),
        (_terms(connection, ranks), REBUILD),
    )
    for part, advice in parts:
        named = 0
        for damage in _readable(part, advice):
            named += 1
            if named <= MAX_NAMED:
                found.append(damage)
        if named > MAX_NAMED:
            found.append(Damage(f"and {named - MAX_NAMED} more like it", found[-1].advice))
    return found


def _readable(part: Iterator[Damage], advice: str) -> Iterator[Damage]:
    """The damages of a part; that it cannot be read to its end is one of them."""
    try:
        yield from part
    except (StoreError, sqlite3.Error, *UNREADABLE) as error:
        yield Damage(f"what is kept cannot be read: {error}", advice)


def _pages(connection: sqlite3.Connection) -> Iterator[Damage]:
    for (said,) in connection.execute("PRAGMA integrity_check"):
        if said != "ok":
            yield Damage(f"SQLite: {said}", RESTORE)


def _documents(connection: sqlite3.Connection) -> Iterator[Damage]:
    for row in connection.execute(f"SELECT hash, {DOCUMENT} FROM documents ORDER BY docnum"):
        try:
            is_whole = content_hash(to_document(row[1:])) == row[0]
        except UNREADABLE:
            is_whole = False
        if not is_whole:
            yield Damage(f"document {row[1]!r} is not what was written", IMPORT)


def _vectors(connection: sqlite3.Connection) -> Iterator[Damage]:
    joined = connection.execute(
        "SELECT id, has_vector, checksum, data FROM documents LEFT JOIN vectors USING (docnum) ORDER BY docnum"
    )
    for document_id, has_vector, checksum, data in joined:
        if bool(has_vector) != (data is not None):
            yield Damage(
                f"document {document_id!r} {'lost its vector' if has_vector else 'has a stray vector'}", IMPORT
            )
        elif data is not None and crc32(data) != checksum:
            yield Damage(f"the vector of document {document_id!r} is not what was written", IMPORT)
    strays = "SELECT count(*) FROM vectors WHERE docnum NOT IN (SELECT docnum FROM documents)"
    (count,) = connection.execute(strays).fetchone()
    if count:
        yield Damage(f"{count} vectors have no document", REEMBED)


def _terms(connection: sqlite3.Connection, ranks: Ranking) -> Iterator[Damage]:
    """What the documents of each segment would have been indexed as, against what is there."""
    covered = 0
    for (number,) in connection.execute("SELECT number FROM segments ORDER BY first_docnum").fetchall():
        kept = stored_segments.read_segment(connection, number)
        first, last = kept.segment.first_docnum, kept.segment.last_docnum
        rows = list(stored_segments.read_rows(connection, ranks, first, last))
        covered += len(rows)
        there = segments.without(kept.segment, kept.deleted)
        postings = stored_segments.read_postings(connection, number)
        found = list(segments.merge_postings(postings, frozenset(kept.deleted), len(ranks.fields)))
        if rows:
            builder = segments.SegmentBuilder(ranks, rows)
            built, wanted = builder.segment, list(builder.postings())
        else:
            built, wanted = there, []
        if found != wanted or there.documents != len(rows) or not _agree(built, there):
            yield Damage(f"the words of documents in docnums {first} to {last} are not those of the documents", REBUILD)
    (expected,) = connection.execute(
        "SELECT count(*) FROM documents WHERE docnum <= ?", (stored_segments.last_docnum(connection),)
    ).fetchone()
    if covered != expected:
        yield Damage(f"{expected - covered} documents cannot be found by their words", REBUILD)
    orphans = "SELECT count(*) FROM postings WHERE segment NOT IN (SELECT number FROM segments)"
    (count,) = connection.execute(orphans).fetchone()
    if count:
        yield Damage(f"{count} postings belong to no segment", REBUILD)


def _agree(built: segments.Segment, there: segments.Segment) -> bool:
    """Whether lengths and times are the same; a segment may begin and end with holes."""
    start = built.first_docnum - there.first_docnum
    end = start + built.last_docnum - built.first_docnum + 1
    return built.created_us == there.created_us[start:end] and all(
        own == other[start:end] and sum(own) == sum(other)
        for own, other in zip(built.lengths, there.lengths, strict=True)
    )
