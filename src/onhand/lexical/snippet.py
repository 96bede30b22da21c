"""Which part of a text shows why it matched? Plain text only, cut between words."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from onhand.lexical.tokenize import UNSPACED
from onhand.lexical.tokenizer import Tokenizer

ELLIPSIS = "…"

# What a browser would take for markup: elements and comments; whole scripts and styles, which are no text at all.
_HIDDEN = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?[a-z!?][^<>]*(?:>|\Z)", re.IGNORECASE)
_UNIT = re.compile(rf"(?P<unspaced>[{UNSPACED}])|[^\s{UNSPACED}]+")


def plain_text(text: str) -> str:
    """The text without HTML, on one line: nothing that comes out can be taken for markup."""
    from html import unescape

    bare = _TAG.sub(" ", _HIDDEN.sub(" ", text))
    # What was written as &lt;b&gt; would be markup now, so it goes too.
    bare = _TAG.sub(" ", _HIDDEN.sub(" ", unescape(bare)))
    return " ".join(bare.split())


def best_window(text: str, query: str, tokenizer: Tokenizer, max_chars: int = 240) -> str:
    """The stretch of at most `max_chars` with the most different terms of the query, then the most, then the first.

    An ellipsis marks each end that was cut, and counts.
    """
    text = plain_text(text)
    if len(text) <= max_chars:
        return text
    room = max(max_chars - 2 * len(ELLIPSIS), 1)
    units = list(_units(text, {term for term, _ in tokenizer.query_terms(query)}, tokenizer))
    first, last = _densest([unit for unit in units if unit.terms], room) or (units[0], units[0])
    start, end = _widened(units, first.start, min(last.end, first.start + room), room)
    return f"{ELLIPSIS if start else ''}{text[start:end]}{ELLIPSIS if end < len(text) else ''}"


class _Unit(NamedTuple):
    """What is never cut: a word, or one character of a script without spaces."""

    start: int
    end: int
    terms: frozenset[str]  # those of the query that it has


def _units(text: str, wanted: set[str], tokenizer: Tokenizer) -> Iterator[_Unit]:
    for match in _UNIT.finditer(text):
        start, end = match.span()
        # A character of an unspaced script is known by itself and by the pair that it begins.
        terms = {match.group(), text[start : start + 2]} if match.lastgroup else _terms(match.group(), tokenizer)
        yield _Unit(start, end, frozenset(wanted.intersection(terms)))


def _terms(text: str, tokenizer: Tokenizer) -> set[str]:
    return {form for word in tokenizer.words(text) for form in tokenizer.forms(word)}


def _densest(matching: list[_Unit], room: int) -> tuple[_Unit, _Unit] | None:
    """The first and last unit of the best stretch that fits into `room`."""
    best: tuple[tuple[int, int], _Unit, _Unit] | None = None
    counts: Counter[str] = Counter()
    left = 0
    for right in matching:
        counts.update(right.terms)
        while matching[left] is not right and right.end - matching[left].start > room:
            counts -= Counter(matching[left].terms)
            left += 1
        value = (len(counts), counts.total())
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
