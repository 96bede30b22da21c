"""Documents in one SQLite file."""

from __future__ import annotations

import os

from onhand.store.memory import MemoryStore


class SqliteStore(MemoryStore):
    """A Store in one file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
