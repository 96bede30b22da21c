"""A project on disk, and a look over Python's shoulder at which files are opened."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from onhand.corpora.context import Context, ContextResult

Listener = Callable[[str], None]
_listeners: list[Listener] = []


class Project:
    """A directory with an `.AGENTS` in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / ".AGENTS"
        self.root.mkdir(parents=True)

    def write(self, name: str, content: str | bytes) -> Path:
        """A file of the root; "../docs/x.md" is one of the project."""
        path = Path(os.path.normpath(self.root / name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def context(self, **options: Any) -> Context:
        return Context(self.directory, **options)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file that the project must not reach."""
    path = tmp_path / "outside" / "secret.md"
    path.parent.mkdir()
    path.write_text("# Secret\n\nforbidden zebra\n", encoding="utf-8")
    return path


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is a minute ahead, so that what was written just now counts as settled."""
    import time

    now_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + 60_000_000_000)


def found(result: ContextResult) -> list[tuple[str, str]]:
    """Path and heading of each hit."""
    return [(hit.path, hit.section.heading) for hit in result.hits]


def reasons(context: Context) -> dict[str, str]:
    """Why each problem is one, by path."""
    return {problem.path: problem.reason for problem in context.problems()}


@contextmanager
def on_open(listener: Listener) -> Iterator[None]:
    """Call the listener with each path just before Python opens or lists it; what it raises, the caller gets."""
    _listen()
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def opened() -> Iterator[list[str]]:
    """The files and directories that are opened meanwhile, without those of the modules that are imported."""
    paths: list[str] = []
    with on_open(paths.append):
        yield paths
    paths[:] = [path for path in paths if not path.endswith((".py", ".pyc", ".so", ".pth")) and path not in sys.path]


@cache
def _listen() -> None:
    sys.addaudithook(_hear)  # for good: a hook cannot be taken out again


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _listeners and event in ("open", "os.scandir", "os.listdir") and isinstance(arguments[0], str | bytes):
        for listener in tuple(_listeners):
            listener(os.fsdecode(arguments[0]))
