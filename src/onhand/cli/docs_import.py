"""How do files become documents of the database? Reads them, says how far it is, and tells what could not be read."""

from __future__ import annotations

import os
from itertools import chain

from onhand.amounts import counted
from onhand.cli import terminal
from onhand.cli.progress import Progress
from onhand.document import Document
from onhand.errors import InputError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from onhand.config import Config
    from onhand.search.index import Written

MAX_PROBLEMS = 20  # more would push what was done out of sight


def run_import(asked: Config, arguments: argparse.Namespace) -> int:
    """Import what the paths hold: 0 if something could be, 1 if nothing could, 130 if it was interrupted."""
    from onhand.corpora.sources import read_sources

    given = {"form": arguments.form, "author": arguments.author, "scope": arguments.scope, "tags": arguments.tag}
    reader = _Reader(read_sources(arguments.paths, **given), Progress())
    try:
        done = _import(asked, arguments, reader)
    except KeyboardInterrupt:
        reader.progress.end()
        terminal.complain(
            f"onhand: stopped; {counted(reader.kept, 'document')} done and kept: the same command goes on from there"
        )
        return 130
    finally:
        reader.progress.end()
    _tell(done, reader.problems, arguments.json)
    return 0 if sum(done.written) else 1


class _Done:
    """What an import left behind."""

    def __init__(self, written: Written, path: str, semantic: str) -> None:
        self.written = written
        self.path = path
        self.semantic = semantic  # "ready", or why nothing can be found by meaning


class _Reader:
    """Gives the documents of the sources, keeps their problems, and shows how far it is."""

    def __init__(self, sources: Any, progress: Progress) -> None:
        self.problems: list[dict[str, str]] = []
        self.progress = progress
        self.read = 0
        self.kept = 0
        self._sources = sources

    def documents(self) -> Iterator[Document]:
        from onhand.search.accept import accepted

        for item in self._sources:
            if not isinstance(item, Document):
                self.problems.append({"path": item.path, "where": str(item.where or ""), "reason": item.reason})
                continue
            try:
                document = accepted(item)
            except InputError as error:  # one that cannot be kept must not stop the others
                self.problems.append({"path": item.source_path, "where": "", "reason": str(error)})
                continue
            self.read += 1
            self._show()
            yield document

    def on_progress(self, kept: int) -> None:
        self.kept = kept
        self._show()

    def _show(self) -> None:
        total, done = (getattr(self._sources, name, 0) or 0 for name in ("total_bytes", "done_bytes"))
        self.progress.show(f"{self.read:,} documents read, {self.kept:,} kept", done, total)


def _import(asked: Config, arguments: argparse.Namespace, reader: _Reader) -> _Done:
    """Put the documents into the database, which is not made before there is something to put into it."""
    from onhand import app
    from onhand.search.index import Written

    path = arguments.db or app.documents_path(asked)
    documents = reader.documents()
    first = next(documents, None)
    if first is None:
        return _Done(Written(), path, "ready")
    _make_directory(path)
    embedder = asked.documents.embedder if arguments.embedder is None else arguments.embedder
    with app.open_index(path, embedder) as index:
        written = index.put(chain([first], documents), reader.on_progress)
        semantic = "ready" if embedder == "none" else index.stats().semantic
    return _Done(written, path, semantic)


def _make_directory(path: str) -> None:
    directory = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{directory} cannot be made ({error.strerror}): name another file by --db") from None


def _tell(done: _Done, problems: list[dict[str, str]], as_json: bool) -> None:
    added, changed, unchanged = done.written
    if as_json:
        terminal.print_json(
            {
                "added": added,
                "changed": changed,
                "unchanged": unchanged,
                "problems": problems,
                "db": done.path,
                "semantic": done.semantic,
            }
        )
        return
    for problem in problems[:MAX_PROBLEMS]:
        place = ":".join(part for part in (problem["path"], problem["where"]) if part)
        terminal.complain(f"onhand: {place.replace(chr(10), ' ')}: {problem['reason']}")
    if len(problems) > MAX_PROBLEMS:
        terminal.complain(f"onhand: and {len(problems) - MAX_PROBLEMS:,} more: --json lists them all")
    if not sum(done.written):
        terminal.complain("onhand: nothing was imported: no document was found in what you named")
        return
    terminal.say(
        f"{counted(sum(done.written), 'document')} in {done.path}: {added:,} added, {changed:,} changed, "
        f"{unchanged:,} unchanged and skipped" + (f"; {counted(len(problems), 'problem')}" if problems else "")
    )
    if done.semantic != "ready":
        terminal.warn([f"found by words only, not by meaning: {done.semantic}"])
