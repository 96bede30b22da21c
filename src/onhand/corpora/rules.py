"""How does this project want work to be done? AGENTS.md files: by place, and with the pages they link to, by words.

Three tiers. The root's file goes into every prompt. A directory's own file comes with work in that directory
(`for_path`). Pages that any of them links to are found when a query matches (`search`). Files are looked at before
every answer. It opens nothing outside the project, and does not know who asks. Safe to share between threads.
"""

import os
from _thread import RLock  # threading's own, without the cost of importing threading
from collections.abc import Mapping, MutableMapping, Sequence

from onhand.corpora import files
from onhand.corpora.files import Found, Problem
from onhand.corpora.mirror import Content, Mirror, document_id
from onhand.corpora.references import Reference, first_links, followed, joined
from onhand.corpora.rule_files import NAMES, SKIPPED, RuleFiles
from onhand.corpora.sections import as_document, as_section, place_of
from onhand.digest import digest
from onhand.document import Contribution, Document, Section
from onhand.errors import InputError
from onhand.markdown.sections import split_sections
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.corpora.corpus import Findings
    from onhand.embed.embedder import Embedder
    from onhand.markdown.links import Link
    from onhand.search.result import Hit
    from onhand.tools import Tool

TEXTS = (".md", ".markdown", ".mdx", ".rst", ".txt")  # what a link may lead to and be searched
MAX_ALL_LINKS = 10_000  # of all files: some 50 µs each
MAX_LISTED = 30  # directories that a prompt names
MIN_HEAD_BYTES = 256  # less of a file than this is not worth its place in a prompt
RULE, REFERENCE = "rule", "reference"


class RuleFile(Record):
    """A file of rules, as far as the budget reaches."""

    path: str  # relative to the project, with forward slashes
    bytes: int  # of the file's text
    shown_bytes: int
    text: str  # what is shown, with a marker when that is not all
    digest: str  # of all that it says


class PathRules(Record):
    """The rules that hold in one place, the root's first, so that the nearest have the last word."""

    path: str  # relative to the project, after all links; "." is the project itself
    files: tuple[RuleFile, ...]
    max_bytes: int
    notes: tuple[str, ...]  # what the asker should know, such as what had no room
    problems: tuple[Problem, ...]

    @property
    def text(self) -> str:
        """The rules as blocks for a prompt."""
        from onhand.corpora.blocks import block, on_one_line

        blocks = [block("rules", {"path": file.path}, file.text) for file in self.files if file.shown_bytes]
        return "\n\n".join([*blocks, *(f"[{on_one_line(note)}]" for note in self.notes)])


class RuleHit(Record):
    """A section of a rule file, or of a page that rules link to, and why it was found."""

    kind: str  # "rule" or "reference"
    path: str
    section: Section
    score: float
    contributions: tuple[Contribution, ...]
    linked_from: tuple[str, ...]  # of a reference: `path:line` of each link to it


class RulesResult(Record):
    """What was found, in how much, and when nothing was, why."""

    query: str
    hits: tuple[RuleHit, ...]
    sections: int  # searched
    files: int  # searched
    reason: str | None
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]


class Rules:
    """A project's rules.

    Of each directory, the first of `names` counts that is there and not empty. Directories called as one of `skipped`
    are passed by, and so is what `.gitignore` files leave out. `max_bytes` is the most that `for_path` gives together.
    `kept_at` is a file for what was learned of the pages, for those who open the same rules with the same settings.
    With an embedder, sections are found by what they mean as well.
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
        kept_at: str | None = None,
        embedder: "Embedder | None" = None,
        unavailable: str | None = None,
    ) -> None:
        self.project = os.path.abspath(project)
        self._files = RuleFiles(self.project, names, skipped)
        self._max_bytes = max_bytes
        self._max_file_bytes = max_file_bytes
        self._limit = limit
        self._mirror = Mirror(
            _content,
            max_file_bytes=max_file_bytes,
            path=kept_at,
            embedder=embedder,
            unavailable=unavailable,
        )
        self._references: tuple[Reference, ...] = ()
        self._problems: tuple[Problem, ...] = ()
        self._lock = RLock()

    def refresh(self) -> bool:
        """See what changed on disk since the last look; whether anything did. Every search does this first."""
        with self._lock:
            found, problems = self._files.all()
            found, left_out = files.within_limits(found, self._max_file_bytes)

            def linked() -> Mapping[str, Found]:
                self._references, pages, unfollowed = self._resolved(found)
                pages, over = files.within_limits(pages, self._max_file_bytes)
                left_out.extend(unfollowed + over)
                return {_key(REFERENCE, path): file for path, file in pages.items()}

            changed = self._mirror.refresh({_key(RULE, path): file for path, file in found.items()}, linked)
            unusable = [Problem(_path(key), reason) for key, reason in self._mirror.problems()]
            self._problems = tuple(sorted(problems + left_out + unusable))
            return changed

    def paths(self) -> tuple[str, ...]:
        """The rule files that count, the root's first, then by path."""
        with self._lock:
            self.refresh()
            paths = [_path(key) for key in self._mirror.pages if _kind(key) == RULE]
        return tuple(sorted(paths, key=lambda path: ("/" in path, path)))

    def references(self) -> tuple[Reference, ...]:
        """Every link of a rule file to something of the project, with what is wrong with it."""
        with self._lock:
            self.refresh()
            return self._references

    def problems(self) -> tuple[Problem, ...]:
        """What was left out, and why."""
        with self._lock:
            self.refresh()
            return self._problems

    def check(self) -> tuple[Problem, ...]:
        """All that somebody should repair: files that cannot be used, links that lead nowhere or out."""
        with self._lock:
            problems = self.problems()
            broken = [Problem(f"{one.source}:{one.line}", one.problem) for one in self._references if one.problem]
        return (*problems, *broken)

    def for_path(self, path: str | os.PathLike[str] = ".") -> PathRules:
        """The rules for a file or directory, which need not exist yet: from the root's to those of its directory.

        A relative path begins at the project. Links and `..` are followed first; what is outside is an InputError.
        """
        inner, is_directory = self._files.located(path)
        with self._lock:
            directories, note = self._files.on_the_way(inner if is_directory else inner.rpartition("/")[0])
            texts, problems = self._texts(directories)
        shown, notes = _within(texts, self._max_bytes)
        return PathRules(inner or ".", shown, self._max_bytes, (*([note] if note else ()), *notes), tuple(problems))

    def root(self) -> PathRules:
        """The rules that hold everywhere."""
        return self.for_path(".")

    def prompt(self) -> str:
        """What belongs into a system prompt: the root's rules, and where there are more; empty without any rules."""
        paths = self.paths()
        parts = [self.root().text, _listed([path for path in paths if "/" in path])]
        return "\n\n".join(part for part in parts if part)

    def search(self, query: str, limit: int | None = None) -> RulesResult:
        """The sections of rules, and of pages that they link to, that match best; when there are none, the reason."""
        limit = self._limit if limit is None else limit
        if limit < 1:
            raise InputError(f"the limit is {limit}: ask for at least one section")
        with self._lock:
            self.refresh()
            counts = [len(page.summary["sections"]) for page in self._mirror.pages.values() if page.documents]
            hits, notes = self._hits(query, limit)
            reason = None if hits else self._why_nothing(query, sum(counts))
            return RulesResult(query, hits, sum(counts), len(counts), reason, notes, self._problems)

    def find(self, query: str, limit: int) -> "Findings":
        """What one search across everything asks."""
        from onhand.corpora.corpus import Findings
        from onhand.corpora.sections import as_finding

        result = self.search(query, limit)
        found = tuple(as_finding(hit.path, hit.section, hit.score) for hit in result.hits)
        return Findings(found, result.reason, result.notes)

    def tools(self) -> "list[Tool]":
        """`search_rules` and `rules_for_path`, for a registry."""
        from onhand.corpora.rules_tool import tools_over

        return tools_over(self, self._limit, self._max_bytes)

    def _texts(self, directories: Sequence[str]) -> tuple[dict[str, str], list[Problem]]:
        """What the rule file of each directory says, by path."""
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
                texts[file.name] = _body(text)
                break
        return texts, problems

    def _resolved(self, rules: Mapping[str, Found]) -> tuple[tuple[Reference, ...], dict[str, Found], list[Problem]]:
        """Every link of the rule files, the pages that they lead to and that are no rule files, and what was too much.

        The root's come first, so that no directory below takes the room of its links.
        """
        references: list[Reference] = []
        pages: dict[str, Found] = {}
        problems: list[Problem] = []
        for source in sorted(rules, key=lambda path: path.count("/")):
            links = self._mirror.pages[_key(RULE, source)].summary.get("links", ())
            if len(references) + len(links) > MAX_ALL_LINKS:
                problems.append(Problem(source, f"its links are not followed: there are more than {MAX_ALL_LINKS:,}"))
                continue
            for text, target, path, line in links:
                reference, file = followed(self.project, Reference(source, line, text, target, "", None), path)
                references.append(reference)
                if file and file.inner.lower().endswith(TEXTS) and reference.path not in rules:
                    pages.setdefault(reference.path, file)
        return tuple(sorted(references, key=lambda one: one.source)), pages, problems

    def _hits(self, query: str, limit: int) -> tuple[tuple[RuleHit, ...], tuple[str, ...]]:
        # A link and what it leads to are one hit.
        found = self._mirror.search(query, min(limit * 3, self._mirror.index.store.count() or 1))
        hits: dict[tuple[str, int], RuleHit] = {}
        for hit in found.hits:
            place = self._led_to(*self._mirror.place_of(hit.document_id))
            if place and place not in hits:
                hits[place] = self._hit(*place, hit)
        return tuple(hits.values())[:limit], found.notes

    def _led_to(self, key: str, number: int) -> tuple[str, int] | None:
        """The section that a document stands for: of a link, the first of the page that it leads to."""
        page = self._mirror.pages[key]
        link = number - len(page.summary["sections"])
        if link < 0:
            return key, number
        path = joined(_path(key), page.summary["links"][link][2])
        for target in (_key(RULE, path), _key(REFERENCE, path)) if path else ():
            if target in self._mirror.pages and self._mirror.pages[target].documents:
                return target, 0
        return None

    def _hit(self, key: str, number: int, hit: "Hit") -> RuleHit:
        path, kind = _path(key), _kind(key)
        text = self._mirror.index.get(document_id(key, number)).text
        section = as_section(self._mirror.pages[key].summary["sections"][number], text)
        links = tuple(f"{one.source}:{one.line}" for one in self._references if one.path == path and not one.problem)
        return RuleHit(kind, path, section, hit.score, hit.terms, links if kind == REFERENCE else ())

    def _why_nothing(self, query: str, sections: int) -> str:
        if not any(_kind(key) == RULE for key in self._mirror.pages):
            return f"there are no rules in {self.project}: write an AGENTS.md, or name another directory"
        if not self._mirror.index.store.has_words(query):
            return "the query has no words to look for"
        return f"none of {sections} sections has a word of the query: try other words for the same thing"


def rules_on_touch(rules: Rules, path: str | os.PathLike[str], seen: MutableMapping[str, str]) -> str:
    """The rules of the directories on the way to a path that nobody has been shown, as text for a tool's result.

    The root's are in the prompt already. `seen` has what was shown, and is kept by the caller for as long as that is in
    front of the model: each file comes once, and again when it says something else. Outside of the project there is
    nothing to say.
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
    """What the mirror calls a file: one that comes to be a rule file is then read as one."""
    return f"{kind}/{path}"


def _kind(key: str) -> str:
    return key.partition("/")[0]


def _path(key: str) -> str:
    kind, _, path = key.partition("/")
    return path if kind in (RULE, REFERENCE) else key


def _content(key: str, text: str) -> Content:
    path, kind = _path(key), _kind(key)
    sections = split_sections(text) or [Section(path, (path,), "", 1, 1)]
    documents = [as_document(key, number, section, kind, path) for number, section in enumerate(sections)]
    summary: dict[str, object] = {"sections": [place_of(section) for section in sections]}
    if kind == REFERENCE:
        return Content(documents, summary)
    links, problem = first_links(text)
    summary["links"] = [(link.text, link.target, link.path, link.line) for link in links]
    documents += [_link_document(key, number, link) for number, link in enumerate(links, len(sections))]
    return Content(documents, summary, problem)


def _link_document(key: str, number: int, link: "Link") -> Document:
    """A link, which is found by what it is called and leads to its page."""
    return Document(
        document_id(key, number),
        link.text,
        link.title,
        kind="link",
        source_path=_path(key),
    )


def _body(text: str) -> str:
    """What a page says, without its front matter."""
    if not text.startswith("---"):
        return text.strip("\n").rstrip()
    from onhand.markdown.frontmatter import read_front_matter

    return read_front_matter(text).body.strip("\n").rstrip()


def _within(texts: dict[str, str], max_bytes: int) -> tuple[tuple[RuleFile, ...], tuple[str, ...]]:
    """Files within a budget that the nearest spend first, root first, and a note of what had no room."""
    from onhand.corpora.blocks import block, harmless
    from onhand.tools.output import MAX_MARKER_BYTES, cap

    room = max_bytes
    shown: list[RuleFile] = []
    for path in reversed(texts):
        spelled = harmless(texts[path])
        whole = spelled.encode("utf-8", "replace")
        size = len(whole)
        frame = len(block("rules", {"path": path}, "").encode()) + MAX_MARKER_BYTES
        share = min(size, room - frame)
        if share < min(size, MIN_HEAD_BYTES):
            shown.append(RuleFile(path, size, 0, "", digest(whole)))
            continue
        kept, cut = cap(spelled, share)
        shown.append(RuleFile(path, size, size - cut, kept, digest(whole)))
        room -= frame + share
    notes = [_cut_note(file, max_bytes) for file in reversed(shown) if file.shown_bytes < file.bytes]
    return tuple(reversed(shown)), tuple(notes[:MAX_LISTED])


def _cut_note(file: RuleFile, max_bytes: int) -> str:
    left = f"{file.bytes - file.shown_bytes:,} of {file.bytes:,} bytes" if file.shown_bytes else f"{file.bytes:,} bytes"
    return f"{file.path}: {left} left out, no room in {max_bytes:,}; search_rules finds the rest"


def _listed(paths: Sequence[str]) -> str:
    """Which directories have rules of their own, for a prompt."""
    if not paths:
        return ""
    from onhand.corpora.blocks import on_one_line

    lines = [f"- {on_one_line(path)}" for path in paths[:MAX_LISTED]]
    if len(paths) > MAX_LISTED:
        lines.append(f"- and {len(paths) - MAX_LISTED} more")
    introduction = "These directories have rules of their own. Before you change a file in one, call rules_for_path:"
    return "\n".join([introduction, *lines])
