"""Find skills on disk and parse their SKILL.md files according to the Agent Skills specification.

A file is read in two ways: strictly for people who write skills (`validate_skill`), leniently for using what others
wrote (`parse_skill`). The project's roots come before the user's, and `.agents` before the clients' own. Which of two
skills with the same name counts is decided by `onhand.corpora.skills`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from unicodedata import normalize

from onhand.closed_paths import BY_NAME, ClosedPaths
from onhand.corpora import files
from onhand.corpora.files import FoundFile, Problem
from onhand.hidden_characters import describe_hidden, sanitize
from onhand.markdown.frontmatter import read_front_matter
from onhand.markdown.links import first_links
from onhand.record import Record
from onhand.text import one_line
from onhand.tools.loading import estimated_tokens

SKILL_FILE = "SKILL.md"
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")

# From the specification, in characters.
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_LOADED_NAME_CHARS = 255  # a longer name would crowd others out of a prompt
MAX_COMPATIBILITY_CHARS = 500
# Recommended for the text below the front matter.
MAX_BODY_LINES = 500
MAX_BODY_TOKENS = 5_000

_RESERVED = ("anthropic", "claude")  # some clients refuse these words in a name
_COLON_INSIDE = re.compile(r"([A-Za-z][A-Za-z0-9_-]*+:)[ ]++(?![\"'|>\[{&*!#])(.*:(?:[ ].*)?)")


class LinkedFile(Record):
    """A file that the text of a skill links to, as written there."""

    text: str  # of the link
    path: str
    line: int  # in SKILL.md, counted from 1


class Skill(Record):
    """A skill that can be used."""

    name: str
    description: str
    directory: str  # relative to the project, under ~, or absolute
    license: str
    compatibility: str
    metadata: Mapping[str, str]
    allowed_tools: tuple[str, ...]  # that it asks for; they grant nothing
    links: tuple[LinkedFile, ...]

    @property
    def path(self) -> str:
        """Return the path of its SKILL.md, written like `directory`."""
        return SKILL_FILE if self.directory == "." else f"{self.directory}/{SKILL_FILE}"


class SkillText(Record):
    """The content of a SKILL.md."""

    name: str
    description: str
    license: str
    compatibility: str
    metadata: Mapping[str, str]
    allowed_tools: tuple[str, ...]  # that it asks for; they grant nothing
    body: str
    links: tuple[LinkedFile, ...]
    warnings: tuple[str, ...]  # what had to be tolerated to load it
    refused: str | None  # why it cannot be loaded; then only the body counts


class SkillVerdict(Record):
    """Whether a skill conforms to the specification."""

    errors: tuple[str, ...]  # empty if it conforms
    warnings: tuple[str, ...]  # allowed, but worth knowing


def parse_skill(text: str, directory: str) -> SkillText:
    """Parse a SKILL.md leniently; `directory` is the name of its directory."""
    data, body, problem, repaired = _read(text)
    described = data.get("description")
    refused = problem or _why_undescribed(data)
    found, too_many = first_links(text)
    links = tuple(LinkedFile(link.text, link.path, link.line) for link in found)
    if refused or not isinstance(described, str):
        return SkillText(directory, "", "", "", {}, (), body, links, (), refused)
    warnings = [warning for warning in (repaired, too_many) if warning]
    name, name_warnings = _loaded_name(data, directory)
    return SkillText(
        name,
        sanitize(described.strip()),
        _text(data.get("license")),
        _text(data.get("compatibility")),
        _texts_of(data.get("metadata")),
        _tools(data.get("allowed-tools")),
        body,
        links,
        (*warnings, *name_warnings),
        None,
    )


def validate_skill(text: str, directory: str) -> SkillVerdict:
    """Return how a SKILL.md violates the specification, and what else is worth knowing; `directory` is a name."""
    read = read_front_matter(text, typed=False)
    hidden = describe_hidden(text)
    errors = [hidden] if hidden else []
    if read.problem or not read.end_line:
        errors.append(read.problem or "there is no front matter: begin with a line of only ---")
        return SkillVerdict(tuple(errors), ())
    errors += [*_field_errors(read.data), *_name_errors(read.data, directory), *_text_errors(read.data)]
    return SkillVerdict(tuple(errors), tuple(_advice(read.data, read.body)))


def _read(text: str) -> tuple[dict[str, Any], str, str | None, str | None]:
    """Return the front matter, the text below it, why it cannot be read, and what was repaired to read it."""
    read = read_front_matter(text, typed=False)
    if not read.problem:
        missing = None if read.end_line else "no front matter: begin with ---, name, description, ---"
        return read.data, read.body, missing, None
    if read.end_line:
        again = read_front_matter(_with_quotes(text), typed=False)
        if not again.problem:
            return again.data, again.body, None, f"{read.problem} (read as if the value were in quotes)"
    return {}, read.body, read.problem, None


def _with_quotes(text: str) -> str:
    """Quote the values of the front matter that contain a colon, which many people forget."""
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
        return None if described.strip() else "the description is empty: say when to use the skill"
    return (
        "no description: say in the front matter what the skill is for"
        if described is None
        else _why_not_text(described)
    )


def _why_not_text(value: object) -> str:
    return f"the description is a {'list' if isinstance(value, list) else 'mapping'}: write a sentence"


def _loaded_name(data: Mapping[str, Any], directory: str) -> tuple[str, list[str]]:
    """Return the name under which a skill is loaded, and what is wrong with its own name."""
    value = data.get("name")
    name = value.strip() if isinstance(value, str) else ""
    if not name or len(name) > MAX_LOADED_NAME_CHARS or name != one_line(name):
        return directory, [f"no usable name in the front matter: loaded as {directory!r}, the name of its directory"]
    return name, list(_name_errors(data, directory))


def _field_errors(data: Mapping[str, Any]) -> Iterator[str]:
    unknown = sorted(set(data) - set(FIELDS))
    if unknown:
        allowed = ", ".join(FIELDS)
        yield f"there is no field {', '.join(map(_short, unknown))}: use {allowed}, or put it under metadata"
    for field in ("name", "description"):
        if field not in data:
            yield f"{field} is missing: add it to the front matter"


def _name_errors(data: Mapping[str, Any], directory: str) -> Iterator[str]:
    if "name" not in data:
        return
    value = data["name"]
    if not isinstance(value, str) or not value.strip():
        yield "the name is empty or not text: use the name of the directory"
        return
    name = normalize("NFKC", value.strip())
    quoted = _short(name)
    if len(name) > MAX_NAME_CHARS:
        yield f"the name {quoted} has {len(name):,} characters: at most {MAX_NAME_CHARS} are allowed"
    if name != name.lower():
        yield f"the name {quoted} has capital letters: use lower case"
    if name.startswith("-") or name.endswith("-"):
        yield f"the name {quoted} begins or ends with a hyphen: remove it"
    if "--" in name:
        yield f"the name {quoted} has two hyphens in a row: keep one"
    if not all(letter.isalnum() or letter == "-" for letter in name):
        yield f"the name {quoted} has characters other than letters, digits and hyphens: replace them"
    if name != normalize("NFKC", directory):
        yield f"the name {quoted} differs from the directory {_short(directory)}: make them the same"


def _text_errors(data: Mapping[str, Any]) -> Iterator[str]:
    for field, most in (("description", MAX_DESCRIPTION_CHARS), ("compatibility", MAX_COMPATIBILITY_CHARS)):
        value = data.get(field, "-")
        if not isinstance(value, str) or (field == "description" and not value.strip()):
            yield f"the {field} is empty or not text: write a sentence"
        elif len(value) > most:
            yield f"the {field} has {len(value):,} characters: at most {most:,} are allowed"


def _advice(data: Mapping[str, Any], body: str) -> Iterator[str]:
    metadata = data.get("metadata")
    if metadata not in (None, "") and not (
        isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    ):
        yield "metadata is not a mapping of names to texts: other clients may not read it"
    for word in _RESERVED:
        if word in _text(data.get("name")).lower():
            yield f"the name has the reserved word {word!r}: some clients refuse it"
    if "allowed-tools" in data and not isinstance(data["allowed-tools"], str):
        yield "allowed-tools is not text: write the names on one line, separated by spaces"
    if "*" in _tools(data.get("allowed-tools")):
        yield "allowed-tools asks for every tool: name those that are needed; here it grants nothing"
    lines = body.count("\n") + 1
    if lines > MAX_BODY_LINES:
        yield f"the text has {lines:,} lines: keep it under {MAX_BODY_LINES} and move the rest into references"
    tokens = estimated_tokens(body)
    if tokens > MAX_BODY_TOKENS:
        yield f"the text has about {tokens:,} tokens: keep it under {MAX_BODY_TOKENS:,}"


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _texts_of(metadata: object) -> dict[str, str]:
    """Return the metadata as one text for each name; lists are joined, deeper values are left out."""
    if not isinstance(metadata, dict):
        return {}
    joined = {
        key: " ".join(part for part in value if isinstance(part, str)) if isinstance(value, list) else _text(value)
        for key, value in metadata.items()
    }
    return {key: value for key, value in joined.items() if value}


def _tools(value: object) -> tuple[str, ...]:
    """Return the tools named in a text or a list, separated by spaces or commas; `Bash(git add *)` is one."""
    names = " ".join(part for part in value if isinstance(part, str)) if isinstance(value, list) else _text(value)
    return tuple(re.findall(r"[^\s,()]++(?:\([^()]*+\))?+", names))


def _short(value: str) -> str:
    return repr(value if len(value) <= 80 else value[:79] + "…")


FIRST = (".agents", ".claude")  # the shared place, then the one that most clients also read
NEVER = frozenset({".git", ".cache", ".Trash"})  # hidden directories that do not belong to a client
MAX_ROOTS = 100
# Directories for files of the skill above them, so a SKILL.md in one is a template or an example.
CONTENT = frozenset({"assets", "references", "scripts"})


class SkillRoot(Record):
    """A directory of skills."""

    prefix: str  # prefix of its displayed paths: "" or ending with a slash
    directory: str  # absolute


class SkillSweep(Record):
    """The files in all roots.

    A path has `/./` after the directory of its skill, so that a file that moves to another skill gets another path.
    """

    found: Mapping[str, FoundFile]  # SKILL.md files first, in the order of the roots; then the other files
    places: Mapping[str, SkillRoot]  # directory of a skill → its root
    problems: tuple[Problem, ...]


def split_path(path: str) -> tuple[str, str]:
    """Return the directory of a file's skill, and the path inside it."""
    directory, _, inner = path.partition("/./")
    return directory, inner


def display_path(path: str) -> str:
    """Return a path as people write it."""
    return path.removeprefix("././").replace("/./", "/", 1)


def roots_of(
    project: str, home: str | None, named: Sequence[str], usual: bool
) -> tuple[list[SkillRoot], list[Problem]]:
    """Return the existing roots in order of precedence, each once, and those that may not be read.

    The project's come first: those named in the configuration, then the usual ones. A link may not leave the project.
    """
    own = [root for root in named if not os.path.isabs(root)]
    if usual:
        own += [f"{client}/skills" for client in _clients(project)]
    elsewhere = [SkillRoot(files.root_prefix(root), root) for root in named if os.path.isabs(root)]
    if usual and home is not None and os.path.realpath(home) != os.path.realpath(project):
        elsewhere += [SkillRoot(f"~/{name}/skills/", os.path.join(home, name, "skills")) for name in _clients(home)]
    roots: dict[str, SkillRoot] = {}
    problems = []
    for root in [*(SkillRoot(files.root_prefix(root), os.path.join(project, root)) for root in own), *elsewhere]:
        if not os.path.isdir(root.directory):
            continue
        if root not in elsewhere and not files.is_inside(root.directory, project):
            problems.append(Problem(root.prefix, "a link out of the project: name its target in skills.roots"))
        elif len(roots) >= MAX_ROOTS:
            problems.append(Problem(root.prefix, f"left out: there are more than {MAX_ROOTS} roots"))
        else:
            roots.setdefault(os.path.realpath(root.directory), root)
    return list(roots.values()), problems


def has_usual(directory: str) -> bool:
    """Return whether a directory has any of the usual places for skills."""
    return any(os.path.isdir(os.path.join(directory, client, "skills")) for client in _clients(directory))


def sweep_roots(roots: Sequence[SkillRoot], max_file_bytes: int, closed: ClosedPaths = BY_NAME) -> SkillSweep:
    """Return the files of every skill below the roots."""
    skills: dict[str, FoundFile] = {}
    others: dict[str, FoundFile] = {}
    places: dict[str, SkillRoot] = {}
    problems: list[Problem] = []
    for root in roots:
        swept, left_out = files.sweep(root.directory, closed=closed)
        problems += _report_problems(root, left_out, roots)
        homes = _homes(file.name for file in swept)
        problems += _find_misspelt(root, (file.name for file in swept), homes)
        for file in swept:
            home = _home_of(file.name, homes)
            if home is None:
                continue  # a file that belongs to no skill, such as a README of the root
            directory = (root.prefix + home).rstrip("/") or "."
            places.setdefault(directory, root)
            inner = file.name[len(home) :].lstrip("/")
            (skills if inner == SKILL_FILE else others)[f"{directory}/./{inner}"] = file
    found, left_out = files.within_limits(skills | others, max_file_bytes)
    return SkillSweep(found, places, (*problems, *(Problem(display_path(path), reason) for path, reason in left_out)))


def _clients(directory: str) -> list[str]:
    """Return the hidden directories that may have skills, in order of precedence."""
    try:
        with os.scandir(directory) as entries:
            hidden = [entry.name for entry in entries if entry.name.startswith(".") and entry.name not in NEVER]
    except OSError:
        return []
    there = [name for name in hidden if name not in FIRST and os.path.isdir(os.path.join(directory, name, "skills"))]
    return [*FIRST, *sorted(there)]


def _homes(names: Iterator[str]) -> set[str]:
    """Return the directories that are skills, relative to the root; "" is the root itself."""
    homes: set[str] = set()
    candidates = [name.rpartition("/")[0] for name in names if name.rpartition("/")[2] == SKILL_FILE]
    for home in sorted(candidates, key=len):  # parents first
        above = _home_of(home, homes) if home else None
        if above is None or home[len(above) :].lstrip("/").split("/")[0] not in CONTENT:
            homes.add(home)
    return homes


def _home_of(name: str, homes: Collection[str]) -> str | None:
    """Return the nearest directory above a file that is a skill."""
    above = name
    while above:
        above = above.rpartition("/")[0]
        if above in homes:
            return above
    return None


def _find_misspelt(root: SkillRoot, names: Iterator[str], homes: Collection[str]) -> Iterator[Problem]:
    for name in names:
        home, _, last = name.rpartition("/")
        if last != SKILL_FILE and last.upper() == SKILL_FILE.upper() and home not in homes:
            yield Problem(root.prefix + name, f"ignored: the file of a skill must be named exactly {SKILL_FILE}")


def _report_problems(root: SkillRoot, problems: Sequence[Problem], roots: Sequence[SkillRoot]) -> Iterator[Problem]:
    """Yield what was left out, except links from one client's directory to a skill in another root."""
    swept = {os.path.realpath(one.directory) for one in roots}  # computed once, as there may be many links and roots
    for path, reason in problems:
        place = os.path.join(root.directory, path)
        is_link = os.path.islink(place) and os.path.isdir(place)
        if not is_link or swept.isdisjoint(_upwards(os.path.realpath(place))):
            yield Problem(root.prefix + path or ".", reason)


def _upwards(path: str) -> Iterator[str]:
    """Yield a path and all its parents."""
    yield path
    while (above := os.path.dirname(path)) != path:
        yield (path := above)
