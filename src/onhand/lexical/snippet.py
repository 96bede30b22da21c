"""Which part of a text shows why it matched? Plain text only, cut between words."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from onhand.lexical.tokenizer import UNSPACED, Tokenizer, fold

ELLIPSIS = "…"

# Whole scripts, styles and comments are no text at all.
_HIDDEN = re.compile(r"<(script|style)\b.*?(</\1\s*>|\Z)|<!--.*?(-->|\Z)", re.IGNORECASE | re.DOTALL)
# What a browser would take for a tag. One that is never closed goes as far as its line: `sort <names.txt` is no tag,
# and what follows in the text should not be lost with it.
_TAG = re.compile(r"<[a-z!?/](?:[^<>]*>|[^<>\n]*)", re.IGNORECASE)
_HUGE_REFERENCE = re.compile(r"&#[0-9]{8,}")  # stands for no character, and Python refuses to read the longest

_UNIT = re.compile(
    rf"""
    (?P<unspaced> [{UNSPACED}] [^\w\s]{{0,8}} )                # with its marks and the punctuation behind it
    | [^\s{UNSPACED}]{{1,80}}+ (?![^\s{UNSPACED}])             # a word
    | [^\W{UNSPACED}]{{1,80}} [^\w\s]{{0,8}} | [^\w\s]{{1,8}}  # a part of what is too long for a word: minified code
    """,
    re.VERBOSE,
)
_JOINER = "\u200d"
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


def plain_text(text: str) -> str:
    """The text without HTML, on one line: nothing that comes out can be taken for markup."""
    if "<" not in text and "&" not in text:
        return " ".join(text.split())
    from html import unescape

    bare = unescape(_HUGE_REFERENCE.sub("\ufffd", _without_markup(text)))
    # What was written as &lt;b&gt; would be markup now, so it goes too.
    return " ".join(_without_markup(bare).split())


def _without_markup(text: str) -> str:
    return _TAG.sub(" ", _HIDDEN.sub(_if_closed, text))


def _if_closed(match: re.Match[str]) -> str:
    """A page that only speaks of `<script>` keeps what follows."""
    return " " if match[2] or match[3] else match[0]


def best_window(text: str, query: str, tokenizer: Tokenizer, max_chars: int = 240) -> str:
    """The stretch of at most `max_chars` with the most different terms of the query, then the most, then the first.

    An ellipsis marks each end that was cut, and counts.
    """
    text = plain_text(text)
    if len(text) <= max_chars:
        return text
    room = max_chars - 2 * len(ELLIPSIS)
    if room < 1:
        return ELLIPSIS[: max(max_chars, 0)]
    units = list(_units(text, frozenset(term for term, _ in tokenizer.query_terms(query)), tokenizer))
    first, last = _densest([unit for unit in units if unit.terms], room) or (units[0], units[0])
    start, end = _widened(units, first.start, min(last.end, first.start + room), room)
    start, end = _between_characters(text, start, end)
    return f"{ELLIPSIS if start else ''}{text[start:end]}{ELLIPSIS if end < len(text) else ''}"


class _Unit(NamedTuple):
    """What is not cut if it fits: a word, or one character of a script without spaces."""

    start: int
    end: int
    terms: frozenset[str]  # those of the query that it has


def _units(text: str, wanted: frozenset[str], tokenizer: Tokenizer) -> Iterator[_Unit]:
    if not wanted:  # as in a list that nobody searched by words
        yield from (_Unit(*match.span(), wanted) for match in _UNIT.finditer(text))
        return
    for match in _UNIT.finditer(text):
        start, end = match.span()
        terms = _unspaced_terms(text[start : end + 1]) if match.lastgroup else tokenizer.terms(match.group())
        yield _Unit(start, end, wanted.intersection(terms))


@lru_cache(maxsize=10_000)
def _unspaced_terms(text: str) -> tuple[str, str]:
    """A character of an unspaced script is known by itself and by the pair that it begins."""
    pair = fold(text)[:2]
    return pair[:1], pair


def _densest(matching: list[_Unit], room: int) -> tuple[_Unit, _Unit] | None:
    """The first and last unit of the best stretch that fits into `room`."""
    best: tuple[tuple[int, int], _Unit, _Unit] | None = None
    counts: Counter[str] = Counter()
    total = left = 0
    for right in matching:
        counts.update(right.terms)
        total += len(right.terms)
        while matching[left] is not right and right.end - matching[left].start > room:
            for term in matching[left].terms:
                counts[term] -= 1
                if not counts[term]:
                    del counts[term]
            total -= len(matching[left].terms)
            left += 1
        value = (len(counts), total)
        if best is None or value > best[0]:
            best = (value, matching[left], right)
    return best and (best[1], best[2])


def _widened(units: list[_Unit], start: int, end: int, room: int) -> tuple[int, int]:
    """The stretch with as much around it as there is room for: half of it before, the rest behind."""
    text_end = units[-1].end
    earliest = max(0, min(start - (room - (end - start)) // 2, text_end - room))
    start = next(unit.start for unit in units if unit.start >= earliest) if earliest < start else start
    latest = start + room
    end = max([unit.end for unit in units if unit.end <= latest and unit.start >= start], default=latest)
    return start, end


def _between_characters(text: str, start: int, end: int) -> tuple[int, int]:
    """The stretch without a mark that lost its letter or an emoji that lost a part; as it is if nothing else is in."""
    inner_start, inner_end = start, end
    while inner_start < inner_end and _is_inside_character(text, inner_start):
        inner_start += 1
    while inner_start < inner_end and _is_inside_character(text, inner_end):
        inner_end -= 1
    return (inner_start, inner_end) if inner_start < inner_end else (start, end)


def _is_inside_character(text: str, position: int) -> bool:
    """Whether what a reader takes for one character would be cut in two."""
    if position in (0, len(text)) or text[position].isascii():
        return False
    from unicodedata import category

    behind = text[position]
    return category(behind).startswith("M") or behind in _SKIN_TONES or _JOINER in (behind, text[position - 1])
