"""Which documents do these files make? Keeps an Index in step with files: reads what changed, forgets what is gone.

What a file gave is noted beside its documents, so that the next process which opens the same place reads only what
changed since. What is in a file, only its corpus knows. Not safe between threads: its owner holds a lock.
"""

from __future__ import annotations

from onhand.corpora import files
from onhand.corpora.files import Found, Problem, Stamp
from onhand.digest import digest
from onhand.errors import EmbedderError, MissingExtra, StoreError
from onhand.record import Record
from onhand.search.index import BATCH, Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from onhand.document import Document
    from onhand.embed.embedder import Embedder
    from onhand.lexical.ranking import Ranking
    from onhand.store.store import Store

    Answer = TypeVar("Answer")


class Content(Record):
    """What a corpus made of a file: documents, whose ids are those of `document_id`, and what to know without them."""

    documents: Sequence[Document] = ()
    summary: Mapping[str, Any] = {}  # anything that JSON can say
    problem: str | None = None  # what is wrong with it although it can be used


class Page(Record):
    """A file as it was when it was last read."""

    stamp: Stamp | None  # None: read it again next time
    digest: str  # of its text; "" when it could not be read
    documents: int
    summary: Mapping[str, Any]
    problem: str | None


class Mirror:
    """An Index of files. `read` makes the content of a path and its text.

    With a `path`, what it learns is kept in that file. One that cannot be used costs time, never an answer: then all of
    it is kept in memory. An embedder that fails leaves words, and `Index.fused` says why.
    """

    def __init__(
        self,
        read: Callable[[str, str], Content],
        *,
        max_file_bytes: int,
        path: str | None = None,
        ranks: Ranking | None = None,
        embedder: Embedder | None = None,
        unavailable: str | None = None,
    ) -> None:
        self._read = read
        self._max_file_bytes = max_file_bytes
        self._path = path
        self._ranks = ranks
        self._embedder = embedder
        self._unavailable = unavailable
        self._is_learned = False  # nobody has looked for documents without a vector yet
        self._found: Mapping[str, Found] = {}
        self.pages: dict[str, Page] = {}
        self._open()

    def refresh(self, found: Mapping[str, Found]) -> bool:
        """See to it that the index has what these files say and nothing else; whether anything was different."""
        self._found = found
        try:
            return self._refresh()
        except StoreError as error:
            self._fall_back(error)
            return True

    def ask(self, question: Callable[[Index], Answer]) -> Answer:
        """What the index answers."""
        try:
            return question(self._index)
        except StoreError as error:
            self._fall_back(error)
            return question(self._index)

    def path_of(self, document_id: str) -> str:
        """The path of the file that a document is of."""
        spelled = document_id.rpartition(":")[0]
        if spelled in self.pages:
            return spelled
        return next((path for path in self.pages if _spelled(path) == spelled), spelled)

    def problems(self) -> list[Problem]:
        """The files that could not be used, or not wholly, and why."""
        return [Problem(path, page.problem) for path, page in self.pages.items() if page.problem]

    def close(self) -> None:
        """Let go of the file."""
        self._index.close()

    def _open(self) -> None:
        if self._path is not None:
            from onhand.store.sqlite import SqliteStore

            try:
                self._adopt(SqliteStore(self._path, self._ranks, is_cache=True))
                return
            except StoreError:
                self._path = None
        from onhand.store.memory import MemoryStore

        self._adopt(MemoryStore(self._ranks))

    def _adopt(self, store: Store) -> None:
        self.pages = _kept(store.marks())
        self._index = Index(store, self._embedder, self._unavailable)
        self._is_learned = False

    def _fall_back(self, error: StoreError) -> None:
        """Go on in memory with a new beginning, and leave the next process one: all of it can be made anew."""
        if self._path is None:
            raise error
        self._index.close()
        _discard(self._path)
        self._path = None
        self._open()
        self._refresh()

    def _refresh(self) -> bool:
        found = self._found
        gone = [path for path in self.pages if path not in found]
        touched = [path for path, file in found.items() if not self._is_current(path, file)]
        changed = bool(gone)
        batch = _Batch()
        for path in gone:
            batch.drop(path, self.pages.pop(path))
        for path in touched:
            changed = self._take(path, found[path], batch) or changed
            if len(batch.documents) >= BATCH:
                batch = batch.written(self._index)
        batch.written(self._index)
        if self._embedder and (changed or not self._is_learned):
            self._learn()
        return changed

    def _learn(self) -> None:
        """Work out what documents mean of which nobody has."""
        try:
            self._index.reembed()
            self._is_learned = True
        except (EmbedderError, MissingExtra) as reason:
            self._embedder, self._unavailable = None, str(reason)
            self._index = Index(self._index.store, None, self._unavailable)

    def _is_current(self, path: str, file: Found) -> bool:
        page = self.pages.get(path)
        return page is not None and page.stamp == file.stamp

    def _take(self, path: str, file: Found, batch: _Batch) -> bool:
        """Read a new or changed file; whether it says something else than before."""
        before = self.pages.get(path)
        page, documents = self._page(path, file, before)
        self.pages[path] = page
        if before is None or before[1:] != page[1:]:
            if before:
                batch.drop(path, before)
            batch.keep(path, page, documents)
            return True
        if before.stamp != page.stamp:
            batch.keep(path, page, ())
        return False

    def _page(self, path: str, file: Found, before: Page | None) -> tuple[Page, Sequence[Document]]:
        stamp = file.stamp if files.is_settled(file.stamp) else None
        try:
            text, problem = files.read(file, self._max_file_bytes)
        except files.Unreadable as reason:
            passing = isinstance(reason.__cause__, OSError)  # it may be gone at the next look
            return Page(None if passing else stamp, "", 0, {}, str(reason)), ()
        said = digest(f"{problem}\n{text}".encode("utf-8", "replace"))
        if before and before.digest == said:
            return before._replace(stamp=stamp), ()
        content = self._read(path, text)
        page = Page(stamp, said, len(content.documents), content.summary, problem or content.problem)
        return page, content.documents


def document_id(path: str, number: int) -> str:
    """The id of a file's document, which puts the documents of a file in their order, and files in theirs."""
    return f"{_spelled(path)}:{number:06d}"


class _Batch:
    """What goes into the index together."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.gone: dict[str, None] = {}
        self.marks: dict[str, str | None] = {}

    def drop(self, path: str, page: Page) -> None:
        self.gone |= dict.fromkeys(document_id(path, number) for number in range(page.documents))
        self.marks[_spelled(path)] = None

    def keep(self, path: str, page: Page, documents: Sequence[Document]) -> None:
        self.documents += documents
        for document in documents:
            self.gone.pop(document.id, None)
        self.marks[_spelled(path)] = _mark(path, page)

    def written(self, index: Index) -> _Batch:
        """An empty batch, once this one is in the index."""
        if self.marks:
            index.update(self.documents, list(self.gone), self.marks)
        return _Batch()


def _spelled(path: str) -> str:
    """A path as text that can be kept: a file's name may be no Unicode. Two paths never become one."""
    if path.isascii() and "\\" not in path:
        return path
    return path.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode()


def _mark(path: str, page: Page) -> str:
    import json

    return json.dumps([path, *page])


def _kept(marks: Mapping[str, str]) -> dict[str, Page]:
    """The pages that were noted; of a note that nobody here wrote, nothing is believed."""
    import json

    try:
        noted = json.loads(f"[{','.join(marks.values())}]")
        return {path: Page(stamp and Stamp(*stamp), *rest) for path, stamp, *rest in noted}
    except (ValueError, TypeError) as error:
        raise StoreError("what is noted of the files cannot be read") from error


def _discard(path: str) -> None:
    """Delete what can be made anew."""
    import os
    from contextlib import suppress
    from shutil import rmtree

    for end in ("", "-wal", "-shm"):
        with suppress(OSError):
            os.remove(path + end)
    rmtree(f"{path}-vectors", ignore_errors=True)
