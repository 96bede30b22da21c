"""What does a line say to its reader? Its text without the signs that are for the renderer only.

Most headings have at most code or an emphasis in them, and are read without `re`: to load it costs as much as forty
pages. What may be a link or a tag is read by `onhand.markdown.inline`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onhand.markdown.inline import Definition

    Range = tuple[int, int]

_SIGNS = frozenset("\\`*_~[<")  # a text without one says what it is
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_NO_DEFINITIONS: Mapping[str, Definition] = {}


def plain(text: str, definitions: Mapping[str, Definition] = _NO_DEFINITIONS) -> str:
    """The text as its reader sees it, on one line.

    Entities stay as written: they must not turn into markup.
    """
    if not _SIGNS.isdisjoint(text):
        text = _without(text, sorted(_markup(text, definitions)))
    return " ".join(text.split())


def _without(text: str, ranges: list[Range]) -> str:
    kept, position = [], 0
    for start, end in ranges:
        if start > position:
            kept.append(text[position:start])
        position = max(position, end)
    kept.append(text[position:])
    return "".join(kept)


def _markup(text: str, definitions: Mapping[str, Definition]) -> list[Range]:
    """The parts of a text that are signs to the renderer only."""
    hidden, opaque = _spans(text, definitions)
    delimiters = []
    upcoming = iter(sorted(opaque))
    inside = next(upcoming, None)
    for start, end in _delimiters(text):
        while inside and inside[1] <= start:
            inside = next(upcoming, None)
        if inside and inside[0] <= start:
            continue
        if text[start] == "\\":
            hidden.append((start, start + 1))
        else:
            delimiters.append((start, end))
    return hidden + _emphasis(text, delimiters)


def _spans(text: str, definitions: Mapping[str, Definition]) -> tuple[list[Range], list[Range]]:
    """What of code, links and tags is for the renderer, and where a star or a backslash means itself."""
    pieces = text.split("`")
    around = " ".join(pieces[::2])
    if "``" not in text and len(pieces) % 2 and not _may_be_more_than_code(around, len(pieces) > 1, definitions):
        signs = [place for place, sign in enumerate(text) if sign == "`"]
        code = list(zip(signs[::2], signs[1::2], strict=True))
        return [(place, place + 1) for place in signs], [(start, end + 1) for start, end in code]
    from onhand.markdown.inline import read_spans

    hidden: list[Range] = []
    opaque: list[Range] = []
    for span in read_spans(text, 0, len(text), definitions):
        hidden += (span.start, span.shown_start), (span.shown_end, span.end)
        opaque.append((span.shown_end, span.end) if span.kind in ("link", "image") else (span.start, span.end))
    return hidden, opaque


def _may_be_more_than_code(around: str, has_code: bool, definitions: Mapping[str, Definition]) -> bool:
    """Whether there may be a link, a tag or an escaped backtick around the code of a text."""
    return "<" in around or "](" in around or ("[" in around and bool(definitions)) or ("\\" in around and has_code)


def _delimiters(text: str) -> Iterator[Range]:
    """Where a character is escaped, and where a run of signs may begin or end an emphasis."""
    end = 0
    for start, sign in enumerate(text):
        if start < end or sign not in "\\*_~":
            continue
        if sign == "\\":
            end = start + 2 if text[start + 1 : start + 2] in _PUNCTUATION else start
        elif sign == "~":
            end = start + 2 if text.startswith("~~", start) else start
        else:
            end = start + 1
            while text.startswith(sign, end):
                end += 1
        if end > start:
            yield start, end


def _emphasis(text: str, delimiters: list[Range]) -> list[Range]:
    """Pair up what opens and closes emphasis; `snake_case` and `2 * 3` are neither."""
    paired: list[Range] = []
    opened: dict[str, list[Range]] = {"*": [], "_": [], "~": []}
    for start, end in delimiters:
        sign = text[start]
        before, after = text[start - 1 : start], text[end : end + 1]
        stack = opened[sign]
        if before.strip() and not (sign == "_" and after.isalnum()):
            while stack and start < end:
                first, last = stack.pop()
                size = min(last - first, end - start)
                paired += (last - size, last), (start, start + size)
                start += size
                if last - size > first:
                    stack.append((first, last - size))
        if start < end and after.strip() and not (sign == "_" and before.isalnum()):
            stack.append((start, end))
    return paired
