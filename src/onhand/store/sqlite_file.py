"""Open an index file: its tables and their version, and what SQLite's errors mean to the caller."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from stat import S_ISREG
from typing import NamedTuple

from onhand.errors import InputError, StoreError

APPLICATION_ID = 0x6F6E6864  # "onhd": tells our files from others
VERSION = 3

# The statements that bring a file to each version from the one before it, all in one transaction. Files of versions
# before the first were never released.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    3: (
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        # A docnum is never used twice: postings and vectors of a deleted document must not become another's.
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
        # The key is in a tree of its own: where it lies beside the data, SQLite reads all of a long posting in order
        # to compare its key with another.
        """CREATE TABLE postings (
            number INTEGER PRIMARY KEY, segment INTEGER NOT NULL, kind INTEGER NOT NULL, term TEXT NOT NULL,
            size INTEGER NOT NULL, data BLOB NOT NULL)""",
        "CREATE UNIQUE INDEX postings_by_term ON postings (segment, kind, term)",
    ),
}


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Bring a file to the version that this code knows; refuse one that it does not."""
    version = checked_version(connection, path)
    if version == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = checked_version(connection, path)  # again, since another process may have been quicker
        for step in sorted(step for step in MIGRATIONS if version < step <= VERSION):
            for statement in MIGRATIONS[step]:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def checked_version(connection: sqlite3.Connection, path: str) -> int:
    """The version of a file, 0 for an empty one; refuses what is not ours or not known yet."""
    # In this order: another process may make the file ours in between, and it does so in one transaction.
    has_tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if has_tables and application != APPLICATION_ID:
        raise StoreError(f"{path} is a database of another program: name another file")
    if version < 0:
        raise StoreError(f"{path} has format {version}, which does not exist: the file is damaged. Restore a copy.")
    if 0 < version < min(MIGRATIONS):
        raise StoreError(
            f"{path} was made by an unreleased onhand (format {version}): import the documents into a new file."
        )
    if version > VERSION:
        raise StoreError(
            f"{path} was made by a newer onhand (format {version}; this version reads {VERSION}). Upgrade onhand."
        )
    return version


BUSY_TIMEOUT_S = 120.0  # writers queue; the last of many waits for all before it
RETRY_S = 0.002
SMALLEST_PAGE = 512  # bytes, of SQLite's

# What reading a file raises that holds something else than was written.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, MemoryError, StopIteration, TypeError, ValueError)

_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM)


class Opened(NamedTuple):
    """A connection; `frozen` is how the file looked where SQLite cannot notice that another process changes it."""

    connection: sqlite3.Connection
    frozen: tuple[int, ...] | None = None


def open_file(path: str) -> Opened:
    """A connection to a file of the layout that this code knows; one that cannot be written can still be read."""
    _refuse_what_is_no_file(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        return Opened(_writable(path))
    except sqlite3.Error as error:
        if _code(error) not in _UNWRITABLE or not os.path.isfile(path):
            raise
    return _read_only(path)


def stamp(path: str) -> tuple[int, ...]:
    """What tells that a file was changed; the log beside it counts only if there is something in it."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, _log_bytes(path)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """SQLite's errors, and those of reading what nobody wrote, as ours, with what to do about them."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {_advice(error)}") from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    except UnicodeEncodeError as error:  # of the caller: what is read from the file is only ever decoded
        raise InputError(f"half a character cannot be looked for or kept: {error.object[:100]!r}") from error
    except UNREADABLE as error:
        raise StoreError(
            f"{path}: what is kept cannot be read ({type(error).__name__}: {error}): run `onhand docs check`; "
            "if that finds nothing, this is a mistake of onhand: please report it"
        ) from error


def is_read_only(error: sqlite3.Error) -> bool:
    """Whether an error says that nothing can be written where the file lies."""
    return _code(error) == sqlite3.SQLITE_READONLY


def begin_writing(connection: sqlite3.Connection, patience_s: float = BUSY_TIMEOUT_S) -> None:
    """Begin a transaction that writes, when those before it are done.

    SQLite itself waits longer and longer between its attempts, so that one of many writers may wait for minutes.
    """
    deadline = time.monotonic() + patience_s
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_S)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")


def _refuse_what_is_no_file(path: str) -> None:
    """SQLite would wait for ever for somebody to write to a pipe, and overwrite a text of a few bytes."""
    if "\0" in path:
        raise StoreError(f"{path!r} cannot be the name of a file: name another file")
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return
    if not S_ISREG(found.st_mode):
        raise StoreError(f"{path} is a directory or a device, not a file: name a file in it, or another one")
    if 0 < found.st_size < SMALLEST_PAGE:
        raise StoreError(f"{path}: {_ADVICE['not a database']}")


def _writable(path: str) -> sqlite3.Connection:
    connection = _connect(path)
    try:
        checked_version(connection, path)  # before anything is changed: it may be another program's
        _keep_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _keep_log(connection: sqlite3.Connection) -> None:
    """Let readers and a writer work at once. SQLite does not wait here when several processes make one file."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)


def _read_only(path: str) -> Opened:
    """A file where nothing can be written: with the log that is there, or as it lies if there is none."""
    try:
        return Opened(_readable(path, "mode=ro"))
    except sqlite3.Error as error:
        if _code(error) not in _UNWRITABLE:
            raise
    if _log_bytes(path):
        raise StoreError(
            f"{path} was not closed properly and lies where nothing can be written: "
            "copy it, with the files beside it, to where it can be"
        )
    frozen = stamp(path)
    return Opened(_readable(path, "mode=ro&immutable=1"), frozen)


def _readable(path: str, options: str) -> sqlite3.Connection:
    from urllib.parse import quote

    connection = _connect(f"file:{quote(path)}?{options}", uri=True)
    try:
        if checked_version(connection, path) != VERSION:
            raise StoreError(f"{path} is of an older onhand: open it once where it can be written")
    except BaseException:
        connection.close()
        raise
    return connection


class _Connection(sqlite3.Connection):
    """Ends with whoever holds it: an index may simply be dropped, of which Python 3.13 would warn."""

    def __del__(self) -> None:
        with suppress(sqlite3.Error):  # it was never opened
            self.close()


def _connect(name: str, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, factory=_Connection, uri=uri
    )
    connection.execute("PRAGMA cache_size = -65536")  # kibibytes, of changed pages before they go to the log
    connection.execute("PRAGMA mmap_size = 1073741824")
    return connection


def _log_bytes(path: str) -> int:
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


def _code(error: sqlite3.Error) -> int:
    """What SQLite calls the kind of error; 0 if it is one of Python's module."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _advice(error: sqlite3.Error) -> str:
    said = str(error)
    for part, advice in _ADVICE.items():
        if part in said:
            return advice
    return f"SQLite says {said!r}"


_ADVICE = {
    "malformed": "the file is damaged: restore a copy or import the documents again",
    "not a database": "this is not a database: name another file",
    "disk is full": "the disk is full: nothing was written; free some space and try again",
    "readonly": "the file or its directory is read-only: nothing was written; searching works",
    "locked": f"another process has been writing for {BUSY_TIMEOUT_S:.0f} s: try again when it is done",
    "unable to open": "the file cannot be opened: is its directory there, and may you write to it?",
    "disk I/O": "the disk fails: nothing of this call was kept; look at the disk, then run `onhand docs check`",
}
