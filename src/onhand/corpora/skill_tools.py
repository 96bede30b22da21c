"""How does a model find and read skills? Three tools: their words, their schemas, their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from onhand.corpora.blocks import block, escaped, without_tag
from onhand.corpora.corpus_tool import corpus_tool
from onhand.corpora.found import skill_reading_as_json, skills_as_json
from onhand.corpora.shapes import SkillReading, SkillsAnswer
from onhand.errors import ToolError
from onhand.search.index import MAX_LIMIT
from onhand.tools import Output, Tool
from onhand.tools.fitting import fitted
from onhand.tools.output import MAX_MARKER_BYTES, cap

if TYPE_CHECKING:
    from onhand.corpora.skill import Reading, Reference, SkillHit
    from onhand.corpora.skills import Skills

MAX_OUTPUT_BYTES = 32 * 1024  # a skill within the specification's 5,000 tokens comes whole
MAX_RESOURCES_BYTES = 4 * 1024  # of the list of files below a skill
MAX_DESCRIPTION_CHARS = 1024  # what the specification allows

SEARCH = (
    "Find skills: instructions that somebody wrote for a particular kind of task, with references and scripts. Good at "
    "a task in a few words (fill in a PDF form, review a migration): it looks at names, descriptions, the instructions "
    "themselves and the pages that belong to them. Bad at facts about this project, for which there is context_search. "
    "Cheap: local, tens of milliseconds. Returns names with descriptions and what matched, never instructions: read "
    'the one that fits with read_skill. Example: search_skills(query="extract tables from a PDF").'
)
READ = (
    "Read a skill: its instructions in full, and a list of its references, scripts and other files. Good at the skill "
    "that fits the task, once, before you begin; follow what it says. Bad at finding: it takes a name, which "
    "search_skills or the list of available skills gives. Costs up to {max_bytes:,} bytes. It runs nothing. Example: "
    'read_skill(name="pdf-processing").'
)
REFERENCE = (
    "Read a file that belongs to a skill, whole or one section of it. Good at the reference that a skill points to, "
    "when the task needs it. Bad at files of the project: it reads nothing outside the skill. Costs up to "
    "{max_bytes:,} bytes: name a section of a long file; the answer lists its headings. Example: "
    'read_skill_reference(skill="pdf-processing", path="references/forms.md", section="Checkboxes").'
)

_NAME = {"type": "string", "description": "The skill's name, as search_skills or the list of skills gives it."}


def tools_over(skills: Skills, default_limit: int) -> list[Tool]:
    """The three tools over one set of skills."""

    def search(arguments: dict[str, Any]) -> Output:
        query = arguments["query"].strip()
        if not query:
            raise ToolError("query is empty: say what the task is")
        limit = arguments.get("limit")
        result = skills.search(query, default_limit if limit is None else int(max(1, min(limit, MAX_LIMIT))))
        notes = [f"[{note}]" for note in result.notes]
        found = _within_cap(result.hits, MAX_OUTPUT_BYTES) or [f"no matching skill: {result.reason}"]
        structured = fitted(skills_as_json(result), MAX_OUTPUT_BYTES, "hits", "query", "problems")
        return Output("\n".join([*found, *notes]), structured)

    def read(arguments: dict[str, Any]) -> Output:
        reading = skills.read(arguments["name"])
        return Output(_skill_content(reading), _reading(reading))

    def read_reference(arguments: dict[str, Any]) -> Output:
        section = arguments.get("section") or None
        reading = skills.reference_content(arguments["skill"], arguments["path"], section)
        return Output(_reference_content(reading), _reading(reading))

    searching = {
        "query": {"type": "string", "description": "What is to be done, in a few words."},
        "limit": {
            "type": "integer",
            "description": f"At most this many skills: {default_limit} by default, {MAX_LIMIT} at most.",
        },
    }
    referring = {
        "skill": _NAME,
        "path": {"type": "string", "description": "The file, inside the skill, as read_skill lists it."},
        "section": {"type": "string", "description": "A heading of the file: only what is under it."},
    }
    return [
        _tool("search_skills", SEARCH, searching, ["query"], search, SkillsAnswer),
        _tool("read_skill", READ, {"name": _NAME}, ["name"], read, SkillReading),
        _tool("read_skill_reference", REFERENCE, referring, ["skill", "path"], read_reference, SkillReading),
    ]


def _tool(
    name: str,
    description: str,
    properties: dict[str, Any],
    required: list[str],
    handler: Callable[[dict[str, Any]], Output],
    shape: type,
) -> Tool:
    said = description.format(max_bytes=MAX_OUTPUT_BYTES) if "{max_bytes" in description else description
    return corpus_tool(name, said, properties, required, handler, shape, MAX_OUTPUT_BYTES, closed=True)


def _reading(reading: Reading) -> dict[str, Any]:
    listed = ("headings", "references", "scripts", "files")
    return fitted(skill_reading_as_json(reading), MAX_OUTPUT_BYTES, "text", *listed)


def _within_cap(hits: Sequence[SkillHit], max_bytes: int) -> list[str]:
    """The hits as whole blocks, as many as there is room for, and how many there was none for."""
    blocks: list[str] = []
    room = max_bytes - MAX_MARKER_BYTES
    for hit in hits:
        rendered = _hit(hit)
        room -= len(rendered.encode()) + 1
        if room < 0:
            return [*blocks, f"[{len(hits) - len(blocks)} more skills left out: ask for fewer]"]
        blocks.append(rendered)
    return blocks


def _hit(hit: SkillHit) -> str:
    described = " ".join(hit.skill.description.split())[:MAX_DESCRIPTION_CHARS]
    lines = [f"<description>{escaped(described)}</description>"]
    for match in hit.matches:
        if match.kind != "skill":
            where = " › ".join(match.heading_path)
            lines.append(f'<matched path="{escaped(match.path)}" section="{escaped(where)}"/>')
    opening = f'<skill name="{escaped(hit.skill.name)}" score="{hit.score:.2f}">'
    return "\n".join([opening, *lines, "</skill>"])


def _skill_content(reading: Reading) -> str:
    """The instructions and, in the same block, what there is besides; what is cut is the instructions."""
    resources = _resources(reading)
    attributes = {"name": reading.skill.name, "path": reading.skill.path}
    text = without_tag("skill_resources", without_tag("skill_content", reading.text))
    frame = len(block("skill_content", attributes, "").encode()) + len(resources.encode()) + MAX_MARKER_BYTES
    capped = cap(text, max(MAX_OUTPUT_BYTES - frame, 0))
    advice = "\n[read the rest with read_skill_reference, path SKILL.md, by section]" if capped.truncated_bytes else ""
    return block("skill_content", attributes, capped.text + advice).removesuffix("</skill_content>") + (
        f"{resources}</skill_content>"
    )


def _resources(reading: Reading) -> str:
    lines = [
        *(_reference_line(reference) for reference in reading.references),
        *(
            f'<script name="{escaped(script.qualified_name)}" path="{escaped(script.path)}">'
            f"{escaped(script.description)}</script>"
            for script in reading.scripts
        ),
        *([f"[{reading.note}]"] if reading.note else []),  # before what there may be no room for
        *(f"<file>{escaped(path)}</file>" for path in reading.files),
    ]
    kept: list[str] = []
    room = MAX_RESOURCES_BYTES
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            kept.append(f"[{len(lines) - len(kept)} more files]")
            break
        kept.append(line)
    return "\n".join(["<skill_resources>", *kept, "</skill_resources>", ""]) if kept else ""


def _reference_line(reference: Reference) -> str:
    problem = f' problem="{escaped(reference.problem)}"' if reference.problem else ""
    return f'<reference path="{escaped(reference.path)}"{problem}>{escaped(reference.text)}</reference>'


def _reference_content(reading: Reading) -> str:
    attributes = {
        "skill": reading.skill.name,
        "path": reading.path,
        "lines": f"{reading.lines[0]}-{reading.lines[1]}",
    }
    frame = len(block("skill_reference", attributes, "").encode()) + 2 * MAX_MARKER_BYTES
    listed = cap(", ".join(reading.headings), MAX_RESOURCES_BYTES).text
    text = without_tag("skill_reference", reading.text)
    capped = cap(text, max(MAX_OUTPUT_BYTES - frame - len(listed.encode()), 0))
    if capped.truncated_bytes:
        text = f"{capped.text}\n[ask for a section: {without_tag('skill_reference', listed)}]"
    return block("skill_reference", attributes, text)
