"""Where are the headings of a page, and where is what must be taken as it stands (code, comments)?

Offsets point into `Page.text`: the page with `\\n` line ends, without its byte order mark, and with one
`\\n` put in front, so that every line, the first one too, begins after a newline. The number of newlines
before an offset is then its line number in the file.

It follows CommonMark where a page's outline depends on it, and knows nothing of what stands inside a line.
Every pattern here is possessive or of fixed length: the time is linear in the size of the page, whatever is
in it.
"""

import re
from collections.abc import Callable

from onhand.record import Record

# A front matter longer than this is not one: see front_matter().
FRONT_MATTER_MAX_CHARS = 64 * 1024


class Heading(Record):
    """A heading's place, and its text as written, without hashes or underline."""

    level: int
    start: int
    end: int
    text: str


class Page(Record):
    """A page's outline."""

    text: str
    body: int  # the newline before the first line that is not front matter
    headings: list[Heading]
    verbatim: list[tuple[int, int]]  # whole lines of fenced code, comments and <pre>, in order


def read_page(text: str) -> Page:
    """Find the headings and the verbatim lines of a page."""
    text = "\n" + with_plain_newlines(text)
    matter = front_matter(text)
    skipped = matter is not None and matter[1] - matter[0] <= FRONT_MATTER_MAX_CHARS
    scan = _Scan(text, matter[2] if matter and skipped else 0)
    scan.run()
    return Page(text, scan.body, scan.headings, scan.verbatim)


def with_plain_newlines(text: str) -> str:
    """Drop the byte order mark and let every line end with a line feed."""
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


# Most pages need few of the patterns below, and to compile one costs more than to read a page. So they are texts here;
# `re.compile` remembers what it has compiled.
_BLANK_THEN_PROSE = r"\n[ \t]*+\n\s*+(?!---[ \t]*+(?:\n|\Z)|[\w\"'][^\n:]*+:(?:[ \t\n]|\Z))"


def opens_front_matter(text: str) -> bool:
    """Whether a page (with its newline in front) begins as front matter does.

    A rule at the top of a page looks the same. As in Pandoc it is told apart by the blank line after it,
    unless a `key:` follows.
    """
    if not _is_line_of(text, "\n---", 0):
        return False
    opened = _line_end(text, 1)
    is_blank_below = not text[opened + 1 : _line_end(text, opened + 1)].strip(" \t")
    return not is_blank_below or not re.compile(_BLANK_THEN_PROSE).match(text, opened)


def front_matter(text: str) -> tuple[int, int, int] | None:
    """Where the front matter's content starts and ends, and where its closing line ends; None without one.

    Its length is for the caller to judge: what is over FRONT_MATTER_MAX_CHARS counts as text of the page,
    because a page that merely begins with a rule must not lose what it says.
    """
    if not opens_front_matter(text):
        return None
    start = text.find("\n", 1)
    if start < 0:
        return None
    closing = min((place for mark in ("\n---", "\n...") if (place := _line_of(text, mark, start)) >= 0), default=-1)
    return (start, closing, _line_end(text, closing + 1)) if closing >= 0 else None


def _line_of(text: str, mark: str, start: int) -> int:
    """Where the next line is that has only this mark; -1 where there is none."""
    place = text.find(mark, start)
    while place >= 0 and not _is_line_of(text, mark, place):
        place = text.find(mark, place + 1)
    return place


def _is_line_of(text: str, mark: str, place: int) -> bool:
    """Whether the line at this newline has only this mark, and perhaps space behind it."""
    end = place + len(mark)
    return text.startswith(mark, place) and not text[end : _line_end(text, end)].strip(" \t")


# Every line that can begin or end something; the look-ahead turns ordinary lines away at their first letter.
_MARK = re.compile(
    r"""\n(?=[ \t>]*+[-+*\#=<`~0-9])(?:
      [ ]{0,3}+(?:
        (?P<hashes>\#{1,6}+)(?:[ \t]++(?P<title>[^\n]*+))?+(?=\n|\Z)
      | (?P<underline>=++|-++)[ \t]*+(?=\n|\Z)
      | <(?P<html>!--|(?:pre|script|style|textarea)(?=[\s>]|\Z))
      )
    | (?P<prefix>[ \t>]*+(?:(?:[-+*]|[0-9]{1,9}+[.)])[ \t]++)*+)(?P<fence>`{3,}+(?=[^`\n]*+(?:\n|\Z))|~{3,}+)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_PLAIN_CLOSES = r"\n {0,3}+(`{3,}+|~{3,}+)[ \t]*+(?=\n|\Z)"
# A fence in a list item or a quote also ends where that ends.
_NESTED_CLOSES = r"\n(?:[ \t]*+(`{3,}+|~{3,}+)[ \t]*+(?=\n|\Z)|(?=[^ \t\n]))"
_QUOTED_CLOSES = r"\n(?: {0,3}+>[ \t>]*+(`{3,}+|~{3,}+)[ \t]*+(?=\n|\Z)|(?! {0,3}+>))"
_TAG_CLOSES = r"(?i:</(?:pre|script|style|textarea)>)"

_RULE = r" {0,3}+(?:(?:-[ \t]*+){3,}+|(?:\*[ \t]*+){3,}+|(?:_[ \t]*+){3,}+)\Z"
# Not part of a paragraph unless one has begun: indented code, definitions of links.
_BEFORE_PARAGRAPH = r" {4}| {0,3}+\t| {0,3}+\[[^\]]++\]:"
# A line under one of these cannot be an underline: it would have to stand inside. A table is one too.
_CONTAINER = r"[ \t]*+(?:[>|]|[-+*](?:[ \t]|\Z)|[0-9]{1,9}+[.)](?:[ \t]|\Z))"
_ITEM = r"([ \t]*+)([-+*]|[0-9]{1,9}+[.)])([ \t]++|\Z)"
_DEEP_LINE = r"\n((?: {4}| {0,3}+\t)[ \t]*+)(?=[^ \t\n])"


class _Scan:
    """One walk from mark to mark down a page."""

    def __init__(self, text: str, body: int) -> None:
        self.text = text
        self.body = body
        self.headings: list[Heading] = []
        self.verbatim: list[tuple[int, int]] = []
        self._floor = body  # the end of the last mark: a paragraph begins below it
        self._contained = -1  # the end of the last line known to stand in a list, a quote or a table
        self._lists = _Lists(text, body)

    def run(self) -> None:
        position = self.body
        steps: dict[str | None, Callable[[re.Match[str]], int]] = {
            "hashes": self._hashes,
            "title": self._hashes,
            "underline": self._underline,
            "fence": self._fence,
            "html": self._html,
        }
        while mark := _MARK.search(self.text, position):
            position = steps[mark.lastgroup](mark)

    def _hashes(self, mark: re.Match[str]) -> int:
        hashes, title = mark.group("hashes", "title")
        start, end = mark.span()
        if title and "#" in title:
            title = _without_closing_hashes(title)
        self.headings.append(Heading(len(hashes), start + 1, end, title or ""))
        self._floor = end
        return end

    def _underline(self, mark: re.Match[str]) -> int:
        run = mark["underline"]
        start = self._paragraph_above(mark)
        if start is not None:
            level = 1 if run[0] == "=" else 2
            self.headings.append(Heading(level, start, mark.end(), self.text[start : mark.start()]))
        if start is not None or run.startswith("---"):  # a heading or a rule: what follows is another block
            self._floor = mark.end()
            self._contained = -1
        return mark.end()

    def _paragraph_above(self, mark: re.Match[str]) -> int | None:
        """Where the paragraph begins that this line underlines; None when it underlines none."""
        top = mark.start()
        while top > self._floor and top != self._contained:
            above = self.text.rfind("\n", self._floor, top)
            if not self.text[above + 1 : top].strip(" \t"):
                break
            top = above
        if top == mark.start():
            return None
        start = None
        contained = top == self._contained
        at = top + 1
        for line in self.text[at : mark.start()].split("\n"):
            if re.compile(_RULE).match(line):
                start, contained = None, False
            elif re.compile(_CONTAINER).match(line):
                contained = True
            elif start is None and not re.compile(_BEFORE_PARAGRAPH).match(line):
                start = at
            at += len(line) + 1
        if contained:
            self._contained = mark.end()
            return None
        return start if start is None or self._same_list(start, mark) else None

    def _same_list(self, start: int, mark: re.Match[str]) -> bool:
        """Whether paragraph and underline stand in the same list item, or in none."""
        if self.text[start] != " ":
            return True
        return _width(mark[0][1:]) >= self._lists.indent_around(start)

    def _fence(self, mark: re.Match[str]) -> int:
        prefix, fence = mark.group("prefix", "fence")
        start, opened = mark.start() + 1, mark.end()
        closes = _PLAIN_CLOSES
        if prefix:
            width = _width(prefix)
            if width > 3 and width - self._lists.indent_around(start) > 3:
                return opened  # indented code that shows a fence
            if ">" in prefix:
                closes = _QUOTED_CLOSES
            elif width > 3 or prefix.strip(" "):
                closes = _NESTED_CLOSES
        while close := re.compile(closes).search(self.text, opened):
            if close[1] is None:  # the list item or the quote has ended
                return self._take_verbatim(start, close.start())
            opened = close.end()
            if close[1].startswith(fence):
                return self._take_verbatim(start, opened)
        return self._take_verbatim(start, len(self.text))

    def _html(self, mark: re.Match[str]) -> int:
        if mark["html"] == "!--":
            end = self.text.find("-->", mark.end() - 2)
        else:
            closing = re.compile(_TAG_CLOSES).search(self.text, mark.end())
            end = closing.start() if closing else -1
        end = self.text.find("\n", end) if end >= 0 else -1
        return self._take_verbatim(mark.start() + 1, end if end >= 0 else len(self.text))

    def _take_verbatim(self, start: int, end: int) -> int:
        self.verbatim.append((start, end))
        self._floor = end
        return end


class _Lists:
    """Which list item does an indented line belong to? Ask for lines from the top of the page to its end."""

    def __init__(self, text: str, body: int) -> None:
        self._text = text
        # The last line asked for, and the answer. What lies above it is never looked at again, so that all
        # questions together read the page once.
        self._asked = (body, 0)

    def indent_around(self, start: int) -> int:
        """How far the text of the list item around the line at `start` is indented; 0 outside of lists."""
        text = self._text
        indent = _width(text[start : _line_end(text, start)])
        asked, found = self._asked
        bottom = start - 1
        while bottom > asked:
            above = text.rfind("\n", 0, bottom)
            line = text[above + 1 : bottom]
            bottom = above
            if not line.strip(" \t") or (width := _width(line)) >= indent:
                continue
            item = re.compile(_ITEM).match(line)
            content = _content_width(item) if item else 0
            if item and content <= indent:
                found = content
                break
            if width == 0:
                found = 0
                break
            indent = width
        self._asked = (start, found)
        return found


def indented_code(page: Page) -> list[tuple[int, int]]:
    """The lines that are code because they are indented by four, or by four more than their list item."""
    lists = _Lists(page.text, page.body)
    ends = {page.body, *(heading.end for heading in page.headings), *(end for _, end in page.verbatim)}
    code: list[tuple[int, int]] = []
    upcoming = iter(page.verbatim)
    region = next(upcoming, None)
    for match in re.compile(_DEEP_LINE).finditer(page.text, page.body):
        start, end = match.start() + 1, _line_end(page.text, match.end())
        while region and region[1] < start:
            region = next(upcoming, None)
        if region and region[0] <= start:
            continue
        if code and code[-1][1] == match.start():
            code[-1] = (code[-1][0], end)
        elif (match.start() in ends or _blank_above(page.text, match.start())) and (
            _width(match[1]) >= lists.indent_around(start) + 4
        ):
            code.append((start, end))
    return code


def _without_closing_hashes(title: str) -> str:
    title = title.rstrip(" \t")
    unclosed = title.rstrip("#")
    return unclosed if not unclosed or unclosed[-1] in " \t" else title


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return end if end >= 0 else len(text)


def _blank_above(text: str, newline: int) -> bool:
    return not text[text.rfind("\n", 0, newline) + 1 : newline].strip(" \t")


def _width(line: str) -> int:
    """How many columns a line is indented."""
    space = line[: len(line) - len(line.lstrip(" \t"))]
    return len(space.expandtabs(4))


def _content_width(item: re.Match[str]) -> int:
    """The column at which a list item's text begins; code after the marker begins one space behind it."""
    marker = len(item[1].expandtabs(4)) + len(item[2])
    space = len(item[3].expandtabs(4))
    return marker + (space if 1 <= space <= 4 else 1)
