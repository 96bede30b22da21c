"""What does a program get of an answer? The shape of each, from which its schema is made.

They promise what is always there and name what may be, such as `left_out`, how many there was no room for; a program
must bear what it does not know. How answers are put into these shapes is the business of `found` and `answers`.
"""

from typing import Annotated, Any, NotRequired, TypedDict

Span = Annotated[list[int], {"minItems": 2, "maxItems": 2}]


class Problem(TypedDict):
    """A file that was left out, and why."""

    path: str
    reason: str


class Pages(TypedDict):
    """How much was searched."""

    sections: int
    files: int


class Section(TypedDict):
    """A section of a page that was found."""

    path: str
    section: str
    lines: Span
    score: float
    text: str


class ContextHit(Section):
    """With what each word of the query added to its score."""

    terms: dict[str, float]


class ContextAnswer(TypedDict):
    """Of `context_search`."""

    query: str
    hits: list[ContextHit]
    searched: Pages
    reason: str | None
    notes: NotRequired[list[str]]
    problems: NotRequired[list[Problem]]
    left_out: NotRequired[int]


class RuleHit(Section):
    """Of a rule file, or of a page that rules link to."""

    kind: str
    linked_from: list[str]


class RulesAnswer(TypedDict):
    """Of `search_rules`."""

    query: str
    hits: list[RuleHit]
    searched: Pages
    reason: str | None
    notes: list[str]
    problems: list[Problem]
    left_out: NotRequired[int]


class RuleFile(TypedDict):
    """A file of rules, as far as the budget reaches."""

    path: str
    bytes: int
    shown_bytes: int
    text: str
    digest: str


class PathRules(TypedDict):
    """Of `rules_for_path`."""

    path: str
    files: list[RuleFile]
    max_bytes: int
    notes: list[str]
    problems: list[Problem]
    left_out: NotRequired[int]


class SkillMatch(TypedDict):
    """A part of a skill that a query matched."""

    kind: str
    path: str
    heading_path: list[str]
    lines: Span
    score: float
    layers: list[dict[str, Any]]  # which say why: to spell them out would make the schema half as long again
    snippet: str


class SkillHit(TypedDict):
    """A skill that was found."""

    name: str
    description: str
    path: str
    score: float
    matches: list[SkillMatch]


class Skills(TypedDict):
    """How much was searched."""

    skills: int


class SkillsAnswer(TypedDict):
    """Of `search_skills`."""

    query: str
    hits: list[SkillHit]
    searched: Skills
    reason: str | None
    notes: list[str]
    problems: list[Problem]
    left_out: NotRequired[int]


class SkillReference(TypedDict):
    """A file that belongs to a skill."""

    path: str
    text: str
    line: int
    problem: str | None


class SkillScript(TypedDict):
    """A program of a skill."""

    name: str
    qualified_name: str
    description: str
    path: str


class SkillReading(TypedDict):
    """Of `read_skill` and `read_skill_reference`."""

    skill: str
    path: str
    lines: Span
    text: str
    headings: list[str]
    references: list[SkillReference]
    scripts: list[SkillScript]
    files: list[str]
    note: str | None
    notes: NotRequired[list[str]]


class Note(TypedDict):
    """What an agent wrote down."""

    written_by: str
    path: str
    name: str
    description: str
    type: str
    created: str
    updated: str
    source: str
    body: str


class NoteHit(Note):
    """One that was found."""

    score: float


class Notes(TypedDict):
    """How much was searched."""

    notes: int


class NotesAnswer(TypedDict):
    """Of `search_notes`."""

    query: str
    hits: list[NoteHit]
    searched: Notes
    reason: str | None
    notes: list[str]
    problems: list[Problem]
    left_out: NotRequired[int]


class WrittenNote(Note):
    """Of `write_note`."""

    replaced: Note | None


class DeletedNote(TypedDict):
    """Of `delete_note`."""

    deleted: Note


class DocumentLayer(TypedDict):
    """How one way of searching saw a document."""

    rank: int
    score: float
    terms: NotRequired[list[str]]


class DocumentHit(TypedDict):
    """A document that was found."""

    document_id: str
    title: str
    snippet: str
    score: float
    author: str
    created_time: str | None
    layers: dict[str, DocumentLayer]


class DocumentsAnswer(TypedDict):
    """Of the four searches for documents."""

    hits: list[DocumentHit]
    total: NotRequired[int]
    min_score: NotRequired[float | None]
    next_page_token: NotRequired[str]
    notes: NotRequired[list[str]]
    reason: NotRequired[str]
    left_out: NotRequired[int]


class DocumentPart(TypedDict):
    """Which part of a document's text this is."""

    lines: Span
    of_lines: int
    bytes: Span
    of_bytes: int


class DocumentReading(TypedDict):
    """Of `get_document`."""

    document_id: str
    title: str
    author: str
    tags: list[str]
    scope: str
    created_time: str | None
    metadata: dict[str, Any]
    text: str
    part: DocumentPart
    next: NotRequired[dict[str, Any]]
    notes: NotRequired[list[str]]
