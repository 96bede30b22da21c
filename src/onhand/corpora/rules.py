"""A project's rules: its AGENTS.md files, by place and, with the pages they link to, by words.

There are three tiers. The root's file goes into every prompt. A directory's own file applies to work in that directory
(`for_path`). Pages that any of them links to are found when a query matches (`search`). Files are checked before every
answer. Nothing outside the project is opened. Safe to share between threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Annotated

from onhand.closed_paths import BY_NAME, ClosedPaths
from onhand.corpora import files
from onhand.corpora.blocks import (
    corpus_tool,
    line_without_tags,
    neutralise_tags,
    render_block,
    render_hits,
    required_query,
)
from onhand.corpora.federated import Findings, section_finding
from onhand.corpora.file_index import (
    FileCorpus,
    FileIndex,
    ParsedFile,
    document_id,
    section_documents,
    section_places,
)
from onhand.corpora.files import FoundFile, Problem, Stamp
from onhand.document import Contribution, Document, Section
from onhand.embed.embedder import Embedder
from onhand.errors import InputError
from onhand.markdown.frontmatter import read_front_matter
from onhand.markdown.links import Link, first_links
from onhand.markdown.page import split_sections
from onhand.path_rules import GITIGNORE, MAX_GITIGNORE_BYTES, MAX_PATTERNS, IgnoreTree, PatternBlock, parse_gitignore
from onhand.record import Record
from onhand.search.result import Hit
from onhand.text import digest
from onhand.tools.fitting import MAX_MARKER_BYTES, cap_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.tools import Tool


class RuleReference(Record):
    """A link from a page to something in the project."""

    source: str  # the linking page, relative to the project
    line: int  # in it
    text: str  # of the link, as a reader sees it
    target: str  # as written
    path: str  # relative to the project; "" when it leads nowhere
    problem: str | None  # why it cannot be followed


def follow_link(
    project: str, reference: RuleReference, path: str, closed: ClosedPaths = BY_NAME
) -> tuple[RuleReference, FoundFile | None]:
    """Return the reference with its target, and the target's file; a directory is fine and has no file."""
    inner = resolve_link(reference.source, path)
    if inner is None:
        return reference._replace(problem=f"the link to {reference.target!r} leads out of the project"), None
    try:
        return reference._replace(path=inner), files.find_inside(project, inner, closed=closed)
    except files.Unreadable as reason:
        full = os.path.join(project, inner)
        if os.path.isdir(full) and files.is_inside(full, project):
            return reference._replace(path=inner), None
        return reference._replace(problem=f"the link to {reference.target!r} cannot be followed: {reason}"), None


def resolve_link(source: str, path: str) -> str | None:
    """Return the target of a link relative to the project, or None if it is outside. `/a` starts at the project."""
    plain = path.replace("\\", "/")
    base = "" if plain.startswith("/") else os.path.dirname(source)
    inner = os.path.normpath(os.path.join(base, plain.lstrip("/") or ".")).replace(os.sep, "/")
    return None if inner == ".." or inner.startswith(("../", "/")) else inner


class IgnoreFiles:
    """The `.gitignore` files below a root; an unchanged one is read once.

    Only those of the tree itself count: not those above its root, nor the user's own.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._read: dict[str, tuple[Stamp, tuple[PatternBlock, ...], str | None]] = {}
        self._current: dict[str, tuple[PatternBlock, ...]] = {}  # of each directory used since the last refresh
        self._tree = IgnoreTree(self._blocks)

    def refresh(self) -> None:
        """Forget which files were current, so that changes are seen."""
        self._current.clear()
        self._tree.forget()

    def ignores(self, path: str, is_directory: bool = False) -> bool:
        """Return whether git ignores a path, relative to the root, or a directory above it."""
        parts = path.split("/")
        above = ("/".join(parts[:end]) for end in range(1, len(parts)))
        return any(self.ignores_entry(parent, True) for parent in above) or self.ignores_entry(path, is_directory)

    def ignores_entry(self, path: str, is_directory: bool) -> bool:
        """Return whether git ignores a path whose parent directories are known not to be ignored."""
        return self._tree.ignores(path, is_directory)

    def problems(self) -> list[Problem]:
        """Return the files that could not be read completely, among those used since the last refresh."""
        return [
            Problem(f"{directory}/{GITIGNORE}".lstrip("/"), problem)
            for directory, (_, _, problem) in sorted(self._read.items())
            if problem and directory in self._current
        ]

    def _blocks(self, directory: str) -> tuple[PatternBlock, ...]:
        """Return the patterns of the `.gitignore` of a directory."""
        blocks = self._current.get(directory)
        if blocks is None:
            blocks = self._current[directory] = self._read_directory(directory)
        return blocks

    def _read_directory(self, directory: str) -> tuple[PatternBlock, ...]:
        try:  # as in git, a link is not followed
            found = files.find_unlinked(self._root, f"{directory}/{GITIGNORE}" if directory else GITIGNORE)
        except files.Unreadable:
            self._read.pop(directory, None)
            return ()
        stamp, blocks, _ = self._read.get(directory, (None, (), None))
        if stamp != found.stamp or not files.is_settled(found.stamp):
            blocks, problem = _read_patterns(found)
            self._read[directory] = found.stamp, blocks, problem
        return blocks


def _read_patterns(found: FoundFile) -> tuple[tuple[PatternBlock, ...], str | None]:
    try:
        content = files.read_bytes(found, MAX_GITIGNORE_BYTES)
    except files.Unreadable as reason:
        return (), f"{reason}; its patterns are unknown"
    is_long = content.count(b"\n") >= MAX_PATTERNS
    return parse_gitignore(content), f"more than {MAX_PATTERNS:,} lines: the rest is left out" if is_long else None


NAMES = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md")
SKIPPED = (
    *(".git", ".hg", ".svn", ".onhand", ".tox", ".nox", ".venv", "venv", "__pycache__", "site-packages"),
    *("node_modules", "bower_components", "vendor", "third_party"),
)
MAX_POINTER_BYTES = 255
MAX_PATH_CHARS = 4096  # the longest path that file systems allow


class RuleFiles:
    """The rule files of a project: in each directory, the first of `names` that exists and is not empty.

    Directories named in `skipped` or ignored by `.gitignore` files are passed over. A rule file itself may be ignored,
    such as one that is meant for one person.
    """

    def __init__(
        self, project: str, names: Sequence[str], skipped: Sequence[str], closed: ClosedPaths = BY_NAME
    ) -> None:
        self.project = project
        self.closed = closed
        self.names = _check_names(names)
        self._skipped = frozenset(skipped)
        self._ignored = IgnoreFiles(project)
        self._endings = (*files.MARKDOWN, *map(str.lower, self.names))  # of what a link may lead to

    def all(self) -> tuple[dict[str, FoundFile], list[Problem]]:
        """Return the rule file of every directory, by path, and what was left out."""
        self._ignored.refresh()
        swept, problems = files.sweep(self.project, names=self.names, skips=self._skips, closed=self.closed)
        chosen: dict[str, FoundFile] = {}
        for file in sorted(swept, key=lambda file: self.names.index(file.name.rpartition("/")[2])):
            if file.stamp.size:
                chosen.setdefault(file.name.rpartition("/")[0], self._resolve_pointer(file))
        problems = [problem for problem in problems if problem.reason != files.LINKED_DIRECTORY]
        return {file.name: file for file in sorted(chosen.values())}, problems + self._ignored.problems()

    def locate(self, path: str | os.PathLike[str]) -> tuple[str, bool]:
        """Return a path relative to the project ("" for the project itself), and whether it is a directory.

        A relative path starts at the project. Links and `..` are resolved first; a path outside is an InputError.
        """
        text = os.fspath(path)
        if not text.strip() or "\0" in text or len(text) > MAX_PATH_CHARS or not _is_encodable(text):
            raise InputError("the path is empty, too long or not a valid path: name a file or directory of the project")
        root = os.path.realpath(self.project)
        real = os.path.realpath(os.path.join(root, text))
        if not files.is_inside(real, root):
            raise InputError(f"{text[:200]} is outside {self.project}: name a path inside the project")
        inner = "" if real == root else os.path.relpath(real, root).replace(os.sep, "/")
        return inner, os.path.isdir(real) or text.endswith(("/", os.sep))

    def on_the_way(self, directory: str) -> tuple[list[str], str | None]:
        """Return the directories whose rules apply in a directory, outermost first, and why some on the way do not.

        Directories that do not exist yet have no rules.
        """
        self._ignored.refresh()
        way = [""]
        for part in directory.split("/") if directory else ():
            below = f"{way[-1]}/{part}".lstrip("/")
            if self._skips(below):
                return way, f"{below}/ is vendored or ignored by .gitignore: its rules do not count"
            if not os.path.isdir(os.path.join(self.project, below)):
                break
            if len(way) > files.MAX_DEPTH:
                return way, f"{below}/ is deeper than {files.MAX_DEPTH} directories: its rules do not count"
            way.append(below)
        return way, None

    def candidates(self, directory: str, problems: list[Problem]) -> Iterator[FoundFile]:
        """Yield the files that may have the rules of a directory, preferred names first."""
        for name in self.names:
            path = f"{directory}/{name}".lstrip("/")
            try:
                file = files.find_inside(self.project, path, self._endings, self.closed)
            except files.Unreadable as reason:
                is_missing = isinstance(reason.__cause__, FileNotFoundError | NotADirectoryError)
                if not is_missing:
                    problems.append(Problem(path, str(reason)))
                continue
            if file.stamp.size:
                yield self._resolve_pointer(file)

    def _resolve_pointer(self, file: FoundFile) -> FoundFile:
        """Return the file, or the file it points to if it contains only a path.

        A link looks like that when checked out where links do not exist; Claude Code includes a file with `@path`.
        """
        if file.stamp.size > MAX_POINTER_BYTES:
            return file
        try:
            content = files.read_bytes(file, MAX_POINTER_BYTES).decode("utf-8", "replace").strip()
            inner = resolve_link(file.name, content.removeprefix("@"))
            if inner is None or not inner.lower().endswith(files.MARKDOWN) or "\n" in content or "\0" in content:
                return file
            return files.find_inside(self.project, inner, files.MARKDOWN, self.closed)._replace(name=file.name)
        except files.Unreadable:
            return file

    def _skips(self, directory: str) -> bool:
        name = directory.rpartition("/")[2]
        return name in self._skipped or self._ignored.ignores_entry(directory, True)


def _is_encodable(path: str) -> bool:
    """Return whether a path can be encoded, since text from a model may contain a lone surrogate."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _check_names(names: Sequence[str]) -> tuple[str, ...]:
    wrong = [name for name in names if not name.strip() or name in (".", "..") or "/" in name or "\\" in name]
    if wrong or not names:
        raise InputError(f"{wrong[0] if wrong else ''!r} is not a file name: give names such as AGENTS.md")
    return tuple(dict.fromkeys(names))


TEXTS = (".md", ".markdown", ".mdx", ".rst", ".txt")  # linked files that are searched
MAX_ALL_LINKS = 10_000  # of all files together: about 50 µs each
MAX_LISTED = 30  # directories listed in a prompt
MIN_HEAD_BYTES = 256  # a shorter part of a file is not worth its place in a prompt
RULE, REFERENCE = "rule", "reference"
MAX_OUTPUT_BYTES = 16 * 1024
MAX_NOTES_BYTES = 8 * 1024  # for notes about what was left out
FOR_PATH = (
    "Read the rules that apply to one file or directory, which need not exist yet: the project's AGENTS.md, then that "
    "of each directory on the way. Where they differ, the last one, which is the nearest, wins. Good before you write "
    "or change a file in a directory you have not worked in. Poor for topics; use search_rules for those. Cheap: "
    "local; up to {max_bytes:,} bytes, and if not everything fits, the nearest rules take precedence. "
    'Example: rules_for_path(path="src/auth/login.py").'
)


class RuleFile(Record):
    """A file of rules, as far as the budget allows."""

    path: str  # relative to the project, with forward slashes
    bytes: int  # of the file's text
    shown_bytes: int
    text: str  # as shown, with a marker if it is cut
    digest: str  # of the whole text


class RulesForPath(Record):
    """The rules that apply to one path, the root's first, so that the nearest have the last word."""

    path: str  # relative to the project, with links resolved; "." is the project itself
    files: tuple[RuleFile, ...]
    max_bytes: int
    notes: tuple[str, ...]  # such as what did not fit
    problems: tuple[Problem, ...]
    left_out: int = 0  # files that did not fit into the answer

    @property
    def text(self) -> str:
        """Return the rules as blocks for a prompt; empty if there are none."""
        blocks = [render_block("rules", {"path": file.path}, file.text) for file in self.files if file.shown_bytes]
        return "\n\n".join([*blocks, *(f"[{line_without_tags(note)}]" for note in self.notes)])

    def to_text(self) -> str:
        """Return what a model reads: the blocks, or that there are no rules."""
        return self.text or line_without_tags(f"there are no rules for {self.path}")


class RuleHit(Record):
    """A section of a rule file or of a page that rules link to, and why it matches."""

    kind: str  # "rule" or "reference"
    path: str
    section: Section
    score: float
    contributions: tuple[Contribution, ...]
    linked_from: tuple[str, ...]  # for a reference: `path:line` of each link to it


class RulesResult(Record):
    """The sections that a search found, and how much was searched."""

    query: str
    hits: tuple[RuleHit, ...]
    sections: int  # searched
    files: int  # searched
    reason: str | None  # why there are no hits
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]
    left_out: int = 0  # hits that did not fit into the answer

    def __iter__(self) -> Iterator[RuleHit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def to_text(self) -> str:
        """Return the sections as blocks for a model."""
        miss = f"no matching rules for: {self.query} ({self.reason})"
        return render_hits([_render_hit(hit) for hit in self.hits], self.left_out, "sections", miss)


class Rules(FileCorpus):
    """A project's rules.

    In each directory the first of `names` that exists and is not empty counts. Directories named in `skipped` or
    ignored by `.gitignore` files are passed over. `max_bytes` is the most text that `for_path` returns. `cache_file`
    stores the index for the next process that opens the same rules with the same settings. With an embedder, sections
    are also found by meaning.
    """

    def __init__(
        self,
        project: str | os.PathLike[str] = ".",
        *,
        names: Sequence[str] = NAMES,
        skipped: Sequence[str] = SKIPPED,
        max_bytes: int = 32 * 1024,
        max_file_bytes: int = 1024 * 1024,
        limit: int = 5,
        cache_file: str | None = None,
        embedder: Embedder | None = None,
        unavailable: str | None = None,
        closed: ClosedPaths = BY_NAME,
    ) -> None:
        self.project = os.path.abspath(project)
        self._files = RuleFiles(self.project, names, skipped, closed)
        self._max_bytes = max_bytes
        self._max_file_bytes = max_file_bytes
        self._references: tuple[RuleReference, ...] = ()
        index = FileIndex(
            _read_content,
            max_file_bytes=max_file_bytes,
            path=cache_file,
            embedder=embedder,
            unavailable=unavailable,
        )
        super().__init__(index, limit)

    def paths(self) -> tuple[str, ...]:
        """Return the rule files that count, the root's first, then by path."""
        with self._lock:
            self.refresh()
            paths = [_path(key) for key in self._index.pages if _kind(key) == RULE]
        return tuple(sorted(paths, key=lambda path: ("/" in path, path)))

    def references(self) -> tuple[RuleReference, ...]:
        """Return every link of a rule file to something in the project, with its problem if it has one."""
        with self._lock:
            self.refresh()
            return self._references

    def check(self) -> tuple[Problem, ...]:
        """Return everything that needs repair: files that cannot be used, links that lead nowhere or outside."""
        with self._lock:
            problems = self.problems()
            broken = [Problem(f"{one.source}:{one.line}", one.problem) for one in self._references if one.problem]
        return (*problems, *broken)

    def for_path(self, path: str | os.PathLike[str] = ".") -> RulesForPath:
        """Return the rules for a file or directory, which need not exist yet, from the root's to its directory's.

        A relative path starts at the project. Links and `..` are resolved first; a path outside is an InputError.
        """
        inner, is_directory = self._files.locate(path)
        with self._lock:
            directories, note = self._files.on_the_way(inner if is_directory else inner.rpartition("/")[0])
            texts, problems = self._texts(directories)
        fitted, notes = _fit(texts, self._max_bytes)
        return RulesForPath(inner or ".", fitted, self._max_bytes, (*([note] if note else ()), *notes), tuple(problems))

    def root(self) -> RulesForPath:
        """Return the rules that apply everywhere."""
        return self.for_path(".")

    def prompt(self) -> str:
        """Return the part of a system prompt about rules: the root's, and where there are more; empty without any."""
        paths = self.paths()
        parts = [self.root().text, _list_directories([path for path in paths if "/" in path])]
        return "\n\n".join(part for part in parts if part)

    def search(self, query: str, limit: int | None = None) -> RulesResult:
        """Return the sections of rules and linked pages that match best or, if there are none, the reason."""
        limit = self._accept_limit(limit, "section")
        with self._lock:
            self.refresh()
            counts = [len(page.summary["sections"]) for page in self._index.pages.values() if page.documents]
            hits, notes = self._hits(query, limit)
            reason = None if hits else self._why_nothing(query, sum(counts))
            return RulesResult(query, hits, sum(counts), len(counts), reason, notes, self._problems)

    def find(self, query: str, limit: int) -> Findings:
        """Return the sections for a search across all corpora."""
        result = self.search(query, limit)
        found = tuple(section_finding(hit.path, hit.section, hit.score) for hit in result.hits)
        return Findings(found, result.reason, result.notes)

    def tools(self) -> list[Tool]:
        """Return `search_rules` and `rules_for_path` for a registry."""
        max_bytes = self._max_bytes
        about_limit = {"description": f"At most this many sections; {self._limit} by default.", "minimum": 1}

        @corpus_tool(max_output_bytes=MAX_OUTPUT_BYTES, parameters={"limit": about_limit})
        def search_rules(
            query: Annotated[str, "What you need to know, in a few words."], limit: int | None = None
        ) -> RulesResult:
            """Search this project's rules: the AGENTS.md files of all directories and the pages they link to, section
            by section. Good for how things are done here (tests, style, commits, releases, prohibitions). Poor for
            facts about the code and for paraphrases, so use the words a rule would use. Cheap: local, milliseconds.
            Returns the best sections, each in a <rules> block with its path, section and score; a search without a
            match says so. Example: search_rules(query="naming of tests").
            """
            return self.search(required_query(query), limit)

        @corpus_tool(max_output_bytes=max_bytes + MAX_NOTES_BYTES, description=FOR_PATH.format(max_bytes=max_bytes))
        def rules_for_path(
            path: Annotated[str, "A file or directory, relative to the project or absolute."],
        ) -> RulesForPath:
            return self.for_path(path)

        return [search_rules, rules_for_path]

    def _update(self) -> tuple[bool, list[Problem]]:
        found, problems = self._files.all()
        found, left_out = files.within_limits(found, self._max_file_bytes)

        def linked_pages() -> Mapping[str, FoundFile]:
            self._references, pages, unfollowed = self._resolve_links(found)
            pages, over = files.within_limits(pages, self._max_file_bytes)
            left_out.extend(unfollowed + over)
            return {_key(REFERENCE, path): file for path, file in pages.items()}

        changed = self._index.refresh({_key(RULE, path): file for path, file in found.items()}, linked_pages)
        unusable = [Problem(_path(key), reason) for key, reason in self._index.problems()]
        return changed, problems + left_out + unusable

    def _texts(self, directories: Sequence[str]) -> tuple[dict[str, str], list[Problem]]:
        """Return the text of the rule file of each directory, by path."""
        texts: dict[str, str] = {}
        problems: list[Problem] = []
        seen = set()
        for directory in directories:
            for file in self._files.candidates(directory, problems):
                if (file.root, file.inner) in seen:  # a link to the rules of a directory above
                    break
                try:
                    text, problem = files.read(file, self._max_file_bytes)
                except files.Unreadable as reason:
                    problems.append(Problem(file.name, str(reason)))
                    continue
                if problem:
                    problems.append(Problem(file.name, problem))
                seen.add((file.root, file.inner))
                texts[file.name] = read_front_matter(text).body.strip("\n").rstrip()
                break
        return texts, problems

    def _resolve_links(
        self, rules: Mapping[str, FoundFile]
    ) -> tuple[tuple[RuleReference, ...], dict[str, FoundFile], list[Problem]]:
        """Return all links of the rule files, the linked pages that are not rule files, and what exceeded the limit.

        The root's links come first, so that no directory below uses up their share.
        """
        references: list[RuleReference] = []
        pages: dict[str, FoundFile] = {}
        problems: list[Problem] = []
        for source in sorted(rules, key=lambda path: path.count("/")):
            links = self._index.pages[_key(RULE, source)].summary.get("links", ())
            if len(references) + len(links) > MAX_ALL_LINKS:
                problems.append(Problem(source, f"its links are not followed: there are more than {MAX_ALL_LINKS:,}"))
                continue
            for text, target, path, line in links:
                reference, file = follow_link(
                    self.project, RuleReference(source, line, text, target, "", None), path, self._files.closed
                )
                references.append(reference)
                if file and file.inner.lower().endswith(TEXTS) and reference.path not in rules:
                    pages.setdefault(reference.path, file)
        return tuple(sorted(references, key=lambda one: one.source)), pages, problems

    def _hits(self, query: str, limit: int) -> tuple[tuple[RuleHit, ...], tuple[str, ...]]:
        # A link and its target are one hit.
        found = self._index.search(query, min(limit * 3, self._index.index.store.count() or 1))
        hits: dict[tuple[str, int], RuleHit] = {}
        for hit in found.hits:
            place = self._link_target(*self._index.place_of(hit.document_id))
            if place and place not in hits:
                hits[place] = self._hit(*place, hit)
        return tuple(hits.values())[:limit], found.notes

    def _link_target(self, key: str, number: int) -> tuple[str, int] | None:
        """Return the section that a document stands for; for a link, the first section of its target."""
        page = self._index.pages[key]
        link = number - len(page.summary["sections"])
        if link < 0:
            return key, number
        path = resolve_link(_path(key), page.summary["links"][link][2])
        for target in (_key(RULE, path), _key(REFERENCE, path)) if path else ():
            if target in self._index.pages and self._index.pages[target].documents:
                return target, 0
        return None

    def _hit(self, key: str, number: int, hit: Hit) -> RuleHit:
        path, kind = _path(key), _kind(key)
        section = self._index.section_at(key, number)
        links = tuple(f"{one.source}:{one.line}" for one in self._references if one.path == path and not one.problem)
        return RuleHit(kind, path, section, hit.score, hit.terms, links if kind == REFERENCE else ())

    def _why_nothing(self, query: str, sections: int) -> str:
        if not any(_kind(key) == RULE for key in self._index.pages):
            return f"there are no rules in {self.project}: write an AGENTS.md, or name another directory"
        return self._why_no_match(query, sections, "sections")


def rules_on_touch(rules: Rules, path: str | os.PathLike[str], seen: MutableMapping[str, str]) -> str:
    """Return the rules of the directories above a path that have not been shown yet, for the result of a tool.

    The root's rules are in the prompt already. `seen` records what was shown; the caller keeps it for as long as the
    model sees that. Each file is returned once, and again when it changes. For a path outside the project the result is
    empty.
    """
    try:
        found = rules.for_path(path)
    except InputError:
        return ""
    nested = [file for file in found.files if "/" in file.path and file.shown_bytes]
    new = tuple(file for file in nested if seen.get(file.path) != file.digest)
    seen.update((file.path, file.digest) for file in new)
    return found._replace(files=new, notes=found.notes if new else ()).text


def _key(kind: str, path: str) -> str:
    """Return the key of a file in the index: a linked page that becomes a rule file is read again as one."""
    return f"{kind}/{path}"


def _kind(key: str) -> str:
    return key.partition("/")[0]


def _path(key: str) -> str:
    kind, _, path = key.partition("/")
    return path if kind in (RULE, REFERENCE) else key


def _read_content(key: str, text: str) -> ParsedFile:
    path, kind = _path(key), _kind(key)
    sections = split_sections(text) or [Section(path, (path,), "", 1, 1)]
    documents = section_documents(key, sections, kind, path)
    summary: dict[str, object] = {"sections": section_places(sections)}
    if kind == REFERENCE:
        return ParsedFile(documents, summary)
    links, problem = first_links(text)
    summary["links"] = [(link.text, link.target, link.path, link.line) for link in links]
    documents += [_link_document(key, number, link) for number, link in enumerate(links, len(sections))]
    return ParsedFile(documents, summary, problem)


def _link_document(key: str, number: int, link: Link) -> Document:
    """Return the document of a link, which is found by its text and leads to its page."""
    return Document(
        document_id(key, number),
        link.text,
        link.title,
        kind="link",
        source_path=_path(key),
    )


def _fit(texts: dict[str, str], max_bytes: int) -> tuple[tuple[RuleFile, ...], tuple[str, ...]]:
    """Return the files within a budget that the nearest use first, root first, and notes about what did not fit."""
    room = max_bytes
    fitted: list[RuleFile] = []
    for path in reversed(texts):
        escaped = neutralise_tags(texts[path])
        whole = escaped.encode("utf-8", "replace")
        size = len(whole)
        frame = len(render_block("rules", {"path": path}, "").encode()) + MAX_MARKER_BYTES
        share = min(size, room - frame)
        if share < min(size, MIN_HEAD_BYTES):
            fitted.append(RuleFile(path, size, 0, "", digest(whole)))
            continue
        text, cut = cap_text(escaped, share)
        fitted.append(RuleFile(path, size, size - cut, text, digest(whole)))
        room -= frame + share
    notes = [_cut_note(file, max_bytes) for file in reversed(fitted) if file.shown_bytes < file.bytes]
    return tuple(reversed(fitted)), tuple(notes[:MAX_LISTED])


def _cut_note(file: RuleFile, max_bytes: int) -> str:
    left = f"{file.bytes - file.shown_bytes:,} of {file.bytes:,} bytes" if file.shown_bytes else f"{file.bytes:,} bytes"
    return f"{file.path}: {left} left out, because {max_bytes:,} are allowed; search_rules finds the rest"


def _list_directories(paths: Sequence[str]) -> str:
    """Return the list of directories with rules of their own, for a prompt."""
    if not paths:
        return ""
    lines = [f"- {line_without_tags(path)}" for path in paths[:MAX_LISTED]]
    if len(paths) > MAX_LISTED:
        lines.append(f"- and {len(paths) - MAX_LISTED} more")
    introduction = "These directories have their own rules. Before you change a file in one, call rules_for_path:"
    return "\n".join([introduction, *lines])


def _render_hit(hit: RuleHit) -> str:
    attributes = {"path": hit.path, "section": hit.section.heading, "score": f"{hit.score:.2f}"}
    if hit.linked_from:
        attributes["linked_from"] = hit.linked_from[0]
    return render_block("rules", attributes, hit.section.text.strip())
