"""How is the file laid out, and how does an older one become a newer one?"""

from __future__ import annotations

from onhand.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x6F6E6864  # "onhd": tells our files from others
VERSION = 2

# What has to run to bring a file from the version before each to that version, all in one transaction.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    1: (
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        # A slot is never used twice: postings and vectors of a document that is gone must not become another's.
        """CREATE TABLE documents (
            slot INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, author TEXT NOT NULL,
            tags TEXT NOT NULL, scope TEXT NOT NULL, created_us INTEGER, kind TEXT NOT NULL, source_path TEXT NOT NULL,
            metadata TEXT NOT NULL, hash TEXT NOT NULL, has_vector INTEGER NOT NULL, text BLOB NOT NULL)""",
        "CREATE INDEX documents_by_time ON documents (created_us DESC, id)",
        "CREATE INDEX documents_without_vector ON documents (id) WHERE has_vector = 0",
        "CREATE TABLE vectors (slot INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, data BLOB NOT NULL)",
        # Everything below is derived from the documents and can be made anew.
        """CREATE TABLE segments (
            number INTEGER PRIMARY KEY AUTOINCREMENT, first_slot INTEGER NOT NULL, last_slot INTEGER NOT NULL,
            documents INTEGER NOT NULL, lengths BLOB NOT NULL, created_us BLOB NOT NULL, dead BLOB NOT NULL)""",
        """CREATE TABLE postings (
            segment INTEGER NOT NULL, kind INTEGER NOT NULL, term TEXT NOT NULL, size INTEGER NOT NULL,
            data BLOB NOT NULL, PRIMARY KEY (segment, kind, term)) WITHOUT ROWID""",
    ),
    2: (
        "DELETE FROM segments",
        "DROP TABLE postings",
        # The key in a tree of its own: where it lies beside the data, SQLite reads all of a long posting in order to
        # compare its key with another.
        """CREATE TABLE postings (
            number INTEGER PRIMARY KEY, segment INTEGER NOT NULL, kind INTEGER NOT NULL, term TEXT NOT NULL,
            size INTEGER NOT NULL, data BLOB NOT NULL)""",
        "CREATE UNIQUE INDEX postings_by_term ON postings (segment, kind, term)",
        "DELETE FROM facts WHERE name = 'store.ranking'",  # so that who opens the file indexes it anew
    ),
}


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Bring a file to the version that this code knows; refuse one that it does not."""
    version = checked_version(connection, path)
    if version == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in range(checked_version(connection, path) + 1, VERSION + 1):  # another process may have been quicker
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
        raise StoreError(f"{path} has a format that there never was: the file is damaged; restore a copy")
    if version > VERSION:
        raise StoreError(
            f"{path} was made by a newer onhand (format {version}, this one knows {VERSION}): upgrade onhand"
        )
    return version
