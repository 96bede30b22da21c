"""What does a SKILL.md say, and does it keep to the Agent Skills specification?

Two readings of one file: strict, for whoever writes skills, and lenient, for whoever wants to use what others wrote.
It takes text and gives data: which files there are, and which of two skills of a name counts, others decide.
"""

from __future__ import annotations

import re

from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

SKILL_FILE = "SKILL.md"
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")

# Of the specification, in characters.
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_LOADED_NAME_CHARS = 255  # what is longer would crowd others out of a prompt
MAX_COMPATIBILITY_CHARS = 500
# What it recommends for the text below the front matter.
MAX_BODY_LINES = 500
MAX_BODY_TOKENS = 5_000

_RESERVED = ("anthropic", "claude")  # what the first client that loads skills refuses in a name
_TAGS = re.compile("[\U000e0000-\U000e007f]+")  # spell ASCII that nobody sees, but a model may
_HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]|" + _TAGS.pattern)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_COLON_INSIDE = re.compile(r"([A-Za-z][A-Za-z0-9_-]*+:)[ ]++(?![\"'|>\[{&*!#])(.*:(?:[ ].*)?)")


class LinkedFile(Record):
    """A file that a skill's text links to, as written there."""

    text: str  # of the link
    path: str
    line: int  # in SKILL.md, counted from 1


class SkillText(Record):
    """What a SKILL.md says."""

    name: str
    description: str
    license: str
    compatibility: str
    metadata: Mapping[str, str]
    allowed_tools: tuple[str, ...]  # that the skill would like to use; they permit nothing
    body: str
    links: tuple[LinkedFile, ...]
    warnings: tuple[str, ...]  # what had to be overlooked to load it
    refused: str | None  # why it cannot be loaded; then nothing above but the body counts


class Verdict(Record):
    """Whether a skill keeps to the specification."""

    errors: tuple[str, ...]  # none: it does
    warnings: tuple[str, ...]  # what it allows, but whoever reads the skill should know


def load(text: str, directory: str) -> SkillText:
    """What a SKILL.md in a directory of that name says, as far as it can be used at all."""
    from onhand.corpora.references import first_links

    data, body, problem, repaired = _read(text)
    described = data.get("description")
    refused = problem or _why_undescribed(data)
    found, too_many = first_links(text)
    links = tuple(LinkedFile(link.text, link.path, link.line) for link in found)
    if refused or not isinstance(described, str):
        return SkillText(directory, "", "", "", {}, (), body, links, (), refused)
    warnings = [warning for warning in (repaired, too_many) if warning]
    name, said_of_name = _loaded_name(data, directory)
    return SkillText(
        name,
        _TAGS.sub("", described).strip(),
        _text(data.get("license")),
        _text(data.get("compatibility")),
        _texts_of(data.get("metadata")),
        _tools(data.get("allowed-tools")),
        body,
        links,
        (*warnings, *said_of_name, *_hidden(data, _TAGS)),
        None,
    )


def validate(text: str, directory: str) -> Verdict:
    """What a SKILL.md in a directory of that name gets wrong by the specification, and what else is worth knowing."""
    from onhand.markdown.frontmatter import read_front_matter

    read = read_front_matter(text, typed=False)
    if read.problem or not read.end_line:
        return Verdict((read.problem or "there is no front matter: begin with a line of only ---",), ())
    errors = [*_field_errors(read.data), *_name_errors(read.data, directory), *_text_errors(read.data)]
    return Verdict(tuple(errors), (*_hidden(read.data, _HIDDEN), *_advice(read.data, read.body)))


def _read(text: str) -> tuple[dict[str, Any], str, str | None, str | None]:
    """The front matter, the text below it, why it cannot be read, and what was put right to read it."""
    from onhand.markdown.frontmatter import read_front_matter

    read = read_front_matter(text, typed=False)
    if not read.problem:
        missing = None if read.end_line else "no front matter: begin with ---, name, description, ---"
        return read.data, read.body, missing, None
    if read.end_line:
        again = read_front_matter(_with_quotes(text), typed=False)
        if not again.problem:
            return again.data, again.body, None, f"{read.problem} (read as if it were in quotes)"
    return {}, read.body, read.problem, None


def _with_quotes(text: str) -> str:
    """The text with quotes around those values of its front matter that have a colon: many write them so."""
    lines = text.splitlines()
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            break
        if found := _COLON_INSIDE.fullmatch(line):
            value = found[2].strip().replace("'", "''")
            lines[number] = f"{found[1]} '{value}'"
    return "\n".join(lines)


def _why_undescribed(data: Mapping[str, Any]) -> str | None:
    described = data.get("description")
    if isinstance(described, str):
        return None if _TAGS.sub("", described).strip() else "the description is empty: say when to use the skill"
    return "no description: say in the front matter what the skill is for" if described is None else _no_text(described)


def _no_text(value: object) -> str:
    return f"the description is a {'list' if isinstance(value, list) else 'mapping'}: write a sentence"


def _loaded_name(data: Mapping[str, Any], directory: str) -> tuple[str, list[str]]:
    """The name to load a skill by, and what is wrong with the one that it has."""
    given = data.get("name")
    name = _TAGS.sub("", given).strip() if isinstance(given, str) else ""
    if not name or len(name) > MAX_LOADED_NAME_CHARS or _UNPRINTABLE.search(name):
        return directory, [f"no usable name in the front matter: loaded as {directory!r}, after its directory"]
    return name, list(_name_errors(data, directory))


def _field_errors(data: Mapping[str, Any]) -> Iterator[str]:
    unknown = sorted(set(data) - set(FIELDS))
    if unknown:
        known = ", ".join(FIELDS)
        yield f"the specification has no {', '.join(map(_short, unknown))}: use {known}, or put it under metadata"
    for field in ("name", "description"):
        if field not in data:
            yield f"{field} is missing: add it to the front matter"


def _name_errors(data: Mapping[str, Any], directory: str) -> Iterator[str]:
    from unicodedata import normalize

    if "name" not in data:
        return
    given = data["name"]
    if not isinstance(given, str) or not given.strip():
        yield "the name is empty or no text: give it the directory's"
        return
    name = normalize("NFKC", given.strip())
    shown = _short(name)
    if len(name) > MAX_NAME_CHARS:
        yield f"the name {shown} has {len(name):,} characters: at most {MAX_NAME_CHARS} are allowed"
    if name != name.lower():
        yield f"the name {shown} has capital letters: write it in small ones"
    if name.startswith("-") or name.endswith("-"):
        yield f"the name {shown} begins or ends with a hyphen: remove it"
    if "--" in name:
        yield f"the name {shown} has two hyphens in a row: keep one"
    if not all(letter.isalnum() or letter == "-" for letter in name):
        yield f"the name {shown} has other characters than letters, digits and hyphens: replace them"
    if name != normalize("NFKC", directory):
        yield f"the name {shown} is not that of the directory {_short(directory)}: make them equal"


def _text_errors(data: Mapping[str, Any]) -> Iterator[str]:
    for field, most in (("description", MAX_DESCRIPTION_CHARS), ("compatibility", MAX_COMPATIBILITY_CHARS)):
        value = data.get(field, "-")
        if not isinstance(value, str) or (field == "description" and not value.strip()):
            yield f"the {field} is empty or no text: write a sentence"
        elif len(value) > most:
            yield f"the {field} has {len(value):,} characters: at most {most:,} are allowed"


def _hidden(data: Mapping[str, Any], characters: re.Pattern[str]) -> Iterator[str]:
    for field in ("name", "description", "compatibility"):
        if found := characters.search(_text(data.get(field))):
            yield f"the {field} has characters that nobody sees (U+{ord(found[0][0]):04X}): remove them"


def _advice(data: Mapping[str, Any], body: str) -> Iterator[str]:
    from onhand.tools.tokens import estimated_tokens

    metadata = data.get("metadata")
    if metadata not in (None, "") and not (
        isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    ):
        yield "metadata is not made of names with one text each: other clients may not read it"
    for word in _RESERVED:
        if word in _text(data.get("name")).lower():
            yield f"the name has the reserved word {word!r}: some clients refuse it"
    if "allowed-tools" in data and not isinstance(data["allowed-tools"], str):
        yield "allowed-tools is no text: write the names in one line, with spaces between them"
    if "*" in _tools(data.get("allowed-tools")):
        yield "allowed-tools asks for every tool: name those that are needed; nothing is permitted by it here"
    lines = body.count("\n") + 1
    if lines > MAX_BODY_LINES:
        yield f"the text has {lines:,} lines: keep it under {MAX_BODY_LINES} and put the rest into references"
    tokens = estimated_tokens(body)
    if tokens > MAX_BODY_TOKENS:
        yield f"the text has about {tokens:,} tokens: keep it under {MAX_BODY_TOKENS:,}"


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _texts_of(metadata: object) -> dict[str, str]:
    """What is said under metadata, each as one text; lists are joined, and what is deeper is left out."""
    if not isinstance(metadata, dict):
        return {}
    joined = {
        key: " ".join(part for part in value if isinstance(part, str)) if isinstance(value, list) else _text(value)
        for key, value in metadata.items()
    }
    return {key: value for key, value in joined.items() if value}


def _tools(value: object) -> tuple[str, ...]:
    """The tools that are named, in one text or in a list, between spaces or commas; `Bash(git add *)` is one."""
    spoken = " ".join(part for part in value if isinstance(part, str)) if isinstance(value, list) else _text(value)
    return tuple(re.findall(r"[^\s,()]++(?:\([^()]*+\))?+", spoken))


def _short(value: str) -> str:
    return repr(value if len(value) <= 80 else value[:79] + "…")
