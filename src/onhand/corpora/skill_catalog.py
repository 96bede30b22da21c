"""Render the list of skills for the system prompt, within a budget.

When the list is too long, a shorter form without locations is used and descriptions are shortened, all to the same
length; skills are left out only when the names alone are too many. Both are stated, so that the model searches for the
rest.
"""

from __future__ import annotations

from bisect import bisect_right

from onhand.corpora.blocks import escape
from onhand.record import Record
from onhand.text import one_line
from onhand.tools.loading import BYTES_PER_TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from onhand.corpora.skill_files import Skill

WINDOW_SHARE = 0.02  # of a model's window, as in other clients
SHORTEST_CHARS = 20  # of a description: a shorter one says nothing

INTRODUCTION = (
    "Skills are instructions for particular tasks. When a task fits one of them, call read_skill with its name before "
    "you begin, and follow the instructions."
)


class SkillCatalog(Record):
    """The block for the system prompt, and what did not fit."""

    text: str  # "" when there are no skills, or room for none
    skills: int  # in the block
    shortened: int  # of these: with a part of their description, or none
    left_out: int
    max_chars: int


def budget_of(window_tokens: int) -> int:
    """Return how many characters of a model's window the catalog may take."""
    return int(window_tokens * WINDOW_SHARE * BYTES_PER_TOKEN)


class _CatalogEntry(Record):
    """A skill prepared for the list once, since meeting a budget takes several attempts."""

    name: str  # escaped
    description: str  # escaped later, since it may be cut
    location: str  # escaped


def render_catalog(skills: Sequence[Skill], max_chars: int, order: Mapping[str, int]) -> SkillCatalog:
    """Return the catalog within a budget; skills whose root comes first in `order` are left out last."""
    if not skills:
        return SkillCatalog("", 0, 0, 0, max_chars)
    by_root = sorted(skills, key=lambda skill: (order.get(skill.name, 0), skill.name))
    entries = [
        _CatalogEntry(escape(one_line(one.name)), one_line(one.description), escape(one_line(one.path)))
        for one in by_root
    ]
    text = _join(map(_whole, sorted(entries)))
    if len(text) <= max_chars:
        return SkillCatalog(text, len(skills), 0, 0, max_chars)
    longest = max(len(entry.description) for entry in entries)
    length = _most(range(SHORTEST_CHARS, longest + 1), lambda chars: len(_shorten(entries, chars).text), max_chars)
    catalog = _shorten(entries, length or 0)
    if len(catalog.text) > max_chars:
        count = _most(range(len(skills)), lambda count: len(_shorten(entries, 0, count).text), max_chars)
        catalog = _shorten(entries, 0, count or 0)
    return catalog._replace(max_chars=max_chars)


def _shorten(entries: Sequence[_CatalogEntry], length: int, count: int | None = None) -> SkillCatalog:
    """Return the first skills in the short form, with descriptions of at most `length` characters."""
    listed = sorted(entries[:count])
    if not listed:
        return SkillCatalog("", 0, 0, len(entries), 0)
    shortened = sum(1 for entry in listed if len(entry.description) > length)
    left_out = len(entries) - len(listed)
    notes = [f"{shortened} descriptions are shortened"] if shortened else []
    notes += [f"{left_out} more skills are not listed"] if left_out else []
    note = f"[{' and '.join(notes)} to save space: search_skills finds skills by their purpose.]"
    text = _join((_short(entry, length) for entry in listed), *([note] if notes else []))
    return SkillCatalog(text, len(listed), shortened, left_out, 0)


def _most(numbers: range, size: Callable[[int], int], room: int) -> int | None:
    """Return the largest number whose text fits; sizes grow with the number, except by a few characters."""
    place = bisect_right(numbers, room, key=size)
    while place and size(numbers[place - 1]) > room:
        place -= 1
    return numbers[place - 1] if place else None


def _join(skills: Iterable[str], *notes: str) -> str:
    return "\n".join([INTRODUCTION, "<available_skills>", *skills, "</available_skills>", *notes])


def _whole(entry: _CatalogEntry) -> str:
    """Return a skill in the form that clients of the specification use."""
    name, description, location = entry
    inner = f"<name>{name}</name>\n<description>{escape(description)}</description>\n<location>{location}</location>"
    return f"<skill>\n{inner}\n</skill>"


def _short(entry: _CatalogEntry, length: int) -> str:
    description = _cut(entry.description, length)
    return (
        f'<skill name="{entry.name}">{escape(description)}</skill>' if description else f'<skill name="{entry.name}"/>'
    )


def _cut(text: str, length: int) -> str:
    """Return the text, or as many whole words as fit before an ellipsis."""
    if len(text) <= length or not length:
        return text[:length]
    cut = text[: length - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"
