"""Keep an Index in step with files: read what changed, forget what is gone, and cache it between processes.

What a file contains is known only to its corpus. The cache belongs to the user alone and never lies in a project,
because a clone could bring one with false content. A cache file that was damaged, or that another user could have
written, is ignored. Not safe between threads: the owner holds a lock.
"""

from __future__ import annotations

import os
import stat
import sys
from _thread import RLock  # without the cost of importing threading

from onhand.corpora import files
from onhand.corpora.files import FoundFile, Problem, Stamp
from onhand.document import EVERYTHING, Document, Section
from onhand.errors import EmbedderError, InputError, MissingExtra
from onhand.record import Record
from onhand.search.index import Index
from onhand.search.validation import accepted
from onhand.store.memory import MemoryStore
from onhand.store.store import Entry
from onhand.text import digest

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from onhand.document import Filter
    from onhand.embed.embedder import Embedder
    from onhand.lexical.scoring import Ranking
    from onhand.search.result import Result

FORMAT = 5  # changes with what a corpus makes of the same file, or how that is kept
UNUSED_S = 90 * 24 * 3600  # after which a file is deleted
NOTED_S = 24 * 3600  # how exactly it is known when a file was last used
DIGEST_CHARS = 32


def cache_path(directory: str, name: str, *settings: object) -> str:
    """The file for what a corpus learns under these settings."""
    # What is kept is spelt as this Python spells it, which another may not read.
    key = repr((FORMAT, sys.implementation.cache_tag, settings))
    return os.path.join(directory, f"{name}-{digest(key.encode('utf-8', 'replace'))}.kept")


def load_cache(path: str) -> Any:
    """What was kept; None if there is nothing that can be used."""
    import marshal
    import time

    try:
        status = os.lstat(path)
        if not (stat.S_ISREG(status.st_mode) and _is_ours(status) and _is_ours(os.stat(os.path.dirname(path)))):
            return None  # a link, a pipe that would hang us, or what another user put there
        with open(path, "rb") as file:
            content = file.read()
        if time.time() - status.st_mtime > NOTED_S:
            os.utime(path)
        if digest(content[DIGEST_CHARS:]).encode() == content[:DIGEST_CHARS]:
            return marshal.loads(memoryview(content)[DIGEST_CHARS:])  # noqa: S302  # of our own writing
    except (OSError, ValueError, EOFError, TypeError):
        pass
    return None


def save_cache(path: str, learned: Any) -> bool:
    """Keep what was learned, whole or not at all; whether that was possible."""
    import marshal

    temporary = f"{path}.{os.getpid()}"
    try:
        content = marshal.dumps(learned)
        if not os.path.lexists(path):
            _make_ready(os.path.dirname(path))
        if not _is_ours(os.stat(os.path.dirname(path))):
            return False
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
        with open(descriptor, "wb") as file:
            file.write(digest(content).encode())
            file.write(content)
        os.replace(temporary, path)
    except (OSError, ValueError):
        _remove(temporary)
        return False
    return True


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody else can have put there what is there."""
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _make_ready(directory: str) -> None:
    """Make the directory, and delete from it what nobody has used for long, if it is ours alone."""
    import time

    os.makedirs(directory, mode=0o700, exist_ok=True)
    if not _is_ours(os.stat(directory)):
        return
    oldest = time.time() - UNUSED_S
    with os.scandir(directory) as entries:
        unused = [entry.path for entry in entries if entry.is_file() and entry.stat().st_mtime < oldest]
    for path in unused:
        _remove(path)


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        return  # somebody else did, or nobody may


MAX_SPELLED_CHARS = 9_000  # of a path in an id: one that is no Unicode takes six characters for each byte
WORTH_KEEPING_BYTES = 32 * 1024  # of files: less is read and indexed in a few milliseconds
REST_PER_SAVE = 50  # times what saving takes, so that a process that sees many changes spends little on it


class FileContent(Record):
    """What a corpus made of a file: documents, whose ids are those of `document_id`, and what to know without them."""

    documents: Sequence[Document] = ()
    summary: Mapping[str, Any] = {}  # anything that JSON can say
    problem: str | None = None  # what is wrong with it although it can be used


class IndexedFile(Record):
    """A file as it was when it was last read."""

    stamp: Stamp | None  # None: read it again next time
    size: int
    digest: str  # of its text; "" when it could not be read
    documents: int
    summary: Mapping[str, Any]
    problem: str | None


class FileIndex:
    """An Index of files, in memory. `read` makes the content of a path and its text.

    With a `path`, what it learns is kept in that file, for whoever looks at the same files with the same settings. An
    embedder that fails leaves words, and `Index.fused` says why; `embeds` is the Index's.
    """

    def __init__(
        self,
        read: Callable[[str, str], FileContent],
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
        self._store = MemoryStore(ranks)
        self._index = Index(self._store, embedder, unavailable, embeds)
        self._waiting: bytes | None = None  # what the store was when it was kept, until somebody needs it
        self.pages: dict[str, IndexedFile] = {}
        self._is_loaded = path is None
        self._is_learned = embedder is None
        self._by_meaning = embedder is not None or unavailable is not None
        self._next_save_s = 0.0

    def refresh(self, found: Mapping[str, FoundFile], linked: Callable[[], Mapping[str, FoundFile]] = dict) -> bool:
        """See to it that the index has what these files say and nothing else; whether anything was different.

        `linked` names more files, once `pages` has what these say: those that they lead to.
        """
        if not self._is_loaded:
            self._load()
        touched, changed = self._look_at(found)
        more = linked()
        also_touched, also_changed = self._look_at(more)
        gone = [path for path in self.pages if path not in found and path not in more]
        if gone:
            self._restore()
        for path in gone:
            self._drop(path)
        is_changed = changed or also_changed or bool(gone)
        if is_changed or not self._is_learned:
            self._learn()
        if (touched or also_touched or gone) and self._path:
            self._save(self._path)
        return is_changed

    def _look_at(self, found: Mapping[str, FoundFile]) -> tuple[bool, bool]:
        """Whether any of these files was touched, and whether any says something else than before."""
        touched = [path for path, file in found.items() if not self._is_current(path, file)]
        if touched:
            self._restore()
        changed = [path for path in touched if self._take(path, found[path])]
        return bool(touched), bool(changed)

    @property
    def index(self) -> Index:
        """The Index of the files, as they were at the last refresh."""
        self._restore()
        return self._index

    def search(self, query: str, limit: int, wanted: Filter = EVERYTHING, *, explain: bool = True) -> Result:
        """The best documents by words and, where there is or should be an embedder, by meaning."""
        search = self.index.fused if self._by_meaning else self.index.keyword  # `fused` says why it has words alone
        return search(query, wanted, limit, explain=explain)

    def place_of(self, document_id: str) -> tuple[str, int]:
        """The path of the file that a document is of, and the document's number there."""
        spelled, _, number = document_id.rpartition("//")
        is_path = "\\" not in spelled
        path = spelled if is_path else next(path for path in self.pages if _path_key(path) == spelled)
        return path, int(number)

    def section_at(self, path: str, number: int) -> Section:
        """Return the section that is the document with this number in a file."""
        heading_path, first_line, last_line = self.pages[path].summary["sections"][number]
        text = self.index.get(document_id(path, number)).text
        return Section(heading_path[-1], tuple(heading_path), text, first_line, last_line)

    def problems(self) -> list[Problem]:
        """The files that could not be used, or not wholly, and why."""
        return [Problem(path, page.problem) for path, page in self.pages.items() if page.problem]

    def _is_current(self, path: str, file: FoundFile) -> bool:
        page = self.pages.get(path)
        return page is not None and page.stamp == file.stamp

    def _take(self, path: str, file: FoundFile) -> bool:
        """Read a new or changed file; whether it says something else than before."""
        before = self.pages.get(path)
        page, documents = self._page(path, file, before)
        if before is not None and before[1:] == page[1:]:
            self.pages[path] = page
            return False
        self._drop(path, documents)
        known = self._store.known(documents) if before else {}  # what is there unchanged keeps its vector
        self._store.upsert([Entry(accepted(document), None) for document in documents if not known.get(document.id)])
        self.pages[path] = page
        return True

    def _drop(self, path: str, kept: Sequence[Document] = ()) -> None:
        page = self.pages.pop(path, None)
        if page:
            ids = {document_id(path, number) for number in range(page.documents)}
            self._store.delete(ids - {document.id for document in kept})

    def _learn(self) -> None:
        """Work out what documents mean of which nobody has."""
        if self._index.embedder:
            try:
                self.index.reembed()
            except (EmbedderError, MissingExtra) as reason:
                self._index = Index(self._store, None, str(reason))
        self._is_learned = True

    def _load(self) -> None:
        self._is_loaded = True
        learned = load_cache(self._path) if self._path else None
        if learned is not None:
            pages, self._waiting = learned
            self.pages = {path: IndexedFile(stamp and Stamp(*stamp), *rest) for path, (stamp, *rest) in pages.items()}

    def _restore(self) -> None:
        """Take in what was kept of the documents, which whoever only asks what there is does not need."""
        if self._waiting is not None:
            import marshal

            state, self._waiting = marshal.loads(self._waiting), None  # noqa: S302  # of our own writing
            self._store.restore(state)

    def _save(self, path: str) -> None:
        """Keep what was learned, if that pays, and not while it was only just done: what is lost is read again."""
        import marshal
        import time

        start_s = time.monotonic()
        if start_s >= self._next_save_s and sum(page.size for page in self.pages.values()) >= WORTH_KEEPING_BYTES:
            pages = {path: (page.stamp and tuple(page.stamp), *page[1:]) for path, page in self.pages.items()}
            save_cache(path, (pages, marshal.dumps(self._store.state())))
            self._next_save_s = start_s + REST_PER_SAVE * (time.monotonic() - start_s)

    def _page(self, path: str, file: FoundFile, before: IndexedFile | None) -> tuple[IndexedFile, Sequence[Document]]:
        stamp = file.stamp if files.is_settled(file.stamp) else None
        try:
            text, problem = files.read(file, self._max_file_bytes)
        except files.Unreadable as reason:
            passing = isinstance(reason.__cause__, OSError)  # it may be gone at the next look
            return IndexedFile(None if passing else stamp, file.stamp.size, "", 0, {}, str(reason)), ()
        said = digest(f"{problem}\n{text}".encode("utf-8", "replace"))
        if before and before.digest == said:
            return before._replace(stamp=stamp), ()
        content = self._read(path, text)
        return IndexedFile(
            stamp, file.stamp.size, said, len(content.documents), content.summary, problem or content.problem
        ), content.documents


def document_id(path: str, number: int) -> str:
    """The id of a file's document: documents of a file come in their order, files in that of their paths."""
    return f"{_path_key(path)}//{number:06d}"  # no path has two slashes in a row


def _path_key(path: str) -> str:
    """A path as text that can be kept: a file's name may be no Unicode. Two paths never become one."""
    if path.isascii() and "\\" not in path:
        return path
    spelled = path.replace("\\", "\\\\").encode("utf-8", "backslashreplace")
    if len(spelled) > MAX_SPELLED_CHARS:
        return f"\\{digest(spelled)}"
    return spelled.decode()


if TYPE_CHECKING:
    SectionPlace = tuple[tuple[str, ...], int, int]  # headings, first line, last line


def section_documents(
    key: str,
    sections: Sequence[Section],
    kind: str,
    path: str,
    tags: tuple[str, ...] = (),
    scope: str = "",
    first_number: int = 0,
) -> list[Document]:
    """Return a document for each section of the file that the index knows as `key` and readers find at `path`."""
    # Positional, because keyword arguments would cost more on the way to a first search.
    return [
        Document(
            document_id(key, number),
            " ".join(section.heading_path),
            section.text,
            "",
            tags,
            scope,
            None,
            {},
            kind,
            path,
        )
        for number, section in enumerate(sections, first_number)
    ]


def section_places(sections: Sequence[Section]) -> list[SectionPlace]:
    """Return what the summary of a file says about its sections; `FileIndex.section_at` reads it."""
    return [(section.heading_path, section.first_line, section.last_line) for section in sections]


class FileCorpus:
    """A corpus of files that are checked before every answer, so that the next search sees an edit.

    Context, rules, skills and notes are such corpora. Threads may share one.
    """

    def __init__(self, index: FileIndex, limit: int) -> None:
        self._index = index
        self._limit = limit
        self._problems: tuple[Problem, ...] = ()
        self._lock = RLock()

    def refresh(self) -> bool:
        """Read what changed on disk since the last call; return whether anything did. Every answer does this first."""
        with self._lock:
            changed, problems = self._update()
            self._problems = tuple(sorted(problems))
            return changed

    def problems(self) -> tuple[Problem, ...]:
        """Return what was left out or is invalid, and why."""
        with self._lock:
            self.refresh()
            return self._problems

    def _update(self) -> tuple[bool, list[Problem]]:
        """Bring the index up to date; return whether it changed, and what cannot be used."""
        raise NotImplementedError

    def _accept_limit(self, limit: int | None, noun: str) -> int:
        limit = self._limit if limit is None else limit
        if limit < 1:
            raise InputError(f"limit is {limit}: ask for at least one {noun}")
        return limit

    def _why_no_match(self, query: str, count: int, noun: str) -> str:
        if not self._index.index.store.has_words(query):
            return "the query has no words to look for"
        return f"none of {count:,} {noun} has a word of the query: try other words for the same thing"
