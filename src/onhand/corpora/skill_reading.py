"""How is a skill read step by step? Its instructions, what belongs to them, and one file of that, whole or in part.

It reads what is asked for when it is asked for, and nothing outside the skill's directory. Nothing is ever run.
"""

from __future__ import annotations

import os

from onhand.corpora import files
from onhand.corpora.skill import Reading, Reference
from onhand.corpora.skill_file import SKILL_FILE
from onhand.corpora.skill_scripts import scripts_of
from onhand.errors import InputError, NotFound
from onhand.markdown.sections import INTRO, split_sections
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from onhand.corpora.files import Found
    from onhand.corpora.skill import Skill
    from onhand.corpora.skill_file import LinkedFile
    from onhand.corpora.skill_scripts import Script
    from onhand.document import Section

MAX_LISTED = 500  # files of a skill that are listed
MAX_NAMED = 20  # headings in an error


class Place(Record):
    """Where a skill is on disk, and what is there."""

    directory: str
    pages: Collection[str]  # the pages that belong to it, but for SKILL.md: paths inside it
    skills_below: tuple[str, ...]  # directories inside it that are skills of their own, each with a slash at the end


def read_skill(skill: Skill, place: Place, max_file_bytes: int) -> Reading:
    """What a skill says, and which references, scripts and other files there are for it."""
    from onhand.markdown.frontmatter import read_front_matter

    text = _text(skill, place, SKILL_FILE, max_file_bytes)
    matter = read_front_matter(text)
    references, (listed, note) = references_of(skill, place), _listed(place)
    scripts = scripts_of(skill.name, listed)
    named = {SKILL_FILE, *(reference.path for reference in references), *(script.path for script in scripts)}
    return Reading(
        skill,
        SKILL_FILE,
        matter.body.strip("\n"),
        (matter.end_line + 1, max(matter.end_line + 1, _lines(text))),
        _headings(split_sections(text)),
        references,
        scripts,
        tuple(file.name for file in listed if file.name not in named),
        note,
    )


def read_reference(skill: Skill, place: Place, path: str, section: str | None, max_file_bytes: int) -> Reading:
    """What a file of a skill says, whole, or the section under a heading with what is below it.

    `path` may end with an anchor, as a link to a section does.
    """
    anchor = ""
    if section is None and "#" in path and _why_unreadable(place.directory, path):  # a file may be called c#.md
        path, _, anchor = path.partition("#")
    text = _text(skill, place, path, max_file_bytes)
    sections = split_sections(text)
    headings, wanted = _headings(sections), section or anchor
    if not wanted:
        return Reading(skill, _normal(path), text, (1, _lines(text)), headings)
    below = _under(sections, wanted)
    if not below:
        known = f"there are {', '.join(map(repr, headings[:MAX_NAMED]))}" if headings else "it has no headings"
        raise NotFound(f"{path[:200]} has no section {wanted[:200]!r}: {known}; leave it out to read the whole file")
    part = "\n\n".join(one.text for one in below)
    return Reading(skill, _normal(path), part, (below[0].first_line, below[-1].last_line), headings)


def references_of(skill: Skill, place: Place) -> tuple[Reference, ...]:
    """The files that a skill links to, and the other pages that are there for it."""
    links = {_normal(link.path): link for link in reversed(skill.links)}  # the first link to a file counts
    paths = sorted((links.keys() | place.pages) - {SKILL_FILE})
    return tuple(
        Reference(path, link.text, link.line, _why_unreadable(place.directory, link.path))
        if (link := links.get(path))
        else Reference(path, "", 0)
        for path in paths
    )


def listed_scripts(skill: Skill, place: Place) -> tuple[Script, ...]:
    """The programs that a skill brings."""
    return scripts_of(skill.name, _listed(place)[0])


def files_of(place: Place) -> tuple[str, ...]:
    """The files of a skill, by path."""
    return tuple(file.name for file in _listed(place)[0])


def bytes_of(skill: Skill, place: Place, path: str, max_file_bytes: int) -> bytes:
    """What is in a file of a skill, byte for byte."""
    try:
        file = files.inside(place.directory, path)
        if file.stamp.size > max_file_bytes:
            raise files.Unreadable(f"{file.stamp.size:,} bytes, more than {max_file_bytes:,}: raise max_file_bytes")
        return files.read_bytes(file, max_file_bytes)
    except files.Unreadable as reason:
        raise _unreadable(skill, path, reason) from None


def broken_links(links: Sequence[LinkedFile], directory: str) -> Iterator[str]:
    """What is wrong with the links of a skill."""
    for link in links:
        target = os.path.join(directory, link.path)
        if os.path.isdir(target) and files.is_inside(target, directory):
            continue
        if reason := _why_unreadable(directory, link.path):
            yield f"line {link.line} links to {link.path[:200]!r}: {reason}"


def _text(skill: Skill, place: Place, path: str, max_file_bytes: int) -> str:
    try:
        return files.read(files.inside(place.directory, path), max_file_bytes)[0]
    except files.Unreadable as reason:
        raise _unreadable(skill, path, reason) from None


def _unreadable(skill: Skill, path: str, reason: Exception) -> InputError:
    advice = "name a file inside the skill, as read_skill lists it"
    return InputError(f"{path[:200]!r} of the skill {skill.name!r} cannot be read: {reason}; {advice}")


def _why_unreadable(directory: str, path: str) -> str | None:
    try:
        files.inside(directory, path)
    except files.Unreadable as reason:
        return str(reason)
    return None


def _listed(place: Place) -> tuple[list[Found], str | None]:
    """The files of a skill, but for hidden ones and those of skills below it, and whether that is not all."""
    swept, _ = files.sweep(place.directory, ("",), MAX_LISTED + 1)
    listed = [
        file
        for file in swept[:MAX_LISTED]
        if not file.name.rpartition("/")[2].startswith(".") and not file.name.startswith(place.skills_below)
    ]
    return listed, f"more than {MAX_LISTED} files: the rest is not listed" if len(swept) > MAX_LISTED else None


def _normal(path: str) -> str:
    return os.path.normpath(path).replace(os.sep, "/")


def _lines(text: str) -> int:
    return len(text.splitlines()) or 1


def _headings(sections: Sequence[Section]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(section.heading for section in sections if section.heading != INTRO))


def _under(sections: Sequence[Section], wanted: str) -> list[Section]:
    """The sections of a heading and of those below it; the heading may be spelt as an anchor is."""
    spelled = wanted.casefold().strip("# ")
    found = next(
        (one.heading_path for one in sections if spelled in (one.heading.casefold(), _anchor(one.heading))), None
    )
    return [one for one in sections if found is not None and one.heading_path[: len(found)] == found]


def _anchor(heading: str) -> str:
    """What a link to a heading is spelt like on most sites."""
    return "".join(letter for letter in heading.casefold() if letter.isalnum() or letter in " -_").replace(" ", "-")
