"""Which skills does the system prompt name? All of them, as far as a budget reaches.

When they are too long, a shorter form without locations is used, and descriptions are shortened, all to the same
length; only when names alone are too many are skills left out. Both are said, so that the model searches for the rest.
"""

from __future__ import annotations

from bisect import bisect_right

from onhand.corpora.blocks import escaped
from onhand.record import Record
from onhand.tools.tokens import BYTES_PER_TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from onhand.corpora.skill import Skill

WINDOW_SHARE = 0.02  # of a model's window: what other clients give their skills
SHORTEST_CHARS = 20  # of a description: less says nothing

INTRODUCTION = (
    "Skills are instructions for particular tasks. When a task fits one of these, call read_skill with its name before "
    "you begin, and follow what it says."
)


class Catalog(Record):
    """The block for the system prompt, and what did not fit."""

    text: str  # "" when there are no skills, or room for none
    skills: int  # in the block
    shortened: int  # of these: with a part of their description, or none
    left_out: int
    max_chars: int


def budget_of(window_tokens: int) -> int:
    """How many characters of a model's window are for the catalog."""
    return int(window_tokens * WINDOW_SHARE * BYTES_PER_TOKEN)


class _Entry(Record):
    """A skill on its way into the list: lines that are made once, since a budget is met by trying."""

    name: str  # escaped
    said: str  # not yet escaped: it may be cut
    location: str  # escaped


def render(skills: Sequence[Skill], max_chars: int, order: Mapping[str, int]) -> Catalog:
    """The catalog within a budget; `order` says whose root comes first, which is left out last."""
    if not skills:
        return Catalog("", 0, 0, 0, max_chars)
    by_root = sorted(skills, key=lambda skill: (order.get(skill.name, 0), skill.name))
    entries = [_Entry(escaped(_line(one.name)), _line(one.description), escaped(_line(one.path))) for one in by_root]
    text = _joined(map(_whole, sorted(entries)))
    if len(text) <= max_chars:
        return Catalog(text, len(skills), 0, 0, max_chars)
    longest = max(len(entry.said) for entry in entries)
    length = _most(range(SHORTEST_CHARS, longest + 1), lambda chars: len(_shortened(entries, chars).text), max_chars)
    catalog = _shortened(entries, length or 0)
    if len(catalog.text) > max_chars:
        count = _most(range(len(skills)), lambda count: len(_shortened(entries, 0, count).text), max_chars)
        catalog = _shortened(entries, 0, count or 0)
    return catalog._replace(max_chars=max_chars)


def _shortened(entries: Sequence[_Entry], length: int, count: int | None = None) -> Catalog:
    """The first skills in the short form, with descriptions of so many characters at most."""
    shown = sorted(entries[:count])
    if not shown:
        return Catalog("", 0, 0, len(entries), 0)
    shortened = sum(1 for entry in shown if len(entry.said) > length)
    left_out = len(entries) - len(shown)
    notes = [f"{shortened} descriptions are shortened"] if shortened else []
    notes += [f"{left_out} more skills are not listed"] if left_out else []
    note = f"[{' and '.join(notes)} for want of room: search_skills finds skills by what they are for.]"
    text = _joined((_short(entry, length) for entry in shown), *([note] if notes else []))
    return Catalog(text, len(shown), shortened, left_out, 0)


def _most(numbers: range, size: Callable[[int], int], room: int) -> int | None:
    """The largest of the numbers with which there is room: with more it is longer, but for a few characters."""
    place = bisect_right(numbers, room, key=size)
    while place and size(numbers[place - 1]) > room:
        place -= 1
    return numbers[place - 1] if place else None


def _joined(skills: Iterable[str], *notes: str) -> str:
    return "\n".join([INTRODUCTION, "<available_skills>", *skills, "</available_skills>", *notes])


def _whole(entry: _Entry) -> str:
    """A skill as the specification's clients show it."""
    name, said, location = entry
    inner = f"<name>{name}</name>\n<description>{escaped(said)}</description>\n<location>{location}</location>"
    return f"<skill>\n{inner}\n</skill>"


def _short(entry: _Entry, length: int) -> str:
    said = _cut(entry.said, length)
    return f'<skill name="{entry.name}">{escaped(said)}</skill>' if said else f'<skill name="{entry.name}"/>'


def _cut(text: str, length: int) -> str:
    """The text, or as many whole words as fit with an ellipsis."""
    if len(text) <= length or not length:
        return text[:length]
    cut = text[: length - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"


def _line(text: str) -> str:
    return " ".join(text.split())
