"""What does this project want an agent to know? A few pinned files in every prompt, the rest found on demand.

The directory is looked at before every answer, so an edit is seen by the next search. Safe to share between threads.
"""

from __future__ import annotations

import os
from _thread import RLock  # threading's own, without the cost of importing threading

from onhand.corpora import files
from onhand.corpora.files import Found, Problem, Stamp
from onhand.corpora.mirror import Content, Mirror
from onhand.corpora.sections import as_document, as_section, place_of
from onhand.document import Contribution, Section
from onhand.errors import InputError, NotFound
from onhand.lexical.ranking import ranking as ranking_of
from onhand.markdown.sections import INTRO, split_sections
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from onhand.corpora.corpus import Findings
    from onhand.corpora.manifest import Source
    from onhand.corpora.watch import Watcher
    from onhand.embed.embedder import Embedder
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
    notes: tuple[str, ...] = ()  # on how it was searched, such as why meaning was not compared


class Context:
    """A project's pinned and searchable context.

    `root` and `extra_roots` are directories, relative to `project` unless absolute. `pinned` names files of the root;
    a file whose front matter says `pinned: true` follows them. `ranking="seed"` is plain BM25 over whole sections.
    `kept_at` is a file for what was learned of the pages, for those who open the same context with the same settings.
    With an embedder, sections are found by what they mean as well.
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
        kept_at: str | None = None,
        embedder: Embedder | None = None,
        unavailable: str | None = None,
    ) -> None:
        self.project = os.path.abspath(project)
        self.roots = _roots(root, *extra_roots)
        self._pinned_names = tuple(f"{_shown_root(root)}{name}" for name in pinned)
        self._pinned_max_bytes = pinned_max_bytes
        self._manifest_max_tokens = manifest_max_tokens
        self._max_file_bytes = max_file_bytes
        self._limit = limit
        self._mirror = Mirror(
            self._content,
            max_file_bytes=max_file_bytes,
            path=kept_at,
            ranks=ranking_of(ranking),
            embedder=embedder,
            unavailable=unavailable,
        )
        self._found: dict[str, Found] = {}
        self._pinned_texts: dict[str, tuple[Stamp | None, str]] = {}
        self._problems: tuple[Problem, ...] = ()
        self._version = 0  # how many looks found a change
        self._lock = RLock()

    def refresh(self) -> bool:
        """See what changed on disk since the last look; whether anything did. Every answer does this first."""
        with self._lock:
            self._found, problems = self._sweep()
            changed = self._mirror.refresh(self._found)
            self._problems = tuple(sorted(problems + self._mirror.problems()))
            self._version += changed
            return changed

    def pinned(self) -> Pinned:
        """What goes into every prompt, within the budget, and what did not fit."""
        from onhand.tools.output import cap

        with self._lock:
            self.refresh()
            pages = self._mirror.pages
            pinned = [path for path, page in pages.items() if page.summary.get("pinned")]
            named = [path for path in self._pinned_names if path in pinned]
            declared = sorted(path for path in pinned if path not in named)
            texts = {path: text for path in [*named, *declared] if (text := self._pinned_text(path)) is not None}
            missing = tuple(path for path in self._pinned_names if path not in pages)
        sizes = {path: len(text.encode("utf-8", "replace")) for path, text in texts.items()}
        framed = _framed(list(sizes))
        shares = dict.fromkeys(sizes, 0) | _shares({path: sizes[path] for path in framed}, self._pinned_max_bytes)
        capped = {path: cap(texts[path], share) for path, share in shares.items()}
        shown = [PinnedFile(path, sizes[path], sizes[path] - cut, text) for path, (text, cut) in capped.items()]
        return Pinned(tuple(shown), self._pinned_max_bytes, missing)

    def searchable(self) -> tuple[Source, ...]:
        """The files that are searched, by path."""
        from onhand.corpora.manifest import Source

        with self._lock:
            self.refresh()
            return tuple(
                Source(
                    path,
                    self._found[path].stamp.size,
                    page.documents,
                    page.summary["description"],
                    _headings(heading for heading, *_ in page.summary["sections"]),
                )
                for path, page in sorted(self._mirror.pages.items())
                if page.documents
            )

    def read(self, path: str) -> str:
        """What a pinned or searchable file says, whole; `path` is as a hit has it."""
        with self._lock:
            self.refresh()
            if path not in self._mirror.pages:
                raise NotFound(f"there is no context file {path[:200]!r}: take a path from a search or a listing")
            try:
                return files.read(self._found[path], self._max_file_bytes)[0]
            except files.Unreadable as reason:
                raise InputError(f"{path[:200]} cannot be read: {reason}") from None

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
            counts = [page.documents for page in self._mirror.pages.values() if page.documents]
            sections = sum(counts)
            hits, notes = self._hits(query, min(limit, max(1, sections)))
            reason = None if hits else self._why_empty() or self._why_no_match(query, sections)
            return SearchResult(query, hits, sections, len(counts), reason, self._problems, notes)

    def find(self, query: str, limit: int) -> Findings:
        """What one search across everything asks."""
        from onhand.corpora.corpus import Findings
        from onhand.corpora.sections import as_finding

        result = self.search(query, limit)
        found = tuple(as_finding(hit.path, hit.section, hit.score) for hit in result.hits)
        return Findings(found, result.reason, result.notes)

    def tool(self) -> Tool:
        """`context_search`, for a registry."""
        from onhand.corpora.context_tool import context_search

        return context_search(self, self._limit)

    def watch(self, on_change: Callable[[], None], interval_s: float = 1.0) -> Watcher:
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

    def _content(self, path: str, text: str) -> Content:
        data, problem, _ = _front_matter(text)
        problem = problem or _pinned_problem(data)
        if path in self._pinned_names or data.get("pinned") is True:
            return Content((), {"pinned": True}, problem)
        sections = split_sections(text)
        documents = [as_document(path, number, section, "section", path) for number, section in enumerate(sections)]
        places = [place_of(section) for section in sections]
        return Content(documents, {"description": _description(data, sections), "sections": places}, problem)

    def _pinned_text(self, path: str) -> str | None:
        """What a pinned file says; None if it cannot be read any more."""
        stamp, text = self._pinned_texts.get(path, (None, ""))
        if stamp is not None and stamp == self._mirror.pages[path].stamp:
            return text
        try:
            whole, _ = files.read(self._found[path], self._max_file_bytes)
        except files.Unreadable:
            return None
        text = _front_matter(whole)[2].rstrip()
        self._pinned_texts[path] = self._mirror.pages[path].stamp, text
        return text

    def _hits(self, query: str, limit: int) -> tuple[tuple[SectionHit, ...], tuple[str, ...]]:
        found = self._mirror.search(query, limit)
        hits = []
        for hit in found.hits:
            path, number = self._mirror.place_of(hit.document_id)
            text = self._mirror.index.get(hit.document_id).text
            section = as_section(self._mirror.pages[path].summary["sections"][number], text)
            hits.append(SectionHit(path, section, hit.score, hit.terms))
        return tuple(hits), found.notes

    def _why_empty(self) -> str | None:
        roots = ", ".join(_shown_root(root) or self.project for root in self.roots)
        if not any(os.path.isdir(os.path.join(self.project, root)) for root in self.roots):
            return f"there is no {roots} in {self.project}: create it, or name another directory"
        if not self._mirror.pages:
            unusable = f"; {len(self._problems)} entries cannot be used" if self._problems else ""
            return f"there are no Markdown files to search in {roots}{unusable}"
        is_empty = not any(page.documents for page in self._mirror.pages.values())
        return "nothing is searchable: every file is pinned, empty or unreadable" if is_empty else None

    def _why_no_match(self, query: str, sections: int) -> str:
        if not self._mirror.index.store.has_words(query):
            return "the query has no words to look for"
        return f"none of {sections} sections has a word of the query: try other words for the same thing"


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
    return next(iter(_headings(section.heading for section in sections)), "")


def _headings(headings: Iterable[str]) -> tuple[str, ...]:
    """The headings of a file, each once."""
    return tuple(dict.fromkeys(heading for heading in headings if heading != INTRO))
