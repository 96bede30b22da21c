"""Snippets: the passage of a text that shows best why it matched, as plain text cut between words."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from onhand.lexical.tokenizer import UNSPACED, Tokenizer, fold

ELLIPSIS = "…"

# Scripts, styles and comments are not text.
_HIDDEN = re.compile(r"<(script|style)\b.*?(</\1\s*>|\Z)|<!--.*?(-->|\Z)", re.IGNORECASE | re.DOTALL)
# What a browser would treat as a tag. An unclosed one ends with its line, so that the text after `sort <names.txt` is
# not lost.
_TAG = re.compile(r"<[a-z!?/](?:[^<>]*>|[^<>\n]*)", re.IGNORECASE)
_HUGE_REFERENCE = re.compile(r"&#[0-9]{8,}")  # not a character, and Python refuses to parse the longest ones

_UNIT = re.compile(
    rf"""
    (?P<unspaced> [{UNSPACED}] [^\w\s]{{0,8}} )                # with its marks and the punctuation after it
    | [^\s{UNSPACED}]{{1,80}}+ (?![^\s{UNSPACED}])             # a word
    | [^\W{UNSPACED}]{{1,80}} [^\w\s]{{0,8}} | [^\w\s]{{1,8}}  # part of a longer run, such as minified code
    """,
    re.VERBOSE,
)
_JOINER = "\u200d"
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


def plain_text(text: str) -> str:
    """Return the text on one line, without anything that could be interpreted as HTML."""
    if "<" not in text and "&" not in text:
        return " ".join(text.split())
    from html import unescape

    bare = unescape(_HUGE_REFERENCE.sub("\ufffd", _without_markup(text)))
    # What was written as &lt;b&gt; would be markup now, so it is removed as well.
    return " ".join(_without_markup(bare).split())


def _without_markup(text: str) -> str:
    return _TAG.sub(" ", _HIDDEN.sub(_drop_if_closed, text))


def _drop_if_closed(match: re.Match[str]) -> str:
    """Keep an unclosed element: a page that only mentions `<script>` must not lose the text after it."""
    return " " if match[2] or match[3] else match[0]


def best_window(text: str, query: str, tokenizer: Tokenizer, max_chars: int = 240) -> str:
    """Return the passage of at most `max_chars` with the most different terms of the query, then the most terms.

    An ellipsis, which counts as a character, marks each end that was cut.
    """
    text = plain_text(text)
    if len(text) <= max_chars:
        return text
    room = max_chars - 2 * len(ELLIPSIS)
    if room < 1:
        return ELLIPSIS[: max(max_chars, 0)]
    units = list(_units(text, frozenset(term for term, _ in tokenizer.query_terms(query)), tokenizer))
    first, last = _find_densest([unit for unit in units if unit.terms], room) or (units[0], units[0])
    start, end = _widen(units, first.start, min(last.end, first.start + room), room)
    start, end = _align_to_characters(text, start, end)
    return f"{ELLIPSIS if start else ''}{text[start:end]}{ELLIPSIS if end < len(text) else ''}"


class _Unit(NamedTuple):
    """A word, or one character of a script without spaces; it is not cut if it fits."""

    start: int
    end: int
    terms: frozenset[str]  # the terms of the query that it has


def _units(text: str, query_terms: frozenset[str], tokenizer: Tokenizer) -> Iterator[_Unit]:
    if not query_terms:  # such as in a filtered list without a query
        yield from (_Unit(*match.span(), query_terms) for match in _UNIT.finditer(text))
        return
    for match in _UNIT.finditer(text):
        start, end = match.span()
        terms = _unspaced_terms(text[start : end + 1]) if match.lastgroup else tokenizer.terms(match.group())
        yield _Unit(start, end, query_terms.intersection(terms))


@lru_cache(maxsize=10_000)
def _unspaced_terms(text: str) -> tuple[str, str]:
    """Return the terms of a character of an unspaced script: itself and the pair that it begins."""
    pair = fold(text)[:2]
    return pair[:1], pair


def _find_densest(matching: list[_Unit], room: int) -> tuple[_Unit, _Unit] | None:
    """Return the first and the last unit of the best passage that fits into `room`."""
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


def _widen(units: list[_Unit], start: int, end: int, room: int) -> tuple[int, int]:
    """Extend a passage to the available room, half of it before and the rest after."""
    text_end = units[-1].end
    earliest = max(0, min(start - (room - (end - start)) // 2, text_end - room))
    start = next(unit.start for unit in units if unit.start >= earliest) if earliest < start else start
    latest = start + room
    end = max([unit.end for unit in units if unit.end <= latest and unit.start >= start], default=latest)
    return start, end


def _align_to_characters(text: str, start: int, end: int) -> tuple[int, int]:
    """Shrink a passage so that it starts and ends between whole characters, unless nothing would be left."""
    inner_start, inner_end = start, end
    while inner_start < inner_end and _is_inside_character(text, inner_start):
        inner_start += 1
    while inner_start < inner_end and _is_inside_character(text, inner_end):
        inner_end -= 1
    return (inner_start, inner_end) if inner_start < inner_end else (start, end)


def _is_inside_character(text: str, position: int) -> bool:
    """Return whether a cut at this position would split what a reader sees as one character."""
    if position in (0, len(text)) or text[position].isascii():
        return False
    from unicodedata import category

    following = text[position]
    return category(following).startswith("M") or following in _SKIN_TONES or _JOINER in (following, text[position - 1])
