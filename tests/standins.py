"""What the document commands need that other parts bring: files that keep, and a reader of files.

Each steps aside where the real one is there.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from onhand.document import Document
from onhand.store import sqlite
from onhand.store.memory import MemoryStore


class Problem(NamedTuple):
    path: str
    where: str
    reason: str


def read_jsonl(
    paths: list[str], *, form: str = "auto", author: str = "", scope: str = "", tags: Sequence[str] = ()
) -> Iterator[Any]:
    """Documents and problems of JSONL files."""
    for path in paths:
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            yield Problem(path, "", f"cannot be read ({error.strerror})")
            continue
        for number, line in enumerate(lines, 1):
            try:
                fields = json.loads(line)
            except ValueError:
                yield Problem(path, str(number), "is no JSON")
            else:
                title, text = fields.get("title", ""), fields.get("text", "")
                yield Document(fields["id"], title, text, author, tuple(tags), scope, source_path=path)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let databases keep what they are given, and JSONL be read, for one test."""
    if issubclass(sqlite.SqliteStore, MemoryStore):
        kept: dict[str, MemoryStore] = {}

        def opened(path: Any) -> MemoryStore:
            name = str(Path(path).resolve())
            Path(name).touch()
            return kept.setdefault(name, MemoryStore())

        monkeypatch.setattr(sqlite, "SqliteStore", opened)
    if find_spec("onhand.corpora.sources") is None:
        module = ModuleType("onhand.corpora.sources")
        module.read_sources = read_jsonl  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "onhand.corpora.sources", module)
