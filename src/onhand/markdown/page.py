"""Split a Markdown page into sections, and find its headings, its verbatim blocks and the text of a heading.

Offsets point into `Outline.text`: the page with `\\n` line ends, without its byte order mark, and with one `\\n` in
front, so that every line, including the first, begins after a newline. The number of newlines before an offset is then
its line number in the file.

It follows CommonMark where a page's outline depends on it. The time is linear in the size of the page, whatever is in
it: each line is looked at once, and every pattern is possessive or of fixed length. Patterns are used only for what few
pages have, because importing `re` and compiling one pattern costs more than reading forty pages. For the same reason
text that may contain a link or a tag is left to `onhand.markdown.links`.
"""

from __future__ import annotations

from onhand.document import Section
from onhand.errors import InputError
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onhand.markdown.links import LinkDefinition

    Range = tuple[int, int]

# Front matter longer than this is not front matter: see front_matter().
FRONT_MATTER_MAX_CHARS = 64 * 1024


class Heading(Record):
    """The place of a heading, and its text as written, without hashes or underline."""

    level: int
    start: int
    end: int
    text: str


class Outline(Record):
    """The outline of a page."""

    text: str
    body: int  # the newline before the first line that is not front matter
    headings: list[Heading]
    verbatim: list[tuple[int, int]]  # whole lines of fenced code, comments and <pre>, in order


def read_outline(text: str) -> Outline:
    """Find the headings and the verbatim lines of a page."""
    text = "\n" + with_plain_newlines(text)
    matter = front_matter(text)
    skipped = matter is not None and matter[1] - matter[0] <= FRONT_MATTER_MAX_CHARS
    scan = _Scan(text, matter[2] if matter and skipped else 0)
    scan.run()
    return Outline(text, scan.body, scan.headings, scan.verbatim)


def with_plain_newlines(text: str) -> str:
    """Remove the byte order mark and turn every line end into a line feed."""
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


_BLANK_THEN_PROSE = r"\n[ \t]*+\n\s*+(?!---[ \t]*+(?:\n|\Z)|[\w\"'][^\n:]*+:(?:[ \t\n]|\Z))"


def opens_front_matter(text: str) -> bool:
    """Return whether a page (with its newline in front) begins as front matter does.

    A horizontal rule at the top of a page looks the same. As in Pandoc, a blank line after it makes it a rule, unless
    a `key:` follows.
    """
    if not _is_line_of(text, "\n---", 0):
        return False
    opened = _line_end(text, 1)
    is_blank_below = not text[opened + 1 : _line_end(text, opened + 1)].strip(" \t")
    if not is_blank_below:
        return True
    import re

    return not re.compile(_BLANK_THEN_PROSE).match(text, opened)


def front_matter(text: str) -> tuple[int, int, int] | None:
    """Return where the content of the front matter starts and ends, and where its closing line ends; or None.

    The caller checks the length: front matter over FRONT_MATTER_MAX_CHARS counts as text of the page, because a page
    that merely begins with a rule must not lose its text.
    """
    if not opens_front_matter(text):
        return None
    start = text.find("\n", 1)
    if start < 0:
        return None
    closing = min((place for mark in ("\n---", "\n...") if (place := _find_line(text, mark, start)) >= 0), default=-1)
    return (start, closing, _line_end(text, closing + 1)) if closing >= 0 else None


def _find_line(text: str, mark: str, start: int) -> int:
    """Return where the next line is that has only this mark, or -1."""
    place = text.find(mark, start)
    while place >= 0 and not _is_line_of(text, mark, place):
        place = text.find(mark, place + 1)
    return place


def _is_line_of(text: str, mark: str, place: int) -> bool:
    """Return whether the line at this newline has only this mark and optional space after it."""
    end = place + len(mark)
    return text.startswith(mark, place) and not text[end : _line_end(text, end)].strip(" \t")


_NOT_PROSE = frozenset(" \t>-+*#=<`~0123456789")  # first characters; most lines are prose and begin differently
_LEAVES = frozenset("#=-<")  # begin or end a block outside lists and quotes, apart from a fence
_VERBATIM_TAGS = ("pre", "script", "style", "textarea")
_TAG_CLOSES = r"(?i:</(?:pre|script|style|textarea)>)"

_RULE = r" {0,3}+(?:(?:-[ \t]*+){3,}+|(?:\*[ \t]*+){3,}+|(?:_[ \t]*+){3,}+)\Z"
# Not part of a paragraph unless one has begun: indented code, definitions of links.
_BEFORE_PARAGRAPH = r" {4}| {0,3}+\t| {0,3}+\[[^\]]++\]:"
# A line under one of these is not an underline unless it is inside the same container. A table is one too.
_CONTAINER = r"[ \t]*+(?:[>|]|[-+*](?:[ \t]|\Z)|[0-9]{1,9}+[.)](?:[ \t]|\Z))"
_DEEP_LINE = r"\n((?: {4}| {0,3}+\t)[ \t]*+)(?=[^ \t\n])"


class _Scan:
    """One pass from mark to mark down a page."""

    def __init__(self, text: str, body: int) -> None:
        self.text = text
        self.body = body
        self.headings: list[Heading] = []
        self.verbatim: list[tuple[int, int]] = []
        self._floor = body  # the end of the last mark: a paragraph begins below it
        self._contained = -1  # the end of the last line that is known to be in a list, a quote or a table
        self._lists = _ListItems(text, body)

    def run(self) -> None:
        text = self.text
        newline = self.body
        while newline >= 0:
            start = end = newline + 1
            if text[start : start + 1] in _NOT_PROSE:
                end = self._read_block(text[start : _line_end(text, start)], start)
            newline = text.find("\n", end)

    def _read_block(self, line: str, at: int) -> int:
        """Handle the block that the line at an offset begins, and return the offset at which it ends."""
        if line[0] == "#":
            return self._read_hashes(line, at, at + len(line))
        if "```" in line or "~~~" in line:
            fence = self._read_fence(line, at)
            if fence != at:
                return fence
        bare = line.lstrip(" ")
        sign = bare[:1]
        if sign in _LEAVES and len(line) - len(bare) <= 3:
            if sign == "#":
                return self._read_hashes(bare, at, at + len(line))
            if sign == "<":
                return self._read_html(bare[1:], at)
            if not bare.rstrip(" \t").strip(sign):
                return self._read_underline(sign, line, at)
        return at

    def _read_hashes(self, bare: str, start: int, end: int) -> int:
        title = bare.lstrip("#")
        level = len(bare) - len(title)
        if level <= 6 and title[:1] in ("", " ", "\t"):
            title = title.lstrip(" \t")
            self.headings.append(Heading(level, start, end, _without_closing_hashes(title) if "#" in title else title))
            self._floor = end
        return end

    def _read_underline(self, sign: str, line: str, at: int) -> int:
        end = at + len(line)
        start = self._paragraph_above(line, at)
        if start is not None:
            self.headings.append(Heading(1 if sign == "=" else 2, start, end, self.text[start : at - 1]))
        is_rule = line.lstrip(" ").startswith("---")
        if start is not None or is_rule:  # what follows is another block
            self._floor = end
            self._contained = -1
        return end

    def _paragraph_above(self, line: str, at: int) -> int | None:
        """Return where the paragraph that this line underlines begins, or None."""
        bottom = top = at - 1
        while top > self._floor and top != self._contained:
            newline = self.text.rfind("\n", self._floor, top)
            if not self.text[newline + 1 : top].strip(" \t"):
                break
            top = newline
        if top == bottom:
            return None
        import re

        start = None
        contained = top == self._contained
        place = top + 1
        for above in self.text[place:bottom].split("\n"):
            if re.compile(_RULE).match(above):
                start, contained = None, False
            elif re.compile(_CONTAINER).match(above):
                contained = True
            elif start is None and not re.compile(_BEFORE_PARAGRAPH).match(above):
                start = place
            place += len(above) + 1
        if contained:
            self._contained = at + len(line)
            return None
        return start if start is None or self._same_list(start, line) else None

    def _same_list(self, start: int, underline: str) -> bool:
        """Return whether paragraph and underline are in the same list item, or both in none."""
        return self.text[start] != " " or _width(underline) >= self._lists.indent_around(start)

    def _read_fence(self, line: str, at: int) -> int:
        prefix, fence = _split_fence(line)
        if not fence:
            return at
        width = _width(prefix)
        if width > 3 and width - self._lists.indent_around(at) > 3:
            return at  # indented code that shows a fence
        below = at + len(line)
        if width > 3 or prefix.strip(" "):
            return self._take_verbatim(at, self._end_of_nested(fence, below, ">" in prefix))
        return self._take_verbatim(at, self._end_of_plain(fence, below))

    def _end_of_plain(self, fence: str, below: int) -> int:
        text = self.text
        place = text.find(fence, below)
        while place >= 0:
            start, end = text.rfind("\n", 0, place) + 1, _line_end(text, place)
            if text[start:place] in ("", " ", "  ", "   ") and not text[place:end].rstrip(" \t").strip(fence[0]):
                return end
            place = text.find(fence, end)
        return len(text)

    def _end_of_nested(self, fence: str, below: int, is_quoted: bool) -> int:
        """Return where a fence in a list item or a quote ends, at the latest with that item or quote."""
        text = self.text
        while below < len(text):
            end = _line_end(text, below + 1)
            line = text[below + 1 : end]
            inside = line
            if is_quoted:
                inside = line.lstrip(" ")
                if not inside.startswith(">") or len(line) - len(inside) > 3:
                    return below
                inside = inside.lstrip(" \t>")
            run = inside.strip(" \t")
            if run.startswith(fence) and not run.strip(fence[0]):
                return end
            if not is_quoted and line[:1] not in ("", " ", "\t") and not _is_fence(run):
                return below
            below = end
        return len(text)

    def _read_html(self, inside: str, at: int) -> int:
        """Read a comment, or an element whose text is not Markdown; `inside` is what follows the `<`."""
        place = self.text.find("<", at) + 1
        if inside.startswith("!--"):
            end = self.text.find("-->", place + 1)
        elif any(_begins_with_tag(inside, tag) for tag in _VERBATIM_TAGS):
            import re

            closing = re.compile(_TAG_CLOSES).search(self.text, place)
            end = closing.start() if closing else -1
        else:
            return at
        end = self.text.find("\n", end) if end >= 0 else -1
        return self._take_verbatim(at, end if end >= 0 else len(self.text))

    def _take_verbatim(self, start: int, end: int) -> int:
        self.verbatim.append((start, end))
        self._floor = end
        return end


class _ListItems:
    """The list item that an indented line belongs to. Lines must be passed from top to bottom."""

    def __init__(self, text: str, body: int) -> None:
        self._text = text
        # The last line passed, and its result. Lines above it are not read again, so that all calls together read
        # the page once.
        self._last = (body, 0)

    def indent_around(self, start: int) -> int:
        """Return how far the text of the list item around the line at `start` is indented; 0 outside lists."""
        text = self._text
        indent = _width(text[start : _line_end(text, start)])
        last, found = self._last
        bottom = start - 1
        while bottom > last:
            above = text.rfind("\n", 0, bottom)
            line = text[above + 1 : bottom]
            bottom = above
            if not line.strip(" \t") or (width := _width(line)) >= indent:
                continue
            content = _content_width(line)
            if content and content <= indent:
                found = content
                break
            if width == 0:
                found = 0
                break
            indent = width
        self._last = (start, found)
        return found


def indented_code(page: Outline) -> list[tuple[int, int]]:
    """Return the lines that are code because they are indented by four, or by four more than their list item."""
    import re

    lists = _ListItems(page.text, page.body)
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
    """Return by how many columns a line is indented."""
    space = line[: len(line) - len(line.lstrip(" \t"))]
    return len(space.expandtabs(4))


def _content_width(line: str) -> int:
    """Return the column at which the text of a list item begins, or 0; code in it begins one space after the marker."""
    place = _skip_space(line, 0)
    marker = _marker_chars(line, place)
    if not marker:
        return 0
    space = len(line[place + marker : _skip_space(line, place + marker)].expandtabs(4))
    return _width(line) + marker + (space if 1 <= space <= 4 else 1)


def _skip_space(line: str, place: int) -> int:
    while line[place : place + 1] in (" ", "\t"):
        place += 1
    return place


def _marker_chars(line: str, place: int) -> int:
    """Return how many characters from `place` on are the marker of a list item; 0 without one."""
    head = line[place : place + 11]  # nine digits, a sign and the character after it
    digits = len(head) - len(head.lstrip("0123456789"))
    sign, after = head[digits : digits + 1], head[digits + 1 : digits + 2]
    is_marker = sign in (".", ")") if 1 <= digits <= 9 else not digits and sign in ("-", "+", "*")
    return digits + 1 if is_marker and after in ("", " ", "\t") else 0


def _split_fence(line: str) -> tuple[str, str]:
    """Return the text before the fence that a line opens (space, quotes, list markers), and the fence or ""."""
    place = len(line) - len(line.lstrip(" \t>"))
    while marker := _marker_chars(line, place):
        place = _skip_space(line, place + marker)
    info = line[place:].lstrip(line[place : place + 1])
    fence = line[place : len(line) - len(info)]
    is_opening = _is_fence(fence) and not (fence[0] == "`" and "`" in info)
    return line[:place], fence if is_opening else ""


def _is_fence(run: str) -> bool:
    return len(run) >= 3 and run[0] in "`~" and not run.strip(run[0])


def _begins_with_tag(inside: str, tag: str) -> bool:
    after = inside[len(tag) : len(tag) + 1]
    return inside[: len(tag)].lower() == tag and (not after.strip() or after == ">")


_SIGNS = frozenset("\\`*_~[<")  # a text without any of these is already plain
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_NO_DEFINITIONS: Mapping[str, LinkDefinition] = {}


def plain(text: str, definitions: Mapping[str, LinkDefinition] = _NO_DEFINITIONS) -> str:
    """Return the text as a reader sees it, on one line.

    Entities stay as written, because they must not turn into markup.
    """
    if not _SIGNS.isdisjoint(text):
        text = _remove(text, sorted(_find_markup(text, definitions)))
    return " ".join(text.split())


def _remove(text: str, ranges: list[Range]) -> str:
    pieces, position = [], 0
    for start, end in ranges:
        if start > position:
            pieces.append(text[position:start])
        position = max(position, end)
    pieces.append(text[position:])
    return "".join(pieces)


def _find_markup(text: str, definitions: Mapping[str, LinkDefinition]) -> list[Range]:
    """Return the ranges of a text that are only for the renderer."""
    hidden, opaque = _find_spans(text, definitions)
    delimiters = []
    upcoming = iter(sorted(opaque))
    inside = next(upcoming, None)
    for start, end in _find_delimiters(text):
        while inside and inside[1] <= start:
            inside = next(upcoming, None)
        if inside and inside[0] <= start:
            continue
        if text[start] == "\\":
            hidden.append((start, start + 1))
        else:
            delimiters.append((start, end))
    return hidden + _pair_emphasis(text, delimiters)


def _find_spans(text: str, definitions: Mapping[str, LinkDefinition]) -> tuple[list[Range], list[Range]]:
    """Return what of code, links and tags only the renderer needs, and where a star or a backslash is literal."""
    pieces = text.split("`")
    around = " ".join(pieces[::2])
    if "``" not in text and len(pieces) % 2 and not _may_be_more_than_code(around, len(pieces) > 1, definitions):
        signs = [place for place, sign in enumerate(text) if sign == "`"]
        code = list(zip(signs[::2], signs[1::2], strict=True))
        return [(place, place + 1) for place in signs], [(start, end + 1) for start, end in code]
    from onhand.markdown.links import read_spans

    hidden: list[Range] = []
    opaque: list[Range] = []
    for span in read_spans(text, 0, len(text), definitions):
        hidden += (span.start, span.shown_start), (span.shown_end, span.end)
        opaque.append((span.shown_end, span.end) if span.kind in ("link", "image") else (span.start, span.end))
    return hidden, opaque


def _may_be_more_than_code(around: str, has_code: bool, definitions: Mapping[str, LinkDefinition]) -> bool:
    """Return whether there may be a link, a tag or an escaped backtick around the code of a text."""
    return "<" in around or "](" in around or ("[" in around and bool(definitions)) or ("\\" in around and has_code)


def _find_delimiters(text: str) -> Iterator[Range]:
    """Yield where a character is escaped, and where a run of signs may begin or end emphasis."""
    end = 0
    for start, sign in enumerate(text):
        if start < end or sign not in "\\*_~":
            continue
        if sign == "\\":
            end = start + 2 if text[start + 1 : start + 2] in _ASCII_PUNCTUATION else start
        elif sign == "~":
            end = start + 2 if text.startswith("~~", start) else start
        else:
            end = start + 1
            while text.startswith(sign, end):
                end += 1
        if end > start:
            yield start, end


def _pair_emphasis(text: str, delimiters: list[Range]) -> list[Range]:
    """Pair the delimiters that open and close emphasis; `snake_case` and `2 * 3` have none."""
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


INTRO = "(intro)"

_MAX_INDENTATION = 1000  # characters; skipping longer ones again for every part would take quadratic time
_SENTENCE_ENDS = (". ", "! ", "? ", "。", "！", "？", "｡", "। ", "؟ ")

_JOINER = "\u200d"  # joins the parts of one emoji
# The most marks on one letter that Unicode's stream-safe format allows; longer runs are cut anyway.
_MAX_MARKS = 30
# A heading's name is part of every section under it, so a longer one would make a page cost the square of its size.
# The section's text has the whole heading.
MAX_HEADING_CHARS = 200


class SectionPart(Record):
    """The place of a section, or of a part of one that is too long, in the text of an outline."""

    heading_path: tuple[str, ...]  # as in Section
    start: int
    end: int
    has_heading: bool  # whether it begins with the heading line of the section


def split_sections(text: str, *, max_chars: int = 4000) -> list[Section]:
    """Split a page into its sections in file order; none is longer than `max_chars`.

    Line numbers are those of the file. Front matter and blank lines around a section are left out. A section that is
    too long is split between paragraphs if possible, else between lines, between sentences or between words. No text is
    lost, and a code fence is only cut when it alone is too long.
    """
    page = read_outline(text)
    source = page.text
    sections: list[Section] = []
    counted = line = 0
    for path, start, end, _ in split_outline(page, max_chars):
        first_line = line + source.count("\n", counted, start)
        line = first_line + source.count("\n", start, end)
        counted = end
        sections.append(Section(path[-1], path, source[start:end], first_line, line))
    return sections


def split_outline(page: Outline, max_chars: int) -> Iterator[SectionPart]:
    """Yield the sections of a page, as `split_sections` does, by their places."""
    if max_chars < 1:
        raise InputError(f"max_chars is {max_chars}: pass a number of at least 1")
    path: tuple[str, ...] = (INTRO,)
    levels: list[int] = []
    start = title_end = page.body + 1
    for heading in (*page.headings, Heading(0, len(page.text), 0, "")):
        is_first = bool(levels)
        for first, last in _split_range(page, start, heading.start, title_end, max_chars):
            yield SectionPart(path, first, last, is_first)
            is_first = False
        level, start, title_end, title = heading
        while levels and levels[-1] >= level:
            levels.pop()
        path = (*path[: len(levels)], _shorten_heading(title))
        levels.append(level)


def _shorten_heading(heading: str) -> str:
    if len(heading) <= MAX_HEADING_CHARS:
        return plain(heading)
    name = plain(heading[: 10 * MAX_HEADING_CHARS])  # markup such as the target of a link may be long
    if len(name) <= MAX_HEADING_CHARS:
        return name
    return name[: _character_start(name, 0, MAX_HEADING_CHARS - 1)] + "…"


def _split_range(page: Outline, start: int, end: int, title_end: int, max_chars: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range, each without blank lines around it; none if the range is blank."""
    text = page.text
    end = _visible_end(text, start, end)
    start = _visible_start(text, start, end)
    title_end = _visible_start(text, title_end, end) if title_end > start else start
    while end - start > max_chars:
        cut = _find_cut(page, start, max(start, title_end), start + max_chars)
        last = _visible_end(text, start, cut)
        if last > start:
            yield start, last
        start = _visible_start(text, cut, end)
        title_end = start
    if end > start and _visible_end(text, start, end) > start:
        yield start, end


def _visible_start(text: str, start: int, end: int) -> int:
    """Skip blank lines, keeping the indentation of the line after them unless it is huge."""
    first = start
    while first < end and text[first].isspace():
        first += 1
    line = max(start, text.rfind("\n", start, first) + 1)
    return line if first - line <= _MAX_INDENTATION else first


def _visible_end(text: str, start: int, end: int) -> int:
    """Return the end of the last line that is not blank."""
    stretch = text[start:end].rstrip()
    if not stretch:
        return start
    newline = text.find("\n", start + len(stretch), end)
    return newline if newline >= 0 else end


def _find_cut(page: Outline, start: int, floor: int, limit: int) -> int:
    """Return where to end a part that may reach to `limit`: above `floor` only if there is no other place.

    The floor is the end of the heading and the blank lines below it. A heading should not be left on its own.
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
    middle = max(start, limit - (limit - start) // 2)
    sentence = max(text.rfind(mark, middle, limit) + len(mark) for mark in _SENTENCE_ENDS)
    if sentence > middle:
        return sentence
    space = text.rfind(" ", middle, limit)
    return space + 1 if space >= 0 else _character_start(text, start, limit)


def _above_blank_lines(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the newlines that are followed by a blank line."""
    above, was_blank = text.find("\n", start, end), False
    while above >= 0:
        below = text.find("\n", above + 1, end)
        is_blank = below >= 0 and not text[above + 1 : below].strip(" \t")
        if is_blank and not was_blank:
            yield above
        above, was_blank = below, is_blank


def _verbatim_around(page: Outline, position: int) -> tuple[int, int] | None:
    """Return the verbatim lines that a cut at this newline would split."""
    from _bisect import bisect_right  # `bisect` without its Python part, which costs more to import

    index = bisect_right(page.verbatim, (position, len(page.text))) - 1
    if index >= 0 and page.verbatim[index][0] <= position < page.verbatim[index][1]:
        return page.verbatim[index]
    return None


def _character_start(text: str, start: int, limit: int) -> int:
    """Step back to the start of a letter with its marks, or of a joined emoji."""
    from unicodedata import category

    for cut in range(limit, max(start, limit - _MAX_MARKS), -1):
        if category(text[cut])[0] != "M" and _JOINER not in text[cut - 1 : cut + 1]:
            return cut
    return limit
