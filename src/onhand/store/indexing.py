"""How do documents in SQLite become findable by their words? Segments: built, merged and freed of the dead.

Every function runs inside the transaction of its caller.
"""

from __future__ import annotations

import json
from array import array
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING

from onhand.lexical import segment as segments
from onhand.lexical.segment import Posting, Row, Segment, little, numbers
from onhand.record import Record

if TYPE_CHECKING:
    import sqlite3

    from onhand.lexical.ranking import Ranking

MAX_TAIL_DOCUMENTS = 64  # that wait for a segment: reading them costs each new process some milliseconds
MAX_TAIL_BYTES = 256 * 1024
MAX_BULK_DOCUMENTS = 65_536  # that wait while more are on their way: building is faster in large steps
MAX_BULK_BYTES = 64 * 1024 * 1024
FAN = 8  # segments of a size that become one of the next
MAX_DEAD_SHARE = 0.25  # of a segment; then it is written without its dead


class Stored(Record):
    """A segment with its number and its dead."""

    number: int
    segment: Segment
    dead: array[int]  # slots whose postings are still there, ascending


def index_tail(connection: sqlite3.Connection, ranks: Ranking, more: bool = False) -> None:
    """Make a segment of the documents that are in none, if there are too many of them to be read at every start.

    With `more` others follow at once, so that it can wait.
    """
    if is_overdue(connection, more):
        while _build_next(connection, ranks):
            pass
        _merge_sizes(connection)


def is_overdue(connection: sqlite3.Connection, more: bool = False) -> bool:
    """Whether too many documents are in no segment."""
    most, most_bytes = (MAX_BULK_DOCUMENTS, MAX_BULK_BYTES) if more else (MAX_TAIL_DOCUMENTS, MAX_TAIL_BYTES)
    waiting, waiting_bytes = connection.execute(
        "SELECT count(*), coalesce(sum(length(text) + length(title) + length(tags) + length(author)), 0) "
        "FROM documents WHERE slot > ?",
        (last_slot(connection),),
    ).fetchone()
    return bool(waiting > most or waiting_bytes > most_bytes)


def bury(connection: sqlite3.Connection, slots: Iterable[int]) -> None:
    """Note that documents are gone whose postings are still in a segment."""
    last = last_slot(connection)
    for number, gone in _by_segment(connection, [slot for slot in slots if slot <= last]).items():
        documents, data = connection.execute(
            "SELECT documents, dead FROM segments WHERE number = ?", (number,)
        ).fetchone()
        dead = numbers("I", data)
        for slot in gone:
            insort(dead, slot)
        connection.execute("UPDATE segments SET dead = ? WHERE number = ?", (little(dead), number))
        if len(dead) > documents * MAX_DEAD_SHARE:
            _merge(connection, [stored(connection, number)])


def rebuild(connection: sqlite3.Connection, ranks: Ranking) -> None:
    """Make every segment anew."""
    connection.execute("DELETE FROM segments")
    connection.execute("DELETE FROM postings")
    while _build_next(connection, ranks):
        pass
    _merge_sizes(connection)


def last_slot(connection: sqlite3.Connection) -> int:
    """The last slot that is in a segment."""
    last: int = connection.execute("SELECT coalesce(max(last_slot), 0) FROM segments").fetchone()[0]
    return last


def rows(connection: sqlite3.Connection, ranks: Ranking, first: int, last: int, most: int = -1) -> Iterator[Row]:
    """What a segment takes of the documents from one slot to another."""
    metadata = "metadata" if ranks.reads_metadata() else "'{}'"
    found = connection.execute(
        f"SELECT slot, title, text, {metadata}, author, tags, scope, created_us FROM documents "
        "WHERE slot BETWEEN ? AND ? ORDER BY slot LIMIT ?",
        (first, last, most),
    )
    for slot, title, text, more, author, tags, scope, created_us in found:
        texts = ranks.texts(title, text.decode("utf-8", "replace"), json.loads(more))
        yield Row(slot, tuple(texts.values()), author, json.loads(tags), scope, created_us)


def stored(connection: sqlite3.Connection, number: int) -> Stored:
    """A segment as it is in the file."""
    first, last, documents, lengths, created, dead = connection.execute(
        "SELECT first_slot, last_slot, documents, lengths, created_us, dead FROM segments WHERE number = ?", (number,)
    ).fetchone()
    if len(created) != 8 * (last - first + 1) or first > last:
        raise ValueError(f"segment {number} is not what was written")  # before memory is taken for what it says
    size = 4 * (last - first + 1)
    fields = tuple(numbers("I", lengths[start : start + size]) for start in range(0, len(lengths), size))
    return Stored(number, Segment(first, last, documents, fields, numbers("q", created)), numbers("I", dead))


MAX_SLOT = 2**32 - 1


def _build_next(connection: sqlite3.Connection, ranks: Ranking) -> bool:
    """Build a segment of the next documents that are in none; whether there were any."""
    first = last_slot(connection) + 1
    waiting = list(rows(connection, ranks, first, MAX_SLOT, MAX_BULK_DOCUMENTS))
    if not waiting:
        return False
    built, postings = segments.build(waiting, ranks)
    _insert(connection, built, postings)
    return True


def _insert(connection: sqlite3.Connection, built: Segment, postings: Iterable[Posting]) -> None:
    lengths = b"".join(little(own) for own in built.lengths)
    number = connection.execute(
        "INSERT INTO segments (first_slot, last_slot, documents, lengths, created_us, dead) VALUES (?, ?, ?, ?, ?, ?)",
        (built.first_slot, built.last_slot, built.documents, lengths, little(built.created_us), b""),
    ).lastrowid
    connection.executemany(
        "INSERT INTO postings (segment, kind, term, size, data) VALUES (?, ?, ?, ?, ?)",
        ((number, kind, term, size, data) for kind, term, size, data in postings),
    )


def _merge_sizes(connection: sqlite3.Connection) -> None:
    """Merge the newest segments while there are many of a size."""
    size = MAX_TAIL_DOCUMENTS
    while True:
        sizes = connection.execute("SELECT number, documents FROM segments ORDER BY first_slot DESC").fetchall()
        newest = []
        for number, documents in sizes:
            if documents > size:
                break
            newest.append(number)
        if len(newest) >= FAN:
            _merge(connection, [stored(connection, number) for number in reversed(newest)])
        elif len(newest) == len(sizes):
            return
        size *= FAN


def _merge(connection: sqlite3.Connection, old: Sequence[Stored]) -> None:
    """Put one segment without the dead in place of some that follow each other."""
    dead = frozenset(slot for one in old for slot in one.dead)
    merged = segments.merge([segments.without(one.segment, one.dead) for one in old])
    own = ",".join(str(one.number) for one in old)
    if merged.documents:
        # Each is in order already: to merge them here spares SQLite the sorting of everything.
        ordered = [
            connection.execute(
                "SELECT kind, term, size, data FROM postings WHERE segment = ? ORDER BY kind, term", (one.number,)
            )
            for one in old
        ]
        postings = merge(*ordered, key=itemgetter(0, 1))  # stable: what comes from an earlier segment comes first
        _insert(connection, merged, segments.merge_postings(postings, dead, len(merged.lengths)))
    connection.execute(f"DELETE FROM postings WHERE segment IN ({own})")
    connection.execute(f"DELETE FROM segments WHERE number IN ({own})")


def _by_segment(connection: sqlite3.Connection, slots: Iterable[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for slot in slots:
        number = connection.execute(
            "SELECT number FROM segments WHERE first_slot <= ? ORDER BY first_slot DESC LIMIT 1", (slot,)
        ).fetchone()
        if number:
            found.setdefault(number[0], []).append(slot)
    return found
