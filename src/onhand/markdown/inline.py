"""Which parts of a line are code, links, images and tags?

It works on the text of one block (a heading, a paragraph) and knows nothing of blocks or files. Time is
linear in the size of the block: every pattern is possessive or of bounded length, and a search that failed
is not made again.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping

from onhand.record import Record


class Definition(Record):
    """Where a link leads, and its title, both as written."""

    target: str
    title: str


class Span(Record):
    """A part of the text with a meaning of its own; `text[shown_start:shown_end]` of it is for the reader."""

    kind: str  # "link", "image", "code", "autolink" or "html"
    start: int
    end: int
    shown_start: int
    shown_end: int
    target: str = ""
    title: str = ""


# Brackets nested deeper than this are text. It bounds the memory that a page of brackets takes.
_MAX_DEPTH = 1000

# Texts, which `re.compile` compiles once when they are first needed: most headings need few of them.
_PUNCTUATION = r"!-/:-@\[-`{-~"
_TOKEN = rf"\\[{_PUNCTUATION}]|`++|<|!?\[|\]"
_BACKTICKS = r"`++"
_AUTOLINK = r"<([A-Za-z][A-Za-z0-9+.\-]{1,31}:[^\s<>]*+)>"
_EMAIL = r"<([\w.!#$%&'*+/=?^`{|}~\-]{1,64}+@[A-Za-z0-9.\-]{1,255}+)>"
_TAG = r"""(?x)<(?:/[A-Za-z][A-Za-z0-9\-]*+\s*+
    | [A-Za-z][A-Za-z0-9\-]*+(?:\s++[\w:][\w.:\-]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'=<>`]++))?+)*+\s*+/?
    )>"""
_BARE_TARGET = rf"(?:[^\s()\\\x00-\x1f\x7f]++|\\[{_PUNCTUATION}]|\\)++"
_ANGLE_TARGET = r"<((?:[^<>\n\\]|\\.)*+)>"
_TITLE = r"""(?s)"((?:[^"\\]|\\.)*+)"|'((?:[^'\\]|\\.)*+)'|\(((?:[^()\\]|\\.)*+)\)"""
_LABEL = r"(?s)\[((?:[^\[\]\\]|\\.){0,999}+)\]"
_SPACE = r"[ \t]*+(?:\n[ \t>]*+)?+"
_MAX_PARENTHESES = 32  # as in cmark: without a limit, `((((` would be read again and again


def read_spans(text: str, start: int, end: int, definitions: Mapping[str, Definition]) -> list[Span]:
    """Find the spans between two offsets, in the order in which they begin."""
    return sorted(_Reader(text, start, end, definitions).read(), key=lambda span: span.start)


def label_key(label: str) -> str:
    """What makes two labels of a reference the same."""
    return " ".join(label.split()).casefold()


def read_target(text: str, position: int, end: int) -> tuple[str, int] | None:
    """Read a link's target, in angle brackets or with balanced parentheses, and say where it ends."""
    if text.startswith("<", position, end):
        angle = re.compile(_ANGLE_TARGET).match(text, position, end)
        return (angle[1], angle.end()) if angle else None
    begin, depth = position, 0
    while position < end:
        if word := re.compile(_BARE_TARGET).match(text, position, end):
            position = word.end()
        elif text[position] == "(" and depth < _MAX_PARENTHESES:
            depth += 1
            position += 1
        elif text[position] == ")" and depth:
            depth -= 1
            position += 1
        else:
            break
    return None if depth else (text[begin:position], position)


def read_title(text: str, position: int, end: int) -> tuple[str, int] | None:
    """Read a link's title and say where it ends."""
    title = re.compile(_TITLE).match(text, position, end)
    return (title[title.lastindex or 0], title.end()) if title else None


def skip_space(text: str, position: int, end: int) -> int:
    """Skip white space with at most one line end in it."""
    space = re.compile(_SPACE).match(text, position, end)
    return space.end() if space else position


class _Reader:
    def __init__(self, text: str, start: int, end: int, definitions: Mapping[str, Definition]) -> None:
        self._text = text
        self._start = start
        self._end = end
        self._definitions = definitions
        self._spans: list[Span] = []
        self._brackets: list[tuple[int, bool]] = []  # where each open one stands, and whether it is an image's
        self._links_allowed_from = 0  # a bracket around a link opens no other link
        self._fences: dict[int, list[int]] | None = None  # length of a run of backticks → where such runs are
        self._comments_may_close = True

    def read(self) -> list[Span]:
        position = self._start
        while token := re.compile(_TOKEN).search(self._text, position, self._end):
            position = token.end()
            first = token[0][0]
            if first == "`":
                position = self._code(token)
            elif first == "<":
                position = self._angle(token.start())
            elif first == "]":
                position = self._close(token.start())
            elif first != "\\":
                self._open(token)
        return self._spans

    def _code(self, token: re.Match[str]) -> int:
        if self._fences is None:
            self._fences = {}
            for run in re.compile(_BACKTICKS).finditer(self._text, self._start, self._end):
                self._fences.setdefault(len(run[0]), []).append(run.start())
        size = len(token[0])
        runs = self._fences.get(size, [])
        following = bisect_right(runs, token.start())
        if following == len(runs):
            return token.end()
        close = runs[following]
        self._spans.append(Span("code", token.start(), close + size, token.end(), close))
        return close + size

    def _angle(self, start: int) -> int:
        for pattern, scheme in ((_AUTOLINK, ""), (_EMAIL, "mailto:")):
            if auto := re.compile(pattern).match(self._text, start, self._end):
                self._spans.append(Span("autolink", start, auto.end(), *auto.span(1), scheme + auto[1]))
                return auto.end()
        end = -1
        if tag := re.compile(_TAG).match(self._text, start, self._end):
            end = tag.end()
        elif self._comments_may_close and self._text.startswith("<!--", start, self._end):
            end = self._text.find("-->", start + 2, self._end) + 3
            self._comments_may_close = end > 2
        if end <= 2:
            return start + 1
        self._spans.append(Span("html", start, end, end, end))
        return end

    def _open(self, token: re.Match[str]) -> None:
        if len(self._brackets) == _MAX_DEPTH:
            self._brackets.clear()
            self._links_allowed_from = 0
        self._brackets.append((token.start(), token[0] == "!["))

    def _close(self, bracket: int) -> int:
        after = bracket + 1
        if not self._brackets:
            return after
        start, is_image = self._brackets.pop()
        depth = len(self._brackets)
        allowed = is_image or depth >= self._links_allowed_from
        self._links_allowed_from = min(self._links_allowed_from, depth)
        shown = start + (2 if is_image else 1)
        tail = self._tail(shown, bracket) if allowed else None
        if tail is None:
            return after
        definition, end = tail
        if not is_image:
            self._links_allowed_from = depth
        kind = "image" if is_image else "link"
        self._spans.append(Span(kind, start, end, shown, bracket, *definition))
        return end

    def _tail(self, shown: int, bracket: int) -> tuple[Definition, int] | None:
        """What follows the text of a link: `(target "title")`, `[label]`, `[]` or nothing."""
        after = bracket + 1
        if self._text.startswith("(", after, self._end) and (tail := self._parenthesis(after + 1)):
            return tail
        if not self._definitions:
            return None
        end = after
        label = re.compile(_LABEL).match(self._text, after, self._end)
        if label:
            end = label.end()
        name = label[1] if label and label[1].strip() else self._own_label(shown, bracket)
        found = self._definitions.get(label_key(name))
        return (found, end) if found else None

    def _own_label(self, shown: int, bracket: int) -> str:
        label = re.compile(_LABEL).fullmatch(self._text, shown - 1, bracket + 1)
        return label[1] if label else ""

    def _parenthesis(self, position: int) -> tuple[Definition, int] | None:
        text, end = self._text, self._end
        read = read_target(text, skip_space(text, position, end), end)
        if read is None:
            return None
        target, position = read
        title = ""
        following = skip_space(text, position, end)
        if following > position and (titled := read_title(text, following, end)):
            title, following = titled
            following = skip_space(text, following, end)
        if not text.startswith(")", following, end):
            return None
        return Definition(target, title), following + 1
