"""Where are the headings of a page, and where is what must be taken as it stands (code, comments)?

Offsets point into `Page.text`: the page with `\\n` line ends, without its byte order mark, and with one
`\\n` put in front, so that every line, the first one too, begins after a newline. The number of newlines
before an offset is then its line number in the file.

It follows CommonMark where a page's outline depends on it, and knows nothing of what stands inside a line.
The time is linear in the size of the page, whatever is in it: a line is looked at once, and every pattern is
possessive or of fixed length. Patterns are for what few pages have; to load `re` and compile one costs more
than to read forty pages.
"""

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
    if not is_blank_below:
        return True
    import re

    return not re.compile(_BLANK_THEN_PROSE).match(text, opened)


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


_NOT_PROSE = frozenset(" \t>-+*#=<`~0123456789")  # first characters; most lines are prose, and begin otherwise
_LEAVES = frozenset("#=-<")  # what begins or ends a block in no list and no quote, other than a fence
_VERBATIM_TAGS = ("pre", "script", "style", "textarea")
_TAG_CLOSES = r"(?i:</(?:pre|script|style|textarea)>)"

_RULE = r" {0,3}+(?:(?:-[ \t]*+){3,}+|(?:\*[ \t]*+){3,}+|(?:_[ \t]*+){3,}+)\Z"
# Not part of a paragraph unless one has begun: indented code, definitions of links.
_BEFORE_PARAGRAPH = r" {4}| {0,3}+\t| {0,3}+\[[^\]]++\]:"
# A line under one of these cannot be an underline: it would have to stand inside. A table is one too.
_CONTAINER = r"[ \t]*+(?:[>|]|[-+*](?:[ \t]|\Z)|[0-9]{1,9}+[.)](?:[ \t]|\Z))"
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
        text = self.text
        newline = self.body
        while newline >= 0:
            start = end = newline + 1
            if text[start : start + 1] in _NOT_PROSE:
                end = self._mark(text[start : _line_end(text, start)], start)
            newline = text.find("\n", end)

    def _mark(self, line: str, at: int) -> int:
        """Take the line at an offset for what it is, and give the offset up to which that reaches."""
        if line[0] == "#":
            return self._hashes(line, at, at + len(line))
        if "```" in line or "~~~" in line:
            fence = self._fence(line, at)
            if fence != at:
                return fence
        bare = line.lstrip(" ")
        sign = bare[:1]
        if sign in _LEAVES and len(line) - len(bare) <= 3:
            if sign == "#":
                return self._hashes(bare, at, at + len(line))
            if sign == "<":
                return self._html(bare[1:], at)
            if not bare.rstrip(" \t").strip(sign):
                return self._underline(sign, line, at)
        return at

    def _hashes(self, bare: str, start: int, end: int) -> int:
        title = bare.lstrip("#")
        level = len(bare) - len(title)
        if level <= 6 and title[:1] in ("", " ", "\t"):
            title = title.lstrip(" \t")
            self.headings.append(Heading(level, start, end, _without_closing_hashes(title) if "#" in title else title))
            self._floor = end
        return end

    def _underline(self, sign: str, line: str, at: int) -> int:
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
        """Where the paragraph begins that this line underlines; None when it underlines none."""
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
        """Whether paragraph and underline stand in the same list item, or in none."""
        return self.text[start] != " " or _width(underline) >= self._lists.indent_around(start)

    def _fence(self, line: str, at: int) -> int:
        prefix, fence = _fence_of(line)
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
        """A fence in a list item or a quote also ends where that ends."""
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

    def _html(self, inside: str, at: int) -> int:
        """A comment, or an element whose text is not Markdown; `inside` is what stands behind the `<`."""
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
            content = _content_width(line)
            if content and content <= indent:
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
    import re

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


def _content_width(line: str) -> int:
    """The column at which a list item's text begins, 0 without one; code in it begins one space behind the marker."""
    place = _after_space(line, 0)
    marker = _marker_chars(line, place)
    if not marker:
        return 0
    space = len(line[place + marker : _after_space(line, place + marker)].expandtabs(4))
    return _width(line) + marker + (space if 1 <= space <= 4 else 1)


def _after_space(line: str, place: int) -> int:
    while line[place : place + 1] in (" ", "\t"):
        place += 1
    return place


def _marker_chars(line: str, place: int) -> int:
    """How many characters from there on are the marker of a list item; 0 without one."""
    head = line[place : place + 11]  # nine digits, a sign and what follows it
    digits = len(head) - len(head.lstrip("0123456789"))
    sign, behind = head[digits : digits + 1], head[digits + 1 : digits + 2]
    is_marker = sign in (".", ")") if 1 <= digits <= 9 else not digits and sign in ("-", "+", "*")
    return digits + 1 if is_marker and behind in ("", " ", "\t") else 0


def _fence_of(line: str) -> tuple[str, str]:
    """What stands before the fence that a line opens (space, quotes, markers of list items), and the fence or ""."""
    place = len(line) - len(line.lstrip(" \t>"))
    while marker := _marker_chars(line, place):
        place = _after_space(line, place + marker)
    info = line[place:].lstrip(line[place : place + 1])
    fence = line[place : len(line) - len(info)]
    is_opening = _is_fence(fence) and not (fence[0] == "`" and "`" in info)
    return line[:place], fence if is_opening else ""


def _is_fence(run: str) -> bool:
    return len(run) >= 3 and run[0] in "`~" and not run.strip(run[0])


def _begins_with_tag(inside: str, tag: str) -> bool:
    after = inside[len(tag) : len(tag) + 1]
    return inside[: len(tag)].lower() == tag and (not after.strip() or after == ">")
