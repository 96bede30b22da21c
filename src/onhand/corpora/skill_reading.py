"""Read a skill step by step: its instructions, the list of its files, and one of these files, whole or in part.

Files are read only when a caller requests them, and never from outside the skill's directory. Scripts are read as text;
nothing is ever run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence

from onhand.closed_paths import BY_NAME, ClosedPaths
from onhand.corpora import files
from onhand.corpora.blocks import escape, render_block
from onhand.corpora.files import FoundFile
from onhand.corpora.skill_files import SKILL_FILE, LinkedFile, Skill
from onhand.document import Section
from onhand.errors import InputError, NotFound
from onhand.markdown.frontmatter import read_front_matter
from onhand.markdown.page import INTRO, split_sections
from onhand.record import Record
from onhand.tools.fitting import cap_text

DIRECTORY = "scripts/"
EXTENSIONS = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".ps1")
MAX_HEAD_BYTES = 8 * 1024  # of a file: enough for its first comment
MAX_DESCRIPTION_CHARS = 200

_IS_TEST = re.compile(r"^test_|_test\.|\.(?:spec|test)\.")
_IS_LEGAL = re.compile(r"(?i)copyright|licen[sc]e|spdx-|all rights reserved|-\*-|^\s*(?:eslint|pylint|type:|noqa)")
_OPENING = re.compile(
    r"""(?s)\A\ufeff?(?:\#!/?[^\n]*\n)?\s*+(?:
      (?P<docstring>(?:\#[^\n]*\n\s*+)*+[rRuU]?(?P<quotes>\"\"\"|''')(?P<quoted>.*?)(?P=quotes))
    | /\*+(?P<starred>.*?)\*/
    | (?P<slashes>(?://[^\n]*(?:\n[ \t]*+|\Z))+)
    | (?P<hashes>(?:\#[^\n]*(?:\n[ \t]*+|\Z))+)
    | <\#(?P<powershell>.*?)\#>
    )""",
    re.VERBOSE,
)
_MARKS = re.compile(r"(?m)^[ \t]*(?:\*|//+!?|#+!?)?[ \t]?")


class Script(Record):
    """A program that belongs to a skill."""

    name: str
    qualified_name: str  # with the skill's name: "pdf:extract"
    description: str  # the beginning of its first comment; "" without one
    path: str  # inside the skill's directory


def scripts_of(skill: str, listed: Sequence[FoundFile]) -> tuple[Script, ...]:
    """Return the programs among the files of a skill: those directly in `scripts`, except tests."""
    scripts: dict[str, Script] = {}
    for file in listed:
        directory, name = os.path.split(file.name)
        if f"{directory}/" != DIRECTORY or not name.lower().endswith(EXTENSIONS) or _IS_TEST.search(name):
            continue
        stem = os.path.splitext(name)[0]
        script_name = name if stem in scripts else stem  # `run.py` beside `run.sh`
        scripts[script_name] = Script(script_name, f"{skill}:{script_name}", _read_description(file), file.name)
    return tuple(scripts.values())


def _read_description(file: FoundFile) -> str:
    try:
        descriptor = files.open_regular(file)
    except files.Unreadable:
        return ""
    try:
        head = os.read(descriptor, MAX_HEAD_BYTES)
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return describe_script(head.decode("utf-8", "replace"))


def describe_script(source: str) -> str:
    """Return the first paragraph of a program's first comment that is not about licences or tools, on one line."""
    found = _OPENING.match(source.replace("\r\n", "\n"))
    if found is None:
        return ""
    comments = found.group("quoted", "starred", "slashes", "hashes", "powershell")
    plain = _MARKS.sub("", next(text for text in comments if text is not None))
    for paragraph in re.split(r"\n\s*\n", plain):
        before_tags = re.split(r"(?m)^\s*@\w", paragraph)[0]  # of JSDoc
        line = " ".join(before_tags.split())
        if line and not _IS_LEGAL.search(line):
            return line if len(line) <= MAX_DESCRIPTION_CHARS else line[: MAX_DESCRIPTION_CHARS - 1].rstrip() + "…"
    return ""


MAX_LISTED = 500  # files listed for a skill
MAX_NAMED = 20  # headings in an error
MAX_RESOURCES_BYTES = 4 * 1024  # of the list of files below a skill


class SkillReference(Record):
    """A file that belongs to a skill, to be read when it is needed."""

    path: str  # inside the skill's directory
    text: str  # of the link to it; "" if the skill does not link to it
    line: int  # of that link in SKILL.md; 0 without one
    problem: str | None = None  # why it cannot be read


class SkillReading(Record):
    """The instructions of a skill, and the files that belong to it."""

    skill: str
    location: str  # of its SKILL.md, as the catalog has it
    text: str
    bytes: int  # of the whole text
    lines: tuple[int, int]  # of SKILL.md
    headings: tuple[str, ...]
    references: tuple[SkillReference, ...]
    scripts: tuple[Script, ...]
    files: tuple[str, ...]  # the other files
    notes: tuple[str, ...] = ()  # such as that not all files are listed

    def to_text(self) -> str:
        """Return the instructions and, in the same block, the list of files."""
        advice = "\n[read the rest with read_skill_reference, path SKILL.md, by section]" if _is_cut(self) else ""
        attributes = {"name": self.skill, "path": self.location}
        content = render_block("skill_content", attributes, self.text + advice)
        return content.removesuffix("</skill_content>") + f"{_render_resources(self)}</skill_content>"


class SkillFileReading(Record):
    """A file of a skill, whole or in part."""

    skill: str
    path: str  # inside the skill's directory
    text: str
    bytes: int  # of the whole text
    lines: tuple[int, int]  # of the file
    headings: tuple[str, ...]  # the sections of the file
    notes: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return the text in a block; a text that is cut ends with the list of headings."""
        attributes = {"skill": self.skill, "path": self.path, "lines": f"{self.lines[0]}-{self.lines[1]}"}
        listed = cap_text(", ".join(self.headings), MAX_RESOURCES_BYTES).text
        advice = f"\n[ask for a section: {listed}]" if _is_cut(self) else ""
        return render_block("skill_reference", attributes, self.text + advice)


class SkillPlace(Record):
    """Where a skill is on disk, and which files it has."""

    directory: str
    pages: Collection[str]  # its pages except SKILL.md, as paths inside it
    skills_below: tuple[str, ...]  # directories inside it that are skills themselves, each ending with a slash
    closed: ClosedPaths = BY_NAME


def read_skill(skill: Skill, place: SkillPlace, max_file_bytes: int) -> SkillReading:
    """Return the instructions of a skill with its references, scripts and other files."""
    text = _text(skill, place, SKILL_FILE, max_file_bytes)
    matter = read_front_matter(text)
    references, (listed, notes) = references_of(skill, place), _list_files(place)
    scripts = scripts_of(skill.name, listed)
    named = {SKILL_FILE, *(reference.path for reference in references), *(script.path for script in scripts)}
    body = matter.body.strip("\n")
    return SkillReading(
        skill.name,
        skill.path,
        body,
        _utf8_bytes(body),
        (matter.end_line + 1, max(matter.end_line + 1, _lines(text))),
        _headings(split_sections(text)),
        references,
        scripts,
        tuple(file.name for file in listed if file.name not in named),
        notes,
    )


def read_reference(
    skill: Skill, place: SkillPlace, path: str, section: str | None, max_file_bytes: int
) -> SkillFileReading:
    """Return the text of a file of a skill, or of the section under a heading with its subsections.

    `path` may end with an anchor, as in a link to a section.
    """
    anchor = ""
    if section is None and "#" in path and _why_unreadable(place.directory, path):  # a file may be script_name c#.md
        path, _, anchor = path.partition("#")
    text = _text(skill, place, path, max_file_bytes)
    sections = split_sections(text)
    headings, heading = _headings(sections), section or anchor
    if not heading:
        return SkillFileReading(skill.name, _normal(path), text, _utf8_bytes(text), (1, _lines(text)), headings)
    below = _under(sections, heading)
    if not below:
        advice = f"there are {', '.join(map(repr, headings[:MAX_NAMED]))}" if headings else "it has no headings"
        raise NotFound(f"{path[:200]} has no section {heading[:200]!r}: {advice}; leave it out to read the whole file")
    part = "\n\n".join(one.text for one in below)
    lines = (below[0].first_line, below[-1].last_line)
    return SkillFileReading(skill.name, _normal(path), part, _utf8_bytes(part), lines, headings)


def references_of(skill: Skill, place: SkillPlace) -> tuple[SkillReference, ...]:
    """Return the files that a skill links to, and its other pages."""
    links = {_normal(link.path): link for link in reversed(skill.links)}  # the first link to a file wins
    paths = sorted((links.keys() | place.pages) - {SKILL_FILE})
    return tuple(
        SkillReference(path, link.text, link.line, _why_unreadable(place.directory, link.path))
        if (link := links.get(path))
        else SkillReference(path, "", 0)
        for path in paths
    )


def list_scripts(skill: Skill, place: SkillPlace) -> tuple[Script, ...]:
    """Return the programs of a skill."""
    return scripts_of(skill.name, _list_files(place)[0])


def files_of(place: SkillPlace) -> tuple[str, ...]:
    """Return the files of a skill, by path."""
    return tuple(file.name for file in _list_files(place)[0])


def bytes_of(skill: Skill, place: SkillPlace, path: str, max_file_bytes: int) -> bytes:
    """Return the content of a file of a skill, byte for byte."""
    try:
        file = files.find_inside(place.directory, path, closed=place.closed)
        if file.stamp.size > max_file_bytes:
            raise files.Unreadable(f"{file.stamp.size:,} bytes, more than {max_file_bytes:,}: raise max_file_bytes")
        return files.read_bytes(file, max_file_bytes)
    except files.Unreadable as reason:
        raise _unreadable(skill, path, reason) from None


def broken_links(links: Sequence[LinkedFile], directory: str) -> Iterator[str]:
    """Yield what is wrong with the links of a skill."""
    for link in links:
        target = os.path.join(directory, link.path)
        if os.path.isdir(target) and files.is_inside(target, directory):
            continue
        if reason := _why_unreadable(directory, link.path):
            yield f"line {link.line} links to {link.path[:200]!r}: {reason}"


def _text(skill: Skill, place: SkillPlace, path: str, max_file_bytes: int) -> str:
    try:
        return files.read(files.find_inside(place.directory, path, closed=place.closed), max_file_bytes)[0]
    except files.Unreadable as reason:
        raise _unreadable(skill, path, reason) from None


def _unreadable(skill: Skill, path: str, reason: Exception) -> InputError:
    advice = "name a file that read_skill lists"
    return InputError(f"{path[:200]!r} of the skill {skill.name!r} cannot be read: {reason}; {advice}")


def _why_unreadable(directory: str, path: str) -> str | None:
    try:
        files.find_inside(directory, path)
    except files.Unreadable as reason:
        return str(reason)
    return None


def _list_files(place: SkillPlace) -> tuple[list[FoundFile], tuple[str, ...]]:
    """Return the files of a skill, except hidden ones and those of skills below it, and a note if there are more."""
    swept, _ = files.sweep(place.directory, ("",), MAX_LISTED + 1, closed=place.closed)
    listed = [
        file
        for file in swept[:MAX_LISTED]
        if not file.name.rpartition("/")[2].startswith(".") and not file.name.startswith(place.skills_below)
    ]
    return listed, (f"more than {MAX_LISTED} files: the rest is not listed",) if len(swept) > MAX_LISTED else ()


def _normal(path: str) -> str:
    return os.path.normpath(path).replace(os.sep, "/")


def _lines(text: str) -> int:
    return len(text.splitlines()) or 1


def _headings(sections: Sequence[Section]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(section.heading for section in sections if section.heading != INTRO))


def _under(sections: Sequence[Section], name: str) -> list[Section]:
    """Return the section under a heading and its subsections; the heading may be written as an anchor."""
    heading = name.casefold().strip("# ")
    found = next(
        (one.heading_path for one in sections if heading in (one.heading.casefold(), _anchor(one.heading))), None
    )
    return [one for one in sections if found is not None and one.heading_path[: len(found)] == found]


def _anchor(heading: str) -> str:
    """Return the anchor of a heading as most sites form it."""
    return "".join(letter for letter in heading.casefold() if letter.isalnum() or letter in " -_").replace(" ", "-")


def _utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _is_cut(reading: SkillReading | SkillFileReading) -> bool:
    return _utf8_bytes(reading.text) < reading.bytes


def _render_resources(reading: SkillReading) -> str:
    lines = [
        *map(_render_reference, reading.references),
        *(
            f'<script name="{escape(script.qualified_name)}" path="{escape(script.path)}">'
            f"{escape(script.description)}</script>"
            for script in reading.scripts
        ),
        *(f"[{note}]" for note in reading.notes),  # before the files, which may not all fit
        *(f"<file>{escape(path)}</file>" for path in reading.files),
    ]
    fitting: list[str] = []
    room = MAX_RESOURCES_BYTES
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            fitting.append(f"[{len(lines) - len(fitting)} more files]")
            break
        fitting.append(line)
    return "\n".join(["<skill_resources>", *fitting, "</skill_resources>", ""]) if fitting else ""


def _render_reference(reference: SkillReference) -> str:
    problem = f' problem="{escape(reference.problem)}"' if reference.problem else ""
    return f'<reference path="{escape(reference.path)}"{problem}>{escape(reference.text)}</reference>'
