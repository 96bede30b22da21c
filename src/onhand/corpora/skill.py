"""What is a skill, and what can be said about one? Plain, immutable data; nothing here reads or ranks."""

from __future__ import annotations

from onhand.corpora.skill_file import SKILL_FILE
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from onhand.corpora.files import Problem
    from onhand.corpora.skill_file import LinkedFile, Verdict
    from onhand.corpora.skill_scripts import Script
    from onhand.search.result import Layer


class Skill(Record):
    """A skill that can be used."""

    name: str
    description: str
    directory: str  # relative to the project, under ~, or absolute
    license: str
    compatibility: str
    metadata: Mapping[str, str]
    allowed_tools: tuple[str, ...]  # that it would like to use; they permit nothing
    links: tuple[LinkedFile, ...]

    @property
    def path(self) -> str:
        """Of its SKILL.md, as `directory` is written."""
        return SKILL_FILE if self.directory == "." else f"{self.directory}/{SKILL_FILE}"


class Matched(Record):
    """A part of a skill that a query matched, and why."""

    kind: str  # "skill" for its name, description and metadata; "section" of its text; "reference": of another file
    path: str  # inside the skill's directory
    heading_path: tuple[str, ...]  # of the section
    lines: tuple[int, int]  # of the file
    score: float
    layers: tuple[Layer, ...]
    snippet: str


class SkillHit(Record):
    """A skill that was found, and why."""

    skill: Skill
    score: float  # the sum of its matches' scores
    matches: tuple[Matched, ...]  # its head and its best section, best first


class SkillResult(Record):
    """The skills that were found, in how many, and when none was, why."""

    query: str
    hits: tuple[SkillHit, ...]
    skills: int  # searched
    reason: str | None
    notes: tuple[str, ...]  # such as: only words were compared
    problems: tuple[Problem, ...]


class ReferenceHit(Record):
    """A section of a file that belongs to a skill."""

    skill: str
    match: Matched


class ReferenceResult(Record):
    """The sections of skills' references that were found, and when none was, why."""

    query: str
    hits: tuple[ReferenceHit, ...]
    reason: str | None
    notes: tuple[str, ...]


class Reference(Record):
    """A file that belongs to a skill, to be read when it is needed."""

    path: str  # inside the skill's directory
    text: str  # of the link to it; "" when the skill does not link to it
    line: int  # of that link in SKILL.md; 0 without one
    problem: str | None = None  # why it cannot be read


class Reading(Record):
    """What a skill's file says, whole or in part."""

    skill: Skill
    path: str  # inside the skill's directory
    text: str
    lines: tuple[int, int]  # of the file
    headings: tuple[str, ...]  # that a part can be asked for by
    references: tuple[Reference, ...] = ()
    scripts: tuple[Script, ...] = ()
    files: tuple[str, ...] = ()  # what else is there
    note: str | None = None  # what is not listed


class Checked(Record):
    """What is wrong with a SKILL.md."""

    path: str
    verdict: Verdict
