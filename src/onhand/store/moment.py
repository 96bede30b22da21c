"""What does a search look into? The words of a file as of one generation.

Segments stay as they were read until they change, so that a new generation costs what is new in it. Documents that no
segment holds yet are indexed here, in memory.
"""

from __future__ import annotations

import sqlite3
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from onhand.lexical import segment as segments
from onhand.lexical.plain_searcher import PlainSearcher
from onhand.lexical.ranking import Ranking
from onhand.store import indexing

if TYPE_CHECKING:
    from onhand.lexical.numpy_searcher import NumpySearcher
    from onhand.lexical.searcher import Searcher

NUMPY_PAYS = 20_000  # documents from which on a search gains more than the import of numpy costs


class Moment(NamedTuple):
    """The index as of one generation."""

    generation: Any
    stored: dict[tuple[int, int], indexing.Stored]  # number, dead → segment
    searcher: Searcher


def moment_of(connection: sqlite3.Connection, ranks: Ranking, generation: Any, before: Moment | None) -> Moment:
    """Read what changed since the moment before."""
    known = before.stored if before else {}
    numbers = connection.execute("SELECT number, length(dead) FROM segments ORDER BY first_slot").fetchall()
    stored = {key: known.get(key) or indexing.stored(connection, key[0]) for key in numbers}
    parts = [one.segment for one in stored.values()]
    dead = [slot for one in stored.values() for slot in one.dead]
    tail: dict[tuple[int, str], tuple[int, bytes]] = {}
    waiting = list(indexing.rows(connection, ranks, indexing.last_slot(connection) + 1, indexing.MAX_SLOT))
    if waiting:
        built, postings = segments.build(waiting, ranks)
        parts.append(built)
        tail = {(kind, term): (size, data) for kind, term, size, data in postings}
    places = {number: place for place, (number, _) in enumerate(numbers)}
    own = ",".join(map(str, places))
    wanted = f"SELECT segment, size, data FROM postings WHERE segment IN ({own}) AND kind = ? AND term = ?"

    def fetch(kind: int, term: str) -> list[tuple[int, bytes]]:
        found = sorted((places[number], size, data) for number, size, data in connection.execute(wanted, (kind, term)))
        last = tail.get((kind, term))
        return [(size, data) for _, size, data in found] + ([last] if last else [])

    documents = sum(part.documents for part in parts) - len(dead)
    return Moment(generation, stored, _searcher(documents)(ranks, parts, dead, fetch))


def _searcher(documents: int) -> type[PlainSearcher] | type[NumpySearcher]:
    """Which kind of searcher suits so many documents; both give the same scores."""
    if documents >= NUMPY_PAYS or "numpy" in sys.modules:
        try:
            from onhand.lexical.numpy_searcher import NumpySearcher
        except ImportError:
            return PlainSearcher
        return NumpySearcher
    return PlainSearcher
