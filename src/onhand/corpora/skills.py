"""What does somebody know how to do? Agent Skills, found by what they say and read step by step.

The roots are looked at before every answer, so an edit is seen by the next search. Nothing in a skill is ever run, and
nothing outside its directory is read for it. Safe to share between threads.
"""

from __future__ import annotations

import os
from _thread import RLock  # threading's own, without the cost of importing threading

from onhand.corpora import files, skill_file, skill_reading, skill_roots
from onhand.corpora.files import Problem
from onhand.corpora.mirror import Content, Mirror, document_id
from onhand.corpora.skill import Checked, Matched, ReferenceHit, ReferenceResult, Skill, SkillHit, SkillResult
from onhand.corpora.skill_file import SKILL_FILE, LinkedFile
from onhand.corpora.skill_reading import Place
from onhand.corpora.skill_roots import Swept, parted, shown
from onhand.document import EVERYTHING, Document, Filter, Section
from onhand.errors import InputError, NotFound
from onhand.markdown.sections import split_sections
from onhand.search.index import FUSED_DEPTH
from onhand.text import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from onhand.corpora.corpus import Findings
    from onhand.corpora.skill import Reading, Reference
    from onhand.corpora.skill_catalog import Catalog
    from onhand.corpora.skill_file import Verdict
    from onhand.corpora.skill_scripts import Script
    from onhand.embed.embedder import Embedder
    from onhand.search.result import Hit, Result
    from onhand.tools import Tool
    from onhand.tools.catalog_tool import CatalogTool

# Tags by which a search is narrowed: the head of a skill (its name, description and metadata), a section of its text or
# of a file that belongs to it, and the latter alone.
HEAD, PART, REFERENCE = "skill", "part", "reference"
# Hits of each of these that a search looks at: a skill whose best section is further down is no answer. One search
# explains every hit, which is what it costs.
DEPTH = 100
# As far as a search goes where those are of too few skills: one may have any number of sections, and so may one that
# is not used because it is damaged or another has its name.
MAX_DEPTH = 6_400


class Skills:
    """Agent Skills of a project and its user.

    The usual places are `.agents/skills`, `.claude/skills` and every other `.<client>/skills`, in the project and then
    in `home`; `roots` are directories to look into before them, relative to `project` unless absolute. Of two skills of
    a name the first counts. `kept_at` is a file for what was learned of the skills, for those who open the same ones.
    With an embedder, skills are found by what their names and descriptions mean as well.
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
        kept_at: str | None = None,
        embedder: Embedder | None = None,
        unavailable: str | None = None,
    ) -> None:
        self.project = os.path.abspath(project)
        self._named = tuple(roots)
        self._usual = usual
        self._home = home
        self._limit = limit
        self._catalog_max_chars = catalog_max_chars
        self._max_file_bytes = max_file_bytes
        self._mirror = Mirror(
            self._content,
            max_file_bytes=max_file_bytes,
            path=kept_at,
            embedder=embedder,
            unavailable=unavailable,
            embeds=Filter(tags=(HEAD,)),  # a section costs a model some 20 ms, and there may be thousands
        )
        self._swept = Swept({}, {}, ())
        self._skills: dict[str, Skill] = {}  # by name
        self._names: dict[str, str] = {}  # directory → name
        self._collisions: list[Problem] = []
        self._problems: tuple[Problem, ...] = ()
        self._lock = RLock()

    def refresh(self) -> bool:
        """See what changed on disk since the last look; whether anything did. Every answer does this first."""
        with self._lock:
            roots, problems = skill_roots.roots_of(self.project, self._home, self._named, self._usual)
            before = list(self._swept.places)
            self._swept = skill_roots.sweep(roots, self._max_file_bytes)
            changed = self._mirror.refresh(self._swept.found)
            if changed or before != list(self._swept.places):
                self._take_names()
            unusable = [Problem(shown(path), reason) for path, reason in self._mirror.problems()]
            self._problems = tuple(sorted([*problems, *self._swept.problems, *self._collisions, *unusable]))
            return changed

    def all(self) -> tuple[Skill, ...]:
        """Every skill, by name."""
        with self._lock:
            self.refresh()
            return tuple(self._skills[name] for name in sorted(self._skills))

    def get(self, name: str) -> Skill:
        """The skill of that name."""
        with self._lock:
            self.refresh()
            return self._known(name)

    def problems(self) -> tuple[Problem, ...]:
        """What was left out or is not as it should be, and why."""
        with self._lock:
            self.refresh()
            return self._problems

    def why_empty(self) -> str | None:
        """What is missing for there to be skills; None when there are some."""
        with self._lock:
            self.refresh()
            return self._why_empty()

    def search(self, query: str, limit: int | None = None) -> SkillResult:
        """The skills that fit a task best: by name, description and metadata, their text, and what belongs to them."""
        limit = _checked_limit(self._limit if limit is None else limit)
        with self._lock:
            self.refresh()
            hits, notes = self._hits(query, limit)
            reason = None if hits else self._why_empty() or self._why_no_match(query)
            notes = notes if self._skills else ()  # of an empty index there is nothing else to say
            return SkillResult(query, hits, len(self._skills), reason, notes, self._problems)

    def search_references(self, query: str, skill: str | None = None, limit: int | None = None) -> ReferenceResult:
        """The sections of files that belong to skills, or to one skill, which match a query best."""
        limit = _checked_limit(self._limit if limit is None else limit)
        with self._lock:
            self.refresh()
            scope = () if skill is None else (self._known(skill).directory,)
            wanted = Filter(tags=(REFERENCE,), scope=scope)
            return self._reference_hits(query, wanted, limit)

    def find(self, query: str, limit: int) -> Findings:
        """What one search across everything asks."""
        from onhand.corpora.corpus import Finding, Findings

        result = self.search(query, limit)
        found = tuple(
            Finding(
                f"skill {hit.skill.name}",
                hit.skill.name,
                "\n".join([hit.skill.description, *(matched.snippet for matched in hit.matches)]),
                hit.score,
            )
            for hit in result.hits
        )
        return Findings(found, result.reason, result.notes)

    def read(self, name: str) -> Reading:
        """What a skill says, and which references, scripts and other files there are for it."""
        skill, place = self._located(name)
        return skill_reading.read_skill(skill, place, self._max_file_bytes)

    def references(self, name: str) -> tuple[Reference, ...]:
        """The files that a skill links to, and the other pages that are there for it."""
        return skill_reading.references_of(*self._located(name))

    def reference_content(self, name: str, path: str, section: str | None = None) -> Reading:
        """What a file of a skill says, whole, or the section under a heading with what is below it."""
        skill, place = self._located(name)
        return skill_reading.read_reference(skill, place, path, section, self._max_file_bytes)

    def scripts(self, name: str) -> tuple[Script, ...]:
        """The programs that a skill brings, with what they say they are for. Nothing here runs them."""
        return skill_reading.listed_scripts(*self._located(name))

    def files(self, name: str) -> tuple[str, ...]:
        """Every file of a skill that may be read, as a path inside it."""
        return skill_reading.files_of(self._located(name)[1])

    def file_bytes(self, name: str, path: str) -> bytes:
        """What is in a file of a skill, byte for byte."""
        skill, place = self._located(name)
        return skill_reading.bytes_of(skill, place, path, self._max_file_bytes)

    def script_tools(self) -> tuple[CatalogTool, ...]:
        """The programs of all skills as tools of a catalog, for a host that runs what was found. Nothing here does."""
        from onhand.tools.catalog_tool import CatalogTool

        words = {"type": "array", "items": {"type": "string"}, "description": "What follows the program's name."}
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

    def validate(self) -> tuple[Checked, ...]:
        """What every SKILL.md gets wrong by the specification, also of those that could not be loaded."""
        with self._lock:
            self.refresh()
            paths = [path for path in self._swept.found if parted(path)[1] == SKILL_FILE]
            return tuple(Checked(shown(path), self._verdict(path)) for path in sorted(paths))

    def catalog(self, window_tokens: int | None = None) -> Catalog:
        """The skills as a block for the system prompt, within a part of the model's window or `catalog_max_chars`."""
        from onhand.corpora.skill_catalog import budget_of, render

        with self._lock:
            skills = self.all()
            ranks = {root: place for place, root in enumerate(dict.fromkeys(self._swept.places.values()))}
            first = {skill.name: ranks[self._swept.places[skill.directory]] for skill in skills}
        max_chars = self._catalog_max_chars if window_tokens is None else budget_of(window_tokens)
        return render(skills, max_chars, first)

    def tools(self) -> list[Tool]:
        """`search_skills`, `read_skill` and `read_skill_reference`, for a registry."""
        from onhand.corpora.skill_tools import tools_over

        return tools_over(self, self._limit)

    def _content(self, path: str, text: str) -> Content:
        directory, inner = parted(path)
        sections = split_sections(text)
        places = [(section.heading_path, section.first_line, section.last_line) for section in sections]
        if inner != SKILL_FILE:
            pages = [_part(path, number, directory, one, REFERENCE) for number, one in enumerate(sections)]
            return Content(pages, {"places": places})
        loaded = skill_file.load(text, self._name_of(directory))
        if loaded.refused:
            return Content((), {}, f"not loaded: {loaded.refused}")
        parts = [_part(path, number, directory, one) for number, one in enumerate(sections, 1)]
        summary = {"skill": _noted(loaded), "places": [((), 1, 1), *places]}
        return Content([_head(path, directory, loaded), *parts], summary, "; ".join(loaded.warnings) or None)

    def _name_of(self, directory: str) -> str:
        """The last part of a skill's directory, which should be its name."""
        return whole(os.path.basename(self.project if directory == "." else directory))  # for a model to name it

    def _take_names(self) -> None:
        """Note the skills by their names, and those that have the name of a skill before them."""
        self._skills, self._names, self._collisions = {}, {}, []
        for path in self._swept.found:
            noted = self._mirror.pages[path].summary.get("skill")
            if noted is None:
                continue
            skill = _skill(parted(path)[0], noted)
            first = self._skills.setdefault(skill.name, skill)
            if first is skill:
                self._names[skill.directory] = skill.name
            else:
                reason = f"not used: {first.path} has the name {skill.name!r} and comes first; rename one of them"
                self._collisions.append(Problem(skill.path, reason))

    def _known(self, name: str) -> Skill:
        skill = self._skills.get(name)
        if skill is None:
            from difflib import get_close_matches

            near = get_close_matches(str(name)[:100], self._skills, 3)
            advice = f"did you mean {' or '.join(map(repr, near))}?" if near else "take a name from a search"
            raise NotFound(f"there is no skill {str(name)[:100]!r}: {advice}")
        return skill

    def _located(self, name: str) -> tuple[Skill, Place]:
        """A skill and where it is on disk."""
        with self._lock:
            self.refresh()
            skill = self._known(name)
            root = self._swept.places[skill.directory]
            directory = os.path.join(root.directory, f"{skill.directory}/".removeprefix(root.shown).rstrip("/"))
            if not files.is_inside(directory, root.directory):  # it was put there since we looked
                raise InputError(f"the directory of the skill {name!r} is a link out of its root: put the skill there")
            mine, below = f"{skill.directory}/./", "" if skill.directory == "." else f"{skill.directory}/"
            pages = {path.removeprefix(mine) for path in self._swept.found if path.startswith(mine)}
            others = (
                f"{one.removeprefix(below)}/"
                for one in self._swept.places
                if one.startswith(below) and one != skill.directory
            )
            return skill, Place(directory, pages, tuple(others))

    def _verdict(self, path: str) -> Verdict:
        file, name = self._swept.found[path], self._name_of(parted(path)[0])
        try:
            text, problem = files.read(file, self._max_file_bytes)
        except files.Unreadable as reason:
            return skill_file.Verdict((str(reason),), ())
        errors, warnings = skill_file.validate(text, name)
        directory = os.path.dirname(os.path.join(file.root, file.inner))
        broken = skill_reading.broken_links(skill_file.load(text, name).links, directory)
        return skill_file.Verdict(errors, (*warnings, *([problem] if problem else []), *broken))

    def _hits(self, query: str, limit: int) -> tuple[tuple[SkillHit, ...], tuple[str, ...]]:
        """A skill counts as much as its head and its best section together.

        On real skills that finds more than either, than their best alone, and than a discounted sum of all
        (docs/adr/0018-skills.md).
        """
        # Meaning is that of heads alone, so no number of sections hides the nearest ones, and one search will do.
        wanted = [EVERYTHING] if self._mirror.index.embedder else [Filter(tags=(HEAD,)), Filter(tags=(PART,))]
        depth = 2 * FUSED_DEPTH if self._mirror.index.embedder else DEPTH
        results = [
            self._asked(query, one, depth, lambda hits: len(self._best_of_each(hits)) >= limit) for one in wanted
        ]
        best: dict[str, list[Hit]] = {}
        for tag in (HEAD, PART):
            tagged = [hit for result in results for hit in result.hits if tag in hit.tags]
            for name, hit in self._best_of_each(tagged).items():
                best.setdefault(name, []).append(hit)
        scores = {name: sum(hit.score for hit in hits) for name, hits in best.items()}
        ranked = sorted(scores, key=lambda name: (-scores[name], name))[:limit]
        found = tuple(SkillHit(self._skills[name], scores[name], self._matches(query, best[name])) for name in ranked)
        return found, tuple(dict.fromkeys(note for result in results for note in result.notes))

    def _best_of_each(self, hits: Sequence[Hit]) -> dict[str, Hit]:
        """The first hit of every skill that is used, by its name."""
        best: dict[str, Hit] = {}
        for hit in hits:
            name = self._owner(hit)
            if name is not None:
                best.setdefault(name, hit)
        return best

    def _owner(self, hit: Hit) -> str | None:
        """The name of the skill that a hit is of; None where a skill before it has that name."""
        return self._names.get(parted(self._mirror.place_of(hit.document_id)[0])[0])

    def _reference_hits(self, query: str, wanted: Filter, limit: int) -> ReferenceResult:
        found = self._asked(
            query, wanted, max(DEPTH, limit), lambda hits: sum(1 for hit in hits if self._owner(hit)) >= limit
        )
        used = [(name, hit) for hit in found.hits if (name := self._owner(hit)) is not None][:limit]
        hits = tuple(ReferenceHit(name, match) for name, hit in used for match in self._matches(query, [hit]))
        return ReferenceResult(query, hits, None if hits else found.reason or "no reference matches", found.notes)

    def _asked(self, query: str, wanted: Filter, depth: int, is_enough: Callable[[Sequence[Hit]], bool]) -> Result:
        """The best hits: so many, or, as long as they are not enough and there are more, four times as many."""
        result = self._mirror.search(query, depth, wanted, explain=False)  # of so many hits, few are shown
        if len(result.hits) < depth or depth >= MAX_DEPTH or is_enough(result.hits):
            return result
        return self._asked(query, wanted, 4 * depth, is_enough)

    def _matches(self, query: str, hits: Sequence[Hit]) -> tuple[Matched, ...]:
        explained = self._mirror.index.explained(hits, query)
        ordered = sorted(explained, key=lambda hit: (-hit.score, hit.document_id))
        return tuple(self._matched(hit) for hit in ordered)

    def _matched(self, hit: Hit) -> Matched:
        path, number = self._mirror.place_of(hit.document_id)
        heading_path, first, last = self._mirror.pages[path].summary["places"][number]
        inner = parted(path)[1]
        return Matched(hit.kind, inner, heading_path, (first, last), hit.score, hit.layers, hit.snippet)

    def _why_empty(self) -> str | None:
        if self._skills:
            return None
        unusable = f"; {len(self._problems)} entries cannot be used" if self._problems else ""
        return f"there are no skills here{unusable}: put one into .agents/skills, or name their directory"

    def _why_no_match(self, query: str) -> str:
        if not self._mirror.index.store.has_words(query):
            return "the query has no words to look for"
        return f"none of {len(self._skills):,} skills has a word of the query: try other words for the same task"


def _head(path: str, directory: str, loaded: skill_file.SkillText) -> Document:
    said = [loaded.description, loaded.compatibility, *(f"{key} {value}" for key, value in loaded.metadata.items())]
    text = "\n".join(part for part in said if part)
    return Document(
        document_id(path, 0), loaded.name, text, tags=(HEAD,), scope=directory, kind="skill", source_path=path
    )


def _part(path: str, number: int, directory: str, section: Section, *tags: str) -> Document:
    return Document(
        document_id(path, number),
        " ".join(section.heading_path),
        section.text,
        tags=(PART, *tags),
        scope=directory,
        kind="reference" if tags else "section",
        source_path=path,
    )


def _noted(loaded: skill_file.SkillText) -> tuple[Any, ...]:
    """What is noted of a skill, made of what can be kept: no Records."""
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


def _skill(directory: str, noted: Sequence[Any]) -> Skill:
    name, description, license_, compatibility, metadata, allowed_tools, links = noted
    linked = tuple(LinkedFile(*link) for link in links)
    return Skill(name, description, directory, license_, compatibility, metadata, allowed_tools, linked)


def _checked_limit(limit: int) -> int:
    if limit < 1:
        raise InputError(f"the limit is {limit}: ask for at least one")
    return limit
