"""Which sections does a page have? One for each heading, with its place in the file.

A section that is too long is split into parts: between paragraphs if possible, else between lines, else
between words. No text is lost, and a fence of code is only cut when it alone is too long.
"""

from __future__ import annotations

from onhand.document import Section
from onhand.markdown.blocks import Heading, Page, read_page
from onhand.markdown.plain import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

INTRO = "(intro)"

_JOINER = "\u200d"  # holds the parts of one emoji together
# As many marks on one letter as Unicode's stream-safe format allows; what has more is cut anyway.
_MAX_MARKS = 30
# A heading's name stands in every section under it, so a longer one would make a page cost the square of its size. Its
# text has all of it.
MAX_HEADING_CHARS = 200


def split_sections(text: str, *, max_chars: int = 4000) -> list[Section]:
    """Split a page into its sections, in the order of the file; none is longer than max_chars.

    Lines are those of the file, front matter is left out, and so are blank lines around a section.
    """
    if max_chars < 1:
        from onhand.errors import InputError

        raise InputError(f"max_chars is {max_chars}: a section needs room for text, give a number from 1 up")
    page = read_page(text)
    source = page.text
    sections: list[Section] = []
    path: tuple[str, ...] = (INTRO,)
    levels: list[int] = []
    start = title_end = counted = page.body + 1
    line = source.count("\n", 0, start)
    for heading in (*page.headings, Heading(0, len(source), 0, "")):
        for first, last in _parts(page, start, heading.start, title_end, max_chars):
            first_line = line + source.count("\n", counted, first)
            line = first_line + source.count("\n", first, last)
            counted = last
            sections.append(Section(path[-1], path, source[first:last], first_line, line))
        level, start, title_end, title = heading
        while levels and levels[-1] >= level:
            levels.pop()
        path = (*path[: len(levels)], _name(title))
        levels.append(level)
    return sections


def _name(heading: str) -> str:
    if len(heading) <= MAX_HEADING_CHARS:
        return plain(heading)
    name = plain(heading[: 10 * MAX_HEADING_CHARS])  # markup, such as the target of a link, may be long
    if len(name) <= MAX_HEADING_CHARS:
        return name
    return name[: _character_start(name, 0, MAX_HEADING_CHARS - 1)] + "…"


def _parts(page: Page, start: int, end: int, title_end: int, max_chars: int) -> Sequence[tuple[int, int]]:
    """Where the parts of a stretch start and end, without blank lines around them; none when it is blank."""
    text = page.text
    end = _visible_end(text, start, end)
    if text[start : start + 1].isspace():
        start = _visible_start(text, start, end)
    if end - start <= max_chars:
        return ((start, end),) if end > start else ()
    parts = []
    while end - start > max_chars:
        cut = _cut(page, start, max(start, title_end), start + max_chars)
        last = _visible_end(text, start, cut)
        if last > start:
            parts.append((start, last))
        start = _visible_start(text, cut, end)
        title_end = start
    if _visible_end(text, start, end) > start:
        parts.append((start, end))
    return parts


def _visible_start(text: str, start: int, end: int) -> int:
    """Skip blank lines, but not the indentation of the line after them."""
    newline = text.find("\n", start, end)
    while newline >= 0 and not text[start:newline].strip():
        start = newline + 1
        newline = text.find("\n", start, end)
    return start


def _visible_end(text: str, start: int, end: int) -> int:
    """The end of the last line that is not blank."""
    stretch = text[start:end].rstrip()
    if not stretch:
        return start
    newline = text.find("\n", start + len(stretch), end)
    return newline if newline >= 0 else end


def _cut(page: Page, start: int, floor: int, limit: int) -> int:
    """Where to end a part that may reach to `limit`: above `floor` only if there is no other place.

    The floor is the end of the heading, which should not be left alone.
    """
    text = page.text
    between_paragraphs = -1
    for newline in _above_blank_lines(text, floor + 1, limit + 2):
        if not _verbatim_around(page, newline):
            between_paragraphs = newline
    if between_paragraphs > 0:
        return between_paragraphs
    code = _verbatim_around(page, limit)
    if code and start < code[0] and code[1] - code[0] <= limit - start:
        return code[0] - 1
    newline = text.rfind("\n", floor + 1, limit + 1)
    if newline > 0:
        return newline
    space = text.rfind(" ", max(start, limit - (limit - start) // 2), limit)
    return space + 1 if space >= 0 else _character_start(text, start, limit)


def _above_blank_lines(text: str, start: int, end: int) -> Iterator[int]:
    """The newlines that blank lines follow."""
    above, was_blank = text.find("\n", start, end), False
    while above >= 0:
        below = text.find("\n", above + 1, end)
        is_blank = below >= 0 and not text[above + 1 : below].strip(" \t")
        if is_blank and not was_blank:
            yield above
        above, was_blank = below, is_blank


def _verbatim_around(page: Page, position: int) -> tuple[int, int] | None:
    """The verbatim lines that a cut at this newline would go through."""
    from _bisect import bisect_right  # what `bisect` has, without its Python part

    index = bisect_right(page.verbatim, (position, len(page.text))) - 1
    if index >= 0 and page.verbatim[index][0] <= position < page.verbatim[index][1]:
        return page.verbatim[index]
    return None


def _character_start(text: str, start: int, limit: int) -> int:
    """Step back to where a letter with its marks, or a joined emoji, begins."""
    from unicodedata import category

    for cut in range(limit, max(start, limit - _MAX_MARKS), -1):
        if category(text[cut])[0] != "M" and _JOINER not in text[cut - 1 : cut + 1]:
            return cut
    return limit
