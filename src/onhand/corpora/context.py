"""What does this project want an agent to know? A few pinned files in every prompt, the rest found on demand.

The directory is looked at before every answer, so an edit is seen by the next search. Safe to share between threads.
"""

import os
from _thread import RLock  # threading's own, without the cost of importing threading
from collections.abc import Mapping, Sequence

from onhand.corpora import files
from onhand.corpora.files import Found, Problem, Stamp
from onhand.document import Contribution, Document, Section
from onhand.errors import InputError
from onhand.lexical.ranking import ranking as ranking_of
from onhand.markdown.sections import INTRO, split_sections
from onhand.record import Record
from onhand.search.index import Index
from onhand.store.memory import MemoryStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from onhand.corpora.manifest import Source
    from onhand.corpora.watch import Watcher
    from onhand.tools import Tool

MAX_ROOTS = 100
MAX_FRAMES_BYTES = 16 * 1024  # of tags and markers around pinned files: enough for some eighty
MIN_HEAD_BYTES = 256  # less of a pinned file than this is not worth its place in a prompt


class PinnedFile(Record):
    """A file in every prompt, as far as the budget reaches."""

    path: str
    bytes: int  # of the file's text
    shown_bytes: int
    text: str  # what is shown, with a marker when that is not all


class Pinned(Record):
    """What goes into every prompt."""

    files: tuple[PinnedFile, ...]
    max_bytes: int
    missing: tuple[str, ...]  # names that no file has

    @property
    def text(self) -> str:
        """The files as blocks for a system prompt."""
        from onhand.corpora.blocks import block

        framed = _framed([file.path for file in self.files])
        blocks = [block("context", {"path": file.path}, file.text) for file in self.files if file.path in framed]
        if len(blocks) < len(self.files):
            blocks.append(f"[{len(self.files) - len(blocks)} more pinned files left out: no room]")
        return "\n\n".join(blocks)


class SectionHit(Record):
    """A section that was found, and why."""

    path: str  # of the file, relative to the project, with forward slashes
    section: Section
    score: float
    contributions: tuple[Contribution, ...]


class SearchResult(Record):
    """What was found, in how much, and when nothing was, why."""

    query: str
    hits: tuple[SectionHit, ...]
    sections: int  # searched
    files: int  # searched
    reason: str | None
    problems: tuple[Problem, ...]


class _Page(Record):
    """A Markdown file as it was when it was last read."""

    stamp: Stamp | None  # None: read it again next time
    bytes: int
    text: str  # of a pinned file; "" for others
    sections: tuple[Section, ...]
    description: str
    is_pinned: bool
    problem: str | None


class Context:
    """A project's pinned and searchable context.

    `root` and `extra_roots` are directories, relative to `project` unless absolute. `pinned` names files of the root;
    a file whose front matter says `pinned: true` follows them. `ranking="seed"` is plain BM25 over whole sections.
    """

    def __init__(
        self,
        project: str | os.PathLike[str] = ".",
        *,
        root: str = ".AGENTS",
        extra_roots: Sequence[str] = (),
        pinned: Sequence[str] = ("overview.md", "conventions.md"),
        pinned_max_bytes: int = 32 * 1024,
        manifest_max_tokens: int = 1000,
        max_file_bytes: int = 1024 * 1024,
        limit: int = 3,
        ranking: str = "default",
    ) -> None:
        self.project = os.path.abspath(project)
        self.roots = _roots(root, *extra_roots)
        self._pinned_names = tuple(f"{_shown_root(root)}{name}" for name in pinned)
        self._pinned_max_bytes = pinned_max_bytes
        self._manifest_max_tokens = manifest_max_tokens
        self._max_file_bytes = max_file_bytes
        self._limit = limit
        self._index = Index(MemoryStore(ranking_of(ranking)))
        self._pages: dict[str, _Page] = {}
        self._sections: dict[str, tuple[str, Section]] = {}  # id → path, section
        self._problems: tuple[Problem, ...] = ()
        self._version = 0  # how many looks found a change
        self._lock = RLock()

    def refresh(self) -> bool:
        """See what changed on disk since the last look; whether anything did. Every answer does this first."""
        with self._lock:
            found, problems = self._sweep()
            changed = False
            for path in self._pages.keys() - found.keys():
                self._drop(path)
                changed = True
            for path, file in found.items():
                page = self._pages.get(path)
                if page is None or page.stamp != file.stamp:
                    changed = self._take(path, file) or changed
            problems += [Problem(path, page.problem) for path, page in self._pages.items() if page.problem]
            self._problems = tuple(sorted(problems))
            self._version += changed
            return changed

    def pinned(self) -> Pinned:
        """What goes into every prompt, within the budget, and what did not fit."""
        from onhand.tools.output import cap

        with self._lock:
            self.refresh()
            named = [path for path in self._pinned_names if path in self._pages and self._pages[path].is_pinned]
            declared = sorted(path for path, page in self._pages.items() if page.is_pinned and path not in named)
            texts = {path: self._pages[path].text.rstrip() for path in [*named, *declared]}
            missing = tuple(path for path in self._pinned_names if path not in self._pages)
        sizes = {path: len(text.encode("utf-8", "replace")) for path, text in texts.items()}
        framed = _framed(list(sizes))
        shares = dict.fromkeys(sizes, 0) | _shares({path: sizes[path] for path in framed}, self._pinned_max_bytes)
        capped = {path: cap(texts[path], share) for path, share in shares.items()}
        shown = [PinnedFile(path, sizes[path], sizes[path] - cut, text) for path, (text, cut) in capped.items()]
        return Pinned(tuple(shown), self._pinned_max_bytes, missing)

    def searchable(self) -> "tuple[Source, ...]":
        """The files that are searched, by path."""
        from onhand.corpora.manifest import Source

        with self._lock:
            self.refresh()
            return tuple(
                Source(path, page.bytes, len(page.sections), page.description, _headings(page.sections))
                for path, page in sorted(self._pages.items())
                if page.sections
            )

    def problems(self) -> tuple[Problem, ...]:
        """What was left out, and why."""
        with self._lock:
            self.refresh()
            return self._problems

    def why_nothing_is_searchable(self) -> str | None:
        """What is missing for a search to find anything; None when there is something to search."""
        with self._lock:
            self.refresh()
            return self._why_empty()

    def manifest(self) -> str:
        """What can be searched, for the system prompt; empty when there is nothing."""
        from onhand.corpora import manifest

        return manifest.render(self.searchable(), self._manifest_max_tokens, "context_search")

    def prompt(self) -> str:
        """What belongs into a system prompt: the pinned files and the manifest."""
        return "\n\n".join(part for part in (self.pinned().text, self.manifest()) if part)

    def search(self, query: str, limit: int | None = None) -> SearchResult:
        """The sections that match a query best; when there are none, the reason."""
        limit = self._limit if limit is None else limit
        if limit < 1:
            raise InputError(f"the limit is {limit}: ask for at least one section")
        with self._lock:
            self.refresh()
            found = self._index.keyword(query, limit=min(limit, max(1, len(self._sections))))
            hits = tuple(
                SectionHit(*self._sections[hit.document_id], hit.score, hit.layers[0].terms) for hit in found.hits
            )
            searched = sum(1 for page in self._pages.values() if page.sections)
            reason = None if hits else self._why_empty() or self._why_no_match(query)
            return SearchResult(query, hits, len(self._sections), searched, reason, self._problems)

    def tool(self) -> "Tool":
        """`context_search`, for a registry."""
        from onhand.corpora.context_tool import context_search

        return context_search(self, self._limit)

    def watch(self, on_change: "Callable[[], None]", interval_s: float = 1.0) -> "Watcher":
        """Look for changes in the background and call back after each; a context manager that stops when left."""
        from onhand.corpora.watch import Watcher

        return Watcher(self._look, on_change, interval_s)

    def _look(self) -> int:
        with self._lock:
            self.refresh()
            return self._version

    def _sweep(self) -> tuple[dict[str, Found], list[Problem]]:
        found: dict[str, Found] = {}
        problems: list[Problem] = []
        for root in self.roots:
            if len(found) > files.MAX_FILES:
                break
            shown = _shown_root(root)
            directory = os.path.join(self.project, root)
            if self._leads_out(root, directory):
                problems.append(Problem(shown, "a link out of the project: name its target in the configuration"))
                continue
            swept, left_out = files.sweep(directory)
            for file in swept:
                found.setdefault(shown + file.name, file)
            problems += [Problem(shown + problem.path or ".", problem.reason) for problem in left_out]
        pinned_first = sorted(found, key=lambda path: (path not in self._pinned_names, path))
        found, left_out = files.within_limits({path: found[path] for path in pinned_first}, self._max_file_bytes)
        return found, problems + left_out

    def _leads_out(self, root: str, directory: str) -> bool:
        """Whether a root that is said to be inside the project is a link that leads out of it."""
        return not os.path.isabs(root) and os.path.lexists(directory) and not files.is_inside(directory, self.project)

    def _take(self, path: str, file: Found) -> bool:
        """Read a new or changed file; whether it says something else than before."""
        page = self._page(path, file)
        before = self._pages.get(path)
        if before is not None and before[1:] == page[1:]:
            self._pages[path] = page
            return False
        self._drop(path)
        self._pages[path] = page
        sections = dict(zip(_section_ids(path, page), page.sections, strict=True))
        self._sections |= {section_id: (path, section) for section_id, section in sections.items()}
        self._index.put(
            # All in their places, as names would cost more on the way to a first search.
            Document(section_id, " ".join(section.heading_path), section.text, "", (), "", None, {}, "section", path)
            for section_id, section in sections.items()
        )
        return True

    def _drop(self, path: str) -> None:
        page = self._pages.pop(path, None)
        gone = _section_ids(path, page) if page else []
        for section_id in gone:
            del self._sections[section_id]
        self._index.delete(gone)

    def _page(self, path: str, file: Found) -> _Page:
        stamp = file.stamp if files.is_settled(file.stamp) else None
        try:
            text, problem = files.read(file, self._max_file_bytes)
        except files.Unreadable as reason:
            passing = isinstance(reason.__cause__, OSError)  # it may be gone at the next look
            return _Page(None if passing else stamp, 0, "", (), "", False, str(reason))
        data, matter_problem, text_after = _front_matter(text)
        problem = problem or matter_problem or _pinned_problem(data)
        is_pinned = path in self._pinned_names or data.get("pinned") is True
        if is_pinned:
            return _Page(stamp, file.stamp.size, text_after, (), "", True, problem)
        sections = tuple(split_sections(text))
        return _Page(stamp, file.stamp.size, "", sections, _description(data, sections), False, problem)

    def _why_empty(self) -> str | None:
        roots = ", ".join(_shown_root(root) for root in self.roots)
        if not any(os.path.isdir(os.path.join(self.project, root)) for root in self.roots):
            return f"there is no {roots} in {self.project}: create it, or name another directory"
        if not self._pages:
            unusable = f"; {len(self._problems)} entries cannot be used" if self._problems else ""
            return f"there are no Markdown files to search in {roots}{unusable}"
        return None if self._sections else "nothing is searchable: every file is pinned, empty or unreadable"

    def _why_no_match(self, query: str) -> str:
        if not self._index.store.has_words(query):
            return "the query has no words to look for"
        return f"none of {len(self._sections)} sections has a word of the query: try other words for the same thing"


def _section_ids(path: str, page: _Page) -> list[str]:
    """In the order of the file, which decides where scores are equal."""
    # A file's name may be no Unicode, and an id has to be; two names never become one.
    name = path.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode()
    return [f"{name}:{number:06d}" for number in range(len(page.sections))]


def _roots(*roots: str) -> tuple[str, ...]:
    """Each root once; every one of them is looked through before every answer."""
    once: dict[str, str] = {}
    for root in roots:
        once.setdefault(_shown_root(root), root)
    if len(once) > MAX_ROOTS:
        raise InputError(f"there are {len(once)} roots: name at most {MAX_ROOTS}, or what is above them")
    return tuple(once.values())


def _shown_root(root: str) -> str:
    """How a root begins the paths that are shown."""
    plain = os.path.normpath(root).replace(os.sep, "/")
    return "" if plain == "." else plain + "/"


def _framed(paths: Sequence[str]) -> dict[str, None]:
    """The paths whose blocks have room in a prompt: thousands of pages may say that they are pinned."""
    from onhand.corpora.blocks import block
    from onhand.tools.output import MAX_MARKER_BYTES

    room = MAX_FRAMES_BYTES
    framed: dict[str, None] = {}
    for path in paths:
        size = len(block("context", {"path": path}, "").encode()) + MAX_MARKER_BYTES
        if size <= room:
            framed[path] = None
            room -= size
    return framed


def _shares(sizes: Mapping[str, int], budget: int) -> dict[str, int]:
    """How many bytes each file may show: those that fit come whole, then the others share what is left in order."""
    shares: dict[str, int] = {}
    for path, size in sizes.items():
        if size <= budget:
            shares[path] = size
            budget -= size
    for path in sizes:
        if path not in shares:
            shares[path] = budget if budget >= MIN_HEAD_BYTES else 0
            budget -= shares[path]
    return {path: shares[path] for path in sizes}


def _front_matter(text: str) -> tuple[dict[str, object], str | None, str]:
    """What the front matter says, what is wrong with it, and the text after it."""
    if not text.startswith("---"):
        return {}, None, text
    from onhand.markdown.frontmatter import read_front_matter

    read = read_front_matter(text)
    return read.data, read.problem, read.body


def _pinned_problem(data: Mapping[str, object]) -> str | None:
    """What is wrong with what a page says about being pinned; a page that meant to be must not be left out unseen."""
    said = data.get("pinned", False)
    return None if isinstance(said, bool) else "its front matter says neither `pinned: true` nor `pinned: false`"


def _description(data: Mapping[str, object], sections: Sequence[Section]) -> str:
    """What the front matter says a file is, or its first heading."""
    described = data.get("description")
    if isinstance(described, str) and described.strip():
        return described
    return next(iter(_headings(sections)), "")


def _headings(sections: Sequence[Section]) -> tuple[str, ...]:
    """The headings of a file, each once."""
    return tuple(dict.fromkeys(section.heading for section in sections if section.heading != INTRO))
