"""Documents in one SQLite file, the embedded default. Safe to share between threads and processes.

Documents and vectors are the truth; what they are found by is derived from them in the transaction that writes them,
so there is nothing to catch up with after a crash. Here is who holds a connection and when: what the statements say is
in onhand.store.tables, how words are kept in onhand.store.indexing, how they are searched in onhand.store.moment.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from onhand.document import EVERYTHING, Document, Filter, Match
from onhand.errors import StoreError
from onhand.lexical.ranking import Ranking, ranking
from onhand.store import indexing, tables
from onhand.store.entry import (
    HEAD_CHARS,
    Damage,
    Entry,
    Head,
    Summary,
    content_hash,
    refuse_contradiction,
)
from onhand.store.moment import Moment, moment_of
from onhand.store.opening import UNREADABLE, begin_writing, is_read_only, open_file, stamp, translated
from onhand.store.order import parse_order

if TYPE_CHECKING:
    from array import array

    from onhand.lexical.searcher import Searcher
    from onhand.store.vectors import Vectors

SPARE_VECTORS = 1000  # besides one for each that lives: of documents that are gone; then the copy is made anew
FEW_ALLOWED = 5000  # documents that are put in order by reading each, instead of walking through all in order

_ORDER = {"created_time": "created_us", "title": "title", "author": "author", "scope": "scope", "document_id": "id"}


class SqliteStore:
    """A Store in one file, which is made if it is not there."""

    def __init__(self, path: str | os.PathLike[str], ranks: Ranking | None = None) -> None:
        self.path = os.path.abspath(path)
        self._ranking = ranks or ranking()
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None
        self._frozen: tuple[int, ...] | None = None  # how a file looked that is read without a look at its log
        self._moment: Moment | None = None
        self._vectors: tuple[str, Vectors] | None = None  # token of the copy, copy
        self._is_copy_ours = False  # nobody has looked yet
        self._is_closed = False
        with self._lock, translated(self.path):
            self._own_connection()
        _STORES.add(self)

    def upsert(
        self,
        entries: Sequence[Entry],
        facts: Mapping[str, str] | None = None,
        *,
        more: bool = False,
        only_unchanged: bool = False,
    ) -> None:
        rows = [tables.row_of(entry) for entry in entries]
        with self._writing() as connection:
            if facts:
                refuse_contradiction(tables.facts(connection), facts)
                tables.note(connection, facts)
            if only_unchanged:
                rows = [row for row in rows if (there := tables.find(connection, row.id)) and there[1] == row.digest]
            self._drop_foreign_copy(connection, rows)
            gone = [slot for row in rows if (slot := tables.put(connection, row)) is not None]
            indexing.bury(connection, gone)
            indexing.index_tail(connection, self._ranking, more)

    def delete(self, ids: Collection[str]) -> int:
        with self._writing() as connection:
            found = [tables.find(connection, document_id) for document_id in dict.fromkeys(ids)]
            gone = [there[0] for there in found if there]
            for slot in gone:
                tables.drop(connection, slot)
            indexing.bury(connection, gone)
        return len(gone)

    def get(self, document_id: str) -> Document | None:
        with self._reading() as connection:
            row = connection.execute(
                f"SELECT hash, {tables.DOCUMENT} FROM documents WHERE id = ?",
                (document_id,),
            ).fetchone()
            if row is None:
                return None
            document = tables.document_of(row[1:])
            if document.id != document_id or content_hash(document) != row[0]:
                raise StoreError(
                    f"document {document_id!r} in {self.path} is not what was written: "
                    "delete it with `onhand docs delete`, and import it again"
                )
            return document

    def heads(self, ids: Sequence[str]) -> list[Head]:
        heads = []
        with self._reading() as connection:
            for document_id in ids:
                row = connection.execute(
                    f"SELECT {tables.HEAD} FROM documents WHERE id = ?",
                    (4 * HEAD_CHARS, document_id),
                ).fetchone()
                if row:
                    text = (row[2] or b"").decode("utf-8", "ignore")[:HEAD_CHARS]  # nothing of nothing is NULL
                    heads.append(Head(row[0], row[1], text, row[3], tuple(json.loads(row[4])), *row[5:]))
        return heads

    def known(self, documents: Sequence[Document]) -> dict[str, bool]:
        with self._reading() as connection:
            found = [(document, tables.find(connection, document.id)) for document in documents]
        return {document.id: there[1] == content_hash(document) for document, there in found if there}

    def keyword(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = 10,
        among: Collection[str] | None = None,
        *,
        explain: bool = True,
    ) -> list[Match]:
        with self._reading() as connection:
            searcher = self._searcher(connection)
            found = searcher.search(query, limit, self._allowed(connection, filter, among))
            ranked = tables.ranked(connection, found, limit)
            if not explain:
                return [Match(document_id, score, ()) for document_id, _, score in ranked]
            explanations = searcher.explain(query, [slot for _, slot, _ in ranked])
        return [
            Match(document_id, score, contributions)
            for (document_id, _, score), contributions in zip(ranked, explanations, strict=True)
        ]

    def has_words(self, query: str) -> bool:
        return bool(self._ranking.tokenizer.query_terms(query))

    def telling(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        with self._reading() as connection:
            there = tables.find(connection, document_id)
            return self._searcher(connection).telling(query, there[0]) if there else {}

    def nearest(
        self,
        vector: array[float],
        filter: Filter = EVERYTHING,
        limit: int = 10,
        min_score: float | None = None,
        among: Collection[str] | None = None,
    ) -> list[Match]:
        with self._reading() as connection:
            vectors = self._copied_vectors(connection)
            if vectors is None:
                return []
            searcher, allowed = self._searcher(connection), self._allowed(connection, filter, among)
            found = vectors.nearest(
                vector,
                allowed=None if allowed is None else searcher.slots(allowed),
                dead=searcher.gone() if len(vectors) > tables.count_vectors(connection, searcher) else (),
                limit=limit,
                min_score=min_score,
                upto=searcher.last_slot,
            )
            return [Match(document_id, score, ()) for document_id, _, score in tables.ranked(connection, found, limit)]

    def scan(
        self, filter: Filter = EVERYTHING, order_by: str = "created_time desc", limit: int = 10, offset: int = 0
    ) -> list[str]:
        order = ", ".join(f"{_ORDER[key.field]}{' DESC' if key.descending else ''}" for key in parse_order(order_by))
        with self._reading() as connection:
            allowed = self._allowed(connection, filter, None)
            if allowed is None:
                rows = connection.execute(
                    f"SELECT id FROM documents ORDER BY {order} LIMIT ? OFFSET ?",  # of our own columns
                    (limit, offset),
                )
                return [document_id for (document_id,) in rows]
            slots = self._searcher(connection).slots(allowed)
            if len(slots) <= FEW_ALLOWED:
                rows = connection.execute(
                    "SELECT id FROM documents WHERE slot IN (SELECT value FROM json_each(?)) "
                    f"ORDER BY {order} LIMIT ? OFFSET ?",
                    (json.dumps([int(slot) for slot in slots]), limit, offset),
                )
                return [document_id for (document_id,) in rows]
            wanted = set(map(int, slots))
            return tables.walk(connection, f"SELECT id, slot FROM documents ORDER BY {order}", wanted, limit, offset)

    def count(self, filter: Filter = EVERYTHING) -> int:
        with self._reading() as connection:
            return self._searcher(connection).count(self._allowed(connection, filter, None))

    def vectors(self) -> int:
        with self._reading() as connection:
            return tables.count_vectors(connection, self._searcher(connection))

    def without_vector(self, limit: int, filter: Filter = EVERYTHING) -> list[str]:
        with self._reading() as connection:
            allowed = self._allowed(connection, filter, None)
            if allowed is not None:
                wanted = set(map(int, self._searcher(connection).slots(allowed)))
                query = "SELECT id, slot FROM documents WHERE has_vector = 0 ORDER BY id"
                return tables.walk(connection, query, wanted, limit, 0)
            rows = connection.execute("SELECT id FROM documents WHERE has_vector = 0 ORDER BY id LIMIT ?", (limit,))
            return [document_id for (document_id,) in rows]

    def clear_vectors(self, facts: Mapping[str, str]) -> None:
        with self._writing() as connection:
            connection.execute("DELETE FROM vectors")
            connection.execute("UPDATE documents SET has_vector = 0 WHERE has_vector")
            tables.note(connection, {**facts, **tables.new_copy()})

    def facts(self) -> dict[str, str]:
        with self._reading() as connection:
            return tables.facts(connection)

    def generation(self) -> str:
        with self._reading() as connection:
            found = connection.execute("SELECT value FROM facts WHERE name = 'store.generation'").fetchone()
            return str(found[0]) if found else ""

    def summary(self) -> Summary:
        with self._reading() as connection:
            documents, earliest, latest = connection.execute(
                "SELECT count(*), min(created_us), max(created_us) FROM documents"
            ).fetchone()
            return Summary(
                documents,
                tables.tally(connection, "SELECT author AS value FROM documents"),
                tables.tag_tally(connection),
                tables.tally(connection, "SELECT scope AS value FROM documents"),
                earliest,
                latest,
            )

    def check(self) -> list[Damage]:
        from onhand.store.checking import damages

        with self._reading() as connection:
            return damages(connection, self._ranking) + self._copy_damages(connection)

    def rebuild(self) -> None:
        with self._writing() as connection:
            indexing.rebuild(connection, self._ranking)
            tables.note(connection, tables.new_copy())

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._moment = None
            if self._vectors:
                self._vectors[1].close()
            self._disconnect()

    def _disconnect(self) -> None:
        """Let go of the file; whoever needs it next opens it again."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = self._moment = None
        self._is_copy_ours = False

    def _own_connection(self) -> sqlite3.Connection:
        if self._is_closed:
            raise StoreError(f"{self.path} was closed: open it again")
        if self._frozen is not None and self._frozen != stamp(self.path):
            self._disconnect()
        if self._connection is None:
            connection, self._frozen = open_file(self.path)
            try:
                self._match_ranking(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _match_ranking(self, connection: sqlite3.Connection) -> None:
        """A file whose terms another ranking made is indexed anew."""
        made_by = tables.made_by(connection)
        if made_by == self._ranking.name:
            self._finish_import(connection)
            return
        try:
            self._index_anew(connection)
        except sqlite3.OperationalError as error:
            if not is_read_only(error):
                raise
            raise StoreError(
                f"{self.path} is indexed for the ranking {made_by!r}, not for {self._ranking.name!r}, and cannot be "
                "written to change that: open it once where it can be written"
            ) from error

    def _index_anew(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        if tables.made_by(connection) != self._ranking.name:  # another process may have been quicker
            indexing.rebuild(connection, self._ranking)
            tables.note(connection, {"store.ranking": self._ranking.name, **tables.new_copy()})
            tables.next_generation(connection)
        connection.execute("COMMIT")

    def _finish_import(self, connection: sqlite3.Connection) -> None:
        """Index what an import that was stopped left waiting, unless somebody else writes or nobody may: it can be
        searched as it is, only slowly."""
        if not indexing.is_overdue(connection):
            return
        try:
            begin_writing(connection, patience_s=0)
            indexing.index_tail(connection, self._ranking)
            tables.next_generation(connection)
            connection.execute("COMMIT")
        except (sqlite3.Error, *UNREADABLE):
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def moment(self) -> AbstractContextManager[object]:
        return self._reading()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One moment of the file, whatever others write meanwhile."""
        with self._lock, translated(self.path):
            connection = self._own_connection()
            if connection.in_transaction:  # inside another one's moment
                yield connection
                return
            try:
                connection.execute("BEGIN")  # in here, as an interrupt may follow
                yield connection
            finally:
                connection.rollback()  # no function of ours, as an interrupt is raised where one begins

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and durable at the end."""
        with self._lock, translated(self.path):
            connection = self._own_connection()
            if connection.in_transaction:
                raise StoreError(f"{self.path} is being written by the caller: let that call end first")
            try:
                begin_writing(connection)
                self._refuse_other_ranking(connection)
                yield connection
                tables.next_generation(connection)
                connection.execute("COMMIT")
            finally:
                connection.rollback()  # no function of ours, as an interrupt is raised where one begins

    def _searcher(self, connection: sqlite3.Connection) -> Searcher:
        """The searcher of this moment."""
        generation = connection.execute("SELECT value FROM facts WHERE name = 'store.generation'").fetchone()
        if self._moment is None or self._moment.generation != generation:
            self._refuse_other_ranking(connection)
            self._moment = moment_of(connection, self._ranking, generation, self._moment)
        return self._moment.searcher

    def _refuse_other_ranking(self, connection: sqlite3.Connection) -> None:
        """Another version of onhand may have indexed the file anew since it was opened here."""
        if tables.made_by(connection) != self._ranking.name:
            raise StoreError(f"{self.path} has been indexed anew by another version of onhand: open it again with that")

    def _copied_vectors(self, connection: sqlite3.Connection) -> Vectors | None:
        """The copy that is fast to search, with all that this moment has; None when there is no vector."""
        first = connection.execute("SELECT length(data) / 4 FROM vectors LIMIT 1").fetchone()
        if first is None:
            return None
        (token,) = connection.execute("SELECT value FROM facts WHERE name = 'store.vectors'").fetchone()
        if self._vectors is None or self._vectors[0] != token:
            from onhand.store.vectors import open_vectors

            self._vectors = token, open_vectors(f"{self.path}-vectors", first[0], token)
        vectors = self._vectors[1]

        def rows_above(slot: int) -> Iterator[tuple[int, bytes]]:
            return connection.execute("SELECT slot, data FROM vectors WHERE slot > ? ORDER BY slot", (slot,))

        if len(vectors) > 2 * tables.count_vectors(connection, self._searcher(connection)) + SPARE_VECTORS:
            vectors.discard()
        vectors.catch_up(rows_above)
        return vectors

    def _drop_foreign_copy(self, connection: sqlite3.Connection, rows: Sequence[tables.Row]) -> None:
        """Give a copy of the vectors up that has slots which this file has not given out yet.

        Somebody has put an older file in this place. While we write, nobody else gives out slots.
        """
        vector = next((row.vector for row in rows if row.vector is not None), None)
        if vector is None or self._is_copy_ours:
            return
        self._is_copy_ours = True
        directory = f"{self.path}-vectors"
        if os.path.isdir(directory):
            from onhand.store.vectors import PlainVectors, open_vectors

            (token,) = connection.execute("SELECT value FROM facts WHERE name = 'store.vectors'").fetchone()
            copy = open_vectors(directory, len(vector) // 4, token)
            last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
            if isinstance(copy, PlainVectors) or copy.last_slot > (last[0] if last else 0):
                tables.note(connection, tables.new_copy())
            copy.close()

    def _copy_damages(self, connection: sqlite3.Connection) -> list[Damage]:
        from onhand.store.checking import REBUILD

        try:
            vectors = self._copied_vectors(connection)
            return vectors.check() if vectors else []
        except (StoreError, sqlite3.Error, *UNREADABLE) as error:
            return [Damage(f"the vectors cannot be copied: {error}", REBUILD)]

    def _allowed(self, connection: sqlite3.Connection, filter: Filter, among: Collection[str] | None) -> Any:
        searcher = self._searcher(connection)
        allowed = None if filter == EVERYTHING else searcher.allowed(filter)
        if among is None:
            return allowed
        found = (tables.find(connection, document_id) for document_id in among)
        return searcher.among(allowed, [there[0] for there in found if there])


# SQLite's locks are known to a process as a whole, and a child would believe to hold those of its parent: so nobody
# holds any while a process forks. See "How To Corrupt An SQLite Database File", section 2.6.
_STORES: WeakSet[SqliteStore] = WeakSet()
_forking = Lock()
_held: list[SqliteStore] = []


def _before_fork() -> None:
    _forking.acquire()
    for store in list(_STORES):
        store._lock.acquire()
        _held.append(store)
        store._disconnect()


def _after_fork_in_parent() -> None:
    for store in _held:
        store._lock.release()
    _held.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking
    for store in _held:
        store._lock = RLock()
    _held.clear()
    _forking = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
