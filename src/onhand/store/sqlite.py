"""Documents in one SQLite file, the embedded default. Safe to share between threads and processes.

Documents and vectors are the source of truth. The indexes are derived from them in the transaction that writes them, so
there is nothing to recover after a crash. `onhand.store.segments` keeps the lexical index.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain, islice
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet
from zlib import crc32

from onhand.document import (
    EVERYTHING,
    Contribution,
    Document,
    Filter,
    Match,
    Passage,
    from_microseconds,
    to_microseconds,
)
from onhand.errors import StoreError
from onhand.fsio import sync_directory
from onhand.lexical.scoring import Ranking, get_ranking
from onhand.store import segments
from onhand.store.segments import MAX_BULK_BYTES, MAX_BULK_DOCUMENTS, Snapshot, read_snapshot
from onhand.store.sqlite_file import UNREADABLE, begin_writing, change_stamp, is_read_only, open_file, translate_errors
from onhand.store.store import (
    HEAD_CHARS,
    MAX_TALLIED,
    Damage,
    Entry,
    Excerpt,
    Head,
    PassageCounts,
    Summary,
    Tally,
    content_hash,
    excerpt_of,
    parse_order,
    refuse_other_facts,
)
from onhand.store.vectors import check_query, decode_vector, encode_vector, find_nearest_passage, nearest_rows

if TYPE_CHECKING:
    from array import array

    from onhand.lexical.index import IndexReader
    from onhand.store.mmap_vectors import MappedVectors

MAX_SORTED_TIES = 1000  # with more equal scores at the cut, ids are read in order until enough are found
MAX_DELETED_VECTORS = 1000  # more than the living ones, in the copy of the vectors; then it is made again
MAX_SORTED_DOCUMENTS = 5000  # with more, a filtered scan reads all documents in order instead of sorting those

_ORDER = {"created_time": "created_us", "title": "title", "author": "author", "scope": "scope", "document_id": "id"}

DOCUMENT = "id, title, text, author, tags, scope, created_us, metadata, kind, source_path"
INSERT = (
    f"INSERT INTO documents ({DOCUMENT}, hash, passages, left_out) VALUES ({', '.join('?' * 13)}) "
    "ON CONFLICT (id) DO NOTHING"
)
HEAD = "id, title, substr(text, 1, ?), author, tags, scope, created_us, kind, source_path"


class SqliteStore:
    """A Store in one file, which is created if it does not exist."""

    def __init__(self, path: str | os.PathLike[str], ranking: Ranking | None = None) -> None:
        self.path = os.path.abspath(path)
        self._ranking = ranking or get_ranking()
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None
        self._immutable_stamp: tuple[int, ...] | None = None  # of a file that SQLite treats as immutable
        self._snapshot: Snapshot | None = None
        self._copy: tuple[str, MappedVectors] | None = None  # the token of the copy of the vectors, and the copy
        self._vector_count: tuple[object, int] | None = None  # a generation, and how many vectors it has
        self._is_copy_checked = False
        self._are_names_synced = False
        self._waiting_bytes = 0  # written here during an import, and in no segment yet
        self._is_closed = False
        with self._lock, translate_errors(self.path):
            self._connect()
        _STORES.add(self)

    @property
    def ranking(self) -> Ranking:
        return self._ranking

    def upsert(
        self,
        entries: Sequence[Entry],
        facts: Mapping[str, str] | None = None,
        *,
        more: bool = False,
        only_unchanged: bool = False,
    ) -> None:
        rows = [to_row(entry) for entry in entries]
        with self._writing() as connection:
            if facts:
                refuse_other_facts(read_facts(connection), facts)
                write_facts(connection, facts)
            if only_unchanged:
                rows = [row for row in rows if (stored := find_row(connection, row.id)) and stored[1] == row.digest]
            self._drop_foreign_copy(connection, rows)
            replaced = [docnum for row in rows if (docnum := put_row(connection, row)) is not None]
            segments.delete(connection, replaced)
            if not more or self._is_bulk_complete(connection, rows):
                segments.index_tail(connection, self._ranking)

    def delete(self, ids: Collection[str]) -> int:
        with self._writing() as connection:
            found = [find_row(connection, document_id) for document_id in dict.fromkeys(ids)]
            docnums = [stored[0] for stored in found if stored]
            for docnum in docnums:
                delete_row(connection, docnum)
            segments.delete(connection, docnums)
        return len(docnums)

    def get(self, document_id: str) -> Document | None:
        with self._reading() as connection:
            row = connection.execute(
                f"SELECT hash, {DOCUMENT} FROM documents WHERE id = ?",
                (document_id,),
            ).fetchone()
            if row is None:
                return None
            document = to_document(row[1:])
            if document.id != document_id or content_hash(document) != row[0]:
                raise StoreError(
                    f"Document {document_id!r} in {self.path} is not what was written. "
                    "Delete it with `onhand docs delete`, and import it again."
                )
            return document

    def heads(self, ids: Sequence[str]) -> list[Head]:
        heads = []
        with self._reading() as connection:
            for document_id in ids:
                row = connection.execute(
                    f"SELECT {HEAD} FROM documents WHERE id = ?",
                    (4 * HEAD_CHARS, document_id),
                ).fetchone()
                if row:
                    text = (row[2] or b"").decode("utf-8", "ignore")[:HEAD_CHARS]  # substr of an empty blob is NULL
                    heads.append(Head(row[0], row[1], text, row[3], tuple(json.loads(row[4])), *row[5:]))
        return heads

    def vector(self, document_id: str) -> array[float] | None:
        with self._reading() as connection:
            found = connection.execute(
                "SELECT checksum, vectors.passages, data FROM documents JOIN vectors USING (docnum) WHERE id = ?",
                (document_id,),
            ).fetchone()
        if found is None or crc32(found[2], crc32(found[1] or b"")) != found[0]:
            return None
        return decode_vector(found[2])

    def excerpts(self, vector: array[float], ids: Collection[str]) -> dict[str, Excerpt]:
        excerpts = {}
        with self._reading() as connection:
            for document_id in ids:
                found = connection.execute(
                    "SELECT docnum, vectors.passages, data FROM documents JOIN vectors USING (docnum) "
                    "WHERE id = ? AND documents.passages > 1",
                    (document_id,),
                ).fetchone()
                if found:
                    docnum, passages, data = found
                    passage = find_nearest_passage(vector, decode_vector(data), decode_passages(passages))
                    start = max(passage.first_byte - 1, 0)  # what is around it tells whether it is whole lines
                    (raw,) = connection.execute(
                        "SELECT substr(text, ?, ?) FROM documents WHERE docnum = ?",
                        (start + 1, passage.end_byte + 1 - start, docnum),
                    ).fetchone()
                    excerpts[document_id] = excerpt_of(raw, passage, start)
        return excerpts

    def compare(self, documents: Sequence[Document]) -> dict[str, bool]:
        with self._reading() as connection:
            found = [(document, find_row(connection, document.id)) for document in documents]
        return {document.id: stored[1] == content_hash(document) for document, stored in found if stored}

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
            reader = self._reader(connection)
            found = reader.search(query, limit, filter, _find_docnums(connection, among))
            ranked = rank_ids(connection, found, limit)
            if not explain:
                return [Match(document_id, score, ()) for document_id, _, score in ranked]
            explanations = reader.explain(query, [docnum for _, docnum, _ in ranked])
        return [
            Match(document_id, score, contributions)
            for (document_id, _, score), contributions in zip(ranked, explanations, strict=True)
        ]

    def explain(self, query: str, ids: Collection[str]) -> dict[str, tuple[Contribution, ...]]:
        with self._reading() as connection:
            found = {document_id: stored[0] for document_id in ids if (stored := find_row(connection, document_id))}
            explained = self._reader(connection).explain(query, list(found.values()))
        return {
            document_id: contributions
            for document_id, contributions in zip(found, explained, strict=True)
            if contributions
        }

    def has_words(self, query: str) -> bool:
        return bool(self._ranking.tokenizer.query_terms(query))

    def term_weights(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        with self._reading() as connection:
            stored = find_row(connection, document_id)
            return self._reader(connection).term_weights(query, stored[0]) if stored else {}

    def nearest(
        self,
        vector: array[float],
        filter: Filter = EVERYTHING,
        limit: int = 10,
        min_score: float | None = None,
        among: Collection[str] | None = None,
    ) -> list[Match]:
        with self._reading() as connection:
            dimension = read_dimension(connection)
            if dimension is None:
                return []
            check_query(vector, dimension)
            reader = self._reader(connection)
            is_restricted = filter != EVERYTHING or among is not None
            allowed = reader.docnums(filter, _find_docnums(connection, among)) if is_restricted else None
            copy = self._current_copy(connection)
            if copy is None:
                rows = connection.execute("SELECT docnum, data FROM vectors ORDER BY docnum")
                found = nearest_rows(vector, rows, allowed, limit, min_score)
            else:
                found = copy.nearest(
                    vector,
                    allowed=allowed,
                    deleted=reader.deleted_docnums() if len(copy) > self._count_vectors(connection) else (),
                    limit=limit,
                    min_score=min_score,
                    upto=reader.last_docnum,
                )
            return [Match(document_id, score, ()) for document_id, _, score in rank_ids(connection, found, limit)]

    def scan(
        self, filter: Filter = EVERYTHING, order_by: str = "created_time desc", limit: int = 10, offset: int = 0
    ) -> list[str]:
        order = ", ".join(f"{_ORDER[key.field]}{' DESC' if key.descending else ''}" for key in parse_order(order_by))
        with self._reading() as connection:
            if filter == EVERYTHING:
                rows = connection.execute(
                    f"SELECT id FROM documents ORDER BY {order} LIMIT ? OFFSET ?",  # only names from _ORDER
                    (limit, offset),
                )
                return [document_id for (document_id,) in rows]
            docnums = self._reader(connection).docnums(filter)
            if len(docnums) <= MAX_SORTED_DOCUMENTS:
                rows = connection.execute(
                    "SELECT id FROM documents WHERE docnum IN (SELECT value FROM json_each(?)) "
                    f"ORDER BY {order} LIMIT ? OFFSET ?",
                    (json.dumps([int(docnum) for docnum in docnums]), limit, offset),
                )
                return [document_id for (document_id,) in rows]
            wanted = set(map(int, docnums))
            return walk_ids(connection, f"SELECT id, docnum FROM documents ORDER BY {order}", wanted, limit, offset)

    def count(self, filter: Filter = EVERYTHING) -> int:
        with self._reading() as connection:
            return self._reader(connection).count(filter)

    def vectors(self) -> int:
        with self._reading() as connection:
            return count_embedded(connection, self._reader(connection))

    def passages(self) -> PassageCounts:
        with self._reading() as connection:
            cut, left_out = connection.execute(
                "SELECT count(*), coalesce(sum(left_out), 0) FROM documents WHERE left_out > 0"
            ).fetchone()
            return PassageCounts(self._count_vectors(connection), cut, left_out)

    def without_vector(self, limit: int, filter: Filter = EVERYTHING, max_passages: int = 1) -> list[str]:
        missing = "SELECT id, docnum FROM documents WHERE passages = 0"
        cut = "SELECT id, docnum FROM documents WHERE left_out > 0 AND passages < ?"
        with self._reading() as connection:
            wanted = None if filter == EVERYTHING else set(map(int, self._reader(connection).docnums(filter)))
            found = connection.execute(f"{missing} UNION ALL {cut} ORDER BY id", (max_passages,))
            ids = (document_id for document_id, docnum in found if wanted is None or docnum in wanted)
            return list(islice(ids, limit))

    def clear_vectors(self, facts: Mapping[str, str]) -> None:
        with self._writing() as connection:
            connection.execute("DELETE FROM vectors")
            connection.execute("UPDATE documents SET passages = 0, left_out = 0 WHERE passages")
            write_facts(connection, {**facts, **new_vector_token()})

    def set_facts(self, facts: Mapping[str, str]) -> None:
        with self._writing() as connection:
            write_facts(connection, facts)

    def facts(self) -> dict[str, str]:
        with self._reading() as connection:
            return read_facts(connection)

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
                count_values(connection, "SELECT author AS value FROM documents"),
                count_tags(connection),
                count_values(connection, "SELECT scope AS value FROM documents"),
                earliest,
                latest,
            )

    def check(self) -> list[Damage]:
        from onhand.store.integrity import find_damages

        with self._reading() as connection:
            return find_damages(connection, self._ranking) + self._check_copy(connection)

    def rebuild(self) -> None:
        with self._writing() as connection:
            segments.rebuild(connection, self._ranking)
            write_facts(connection, new_vector_token())

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._snapshot = None
            if self._copy:
                self._copy[1].close()
            self._disconnect()

    def _disconnect(self) -> None:
        """Close the connection; the next call opens the file again."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = self._snapshot = None
        self._is_copy_checked = self._are_names_synced = False

    def _connect(self) -> sqlite3.Connection:
        if self._is_closed:
            raise StoreError(f"{self.path} was closed. Open it again.")
        if self._immutable_stamp is not None and self._immutable_stamp != change_stamp(self.path):
            self._disconnect()
        if self._connection is None:
            connection, self._immutable_stamp = open_file(self.path)
            try:
                self._match_ranking(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _match_ranking(self, connection: sqlite3.Connection) -> None:
        """Re-index a file that was indexed for another ranking."""
        indexed_for = read_ranking_name(connection)
        if indexed_for == self._ranking.name:
            self._finish_import(connection)
            return
        try:
            self._reindex(connection)
        except sqlite3.OperationalError as error:
            if not is_read_only(error):
                raise
            raise StoreError(
                f"{self.path} is read-only and indexed for the ranking {indexed_for!r}, not for "
                f"{self._ranking.name!r}. Open it once where it can be written."
            ) from error

    def _reindex(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        if read_ranking_name(connection) != self._ranking.name:  # another process may have done it meanwhile
            segments.rebuild(connection, self._ranking)
            write_facts(connection, {"store.ranking": self._ranking.name, **new_vector_token()})
            bump_generation(connection)
        connection.execute("COMMIT")

    def _finish_import(self, connection: sqlite3.Connection) -> None:
        """Index what an interrupted import left in the tail, if the file can be written now.

        Otherwise it is still found, only more slowly.
        """
        if not segments.is_overdue(connection):
            return
        try:
            begin_writing(connection, self.path, patience_s=0)
            segments.index_tail(connection, self._ranking)
            bump_generation(connection)
            connection.execute("COMMIT")
        except (sqlite3.Error, *UNREADABLE):
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _is_bulk_complete(self, connection: sqlite3.Connection, rows: Sequence[DocumentRow]) -> bool:
        """Return whether a segment is built although more documents follow, because this many wait for it."""
        self._waiting_bytes += sum([row.size for row in rows])
        is_complete = self._waiting_bytes > MAX_BULK_BYTES or segments.count_waiting(connection) > MAX_BULK_DOCUMENTS
        if is_complete:
            self._waiting_bytes = 0
        return is_complete

    def snapshot(self) -> AbstractContextManager[object]:
        return self._reading()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Begin a read transaction, which sees one state of the file."""
        with self._lock, translate_errors(self.path):
            connection = self._connect()
            if connection.in_transaction:  # inside `snapshot`
                yield connection
                return
            try:
                connection.execute("BEGIN")  # inside the `try`, because an interrupt may follow
                yield connection
            finally:
                connection.rollback()  # not a Python function, at whose start an interrupt would be raised

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Begin a write transaction, which is committed durably or not at all."""
        with self._lock, translate_errors(self.path):
            connection = self._connect()
            if connection.in_transaction:
                raise StoreError(f"{self.path} cannot be written inside a snapshot. Leave the snapshot first.")
            try:
                begin_writing(connection, self.path)
                self._sync_names()
                self._refuse_other_ranking(connection)
                yield connection
                bump_generation(connection)
                connection.execute("COMMIT")
            finally:
                connection.rollback()  # not a Python function, at whose start an interrupt would be raised

    def _sync_names(self) -> None:
        """Make the names of the file and its log durable before the first write; SQLite ignores errors of that sync."""
        if not self._are_names_synced:
            sync_directory(os.path.dirname(self.path))
            self._are_names_synced = True

    def _reader(self, connection: sqlite3.Connection) -> IndexReader:
        """Return the lexical index as this transaction sees it."""
        generation = connection.execute("SELECT value FROM facts WHERE name = 'store.generation'").fetchone()
        if self._snapshot is None or self._snapshot.generation != generation:
            self._refuse_other_ranking(connection)
            self._snapshot = read_snapshot(connection, self._ranking, generation, self._snapshot)
        return self._snapshot.reader

    def _refuse_other_ranking(self, connection: sqlite3.Connection) -> None:
        """Raise StoreError if another version of onhand has re-indexed the file since it was opened here."""
        if read_ranking_name(connection) != self._ranking.name:
            raise StoreError(
                f"{self.path} was re-indexed by another version of onhand. Open it again, with that version or with "
                "this one, which indexes it again."
            )

    def _current_copy(self, connection: sqlite3.Connection) -> MappedVectors | None:
        """Return the copy of the vectors with everything this transaction sees, or None if numpy is not installed."""
        try:
            from onhand.store.mmap_vectors import MappedVectors
        except ModuleNotFoundError as error:
            if error.name != "numpy":
                raise
            return None
        dimension, token = read_dimension(connection), read_vector_token(connection)
        if dimension is None:
            return None
        if self._copy is None or self._copy[0] != token:
            self._copy = token, MappedVectors(f"{self.path}-vectors", dimension, token)
        copy = self._copy[1]

        def rows_after(docnum: int, count: int) -> Iterator[tuple[int, bytes]]:
            return connection.execute(
                "SELECT docnum, data FROM vectors WHERE docnum >= ? AND (docnum > ? OR length(data) > ?) "
                "ORDER BY docnum",
                (docnum, docnum, count * dimension * 4),
            )

        if len(copy) > 2 * self._count_vectors(connection) + MAX_DELETED_VECTORS:
            copy.discard()
        copy.catch_up(rows_after)
        return copy

    def _count_vectors(self, connection: sqlite3.Connection) -> int:
        """Return the number of vectors of all documents, which is counted once for each generation."""
        generation = connection.execute("SELECT value FROM facts WHERE name = 'store.generation'").fetchone()
        if self._vector_count is None or self._vector_count[0] != generation:
            further = "SELECT coalesce(sum(passages - 1), 0) FROM documents WHERE passages > 1"
            (extra,) = connection.execute(further).fetchone()
            self._vector_count = generation, count_embedded(connection, self._reader(connection)) + extra
        return self._vector_count[1]

    def _drop_foreign_copy(self, connection: sqlite3.Connection, rows: Sequence[DocumentRow]) -> None:
        """Give up a copy of the vectors that has docnums which this file has not assigned yet.

        That is so if an older file was restored in this place. Inside a write transaction no other process assigns
        docnums.
        """
        embedded = next((row for row in rows if row.vector is not None), None)
        if embedded is None or embedded.vector is None or self._is_copy_checked:
            return
        self._is_copy_checked = True
        directory = f"{self.path}-vectors"
        if not os.path.isdir(directory):
            return
        try:
            from onhand.store.mmap_vectors import MappedVectors
        except ModuleNotFoundError:  # the copy cannot be checked
            write_facts(connection, new_vector_token())
            return
        dimension = len(embedded.vector) // 4 // embedded.vectors
        copy = MappedVectors(directory, dimension, read_vector_token(connection))
        last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
        if copy.last_docnum > (last[0] if last else 0):
            write_facts(connection, new_vector_token())
        copy.close()

    def _check_copy(self, connection: sqlite3.Connection) -> list[Damage]:
        from onhand.store.integrity import REBUILD

        try:
            has_vectors = connection.execute("SELECT 1 FROM vectors LIMIT 1").fetchone()
            copy = self._current_copy(connection) if has_vectors else None
            return copy.check() if copy else []
        except (StoreError, sqlite3.Error, *UNREADABLE) as error:
            return [Damage(f"the vectors cannot be copied: {error}", REBUILD)]


def find_row(connection: sqlite3.Connection, document_id: str) -> tuple[int, str, int | None, int] | None:
    """Return the docnum and the hash of a document, the checksum of its vectors, and how many bytes have none."""
    found: tuple[int, str, int | None, int] | None = connection.execute(
        "SELECT docnum, hash, checksum, left_out FROM documents LEFT JOIN vectors USING (docnum) WHERE id = ?",
        (document_id,),
    ).fetchone()
    return found


class DocumentRow(NamedTuple):
    """An entry as it is stored."""

    id: str
    values: tuple[Any, ...]  # of DOCUMENT
    digest: str
    vector: bytes | None  # or several
    passages: bytes | None = None
    left_out: int = 0

    @property
    def vectors(self) -> int:
        """How many vectors the document has."""
        return 0 if self.vector is None else len(self.passages or b"") // PASSAGE_BYTES or 1

    @property
    def checksum(self) -> int | None:
        """What tells whether the vectors and the places of their passages are as they were written."""
        return None if self.vector is None else crc32(self.vector, crc32(self.passages or b""))

    @property
    def size(self) -> int:
        """The bytes of what is indexed, without those of authors and tags."""
        return len(self.values[1]) + len(self.values[2])


_to_json = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` would create an encoder for each document


def to_row(entry: Entry) -> DocumentRow:
    document, vector, passages, left_out = entry
    values = (
        document.id,
        document.title,
        document.text.encode(),
        document.author,
        _to_json(document.tags) if document.tags else "[]",
        document.scope,
        None if document.created_time is None else to_microseconds(document.created_time),
        _to_json(document.metadata) if document.metadata else "{}",
        document.kind,
        document.source_path,
    )
    return DocumentRow(
        document.id,
        values,
        content_hash(document),
        None if vector is None else encode_vector(vector),
        encode_passages(passages) if passages else None,
        left_out,
    )


PASSAGE_BYTES = 16


def encode_passages(passages: Sequence[Passage]) -> bytes:
    """Return the places of passages as little-endian integers."""
    return struct.pack(f"<{4 * len(passages)}I", *chain.from_iterable(passages))


def decode_passages(data: bytes) -> list[Passage]:
    """Return the passages that `encode_passages` wrote."""
    return [Passage(*place) for place in struct.iter_unpack("<4I", data)]


def read_dimension(connection: sqlite3.Connection) -> int | None:
    """Return how many numbers a vector has, or None if there are none."""
    found = connection.execute(
        f"SELECT length(data) / 4 / coalesce(length(passages) / {PASSAGE_BYTES}, 1) FROM vectors LIMIT 1"
    ).fetchone()
    return found[0] if found else None


def put_row(connection: sqlite3.Connection, row: DocumentRow) -> int | None:
    """Store a document, unless it is there unchanged, and return the docnum of the one that it replaces."""
    values = (*row.values, row.digest, row.vectors, row.left_out)
    inserted = connection.execute(INSERT, values)
    replaced = None
    if not inserted.rowcount:
        stored = find_row(connection, row.id)
        if not stored or stored[1:] == (row.digest, row.checksum, row.left_out):
            return None
        replaced = stored[0]
        delete_row(connection, replaced)
        inserted = connection.execute(INSERT, values)
    if row.vector is not None:
        connection.execute(
            "INSERT INTO vectors (docnum, checksum, passages, data) VALUES (?, ?, ?, ?)",
            (inserted.lastrowid, row.checksum, row.passages, row.vector),
        )
    return replaced


def delete_row(connection: sqlite3.Connection, docnum: int) -> None:
    connection.execute("DELETE FROM documents WHERE docnum = ?", (docnum,))
    connection.execute("DELETE FROM vectors WHERE docnum = ?", (docnum,))


def to_document(row: Sequence[Any]) -> Document:
    document_id, title, text, author, tags, scope, created_us, metadata, kind, source_path = row
    return Document(
        document_id,
        title,
        text.decode("utf-8", "replace"),
        author,
        tuple(json.loads(tags)),
        scope,
        None if created_us is None else from_microseconds(created_us),
        json.loads(metadata),
        kind,
        source_path,
    )


def read_ranking_name(connection: sqlite3.Connection) -> str | None:
    """Return the name of the ranking that the file is indexed for."""
    found = connection.execute("SELECT value FROM facts WHERE name = 'store.ranking'").fetchone()
    return found[0] if found else None


def read_facts(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, value FROM facts WHERE name NOT LIKE 'store.%'"))


def write_facts(connection: sqlite3.Connection, facts: Mapping[str, str]) -> None:
    connection.executemany("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", facts.items())


def bump_generation(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO facts (name, value) VALUES ('store.generation', '1') "
        "ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
    )


def count_tags(connection: sqlite3.Connection) -> Tally:
    rows = connection.execute("SELECT tags FROM documents WHERE tags != '[]'")
    # Counted in Python, because the JSON functions of SQLite end a text at a NUL.
    counts = Counter(tag for (tags,) in rows for tag in json.loads(tags) if tag)
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return Tally(tuple(most[:MAX_TALLIED]), len(most))


def count_values(connection: sqlite3.Connection, values: str) -> Tally:
    counted = f"SELECT value, count(*) AS number FROM ({values}) WHERE value != '' GROUP BY value"
    most = connection.execute(f"{counted} ORDER BY number DESC, value LIMIT {MAX_TALLIED}").fetchall()
    (distinct,) = connection.execute(f"SELECT count(*) FROM ({counted})").fetchone()
    return Tally(tuple(most), distinct)


def _find_docnums(connection: sqlite3.Connection, ids: Collection[str] | None) -> list[int] | None:
    if ids is None:
        return None
    return [stored[0] for document_id in ids if (stored := find_row(connection, document_id))]


def count_embedded(connection: sqlite3.Connection, reader: IndexReader) -> int:
    """Return the number of documents that have a vector."""
    (without,) = connection.execute("SELECT count(*) FROM documents WHERE passages = 0").fetchone()
    return reader.documents - int(without)


def read_vector_token(connection: sqlite3.Connection) -> str:
    """Return the token that a copy of the vectors must have."""
    token: str
    (token,) = connection.execute("SELECT value FROM facts WHERE name = 'store.vectors'").fetchone()
    return token


def new_vector_token() -> dict[str, str]:
    """Return a fact that makes every earlier copy of the vectors invalid."""
    from secrets import token_hex

    return {"store.vectors": token_hex(8)}


def rank_ids(
    connection: sqlite3.Connection, found: Sequence[tuple[int, float]], limit: int
) -> list[tuple[str, int, float]]:
    """Return ids, docnums and scores of the best, by descending score, then id."""
    if not found or limit < 1:
        return []
    least = sorted([score for _, score in found], reverse=True)[:limit][-1]
    better = [(docnum, score) for docnum, score in found if score > least]
    equal = {docnum for docnum, score in found if score == least}
    sorted_ties = equal if len(equal) <= MAX_SORTED_TIES else set()
    ids = find_ids(connection, [docnum for docnum, _ in better] + list(sorted_ties))
    named = sorted(((ids[docnum], docnum, score) for docnum, score in better), key=lambda one: (-one[2], one[0]))
    if sorted_ties:
        last = sorted((ids[docnum], docnum) for docnum in sorted_ties)
    else:
        ordered = connection.execute("SELECT id, docnum FROM documents ORDER BY id")
        last = []
        for document_id, docnum in ordered:
            if docnum in equal:
                last.append((document_id, docnum))
                if len(last) + len(named) >= limit:
                    break
    return (named + [(document_id, docnum, least) for document_id, docnum in last])[:limit]


def find_ids(connection: sqlite3.Connection, docnums: Sequence[int]) -> dict[int, str]:
    wanted = "SELECT docnum, id FROM documents WHERE docnum IN (SELECT value FROM json_each(?))"
    return dict(connection.execute(wanted, (json.dumps(docnums),)))


def walk_ids(
    connection: sqlite3.Connection, ordered: str, wanted: Collection[int], limit: int, offset: int
) -> list[str]:
    """Return a page of the ids of an ordered query, of the wanted docnums only."""
    ids = (document_id for document_id, docnum in connection.execute(ordered) if docnum in wanted)
    return list(islice(ids, offset, offset + limit))


# SQLite's locks belong to a process as a whole, and a forked child would believe that it has those of its parent. So
# every store is disconnected while the process forks. See "How To Corrupt An SQLite Database File", section 2.6.
_STORES: WeakSet[SqliteStore] = WeakSet()
_forking = Lock()
_locked_stores: list[SqliteStore] = []


def _before_fork() -> None:
    _forking.acquire()
    for store in list(_STORES):
        store._lock.acquire()
        _locked_stores.append(store)
        store._disconnect()


def _after_fork_in_parent() -> None:
    for store in _locked_stores:
        store._lock.release()
    _locked_stores.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking
    for store in _locked_stores:
        store._lock = RLock()
    _locked_stores.clear()
    _forking = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
