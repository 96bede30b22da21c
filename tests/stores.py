"""Every Store, opened for a test, and documents to put into it."""

import os
import sys
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from onhand.document import Document
from onhand.lexical import index, segment
from onhand.lexical.index import LexicalIndex
from onhand.lexical.scoring import Ranking
from onhand.lexical.tokenizer import IdentifierTokenizer, Tokenizer
from onhand.store import segments
from onhand.store.memory import MemoryStore
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Entry, Store

KINDS = ("memory", "plain", "numpy")  # the last two are SQLite stores, without and with numpy


ALL = 10**6  # as a limit: every match of a test


def lexical_index(
    tokenizer: Tokenizer | None = None, *, fields: Mapping[str, float] | None = None, **options: Any
) -> LexicalIndex:
    """An empty index in memory of a ranking with these options."""
    return LexicalIndex(Ranking("test", tokenizer or IdentifierTokenizer(), fields or {"text": 1.0}, **options))


@contextmanager
def searching(kind: str) -> Iterator[None]:
    """Let stores evaluate queries in one of the two ways, however large they are."""
    with pytest.MonkeyPatch.context() as patch:
        least = sys.maxsize if kind == "plain" else 0
        patch.setattr(index, "NUMPY_PAYS", least)
        patch.setattr(index, "NUMPY_IS_FASTER", least)
        if kind == "plain":
            patch.setattr(SqliteStore, "_current_copy", lambda store, connection: None)  # as if it were not installed
        yield


@contextmanager
def small_segments(tail: int = 3, bulk: int = 10, fan: int = 2) -> Iterator[None]:
    """Let a handful of documents make segments, merge them and clear the deleted documents away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MAX_TAIL_DOCUMENTS", tail)
        patch.setattr(segments, "MAX_BULK_DOCUMENTS", bulk)
        patch.setattr(index, "ALWAYS_SCANNED_DOCUMENTS", 1)
        patch.setattr(segment, "SMALL_SEGMENT", tail)
        patch.setattr(segment, "FAN", fan)
        yield


@contextmanager
def directory() -> Iterator[Path]:
    """A directory for many short-lived files: in memory where that is possible, as nobody cuts the power here."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


def opened(kind: str, path: Path) -> Store:
    """A store of a kind."""
    return MemoryStore() if kind == "memory" else SqliteStore(path)


def entries(documents: Sequence[Document]) -> list[Entry]:
    """Documents without vectors."""
    return [Entry(document) for document in documents]


def vector(*numbers: float) -> "array[float]":
    """A vector of length one in the direction of these numbers."""
    length = sum(number * number for number in numbers) ** 0.5
    return array("f", (number / length for number in numbers))


def day(number: int, **more: int) -> datetime:
    """A day of March 2026."""
    return datetime(2026, 3, number, tzinfo=UTC) + timedelta(**more)


NEW_YORK = timezone(timedelta(hours=-5))

MAIL = [
    Document("q3", "Q3 forecast", "Of the third quarter.", "Sarah Chen <sarah@x.org>", ("mail", "q3"), "sales", day(3)),
    Document("lunch", "Lunch", "Who brings the forecast of the weather?", "bob@y.org", ("mail",), "social", day(1)),
    Document("spec", "HttpServer", "def parse_http_header(line): return line", "Ann Lee", (), "code", day(2)),
    Document("old", "Minutes", "Sarah could not come.", "sarah@other.net", ("mail", "old"), "sales", day(1, hours=-1)),
    Document("timeless", "Note", "A note on the server.", "", ("q3",), "", None),
    Document("dawn", "Dawn", "Written at night.", "SARAH CHEN", ("old",), "social", day(2).astimezone(NEW_YORK)),
]
