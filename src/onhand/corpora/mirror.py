"""Which documents do these files make? Keeps an Index in step with files: reads what changed, forgets what is gone.

What a file gave is noted beside its documents, so that the next process which opens the same place reads only what
changed since. What is in a file, only its corpus knows. Not safe between threads: its owner holds a lock.
"""

from __future__ import annotations

from onhand.corpora import files
from onhand.corpora.files import Found, Problem, Stamp
from onhand.corpora.kept import discard
from onhand.digest import digest
from onhand.document import EVERYTHING
from onhand.errors import EmbedderError, MissingExtra, StoreError
from onhand.record import Record
from onhand.search.index import BATCH, Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from onhand.document import Document, Filter
    from onhand.embed.embedder import Embedder
    from onhand.lexical.ranking import Ranking
    from onhand.store.store import Store

    Answer = TypeVar("Answer")

WORTH_KEEPING_BYTES = 128 * 1024  # of files: to read and index less than this costs less than to open a store


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
    it is kept in memory. An embedder that fails leaves words, and `Index.fused` says why; `embeds` is the Index's.
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
        embeds: Filter = EVERYTHING,
    ) -> None:
        self._read = read
        self._max_file_bytes = max_file_bytes
        self._path = path
        self._ranks = ranks
        self._embedder = embedder
        self._unavailable = unavailable
        self._embeds = embeds
        self._is_learned = False  # nobody has looked for documents without a vector yet
        self._found: Mapping[str, Found] = {}
        self._index: Index | None = None  # nobody has looked at any file yet
        self.pages: dict[str, Page] = {}

    def refresh(self, found: Mapping[str, Found]) -> bool:
        """See to it that the index has what these files say and nothing else; whether anything was different."""
        self._found = found
        return self.ask(self._refresh)

    def ask(self, question: Callable[[Index], Answer]) -> Answer:
        """What the index answers."""
        try:
            return question(self._index or self._open())
        except StoreError:
            if self._path is None:
                raise
        # All of it can be made anew: here in memory, and by the next process at the same place.
        self.close()
        discard(self._path)
        self._path = None
        index = self._open()
        self._refresh(index)
        return question(index)

    def path_of(self, document_id: str) -> str:
        """The path of the file that a document is of."""
        spelled = document_id.rpartition("//")[0]
        if spelled in self.pages:
            return spelled
        return next((path for path in self.pages if _spelled(path) == spelled), spelled)

    def problems(self) -> list[Problem]:
        """The files that could not be used, or not wholly, and why."""
        return [Problem(path, page.problem) for path, page in self.pages.items() if page.problem]

    def close(self) -> None:
        """Let go of the file."""
        if self._index:
            self._index.close()

    def _open(self) -> Index:
        self.pages = {}
        self._is_learned = False
        self._index = Index(self._store(), self._embedder, self._unavailable, self._embeds)
        return self._index

    def _store(self) -> Store:
        size = sum(file.stamp.size for file in self._found.values())
        if self._path is not None and (self._embedder or size >= WORTH_KEEPING_BYTES):
            from onhand.store.sqlite import SqliteStore

            try:
                store = SqliteStore(self._path, self._ranks, is_cache=True)
                self.pages = _kept(store.marks())
                return store
            except StoreError:
                discard(self._path)
        self._path = None
        from onhand.store.memory import MemoryStore

        return MemoryStore(self._ranks)

    def _refresh(self, index: Index) -> bool:
        found, before = self._found, self.pages
        batch: dict[str, _Read | None] = {path: None for path in before if path not in found}
        changed, waiting = bool(batch), 0
        for path, file in found.items():
            page = before.get(path)
            if page is None or page.stamp != file.stamp:
                batch[path] = read = self._page(path, file, page)
                changed = changed or page is None or page[1:] != read.page[1:]
                waiting += len(read.documents)
            if waiting >= BATCH:
                self._write(index, batch)
                batch, waiting = {}, 0
        self._write(index, batch)
        if self._embedder and (changed or not self._is_learned):
            self._learn(index)
        return changed

    def _write(self, index: Index, batch: Mapping[str, _Read | None]) -> None:
        """Bring the index in step with files that were read, or are gone."""
        marks = {_spelled(path): read and _mark(path, read.page) for path, read in batch.items()}
        changed = {path: read for path, read in batch.items() if read is None or read.is_new}
        # Another process may have written what we have not seen; in memory nobody else does.
        replaced = [path for path in changed if self._path or path in self.pages]
        documents = [document for read in changed.values() if read for document in read.documents]
        if marks:
            index.update(documents, [_beginning(path) for path in replaced], marks)
        for path, read in batch.items():
            if read is None:
                del self.pages[path]
            else:
                self.pages[path] = read.page

    def _learn(self, index: Index) -> None:
        """Work out what documents mean of which nobody has."""
        try:
            index.reembed()
            self._is_learned = True
        except (EmbedderError, MissingExtra) as reason:
            self._embedder, self._unavailable = None, str(reason)
            self._index = Index(index.store, None, self._unavailable, self._embeds)

    def _page(self, path: str, file: Found, before: Page | None) -> _Read:
        stamp = file.stamp if files.is_settled(file.stamp) else None
        try:
            text, problem = files.read(file, self._max_file_bytes)
        except files.Unreadable as reason:
            passing = isinstance(reason.__cause__, OSError)  # it may be gone at the next look
            return _Read(Page(None if passing else stamp, "", 0, {}, str(reason)))
        said = digest(f"{problem}\n{text}".encode("utf-8", "replace"))
        if before and before.digest == said:
            return _Read(before._replace(stamp=stamp), is_new=False)
        content = self._read(path, text)
        page = Page(stamp, said, len(content.documents), content.summary, problem or content.problem)
        return _Read(page, content.documents)


class _Read(Record):
    """A file that was just read."""

    page: Page
    documents: Sequence[Document] = ()
    is_new: bool = True  # False: it says what it said before, and its documents are there


def document_id(path: str, number: int) -> str:
    """The id of a file's document: documents of a file come in their order, files in that of their paths."""
    return f"{_beginning(path)}{number:06d}"


def _beginning(path: str) -> str:
    """How the ids of a file's documents begin, and no other's: a path has no two slashes in a row."""
    return f"{_spelled(path)}//"


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
