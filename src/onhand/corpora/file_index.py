"""Keep an Index in step with files: read what changed, drop what was deleted, and cache it between processes.

The corpus decides what a file's text means. The cache belongs to the user alone and is never inside a project, because
a clone could bring one with false content. A cache file that is damaged, or that another user could have written, is
ignored.
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
from onhand.search.validation import validate_document
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
    from onhand.search.result import SearchResult

FORMAT = 7  # of cache files: raise it when a corpus makes something else of the same text, or stores it differently
MAX_UNUSED_S = 90 * 24 * 3600  # after this time, a cache file is deleted
TOUCH_INTERVAL_S = 24 * 3600  # the precision of the time at which a cache file was last used
DIGEST_CHARS = 32


def cache_path(directory: str, name: str, *settings: object) -> str:
    """Return the cache file of a corpus with these settings."""
    # The content is marshalled, which another version of Python may not be able to read.
    key = repr((FORMAT, sys.implementation.cache_tag, settings))
    return os.path.join(directory, f"{name}-{digest(key.encode('utf-8', 'replace'))}.cache")


def load_cache(path: str) -> Any:
    """Return the content of a cache file, or None if there is nothing usable."""
    import marshal
    import time

    try:
        status = os.lstat(path)
        if not (stat.S_ISREG(status.st_mode) and _is_ours(status) and _is_ours(os.stat(os.path.dirname(path)))):
            return None  # a link, a pipe that would block, or a file of another user
        with open(path, "rb") as file:
            content = file.read()
        if time.time() - status.st_mtime > TOUCH_INTERVAL_S:
            os.utime(path)
        if digest(content[DIGEST_CHARS:]).encode() == content[:DIGEST_CHARS]:
            return marshal.loads(memoryview(content)[DIGEST_CHARS:])  # noqa: S302  # only we can have written it
    except (OSError, ValueError, EOFError, TypeError):
        pass
    return None


def save_cache(path: str, value: Any) -> bool:
    """Replace a cache file atomically and return whether that worked.

    Unlike `fsio.write_atomic` it does not wait for the disk, since a lost cache is rebuilt.
    """
    import marshal

    temporary = f"{path}.{os.getpid()}"
    try:
        content = marshal.dumps(value)
        if not os.path.lexists(path):
            _prepare_directory(os.path.dirname(path))
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
    """Return whether only this user can have written the file or directory."""
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _prepare_directory(directory: str) -> None:
    """Create the directory and, if only this user can write to it, delete cache files that are no longer used."""
    import time

    os.makedirs(directory, 0o700, exist_ok=True)  # not `make_directories`, which waits for the disk
    if not _is_ours(os.stat(directory)):
        return
    oldest = time.time() - MAX_UNUSED_S
    with os.scandir(directory) as entries:
        unused = [entry.path for entry in entries if entry.is_file() and entry.stat().st_mtime < oldest]
    for path in unused:
        _remove(path)


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        return  # another process deleted it, or we may not


MAX_KEY_CHARS = 9_000  # of a path in an id: a name that is not valid Unicode takes six characters per byte
MIN_CACHED_BYTES = 32 * 1024  # of all files: fewer are read and indexed in a few milliseconds
PAUSE_PER_SAVE = 50  # times the duration of a save, so that a process that sees many changes spends little on saving


class ParsedFile(Record):
    """What a corpus made of a file's text."""

    documents: Sequence[Document] = ()  # with ids from `document_id`
    summary: Mapping[str, Any] = {}  # what can be known without the documents, as JSON values
    problem: str | None = None  # a defect of a file that can be used nevertheless


class IndexedFile(Record):
    """A file as it was when it was last read."""

    stamp: Stamp | None  # None: read it again next time
    size: int
    digest: str  # of its text; "" if it could not be read
    documents: int
    summary: Mapping[str, Any]
    problem: str | None


class FileIndex:
    """An in-memory Index of files. `read` turns a path and its text into the content to index.

    With a `path`, the index is cached in that file for the next process with the same files and settings. If the
    embedder fails, only words are searched, and `Index.fused` says why. `embeds` is passed to the Index. Not safe
    between threads: the owner holds a lock.
    """

    def __init__(
        self,
        read: Callable[[str, str], ParsedFile],
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
        self._cached_store: bytes | None = None  # the cached state of the store, until it is needed
        self.pages: dict[str, IndexedFile] = {}
        self._is_loaded = path is None
        self._is_embedded = embedder is None
        self._by_meaning = embedder is not None or unavailable is not None
        self._next_save_s = 0.0

    def refresh(self, found: Mapping[str, FoundFile], linked: Callable[[], Mapping[str, FoundFile]] = dict) -> bool:
        """Make the index match these files, and return whether it changed.

        `linked` is called once `pages` is up to date with these files, and names the files that they link to.
        """
        if not self._is_loaded:
            self._load()
        touched, changed = self._read_changed(found)
        linked_files = linked()
        linked_touched, linked_changed = self._read_changed(linked_files)
        deleted = [path for path in self.pages if path not in found and path not in linked_files]
        if deleted:
            self._restore_store()
        for path in deleted:
            self._drop(path)
        is_changed = changed or linked_changed or bool(deleted)
        if is_changed or not self._is_embedded:
            self._embed()
        if (touched or linked_touched or deleted) and self._path:
            self._save(self._path)
        return is_changed

    def _read_changed(self, found: Mapping[str, FoundFile]) -> tuple[bool, bool]:
        """Read the files whose stamps changed; return whether there were any, and whether any text differs."""
        touched = [path for path, file in found.items() if not self._is_current(path, file)]
        if touched:
            self._restore_store()
        changed = [path for path in touched if self._read_file(path, found[path])]
        return bool(touched), bool(changed)

    @property
    def index(self) -> Index:
        """Return the Index of the files as they were at the last refresh."""
        self._restore_store()
        return self._index

    def search(self, query: str, limit: int, filter: Filter = EVERYTHING, *, explain: bool = True) -> SearchResult:
        """Return the best documents by words and, if an embedder is configured, by meaning."""
        search = self.index.fused if self._by_meaning else self.index.keyword  # `fused` says if it compared only words
        return search(query, filter, limit, explain=explain)

    def place_of(self, document_id: str) -> tuple[str, int]:
        """Return the path of the file that a document is from, and the document's number there."""
        key, _, number = document_id.rpartition("//")
        is_path = "\\" not in key
        path = key if is_path else next(path for path in self.pages if _path_key(path) == key)
        return path, int(number)

    def section_at(self, path: str, number: int) -> Section:
        """Return the section that is the document with this number in a file."""
        heading_path, first_line, last_line = self.pages[path].summary["sections"][number]
        text = self.index.get(document_id(path, number)).text
        return Section(heading_path[-1], tuple(heading_path), text, first_line, last_line)

    def problems(self) -> list[Problem]:
        """Return the files that could not be used, or only in part, and why."""
        return [Problem(path, page.problem) for path, page in self.pages.items() if page.problem]

    def _is_current(self, path: str, file: FoundFile) -> bool:
        page = self.pages.get(path)
        return page is not None and page.stamp == file.stamp

    def _read_file(self, path: str, file: FoundFile) -> bool:
        """Read a new or changed file into the index, and return whether its content differs."""
        before = self.pages.get(path)
        page, documents = self._read_page(path, file, before)
        if before is not None and before[1:] == page[1:]:
            self.pages[path] = page
            return False
        self._drop(path, documents)
        known = self._store.compare(documents) if before else {}  # unchanged documents keep their vectors
        self._store.upsert(
            [Entry(validate_document(document), None) for document in documents if not known.get(document.id)]
        )
        self.pages[path] = page
        return True

    def _drop(self, path: str, keep: Sequence[Document] = ()) -> None:
        page = self.pages.pop(path, None)
        if page:
            ids = {document_id(path, number) for number in range(page.documents)}
            self._store.delete(ids - {document.id for document in keep})

    def _embed(self) -> None:
        """Embed the documents that have no vector yet."""
        if self._index.embedder:
            try:
                self.index.reembed()
            except (EmbedderError, MissingExtra) as reason:
                self._index = Index(self._store, None, str(reason))
        self._is_embedded = True

    def _load(self) -> None:
        self._is_loaded = True
        cached = load_cache(self._path) if self._path else None
        if cached is not None:
            pages, self._cached_store = cached
            self.pages = {path: IndexedFile(stamp and Stamp(*stamp), *rest) for path, (stamp, *rest) in pages.items()}

    def _restore_store(self) -> None:
        """Load the cached documents, which listing files does not need."""
        if self._cached_store is not None:
            import marshal

            state, self._cached_store = marshal.loads(self._cached_store), None  # noqa: S302  # we wrote it
            self._store.restore(state)

    def _save(self, path: str) -> None:
        """Save the cache if it is large enough to be worth it, and not again shortly after the last save."""
        import marshal
        import time

        start_s = time.monotonic()
        if start_s >= self._next_save_s and sum(page.size for page in self.pages.values()) >= MIN_CACHED_BYTES:
            pages = {path: (page.stamp and tuple(page.stamp), *page[1:]) for path, page in self.pages.items()}
            save_cache(path, (pages, marshal.dumps(self._store.state())))
            self._next_save_s = start_s + PAUSE_PER_SAVE * (time.monotonic() - start_s)

    def _read_page(
        self, path: str, file: FoundFile, before: IndexedFile | None
    ) -> tuple[IndexedFile, Sequence[Document]]:
        stamp = file.stamp if files.is_settled(file.stamp) else None
        try:
            text, problem = files.read(file, self._max_file_bytes)
        except files.Unreadable as reason:
            is_transient = isinstance(reason.__cause__, OSError)  # it may succeed next time
            return IndexedFile(None if is_transient else stamp, file.stamp.size, "", 0, {}, str(reason)), ()
        text_digest = digest(f"{problem}\n{text}".encode("utf-8", "replace"))
        if before and before.digest == text_digest:
            return before._replace(stamp=stamp), ()
        content = self._read(path, text)
        return IndexedFile(
            stamp, file.stamp.size, text_digest, len(content.documents), content.summary, problem or content.problem
        ), content.documents


def document_id(path: str, number: int) -> str:
    """Return the id of a document of a file. Ids sort by path, then by number."""
    return f"{_path_key(path)}//{number:06d}"  # no path has two slashes in a row


def _path_key(path: str) -> str:
    """Return a path in a form that can be stored, since a file name may not be valid Unicode; no two share one."""
    if path.isascii() and "\\" not in path:
        return path
    escaped = path.replace("\\", "\\\\").encode("utf-8", "backslashreplace")
    if len(escaped) > MAX_KEY_CHARS:
        return f"\\{digest(escaped)}"
    return escaped.decode()


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
