"""What stands in the tables of a file: documents as rows, facts, tallies, and ids in an order.

Each function is a statement or two on an open connection. Who opens it, and when a transaction begins and ends, is the
business of onhand.store.sqlite; the tables themselves are in onhand.store.schema.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from onhand.document import Document, microseconds, time_of
from onhand.store.entry import TALLIED, Entry, Tally, content_hash

if TYPE_CHECKING:
    from array import array

    from onhand.lexical.searcher import Searcher

MANY_TIES = 1000  # equal scores at the border: then ids are walked in their order, instead of reading all of these

DOCUMENT = "id, title, text, author, tags, scope, created_us, metadata, kind, source_path"
HEAD = "id, title, substr(text, 1, ?), author, tags, scope, created_us, kind, source_path"


def find(connection: sqlite3.Connection, document_id: str) -> tuple[int, str, int | None] | None:
    """Slot, hash and checksum of the vector, of a document."""
    found: tuple[int, str, int | None] | None = connection.execute(
        "SELECT slot, hash, checksum FROM documents LEFT JOIN vectors USING (slot) WHERE id = ?", (document_id,)
    ).fetchone()
    return found


class Row(NamedTuple):
    """An entry as it is kept."""

    id: str
    values: tuple[Any, ...]  # of DOCUMENT
    digest: str
    vector: bytes | None


def row_of(entry: Entry) -> Row:
    document, vector = entry
    values = (
        document.id,
        document.title,
        document.text.encode(),
        document.author,
        json.dumps(document.tags, ensure_ascii=False),
        document.scope,
        None if document.created_time is None else microseconds(document.created_time),
        json.dumps(document.metadata, ensure_ascii=False),
        document.kind,
        document.source_path,
    )
    return Row(document.id, values, content_hash(document), None if vector is None else _spelled(vector))


def put(connection: sqlite3.Connection, row: Row) -> int | None:
    """Keep a document; the slot of the one that it replaces. One that is there unchanged stays as it is."""
    there = find(connection, row.id)
    checksum = None if row.vector is None else crc32(row.vector)
    if there and there[1:] == (row.digest, checksum):
        return None
    if there:
        drop(connection, there[0])
    slot = connection.execute(
        f"INSERT INTO documents ({DOCUMENT}, hash, has_vector) VALUES ({', '.join('?' * 12)})",
        (*row.values, row.digest, row.vector is not None),
    ).lastrowid
    if row.vector is not None:
        connection.execute("INSERT INTO vectors (slot, checksum, data) VALUES (?, ?, ?)", (slot, checksum, row.vector))
    return there[0] if there else None


def _spelled(vector: array[float]) -> bytes:
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector.tobytes()


def drop(connection: sqlite3.Connection, slot: int) -> None:
    connection.execute("DELETE FROM documents WHERE slot = ?", (slot,))
    connection.execute("DELETE FROM vectors WHERE slot = ?", (slot,))


def document_of(row: Sequence[Any]) -> Document:
    document_id, title, text, author, tags, scope, created_us, metadata, kind, source_path = row
    return Document(
        document_id,
        title,
        text.decode("utf-8", "replace"),
        author,
        tuple(json.loads(tags)),
        scope,
        None if created_us is None else time_of(created_us),
        json.loads(metadata),
        kind,
        source_path,
    )


def made_by(connection: sqlite3.Connection) -> str | None:
    """The name of the ranking that the terms of a file are of."""
    found = connection.execute("SELECT value FROM facts WHERE name = 'store.ranking'").fetchone()
    return found[0] if found else None


def facts(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, value FROM facts WHERE name NOT LIKE 'store.%'"))


def note(connection: sqlite3.Connection, facts: Mapping[str, str]) -> None:
    connection.executemany("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", facts.items())


def next_generation(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO facts (name, value) VALUES ('store.generation', '1') "
        "ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
    )


def tag_tally(connection: sqlite3.Connection) -> Tally:
    """Counted here: SQLite's own reader of JSON ends a text at a NUL."""
    spelled = connection.execute("SELECT tags FROM documents WHERE tags != '[]'")
    counts = Counter(tag for (tags,) in spelled for tag in json.loads(tags) if tag)
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return Tally(tuple(most[:TALLIED]), len(most))


def tally(connection: sqlite3.Connection, values: str) -> Tally:
    counted = f"SELECT value, count(*) AS number FROM ({values}) WHERE value != '' GROUP BY value"
    most = connection.execute(f"{counted} ORDER BY number DESC, value LIMIT {TALLIED}").fetchall()
    (distinct,) = connection.execute(f"SELECT count(*) FROM ({counted})").fetchone()
    return Tally(tuple(most), distinct)


def count_vectors(connection: sqlite3.Connection, searcher: Searcher) -> int:
    (without,) = connection.execute("SELECT count(*) FROM documents WHERE has_vector = 0").fetchone()
    return searcher.documents - int(without)


def new_copy() -> dict[str, str]:
    """The fact by which a copy of the vectors that was made before is known to be of others."""
    from secrets import token_hex

    return {"store.vectors": token_hex(8)}


def ranked(
    connection: sqlite3.Connection, found: Sequence[tuple[int, float]], limit: int
) -> list[tuple[str, int, float]]:
    """Id, slot and score of the best, by descending score, then id; `found` is by descending score."""
    if not found or limit < 1:
        return []
    least = found[:limit][-1][1]
    better = [(slot, score) for slot, score in found if score > least]
    equal = {slot for slot, score in found if score == least}
    few = equal if len(equal) <= MANY_TIES else set()
    ids = ids_of(connection, [slot for slot, _ in better] + list(few))
    named = sorted(((ids[slot], slot, score) for slot, score in better), key=lambda one: (-one[2], one[0]))
    if few:
        last = sorted((ids[slot], slot) for slot in few)
    else:
        ordered = connection.execute("SELECT id, slot FROM documents ORDER BY id")
        last = []
        for document_id, slot in ordered:
            if slot in equal:
                last.append((document_id, slot))
                if len(last) + len(named) >= limit:
                    break
    return (named + [(document_id, slot, least) for document_id, slot in last])[:limit]


def ids_of(connection: sqlite3.Connection, slots: Sequence[int]) -> dict[int, str]:
    wanted = "SELECT slot, id FROM documents WHERE slot IN (SELECT value FROM json_each(?))"
    return dict(connection.execute(wanted, (json.dumps(slots),)))


def walk(connection: sqlite3.Connection, ordered: str, wanted: Collection[int], limit: int, offset: int) -> list[str]:
    """Some ids of an ordered query, of the wanted slots only."""
    ids = (document_id for document_id, slot in connection.execute(ordered) if slot in wanted)
    return list(islice(ids, offset, offset + limit))
