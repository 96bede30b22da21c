"""Open an index file: create and migrate its tables, and translate SQLite's errors."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from stat import S_ISREG
from typing import NamedTuple

from onhand.errors import InputError, StoreError
from onhand.fsio import describe_fault, find_fault, make_directories

APPLICATION_ID = 0x6F6E6864  # "onhd", which marks a database as ours
VERSION = 5

# The statements that migrate a file to each version from the previous one, all in one transaction. Versions before the
# first one here were never released.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    4: (
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        # A docnum is never reused: postings and vectors of a deleted document must not become those of another one.
        """CREATE TABLE documents (
            docnum INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL,
            author TEXT NOT NULL, tags TEXT NOT NULL, scope TEXT NOT NULL, created_us INTEGER, kind TEXT NOT NULL,
            source_path TEXT NOT NULL, metadata TEXT NOT NULL, hash TEXT NOT NULL, has_vector INTEGER NOT NULL,
            text BLOB NOT NULL)""",
        "CREATE INDEX documents_by_time ON documents (created_us DESC, id)",
        "CREATE INDEX documents_without_vector ON documents (id) WHERE has_vector = 0",
        "CREATE TABLE vectors (docnum INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, data BLOB NOT NULL)",
        # Everything below is derived from the documents and can be built again.
        """CREATE TABLE segments (
            number INTEGER PRIMARY KEY AUTOINCREMENT, first_docnum INTEGER NOT NULL, last_docnum INTEGER NOT NULL,
            documents INTEGER NOT NULL, lengths BLOB NOT NULL, created_us BLOB NOT NULL, deleted BLOB NOT NULL)""",
        # The key has its own index: if it were stored beside the data, SQLite would read all of a long posting to
        # compare keys.
        """CREATE TABLE postings (
            number INTEGER PRIMARY KEY, segment INTEGER NOT NULL, kind INTEGER NOT NULL, term TEXT NOT NULL,
            size INTEGER NOT NULL, data BLOB NOT NULL)""",
        "CREATE UNIQUE INDEX postings_by_term ON postings (segment, kind, term)",
    ),
    5: (
        # How many vectors a document has, and how many bytes of its text none of them represents.
        "ALTER TABLE documents RENAME COLUMN has_vector TO passages",
        "ALTER TABLE documents ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX documents_by_passages ON documents (passages) WHERE passages > 1",
        "CREATE INDEX documents_cut ON documents (id, passages, left_out) WHERE left_out > 0",
        # A vector made before represents the beginning of a document, which is enough if the document is short. Others
        # wait for `onhand docs reembed`.
        "ALTER TABLE vectors RENAME TO beginnings",
        """CREATE TABLE vectors (
            docnum INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, passages BLOB, data BLOB NOT NULL)""",
        """INSERT INTO vectors (docnum, checksum, data) SELECT docnum, checksum, data FROM beginnings
            WHERE docnum IN (SELECT docnum FROM documents WHERE length(text) <= 1000)""",
        "DROP TABLE beginnings",
        "UPDATE documents SET passages = 0 WHERE length(text) > 1000",
        "UPDATE facts SET value = lower(hex(randomblob(8))) WHERE name = 'store.vectors'",
    ),
}


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring a file to the current version; raise StoreError if its version is unknown."""
    version = read_version(connection, path)
    if version == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = read_version(connection, path)  # again, since another process may have migrated it
        for step in sorted(step for step in MIGRATIONS if version < step <= VERSION):
            for statement in MIGRATIONS[step]:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def read_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the version of a file, 0 for an empty one; raise StoreError if it is not a known version of ours."""
    # The order matters: another process may create our tables in between, which it does in one transaction.
    has_tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if has_tables and application != APPLICATION_ID:
        raise StoreError(f"{path} is a database of another program. Choose another file.")
    if version < 0:
        raise StoreError(f"{path} has format {version}, which does not exist: the file is damaged. Restore a backup.")
    if 0 < version < min(MIGRATIONS):
        raise StoreError(
            f"{path} was made by an unreleased onhand (format {version}). Import the documents into a new file."
        )
    if version > VERSION:
        raise StoreError(
            f"{path} was made by a newer onhand (format {version}; this version reads {VERSION}). Upgrade onhand."
        )
    return version


BUSY_TIMEOUT_S = 120.0  # writers queue, and the last of many waits for all others
RETRY_S = 0.002
PATIENCE_S = 1.0  # with a locked file; then it is checked whether files can be locked here at all
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)  # a file may be searched where it cannot be written
FILE_MODE = 0o600  # documents may be private, such as mail
MIN_DATABASE_BYTES = 512  # the smallest page of SQLite

# The exceptions that reading damaged content may raise.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, MemoryError, StopIteration, TypeError, ValueError)

_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM)


class OpenFile(NamedTuple):
    """A connection to a file, and its change stamp if SQLite would not notice that another process changes it."""

    connection: sqlite3.Connection
    immutable_stamp: tuple[int, ...] | None = None


def open_file(path: str) -> OpenFile:
    """Open a file of the current version, read-only if it cannot be written."""
    _check_path(path)
    make_directories(os.path.dirname(path))
    try:
        return OpenFile(_open_writable(path))
    except sqlite3.Error as error:
        if _error_code(error) not in _UNWRITABLE or not os.path.isfile(path):
            raise
        try:
            return _open_read_only(path)
        except (StoreError, sqlite3.Error):
            fault = find_fault(os.path.dirname(path))
            if fault is not None and fault.errno not in READ_ONLY:
                raise StoreError(f"{path} cannot be opened: {describe_fault(fault)}") from error
            raise


def change_stamp(path: str) -> tuple[int, ...]:
    """Return a value that changes when the file or its write-ahead log does; an empty log does not count."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, _log_bytes(path)


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Turn SQLite's errors, and those of reading damaged content, into errors that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        # A file on a failing disk may have been opened read-only.
        is_vague = _error_code(error) in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
        fault = find_fault(os.path.dirname(path)) if is_vague else None
        if fault is not None and fault.errno not in READ_ONLY:
            raise StoreError(f"{path}: {describe_fault(fault)}") from error
        raise StoreError(f"{path}: {_advice(error)}") from error
    except OSError as error:
        raise StoreError(f"{path}: {describe_fault(error)}") from error
    except UnicodeEncodeError as error:  # of the caller's text, since text from the file is only decoded
        raise InputError(
            f"The text {error.object[:100]!r} contains a lone surrogate, which cannot be encoded as UTF-8. "
            "Remove it and try again."
        ) from error
    except UNREADABLE as error:
        raise StoreError(
            f"{path}: the content cannot be read ({type(error).__name__}: {error}). Run `onhand docs check`. "
            "If that finds nothing, this is a bug in onhand: please report it."
        ) from error


def is_read_only(error: sqlite3.Error) -> bool:
    """Return whether an error means that the file cannot be written."""
    return _error_code(error) == sqlite3.SQLITE_READONLY


def begin_writing(connection: sqlite3.Connection, path: str, patience_s: float = BUSY_TIMEOUT_S) -> None:
    """Begin a write transaction after those of other writers.

    SQLite itself waits longer and longer between its attempts, so that one of many writers could wait for minutes.
    """
    deadline = time.monotonic() + patience_s
    checked_at: float | None = time.monotonic() + PATIENCE_S
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if _error_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                if checked_at is not None and time.monotonic() > checked_at:
                    checked_at = None
                    if fault := _lock_fault(path):
                        raise StoreError(f"{path} cannot be locked: {describe_fault(fault)}") from error
            time.sleep(RETRY_S)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")


def _check_path(path: str) -> None:
    """Raise StoreError for a pipe, on which SQLite would wait forever, and for a tiny file that it would overwrite."""
    if "\0" in path:
        raise StoreError(f"{path!r} is not a valid file name. Choose another file.")
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return
    if not S_ISREG(found.st_mode):
        raise StoreError(f"{path} is a directory or a device, not a file. Choose a file.")
    if 0 < found.st_size < MIN_DATABASE_BYTES:
        raise StoreError(f"{path}: {_ADVICE['not a database']}")


def _open_writable(path: str) -> sqlite3.Connection:
    with suppress(FileExistsError):  # SQLite gives the files beside it the same mode
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), FILE_MODE))
    connection = _connect(path, path)
    try:
        read_version(connection, path)  # before anything is changed, since it may belong to another program
        _enable_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Let readers and a writer work at the same time.

    SQLite itself does not wait here when several processes create one file.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _error_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)


def _open_read_only(path: str) -> OpenFile:
    """Open a file in a place that cannot be written: with its write-ahead log, or as immutable if it has none."""
    try:
        return OpenFile(_connect_read_only(path, "mode=ro"))
    except sqlite3.Error as error:
        if _error_code(error) not in _UNWRITABLE:
            raise
    if _log_bytes(path):
        raise StoreError(
            f"{path} was not closed properly, and its directory is read-only. "
            "Copy it, together with the files beside it, to a directory that can be written."
        )
    stamp = change_stamp(path)
    return OpenFile(_connect_read_only(path, "mode=ro&immutable=1"), stamp)


def _connect_read_only(path: str, options: str) -> sqlite3.Connection:
    from urllib.parse import quote

    connection = _connect(f"file:{quote(path)}?{options}", path, uri=True)
    try:
        version = read_version(connection, path)
        if not version:
            raise StoreError(f"{path} is empty, and no index can be created: make it writable, or check the disk.")
        if version != VERSION:
            raise StoreError(f"{path} was made by an older onhand. Open it once where it can be written.")
    except BaseException:
        connection.close()
        raise
    return connection


class _Connection(sqlite3.Connection):
    """A connection that closes itself when its store is dropped, about which Python 3.13 would warn."""

    def __del__(self) -> None:
        with suppress(sqlite3.Error):  # raised if it was never opened
            self.close()


def _connect(name: str, path: str, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False, factory=_Connection, uri=uri
    )
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.Error as error:
        if _error_code(error) != sqlite3.SQLITE_BUSY:  # the caller's first statement will raise it again
            pass
        elif fault := _lock_fault(path):
            connection.close()
            raise StoreError(f"{path} cannot be locked: {describe_fault(fault)}") from error
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")
    connection.execute("PRAGMA cache_size = -65536")  # in KiB: changed pages before they are written to the log
    connection.execute("PRAGMA mmap_size = 1073741824")
    return connection


def _lock_fault(path: str) -> OSError | None:
    """Return why no file can be locked beside this one, which SQLite takes for a lock of another process, or None."""
    fault = find_fault(os.path.dirname(path))
    return fault if fault and fault.errno == errno.ENOLCK else None


def _log_bytes(path: str) -> int:
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


def _error_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary error code, or 0 if the error comes from Python's module."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _advice(error: sqlite3.Error) -> str:
    message = str(error)
    for part, advice in _ADVICE.items():
        if part in message:
            return advice
    return f"SQLite reports {message!r}"


_ADVICE = {
    "malformed": "the file is damaged. Restore a backup, or import the documents again.",
    "not a database": "this is not a database. Choose another file.",
    "disk is full": "the disk is full, and nothing was written. Free some space and try again.",
    "readonly": "the file or its directory is read-only, and nothing was written. Searching works.",
    "locked": f"another process has been writing for {BUSY_TIMEOUT_S:.0f} s. Try again when it is done.",
    "unable to open": "the file cannot be opened. Check that its directory exists and that you may write to it.",
    "disk I/O": "the disk failed, and nothing of this call was written. Check the disk, then run `onhand docs check`.",
}
