"""Agent Skills of a project and its user: found by name, description and text, and read step by step.

The roots are checked before every answer, so the next search sees an edit. Nothing in a skill is ever run, and nothing
outside its directory is read for it. Safe to share between threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

from onhand.closed_paths import BY_NAME, ClosedPaths
from onhand.corpora import files, skill_catalog, skill_files, skill_reading
from onhand.corpora.blocks import corpus_tool, escape, required_query, suggest_names
from onhand.corpora.federated import Finding, Findings
from onhand.corpora.file_index import FileCorpus, FileIndex, ParsedFile, document_id, section_documents, section_places
from onhand.corpora.files import Problem
from onhand.corpora.skill_catalog import SkillCatalog
from onhand.corpora.skill_files import (
    SKILL_FILE,
    LinkedFile,
    Skill,
    SkillSweep,
    SkillText,
    SkillVerdict,
    display_path,
    split_path,
)
from onhand.corpora.skill_reading import Script, SkillFileReading, SkillPlace, SkillReading, SkillReference
from onhand.document import EVERYTHING, Document, Filter
from onhand.embed.embedder import Embedder
from onhand.errors import InputError, NotFound
from onhand.hidden_characters import repair_surrogates
from onhand.markdown.page import split_sections
from onhand.record import Record
from onhand.search.index import FUSED_DEPTH, MAX_LIMIT
from onhand.search.result import Hit, Layer, SearchResult

# Tags of documents, to narrow a search: the head of a skill (its name, description and metadata), a section of its
# SKILL.md or of another of its files, and only the latter.
HEAD, PART, REFERENCE = "skill", "part", "reference"
# Hits of each kind that a search looks at: a skill whose best section ranks lower is not an answer. One search explains
# every hit, which is its main cost.
DEPTH = 100
# How deep a search goes if those hits belong to too few skills: a skill may have any number of sections, even one that
# is not used because it is damaged or another has its name.
MAX_DEPTH = 6_400


MAX_OUTPUT_BYTES = 32 * 1024  # a skill within the specification's 5,000 tokens is whole
MAX_DESCRIPTION_CHARS = 1024  # allowed by the specification
NAME_HELP = "The skill's name, as search_skills or the list of skills gives it."
READ = (
    "Read a skill: its full instructions, and a list of its references, scripts and other files. Good for the skill "
    "that fits the task, once, before you begin; then follow it. Poor for finding skills: it takes a name from "
    f"search_skills or from the list of available skills. Costs up to {MAX_OUTPUT_BYTES:,} bytes. It runs nothing. "
    'Example: read_skill(name="pdf-processing").'
)
READ_REFERENCE = (
    "Read a file that belongs to a skill, whole or one section of it. Good for a reference that a skill points to, "
    "when the task needs it. Poor for the project's own files: it reads nothing outside the skill. Costs up to "
    f"{MAX_OUTPUT_BYTES:,} bytes, so name a section of a long file; the answer lists its headings. Example: "
    'read_skill_reference(skill="pdf-processing", path="references/forms.md", section="Checkboxes").'
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.tools import Tool
    from onhand.tools.catalog_tool import CatalogTool


class SkillMatch(Record):
    """A part of a skill that matches a query, and why."""

    kind: str  # "skill": its name, description and metadata; "section" of its text; "reference": of another file
    path: str  # inside the skill's directory
    heading_path: tuple[str, ...]  # of the section
    lines: tuple[int, int]  # of the file
    score: float
    layers: tuple[Layer, ...]
    snippet: str


class SkillHit(Record):
    """A skill that matches a query, and why."""

    name: str
    description: str
    path: str  # of its SKILL.md
    score: float  # the sum of its matches' scores
    matches: tuple[SkillMatch, ...]  # its head and its best section, best first


class SkillResult(Record):
    """The skills that a search found, and how many were searched."""

    query: str
    hits: tuple[SkillHit, ...]
    skills: int  # searched
    reason: str | None  # why there are no hits
    notes: tuple[str, ...]  # such as that only words were compared
    problems: tuple[Problem, ...]
    left_out: int = 0  # hits that did not fit into the answer

    def __iter__(self) -> Iterator[SkillHit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def to_text(self) -> str:
        """Return names, descriptions and matches as blocks for a model."""
        lines = [_render_hit(hit) for hit in self.hits] or [f"no matching skill: {self.reason}"]
        if self.left_out:
            lines.append(f"[{self.left_out} more skills left out: ask for fewer]")
        return "\n".join([*lines, *(f"[{note}]" for note in self.notes)])


class ReferenceHit(Record):
    """A section of a file that belongs to a skill."""

    skill: str
    match: SkillMatch


class ReferenceResult(Record):
    """The sections of references that a search found."""

    query: str
    hits: tuple[ReferenceHit, ...]
    reason: str | None  # why there are no hits
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[ReferenceHit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)


class SkillCheck(Record):
    """The result of validating a SKILL.md."""

    path: str
    verdict: SkillVerdict


class Skills(FileCorpus):
    """Agent Skills of a project and its user.

    The usual places are `.agents/skills`, `.claude/skills` and every other `.<client>/skills`, in the project and then
    in `home`; `roots` are directories that come before them, relative to `project` unless absolute. Of two skills with
    the same name the first counts. `cache_file` stores the index for the next process that opens the same skills. With
    an embedder, skills are also found by the meaning of their names and descriptions.
    """

    def __init__(
        self,
        project: str | os.PathLike[str] = ".",
        *,
        roots: Sequence[str] = (),
        usual: bool = True,
        home: str | None = None,
        limit: int = 5,
        catalog_max_chars: int = 8_000,
        max_file_bytes: int = 1024 * 1024,
        cache_file: str | None = None,
        embedder: Embedder | None = None,
        unavailable: str | None = None,
        closed: ClosedPaths = BY_NAME,
    ) -> None:
        self.project = os.path.abspath(project)
        self._closed = closed
        self._named = tuple(roots)
        self._usual = usual
        self._home = home
        self._catalog_max_chars = catalog_max_chars
        self._max_file_bytes = max_file_bytes
        self._swept = SkillSweep({}, {}, ())
        self._skills: dict[str, Skill] = {}  # by name
        self._names: dict[str, str] = {}  # directory → name
        self._collisions: list[Problem] = []
        index = FileIndex(
            self._read_content,
            max_file_bytes=max_file_bytes,
            path=cache_file,
            embedder=embedder,
            unavailable=unavailable,
            embeds=Filter(tags=(HEAD,)),  # embedding a section takes about 20 ms, and there may be thousands
        )
        super().__init__(index, limit)

    def all(self) -> tuple[Skill, ...]:
        """Return every skill, by name."""
        with self._lock:
            self.refresh()
            return tuple(self._skills[name] for name in sorted(self._skills))

    def get(self, name: str) -> Skill:
        """Return the skill with that name."""
        with self._lock:
            self.refresh()
            return self._require(name)

    def why_empty(self) -> str | None:
        """Return why there are no skills, or None if there are some."""
        with self._lock:
            self.refresh()
            return self._why_empty()

    def search(self, query: str, limit: int | None = None) -> SkillResult:
        """Return the skills that fit a task best, by name, description, metadata, text and other files."""
        limit = self._accept_limit(limit, "skill")
        with self._lock:
            self.refresh()
            hits, notes = self._hits(query, limit)
            reason = None if hits else self._why_empty() or self._why_no_match(query, len(self._skills), "skills")
            notes = notes if self._skills else ()  # an empty index needs no further notes
            return SkillResult(query, hits, len(self._skills), reason, notes, self._problems)

    def search_references(self, query: str, skill: str | None = None, limit: int | None = None) -> ReferenceResult:
        """Return the sections of the files of all skills, or of one, that match a query best."""
        limit = self._accept_limit(limit, "section")
        with self._lock:
            self.refresh()
            scope = () if skill is None else (self._require(skill).directory,)
            filter = Filter(tags=(REFERENCE,), scope=scope)
            return self._reference_hits(query, filter, limit)

    def find(self, query: str, limit: int) -> Findings:
        """Return the skills for a search across all corpora."""
        result = self.search(query, limit)
        found = tuple(
            Finding(
                f"skill {hit.name}",
                hit.name,
                "\n".join([hit.description, *(matched.snippet for matched in hit.matches)]),
                hit.score,
            )
            for hit in result.hits
        )
        return Findings(found, result.reason, result.notes)

    def read(self, name: str) -> SkillReading:
        """Return the instructions of a skill with its references, scripts and other files."""
        skill, place = self._locate(name)
        return skill_reading.read_skill(skill, place, self._max_file_bytes)

    def references(self, name: str) -> tuple[SkillReference, ...]:
        """Return the files that a skill links to, and its other pages."""
        return skill_reading.references_of(*self._locate(name))

    def reference_content(self, name: str, path: str, section: str | None = None) -> SkillFileReading:
        """Return the text of a file of a skill, or of the section under a heading with its subsections."""
        skill, place = self._locate(name)
        return skill_reading.read_reference(skill, place, path, section, self._max_file_bytes)

    def scripts(self, name: str) -> tuple[Script, ...]:
        """Return the programs of a skill with their descriptions. Nothing here runs them."""
        return skill_reading.list_scripts(*self._locate(name))

    def files(self, name: str) -> tuple[str, ...]:
        """Return every file of a skill that may be read, as a path inside it."""
        return skill_reading.files_of(self._locate(name)[1])

    def file_bytes(self, name: str, path: str) -> bytes:
        """Return the content of a file of a skill, byte for byte."""
        skill, place = self._locate(name)
        return skill_reading.bytes_of(skill, place, path, self._max_file_bytes)

    def script_tools(self) -> tuple[CatalogTool, ...]:
        """Return the programs of all skills as catalog tools, for a host that runs them. Nothing here does."""
        from onhand.tools.catalog_tool import CatalogTool

        words = {"type": "array", "items": {"type": "string"}, "description": "The arguments after the program's name."}
        schema = {"type": "object", "properties": {"arguments": words}}
        return tuple(
            CatalogTool(
                f"{skill.name}__{script.name}",
                script.description or f"A program of the skill {skill.name}.",
                schema,
                source="skill",
                server=skill.name,
                label=script.qualified_name,
                hints=(skill.description,),
            )
            for skill in self.all()
            for script in self.scripts(skill.name)
        )

    def validate(self) -> tuple[SkillCheck, ...]:
        """Validate every SKILL.md against the specification, including those that could not be loaded."""
        with self._lock:
            self.refresh()
            paths = [path for path in self._swept.found if split_path(path)[1] == SKILL_FILE]
            return tuple(SkillCheck(display_path(path), self._verdict(path)) for path in sorted(paths))

    def catalog(self, window_tokens: int | None = None) -> SkillCatalog:
        """Return the skills as a block for the system prompt, within a share of the window or `catalog_max_chars`."""
        with self._lock:
            skills = self.all()
            ranks = {root: place for place, root in enumerate(dict.fromkeys(self._swept.places.values()))}
            first = {skill.name: ranks[self._swept.places[skill.directory]] for skill in skills}
        max_chars = self._catalog_max_chars if window_tokens is None else skill_catalog.budget_of(window_tokens)
        return skill_catalog.render_catalog(skills, max_chars, first)

    def tools(self) -> list[Tool]:
        """Return `search_skills`, `read_skill` and `read_skill_reference` for a registry."""
        about_limit = {"description": f"At most this many skills: {self._limit} by default, {MAX_LIMIT} at most."}

        @corpus_tool(max_output_bytes=MAX_OUTPUT_BYTES, parameters={"limit": about_limit})
        def search_skills(
            query: Annotated[str, "What you want to do, in a few words."], limit: int | None = None
        ) -> SkillResult:
            """Find skills: instructions for particular kinds of task, with references and scripts. Good for a task in a
            few words (fill in a PDF form, review a migration): it searches names, descriptions, the instructions and
            the pages that belong to them. Poor for facts about this project; use context_search for those. Cheap:
            local, tens of milliseconds. Returns names with descriptions and what matched, never instructions: read the
            skill that fits with read_skill. Example: search_skills(query="extract tables from a PDF").
            """
            return self.search(required_query(query), None if limit is None else max(1, min(limit, MAX_LIMIT)))

        @corpus_tool(max_output_bytes=MAX_OUTPUT_BYTES, description=READ)
        def read_skill(name: Annotated[str, NAME_HELP]) -> SkillReading:
            return self.read(name)

        @corpus_tool(max_output_bytes=MAX_OUTPUT_BYTES, description=READ_REFERENCE)
        def read_skill_reference(
            skill: Annotated[str, NAME_HELP],
            path: Annotated[str, "The file inside the skill, as read_skill lists it."],
            section: Annotated[str | None, "A heading of the file, to read only what is under it."] = None,
        ) -> SkillFileReading:
            return self.reference_content(skill, path, section or None)

        return [search_skills, read_skill, read_skill_reference]

    def _update(self) -> tuple[bool, list[Problem]]:
        roots, problems = skill_files.roots_of(self.project, self._home, self._named, self._usual)
        before = list(self._swept.places)
        self._swept = skill_files.sweep_roots(roots, self._max_file_bytes, self._closed)
        changed = self._index.refresh(self._swept.found)
        if changed or before != list(self._swept.places):
            self._index_names()
        unusable = [Problem(display_path(path), reason) for path, reason in self._index.problems()]
        return changed, [*problems, *self._swept.problems, *self._collisions, *unusable]

    def _read_content(self, path: str, text: str) -> ParsedFile:
        directory, inner = split_path(path)
        sections = split_sections(text)
        places = section_places(sections)
        if inner != SKILL_FILE:
            pages = section_documents(path, sections, "reference", path, (PART, REFERENCE), directory)
            return ParsedFile(pages, {"sections": places})
        loaded = skill_files.parse_skill(text, self._name_of(directory))
        if loaded.refused:
            return ParsedFile((), {}, f"not loaded: {loaded.refused}")
        parts = section_documents(path, sections, "section", path, (PART,), directory, first_number=1)
        summary = {"skill": _skill_summary(loaded), "sections": [((), 1, 1), *places]}
        return ParsedFile([_head(path, directory, loaded), *parts], summary, "; ".join(loaded.warnings) or None)

    def _name_of(self, directory: str) -> str:
        """Return the last part of a skill's directory, which should be its name."""
        # Repaired, so that a model can write it.
        return repair_surrogates(os.path.basename(self.project if directory == "." else directory))

    def _index_names(self) -> None:
        """Index the skills by name, and record those whose name is taken."""
        self._skills, self._names, self._collisions = {}, {}, []
        for path in self._swept.found:
            summary = self._index.pages[path].summary.get("skill")
            if summary is None:
                continue
            skill = _skill_from(split_path(path)[0], summary)
            first = self._skills.setdefault(skill.name, skill)
            if first is skill:
                self._names[skill.directory] = skill.name
            else:
                reason = f"not used: {first.path} has the name {skill.name!r} and comes first; rename one of them"
                self._collisions.append(Problem(skill.path, reason))

    def _require(self, name: str) -> Skill:
        skill = self._skills.get(name)
        if skill is None:
            similar = suggest_names(str(name), self._skills)
            raise NotFound(f"there is no skill {str(name)[:100]!r}: use a name from a search{similar}")
        return skill

    def _locate(self, name: str) -> tuple[Skill, SkillPlace]:
        """Return a skill and where it is on disk."""
        with self._lock:
            self.refresh()
            skill = self._require(name)
            root = self._swept.places[skill.directory]
            directory = os.path.join(root.directory, f"{skill.directory}/".removeprefix(root.prefix).rstrip("/"))
            if not files.is_inside(directory, root.directory):  # a link may have been put there since the sweep
                raise InputError(f"the directory of the skill {name!r} is a link out of its root: put the skill there")
            own, below = f"{skill.directory}/./", "" if skill.directory == "." else f"{skill.directory}/"
            pages = {path.removeprefix(own) for path in self._swept.found if path.startswith(own)}
            others = (
                f"{one.removeprefix(below)}/"
                for one in self._swept.places
                if one.startswith(below) and one != skill.directory
            )
            return skill, SkillPlace(directory, pages, tuple(others), self._closed)

    def _verdict(self, path: str) -> SkillVerdict:
        file, name = self._swept.found[path], self._name_of(split_path(path)[0])
        try:
            text, problem = files.read(file, self._max_file_bytes)
        except files.Unreadable as reason:
            return skill_files.SkillVerdict((str(reason),), ())
        errors, warnings = skill_files.validate_skill(text, name)
        directory = os.path.dirname(os.path.join(file.root, file.inner))
        broken = skill_reading.broken_links(skill_files.parse_skill(text, name).links, directory)
        return skill_files.SkillVerdict(
            errors, (*warnings, *([problem] if problem and problem not in errors else []), *broken)
        )

    def _hits(self, query: str, limit: int) -> tuple[tuple[SkillHit, ...], tuple[str, ...]]:
        """Return the best skills; a skill scores the sum of its head and its best section.

        On real skills that finds more than either alone, their maximum, or a discounted sum of all sections
        (docs/adr/0018-skills.md).
        """
        # Only heads are embedded, so no number of sections hides the nearest ones, and one search is enough.
        filters = [EVERYTHING] if self._index.index.embedder else [Filter(tags=(HEAD,)), Filter(tags=(PART,))]
        depth = 2 * FUSED_DEPTH if self._index.index.embedder else DEPTH
        results = [
            self._deepen(query, one, depth, lambda hits: len(self._best_of_each(hits)) >= limit) for one in filters
        ]
        best: dict[str, list[Hit]] = {}
        for tag in (HEAD, PART):
            tagged = [hit for result in results for hit in result.hits if tag in hit.tags]
            for name, hit in self._best_of_each(tagged).items():
                best.setdefault(name, []).append(hit)
        scores = {name: sum(hit.score for hit in hits) for name, hits in best.items()}
        ranked = sorted(scores, key=lambda name: (-scores[name], name))[:limit]
        found = tuple(self._hit(name, scores[name], self._matches(query, best[name])) for name in ranked)
        return found, tuple(dict.fromkeys(note for result in results for note in result.notes))

    def _hit(self, name: str, score: float, matches: tuple[SkillMatch, ...]) -> SkillHit:
        skill = self._skills[name]
        return SkillHit(skill.name, skill.description, skill.path, score, matches)

    def _best_of_each(self, hits: Sequence[Hit]) -> dict[str, Hit]:
        """Return the first hit of every skill in use, by name."""
        best: dict[str, Hit] = {}
        for hit in hits:
            name = self._owner(hit)
            if name is not None:
                best.setdefault(name, hit)
        return best

    def _owner(self, hit: Hit) -> str | None:
        """Return the name of the skill that a hit belongs to, or None if another skill took its name."""
        return self._names.get(split_path(self._index.place_of(hit.document_id)[0])[0])

    def _reference_hits(self, query: str, filter: Filter, limit: int) -> ReferenceResult:
        found = self._deepen(
            query, filter, max(DEPTH, limit), lambda hits: sum(1 for hit in hits if self._owner(hit)) >= limit
        )
        used = [(name, hit) for hit in found.hits if (name := self._owner(hit)) is not None][:limit]
        hits = tuple(ReferenceHit(name, match) for name, hit in used for match in self._matches(query, [hit]))
        return ReferenceResult(query, hits, None if hits else found.reason or "no reference matches", found.notes)

    def _deepen(
        self, query: str, filter: Filter, depth: int, is_enough: Callable[[Sequence[Hit]], bool]
    ) -> SearchResult:
        """Return the best `depth` hits or, while they are not enough and there are more, four times as many."""
        result = self._index.search(query, depth, filter, explain=False)  # few of these hits are shown
        if len(result.hits) < depth or depth >= MAX_DEPTH or is_enough(result.hits):
            return result
        return self._deepen(query, filter, 4 * depth, is_enough)

    def _matches(self, query: str, hits: Sequence[Hit]) -> tuple[SkillMatch, ...]:
        explained = self._index.index.explain_hits(hits, query)
        ordered = sorted(explained, key=lambda hit: (-hit.score, hit.document_id))
        return tuple(self._match(hit) for hit in ordered)

    def _match(self, hit: Hit) -> SkillMatch:
        path, number = self._index.place_of(hit.document_id)
        heading_path, first, last = self._index.pages[path].summary["sections"][number]
        inner = split_path(path)[1]
        return SkillMatch(hit.kind, inner, heading_path, (first, last), hit.score, hit.layers, hit.snippet)

    def _why_empty(self) -> str | None:
        if self._skills:
            return None
        unusable = f"; {len(self._problems)} entries cannot be used" if self._problems else ""
        return f"there are no skills here{unusable}: put one in .agents/skills, or name their directory"


def _head(path: str, directory: str, loaded: SkillText) -> Document:
    parts = [loaded.description, loaded.compatibility, *(f"{key} {value}" for key, value in loaded.metadata.items())]
    text = "\n".join(part for part in parts if part)
    return Document(
        document_id(path, 0), loaded.name, text, tags=(HEAD,), scope=directory, kind="skill", source_path=path
    )


def _skill_summary(loaded: SkillText) -> tuple[Any, ...]:
    """Return a skill as plain tuples, which the index can cache."""
    links = [tuple(link) for link in loaded.links]
    return (
        loaded.name,
        loaded.description,
        loaded.license,
        loaded.compatibility,
        dict(loaded.metadata),
        loaded.allowed_tools,
        links,
    )


def _skill_from(directory: str, summary: Sequence[Any]) -> Skill:
    name, description, license_, compatibility, metadata, allowed_tools, links = summary
    linked = tuple(LinkedFile(*link) for link in links)
    return Skill(name, description, directory, license_, compatibility, metadata, allowed_tools, linked)


def _render_hit(hit: SkillHit) -> str:
    description = " ".join(hit.description.split())[:MAX_DESCRIPTION_CHARS]
    lines = [f"<description>{escape(description)}</description>"]
    for match in hit.matches:
        if match.kind != "skill":
            where = " › ".join(match.heading_path)
            lines.append(f'<matched path="{escape(match.path)}" section="{escape(where)}"/>')
    return "\n".join([f'<skill name="{escape(hit.name)}" score="{hit.score:.2f}">', *lines, "</skill>"])
