"""How is what a corpus of files answers told to a program? As JSON of one shape, through every door.

The shapes are in `shapes`. Nothing is cut here: a tool, whose answers have a byte budget, does that afterwards.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from onhand.corpora import context, files, note, notes, rules, shapes, skill
    from onhand.search.result import Layer


def context_as_json(result: context.SearchResult) -> shapes.ContextAnswer:
    """Sections of the project's context."""
    answer: shapes.ContextAnswer = {
        "query": result.query,
        "hits": [{**_section(hit), "terms": _terms(hit)} for hit in result.hits],
        "searched": {"sections": result.sections, "files": result.files},
        "reason": result.reason,
    }
    if result.notes:
        answer["notes"] = list(result.notes)
    if result.problems:
        answer["problems"] = _problems(result.problems)
    return answer


def rules_as_json(result: rules.RulesResult) -> shapes.RulesAnswer:
    """Sections of rules, and of what they link to."""
    return {
        "query": result.query,
        "hits": [{"kind": hit.kind, **_section(hit), "linked_from": list(hit.linked_from)} for hit in result.hits],
        "searched": {"sections": result.sections, "files": result.files},
        "reason": result.reason,
        "notes": list(result.notes),
        "problems": _problems(result.problems),
    }


def path_rules_as_json(found: rules.PathRules) -> shapes.PathRules:
    """The rules of one place."""
    return {
        "path": found.path,
        "files": [_plain(file) for file in found.files],
        "max_bytes": found.max_bytes,
        "notes": list(found.notes),
        "problems": _problems(found.problems),
    }


def skills_as_json(result: skill.SkillResult) -> shapes.SkillsAnswer:
    """Skills, and what of each matched."""
    return {
        "query": result.query,
        "hits": [_skill_hit(hit) for hit in result.hits],
        "searched": {"skills": result.skills},
        "reason": result.reason,
        "notes": list(result.notes),
        "problems": _problems(result.problems),
    }


def match_as_json(match: skill.Matched) -> shapes.SkillMatch:
    """A part of a skill, and why it was found."""
    return {
        "kind": match.kind,
        "path": match.path,
        "heading_path": list(match.heading_path),
        "lines": list(match.lines),
        "score": match.score,
        "layers": [_layer(layer) for layer in match.layers],
        "snippet": match.snippet,
    }


def skill_reading_as_json(reading: skill.Reading) -> shapes.SkillReading:
    """What a file of a skill says, and what belongs to it."""
    return {
        "skill": reading.skill.name,
        "path": reading.path,
        "lines": list(reading.lines),
        "text": reading.text,
        "headings": list(reading.headings),
        "references": [_plain(reference) for reference in reading.references],
        "scripts": [_plain(script) for script in reading.scripts],
        "files": list(reading.files),
        "note": reading.note,
    }


def notes_as_json(result: notes.NotesResult) -> shapes.NotesAnswer:
    """Notes that were found."""
    return {
        "query": result.query,
        "hits": [{**note_as_json(hit.note), "score": hit.score} for hit in result.hits],
        "searched": {"notes": result.searched},
        "reason": result.reason,
        "notes": list(result.notes),
        "problems": _problems(result.problems),
    }


def kept_as_json(kept: notes.Kept) -> shapes.WrittenNote:
    """A note that was written, and the one that it replaced."""
    return {**note_as_json(kept.note), "replaced": note_as_json(kept.replaced) if kept.replaced else None}


def note_as_json(one: note.Note) -> shapes.Note:
    """A note, marked as an agent's."""
    return {
        "written_by": "agent",
        "path": one.path,
        "name": one.name,
        "description": one.description,
        "type": one.type,
        "created": one.created,
        "updated": one.updated,
        "source": one.source,
        "body": one.body,
    }


def _section(hit: context.SectionHit | rules.RuleHit) -> shapes.Section:
    return {
        "path": hit.path,
        "section": hit.section.heading,
        "lines": [hit.section.first_line, hit.section.last_line],
        "score": hit.score,
        "text": hit.section.text,
    }


def _terms(hit: context.SectionHit) -> dict[str, float]:
    terms: dict[str, float] = {}
    for term, _, score in hit.contributions:
        terms[term] = terms.get(term, 0.0) + score
    return terms


def _skill_hit(hit: skill.SkillHit) -> shapes.SkillHit:
    return {
        "name": hit.skill.name,
        "description": hit.skill.description,
        "path": hit.skill.path,
        "score": hit.score,
        "matches": [match_as_json(match) for match in hit.matches],
    }


def _layer(layer: Layer) -> dict[str, Any]:
    return {**layer._asdict(), "terms": [_plain(term) for term in layer.terms]}


def _problems(problems: Sequence[files.Problem]) -> list[shapes.Problem]:
    return [_plain(problem) for problem in problems]


def _plain(record: Any) -> Any:
    """A record of which every field is plain, for a shape with fields of the same names."""
    return record._asdict()
