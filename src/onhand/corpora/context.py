"""A project's context: a few files pinned into every prompt, the rest searched on demand (`context_search`).

The directory is checked before every answer, so the next search sees an edit. Safe to share between threads. Whatever a
search on the command line does not need is imported inside functions, because this module is on the cold path.
"""

from __future__ import annotations

import os

from onhand.closed_paths import BY_NAME, ClosedPaths
from onhand.corpora import files
from onhand.corpora.file_index import FileCorpus, FileIndex, ParsedFile, section_documents, section_places
from onhand.corpora.files import FoundFile, Problem, Stamp
from onhand.document import Contribution, Section
from onhand.errors import InputError, NotFound
from onhand.hidden_characters import sanitize
from onhand.lexical.scoring import get_ranking
from onhand.markdown.page import INTRO, split_sections
from onhand.record import Record
from onhand.text import quantity

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Annotated

    from onhand.corpora.federated import Findings
    from onhand.embed.embedder import Embedder
    from onhand.tools import Tool

INTRODUCTION = (
    "This project has more context than is shown here. When a task touches one of the topics below and the text above "
    "does not settle it, call {tool} with a few words about what you need instead of guessing. Do not search for "
    "what is already above. Searchable:"
)
MAX_DESCRIPTION_CHARS = 100
MAX_OUTPUT_BYTES = 16 * 1024
MAX_ROOTS = 100
MAX_FRAMES_BYTES = 16 * 1024  # for tags and markers around pinned files: enough for about eighty
MIN_HEAD_BYTES = 256  # a shorter part of a pinned file is not worth its place in a prompt


class SearchableFile(Record):
    """A file that is searched."""

    path: str
    bytes: int
    sections: int
    description: str
    headings: tuple[str, ...]


class PinnedFile(Record):
    """A file that goes into every prompt, as far as the budget allows."""

    path: str
    bytes: int  # of the file's text
    shown_bytes: int
    text: str  # as shown, with a marker if it is cut


class Pinned(Record):
    """The files that go into every prompt."""

    files: tuple[PinnedFile, ...]
    max_bytes: int
    missing: tuple[str, ...]  # configured names without a file

    @property
    def text(self) -> str:
        """Return the files as blocks for a system prompt."""
        from onhand.corpora.blocks import render_block

        framed = _paths_with_room([file.path for file in self.files])
        blocks = [render_block("context", {"path": file.path}, file.text) for file in self.files if file.path in framed]
        if len(blocks) < len(self.files):
            blocks.append(f"[{len(self.files) - len(blocks)} more pinned files left out: no room]")
        return "\n\n".join(blocks)


class SectionHit(Record):
    """A section that matches a query, and why."""

    path: str  # of the file, relative to the project, with forward slashes
    section: Section
    score: float
    contributions: tuple[Contribution, ...]


class ContextResult(Record):
    """The sections that a search found, and how much was searched."""

    query: str
    hits: tuple[SectionHit, ...]
    sections: int  # searched
    files: int  # searched
    reason: str | None  # why there are no hits
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()  # about the search, such as why meaning was not compared
    left_out: int = 0  # hits that did not fit into the answer

    def __iter__(self) -> Iterator[SectionHit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def to_text(self) -> str:
        """Return the sections as blocks for a model."""
        from onhand.corpora.blocks import render_block, render_hits

        blocks = [
            render_block(
                "context",
                {"path": hit.path, "section": hit.section.heading, "score": f"{hit.score:.2f}"},
                hit.section.text.strip(),
            )
            for hit in self.hits
        ]
        return render_hits(blocks, self.left_out, "sections", f"no matching context for: {self.query}")


class Context(FileCorpus):
    """A project's pinned and searchable context.

    `root` and `extra_roots` are directories, relative to `project` unless absolute. `pinned` names files of the root;
    files whose front matter says `pinned: true` follow them. `ranking="seed"` is plain BM25 over whole sections.
    `cache_file` stores the index for the next process that opens the same context with the same settings. With an
    embedder, sections are also found by meaning.
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
        cache_file: str | None = None,
        embedder: Embedder | None = None,
        unavailable: str | None = None,
        closed: ClosedPaths = BY_NAME,
    ) -> None:
        self.project = os.path.abspath(project)
        self._closed = closed
        self.roots = _unique_roots(root, *extra_roots)
        self._pinned_names = tuple(f"{files.root_prefix(root)}{name}" for name in pinned)
        self._pinned_max_bytes = pinned_max_bytes
        self._manifest_max_tokens = manifest_max_tokens
        self._max_file_bytes = max_file_bytes
        self._found: dict[str, FoundFile] = {}
        self._pinned_texts: dict[str, tuple[Stamp | None, str]] = {}
        index = FileIndex(
            self._read_content,
            max_file_bytes=max_file_bytes,
            path=cache_file,
            ranks=get_ranking(ranking),
            embedder=embedder,
            unavailable=unavailable,
        )
        super().__init__(index, limit)

    def pinned(self) -> Pinned:
        """Return the files that go into every prompt, within the budget, and what did not fit."""
        from onhand.tools.fitting import cap_text

        with self._lock:
            self.refresh()
            pages = self._index.pages
            pinned = [path for path, page in pages.items() if page.summary.get("pinned")]
            named = [path for path in self._pinned_names if path in pinned]
            declared = sorted(path for path in pinned if path not in named)
            texts = {path: text for path in [*named, *declared] if (text := self._pinned_text(path)) is not None}
            missing = tuple(path for path in self._pinned_names if path not in pages)
        sizes = {path: len(text.encode("utf-8", "replace")) for path, text in texts.items()}
        framed = _paths_with_room(list(sizes))
        shares = dict.fromkeys(sizes, 0) | _share_budget({path: sizes[path] for path in framed}, self._pinned_max_bytes)
        capped = {path: cap_text(texts[path], share) for path, share in shares.items()}
        pinned_files = [PinnedFile(path, sizes[path], sizes[path] - cut, text) for path, (text, cut) in capped.items()]
        return Pinned(tuple(pinned_files), self._pinned_max_bytes, missing)

    def searchable(self) -> tuple[SearchableFile, ...]:
        """Return the files that are searched, by path."""
        with self._lock:
            self.refresh()
            return tuple(
                SearchableFile(
                    path,
                    self._found[path].stamp.size,
                    page.documents,
                    page.summary["description"],
                    _unique_headings(headings[-1] for headings, *_ in page.summary["sections"]),
                )
                for path, page in sorted(self._index.pages.items())
                if page.documents
            )

    def read(self, path: str) -> str:
        """Return the whole text of a pinned or searchable file; `path` is as in a hit."""
        with self._lock:
            self.refresh()
            if path not in self._index.pages:
                raise NotFound(f"there is no context file {path[:200]!r}: use a path from a search or a listing")
            try:
                return files.read(self._found[path], self._max_file_bytes)[0]
            except files.Unreadable as reason:
                raise InputError(f"{path[:200]} cannot be read: {reason}") from None

    def why_nothing_is_searchable(self) -> str | None:
        """Return why there is nothing to search, or None if there is something."""
        with self._lock:
            self.refresh()
            return self._why_empty()

    def manifest(self) -> str:
        """Return the list of what can be searched, for the system prompt; empty if there is nothing."""
        return render_manifest(self.searchable(), self._manifest_max_tokens, "context_search")

    def prompt(self) -> str:
        """Return the part of a system prompt about this project: the pinned files and the manifest."""
        return "\n\n".join(part for part in (self.pinned().text, self.manifest()) if part)

    def search(self, query: str, limit: int | None = None) -> ContextResult:
        """Return the sections that match a query best or, if there are none, the reason."""
        limit = self._accept_limit(limit, "section")
        with self._lock:
            self.refresh()
            counts = [page.documents for page in self._index.pages.values() if page.documents]
            sections = sum(counts)
            hits, notes = self._hits(query, min(limit, max(1, sections)))
            reason = None if hits else self._why_empty() or self._why_no_match(query, sections, "sections")
            return ContextResult(query, hits, sections, len(counts), reason, self._problems, notes)

    def find(self, query: str, limit: int) -> Findings:
        """Return the sections for a search across all corpora."""
        from onhand.corpora.federated import Findings, section_finding

        result = self.search(query, limit)
        found = tuple(section_finding(hit.path, hit.section, hit.score) for hit in result.hits)
        return Findings(found, result.reason, result.notes)

    def tools(self) -> list[Tool]:
        """Return `context_search` for a registry."""
        from onhand.corpora.blocks import corpus_tool, required_query

        default = self._limit

        @corpus_tool(
            max_output_bytes=MAX_OUTPUT_BYTES,
            parameters={"k": {"description": f"At most this many sections; {default} by default."}},
        )
        def context_search(
            query: Annotated[str, "What you need, in a few words."], k: float | None = None
        ) -> ContextResult:
            """Search this project's own documentation (its context files, section by section) for what the system
            prompt does not already say: conventions, glossary terms, architecture, policies, procedures. Good for
            words, names and identifiers in any spelling; poor for paraphrases, so use the words of the listed headings.
            Cheap: local, a few milliseconds. Returns the best sections, each in a <context> block with its path,
            section and score; a search without a match says so. Example: context_search(query="rollback procedure").
            """
            return self.search(required_query(query), max(int(k), 1) if k is not None and k > 0 else default)

        return [context_search]

    def _update(self) -> tuple[bool, list[Problem]]:
        self._found, problems = self._sweep()
        changed = self._index.refresh(self._found)
        return changed, problems + self._index.problems()

    def _sweep(self) -> tuple[dict[str, FoundFile], list[Problem]]:
        found: dict[str, FoundFile] = {}
        problems: list[Problem] = []
        for root in self.roots:
            if len(found) > files.MAX_FILES:
                break
            prefix = files.root_prefix(root)
            directory = os.path.join(self.project, root)
            if self._leads_out(root, directory):
                problems.append(Problem(prefix, "a link out of the project: name its target in the configuration"))
                continue
            swept, left_out = files.sweep(directory, closed=self._closed)
            for file in swept:
                found.setdefault(prefix + file.name, file)
            problems += [Problem(prefix + problem.path or ".", problem.reason) for problem in left_out]
        pinned_first = sorted(found, key=lambda path: (path not in self._pinned_names, path))
        found, left_out = files.within_limits({path: found[path] for path in pinned_first}, self._max_file_bytes)
        return found, problems + left_out

    def _leads_out(self, root: str, directory: str) -> bool:
        """Return whether a root that should be inside the project is a link that leads out of it."""
        return not os.path.isabs(root) and os.path.lexists(directory) and not files.is_inside(directory, self.project)

    def _read_content(self, path: str, text: str) -> ParsedFile:
        data, problem, _ = _split_front_matter(text)
        problem = problem or _pinned_problem(data)
        if path in self._pinned_names or data.get("pinned") is True:
            return ParsedFile((), {"pinned": True}, problem)
        sections = split_sections(text)
        summary = {"description": _describe(data, sections), "sections": section_places(sections)}
        return ParsedFile(section_documents(path, sections, "section", path), summary, problem)

    def _pinned_text(self, path: str) -> str | None:
        """Return the text of a pinned file, or None if it can no longer be read."""
        stamp, text = self._pinned_texts.get(path, (None, ""))
        if stamp is not None and stamp == self._index.pages[path].stamp:
            return text
        try:
            whole, _ = files.read(self._found[path], self._max_file_bytes)
        except files.Unreadable:
            return None
        text = sanitize(_split_front_matter(whole)[2].rstrip())  # before it is measured
        self._pinned_texts[path] = self._index.pages[path].stamp, text
        return text

    def _hits(self, query: str, limit: int) -> tuple[tuple[SectionHit, ...], tuple[str, ...]]:
        found = self._index.search(query, limit)
        hits = []
        for hit in found.hits:
            path, number = self._index.place_of(hit.document_id)
            hits.append(SectionHit(path, self._index.section_at(path, number), hit.score, hit.terms))
        return tuple(hits), found.notes

    def _why_empty(self) -> str | None:
        roots = ", ".join(files.root_prefix(root) or self.project for root in self.roots)
        if not any(os.path.isdir(os.path.join(self.project, root)) for root in self.roots):
            return f"there is no {roots} in {self.project}: create it, or name another directory"
        if not self._index.pages:
            unusable = f"; {len(self._problems)} entries cannot be used" if self._problems else ""
            return f"there are no Markdown files to search in {roots}{unusable}"
        is_empty = not any(page.documents for page in self._index.pages.values())
        return "nothing is searchable: every file is pinned, empty or unreadable" if is_empty else None


def _unique_roots(*roots: str) -> tuple[str, ...]:
    """Return each root once; all of them are checked before every answer."""
    once: dict[str, str] = {}
    for root in roots:
        once.setdefault(files.root_prefix(root), root)
    if len(once) > MAX_ROOTS:
        raise InputError(f"there are {len(once)} roots: name at most {MAX_ROOTS}, or a directory above them")
    return tuple(once.values())


def _paths_with_room(paths: Sequence[str]) -> dict[str, None]:
    """Return the paths whose blocks fit into a prompt: thousands of pages may declare themselves pinned."""
    from onhand.corpora.blocks import render_block
    from onhand.tools.fitting import MAX_MARKER_BYTES

    room = MAX_FRAMES_BYTES
    framed: dict[str, None] = {}
    for path in paths:
        size = len(render_block("context", {"path": path}, "").encode()) + MAX_MARKER_BYTES
        if size <= room:
            framed[path] = None
            room -= size
    return framed


def _share_budget(sizes: Mapping[str, int], budget: int) -> dict[str, int]:
    """Return how many bytes each file may show: files that fit are whole, the others get the rest in order."""
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


def _split_front_matter(text: str) -> tuple[dict[str, object], str | None, str]:
    """Return the data of the front matter, its problem, and the text after it."""
    if not text.startswith("---"):
        return {}, None, text
    from onhand.markdown.frontmatter import read_front_matter

    read = read_front_matter(text)
    return read.data, read.problem, read.body


def _pinned_problem(data: Mapping[str, object]) -> str | None:
    """Return a problem if `pinned` is not a boolean: a page that wants to be pinned must not be left out silently."""
    pinned = data.get("pinned", False)
    return None if isinstance(pinned, bool) else "its front matter says neither `pinned: true` nor `pinned: false`"


def _describe(data: Mapping[str, object], sections: Sequence[Section]) -> str:
    """Return the description in the front matter or, without one, the first heading."""
    described = data.get("description")
    if isinstance(described, str) and described.strip():
        return described
    return next(iter(_unique_headings(section.heading for section in sections)), "")


def _unique_headings(headings: Iterable[str]) -> tuple[str, ...]:
    """Return the headings of a file, each once."""
    return tuple(dict.fromkeys(heading for heading in headings if heading != INTRO))


def render_manifest(sources: Sequence[SearchableFile], max_tokens: int, tool: str) -> str:
    """Return the most detailed list that fits the token budget, under an introduction; empty if there is nothing.

    First come files with their headings, then files with a short description, then directories with counts, and at last
    as many directories as fit.
    """
    if not sources:
        return ""
    from onhand.tools.loading import estimated_tokens

    introduction = INTRODUCTION.format(tool=tool)
    for lines in (_by_heading(sources), _by_file(sources), _by_directory(sources)):
        text = _join(introduction, lines)
        if estimated_tokens(text) <= max_tokens:
            return text
    return _shorten(introduction, _by_directory(sources), max_tokens)


def _by_heading(sources: Sequence[SearchableFile]) -> list[str]:
    from onhand.corpora.blocks import line_without_tags

    return [
        f"- {line_without_tags(source.path)}: {', '.join(map(line_without_tags, source.headings))}"
        if source.headings
        else _file_line(source)
        for source in sources
    ]


def _by_file(sources: Sequence[SearchableFile]) -> list[str]:
    return [_file_line(source) for source in sources]


def _file_line(source: SearchableFile) -> str:
    from onhand.corpora.blocks import line_without_tags

    description = line_without_tags(source.description)
    if len(description) > MAX_DESCRIPTION_CHARS:
        description = description[:MAX_DESCRIPTION_CHARS].rsplit(" ", 1)[0] + " …"
    return (
        f"- {line_without_tags(source.path)}: {description}" if description else f"- {line_without_tags(source.path)}"
    )


def _by_directory(sources: Sequence[SearchableFile]) -> list[str]:
    from onhand.corpora.blocks import line_without_tags

    counts: dict[str, tuple[int, int]] = {}
    for source in sources:
        directory = source.path.rpartition("/")[0]
        files, sections = counts.get(directory, (0, 0))
        counts[directory] = (files + 1, sections + source.sections)
    return [
        f"- {line_without_tags(directory) or '.'}/: {quantity(files, 'file')}, {quantity(sections, 'section')}"
        for directory, (files, sections) in sorted(counts.items())
    ]


def _shorten(introduction: str, lines: list[str], max_tokens: int) -> str:
    from bisect import bisect_right

    from onhand.tools.loading import estimated_tokens

    def text(count: int) -> str:
        return _join(introduction, [*lines[:count], f"- and {quantity(len(lines) - count, 'more directory')}"])

    # Binary search, because a tree can have thousands of directories; a longer list is never a shorter text.
    count = bisect_right(range(len(lines)), max_tokens, key=lambda count: estimated_tokens(text(count))) - 1
    return text(count) if count > 0 else ""  # if not even one line fits, there is no manifest


def _join(introduction: str, lines: Sequence[str]) -> str:
    return "\n".join([introduction, "", *lines])
