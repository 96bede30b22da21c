"""Find the links of a Markdown page, with the line of the file on which each begins.

Only links that a reader could follow count: links in code, comments or tags and images are left out (a link around an
image counts). Nothing is opened, resolved or checked here: a path may lead outside the project, so callers that follow
it must confine it. HTML `<a href>` and bare addresses in running text are not read.

`read_spans` reads the inline markup of one block (a heading, a paragraph) and knows nothing of blocks or files. Its
time is linear in the size of the block: every pattern is possessive or of bounded length, and a search that failed is
not repeated.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping

from onhand.errors import InputError
from onhand.markdown.page import Outline, indented_code, plain, read_outline
from onhand.record import Record

MAX_LINKS = 1_000  # of one page that callers follow: each may be looked up before every answer


class Link(Record):
    """One link of a page."""

    text: str  # as the reader sees it
    target: str  # as written, without the angle brackets around it
    path: str  # the target without query and anchor, decoded; "" when it stays on the page
    anchor: str  # what follows the `#`, decoded; "" without one
    title: str
    line: int  # in the file, counted from 1


def extract_links(
    text: str,
    *,
    extensions: Collection[str] | None = None,
    include_external: bool = False,
    pattern: str | re.Pattern[str] | None = None,
) -> list[Link]:
    """Return the links to files in page order or, with `include_external`, all links.

    Links that stay on the page (`#anchor`, an empty target) name no file, so they too need `include_external`.
    `extensions` (".md" or "md", in any case) and `pattern` (found anywhere in it) select by the link's path.
    """
    wanted = None if extensions is None else _normalise_extensions(extensions)
    path_pattern = _compile(pattern)
    links = []
    for link in _read_links(read_outline(text)):
        if not include_external and (not link.path or is_external(link.target)):
            continue
        if wanted is not None and extension(link.path) not in wanted:
            continue
        if path_pattern is None or path_pattern.search(link.path):
            links.append(link)
    return links


def first_links(text: str) -> tuple[list[Link], str | None]:
    """Return the links to files, at most MAX_LINKS, and a problem if there are more."""
    links = extract_links(text)
    if len(links) <= MAX_LINKS:
        return links, None
    return links[:MAX_LINKS], f"{len(links):,} links: only the first {MAX_LINKS:,} are followed; split the file"


# A single letter before the colon is a drive of Windows.
_EXTERNAL = r"\s*+(?:[A-Za-z][A-Za-z0-9+.\-]++:|[/\\]{2})"


def is_external(target: str) -> bool:
    """Return whether a target is not a path: it has a scheme (`https:`, `mailto:`, `file:`), `//host` or `\\\\host`."""
    return re.match(_EXTERNAL, target) is not None


def extension(path: str) -> str:
    """Return the extension with its dot in lower case, or "" if there is none, as for `.env`."""
    name = re.split(r"[/\\]", path)[-1].lstrip(".")
    dot = name.rfind(".")
    return name[dot:].lower() if 0 < dot < len(name) - 1 else ""


def _normalise_extensions(extensions: Collection[str]) -> set[str]:
    names = [extensions] if isinstance(extensions, str) else extensions
    return {"." + name.removeprefix(".").lower() if name else "" for name in names}


def _compile(pattern: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    if not isinstance(pattern, str):
        return pattern
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InputError(f"the pattern {pattern!r} is not a regular expression ({error}): correct it") from None


def _read_links(page: Outline) -> Iterator[Link]:
    chunks = list(_split_into_chunks(page))
    definitions: dict[str, LinkDefinition] = {}
    for index, (start, end) in enumerate(chunks):
        chunks[index] = (_take_definitions(page.text, start, end, definitions), end)
    line, counted = 0, 0
    for start, end in chunks:
        for span in _followable_links(read_spans(page.text, start, end, definitions)):
            line += page.text.count("\n", counted, span.start)
            counted = span.start
            text = re.sub(_QUOTE_MARKS, "\n", page.text[span.shown_start : span.shown_end])
            yield _make_link(text if span.kind == "autolink" else plain(text, definitions), span, line)


# The lines that begin a new paragraph, list item, table row or heading, also in quotes.
_BREAK = r"\n(?=[ \t>]*+(?:\n|\Z|\||[-+*][ \t]|[0-9]{1,9}+[.)][ \t]|#{1,6}+[ \t]))"


def _split_into_chunks(page: Outline) -> Iterator[tuple[int, int]]:
    """Yield the ranges that no link crosses: paragraphs, headings, list items and table rows."""
    for start, end in _prose(page):
        for at in re.compile(_BREAK).finditer(page.text, start, end):
            if _may_link(page.text, start, at.start()):
                yield start, at.start()
            start = at.start()
        if _may_link(page.text, start, end):
            yield start, end


def _prose(page: Outline) -> Iterator[tuple[int, int]]:
    """Yield the ranges between code, comments and the borders of headings."""
    borders = [(at, at) for heading in page.headings for at in (heading.start - 1, heading.end)]
    position = page.body
    for start, end in sorted(page.verbatim + indented_code(page) + borders):
        if start > position:
            yield position, start
        position = max(position, end)
    yield position, len(page.text)


def _may_link(text: str, start: int, end: int) -> bool:
    return text.find("]", start, end) >= 0 or text.find("<", start, end) >= 0


_DEFINITION = r"(?s)\s*+[ \t>]*+(?:(?:[-+*]|[0-9]{1,9}+[.)])[ \t]++)*+\[((?:[^\[\]\\]|\\.){1,999}+)\]:"
_LINE_END = r"[ \t]*+(?=\n|\Z)"


def _take_definitions(text: str, start: int, end: int, definitions: dict[str, LinkDefinition]) -> int:
    """Read the definitions at the start of a chunk and return where they end; the first one of a label counts."""
    while label := re.compile(_DEFINITION).match(text, start, end):
        found = _read_definition(text, label.end(), end)
        if found is None or not label[1].strip():
            break
        definition, start = found
        definitions.setdefault(label_key(label[1]), definition)
    return start


def _read_definition(text: str, position: int, end: int) -> tuple[LinkDefinition, int] | None:
    position = skip_space(text, position, end)
    read = read_target(text, position, end)
    if read is None or read[1] == position:
        return None
    target, position = read
    following = skip_space(text, position, end)
    if following > position and (title := read_title(text, following, end)):
        closed = re.compile(_LINE_END).match(text, title[1], end)
        if closed:
            return LinkDefinition(target, title[0]), closed.end()
    closed = re.compile(_LINE_END).match(text, position, end)
    return (LinkDefinition(target, ""), closed.end()) if closed else None


def _followable_links(spans: list[Span]) -> Iterator[Span]:
    """Yield the links among the spans, except those inside an image's description."""
    image_end = -1
    for span in spans:
        if span.kind == "image":
            image_end = max(image_end, span.end)
        elif span.kind in ("link", "autolink") and span.start >= image_end:
            yield span


# Escapes as in CommonMark, except the dot: the backslashes of `..\..\a.md` separate directories on Windows.
_ESCAPE = r"\\([!-\-/:-@\[-`{-~])"
_PATH = r"(?s)([^?#]*+)(?:\?[^#]*+)?+(?:#(.*+))?+"
_QUOTE_MARKS = r"\n[ \t]*+>[ \t>]*+"


def _make_link(text: str, span: Span, line: int) -> Link:
    parts = re.match(_PATH, re.sub(_ESCAPE, r"\1", span.target))
    path, anchor = parts.groups(default="") if parts else ("", "")
    title = re.sub(_ESCAPE, r"\1", span.title)
    return Link(text, span.target, _percent_decode(path), _percent_decode(anchor), title, line)


def _percent_decode(text: str) -> str:
    """Decode percent escapes once, unless the result is not text or has control characters."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text
    return text if re.search(r"[\x00-\x1f\x7f]", decoded) else decoded


class LinkDefinition(Record):
    """The target and the title of a link, both as written."""

    target: str
    title: str


class Span(Record):
    """A part of the text with a meaning of its own; the reader sees `text[shown_start:shown_end]`."""

    kind: str  # "link", "image", "code", "autolink" or "html"
    start: int
    end: int
    shown_start: int
    shown_end: int
    target: str = ""
    title: str = ""


# Brackets nested deeper than this are text, which bounds the memory for a page of brackets.
_MAX_DEPTH = 1000

# Patterns are strings, compiled (and cached by `re`) when first needed: most headings need few of them.
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
_MAX_PARENTHESES = 32  # as in cmark: without a limit, `((((` would be read over and over


def read_spans(text: str, start: int, end: int, definitions: Mapping[str, LinkDefinition]) -> list[Span]:
    """Return the spans between two offsets in the order in which they begin."""
    return sorted(_SpanReader(text, start, end, definitions).read(), key=lambda span: span.start)


def label_key(label: str) -> str:
    """Return the form under which two labels of a reference are the same."""
    return " ".join(label.split()).casefold()


def read_target(text: str, position: int, end: int) -> tuple[str, int] | None:
    """Read a link's target, in angle brackets or with balanced parentheses, and return it with its end."""
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
    """Read a link's title and return it with its end."""
    title = re.compile(_TITLE).match(text, position, end)
    return (title[title.lastindex or 0], title.end()) if title else None


def skip_space(text: str, position: int, end: int) -> int:
    """Skip white space with at most one line end in it."""
    space = re.compile(_SPACE).match(text, position, end)
    return space.end() if space else position


class _SpanReader:
    """One pass over the text of a block."""

    def __init__(self, text: str, start: int, end: int, definitions: Mapping[str, LinkDefinition]) -> None:
        self._text = text
        self._start = start
        self._end = end
        self._definitions = definitions
        self._spans: list[Span] = []
        self._brackets: list[tuple[int, bool]] = []  # the position of each open one, and whether it is an image's
        self._links_allowed_from = 0  # the depth from which brackets may be links, since links do not nest
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
        text_start = start + (2 if is_image else 1)
        tail = self._tail(text_start, bracket) if allowed else None
        if tail is None:
            return after
        definition, end = tail
        if not is_image:
            self._links_allowed_from = depth
        kind = "image" if is_image else "link"
        self._spans.append(Span(kind, start, end, text_start, bracket, *definition))
        return end

    def _tail(self, text_start: int, bracket: int) -> tuple[LinkDefinition, int] | None:
        """Read what follows the text of a link: `(target "title")`, `[label]`, `[]` or nothing."""
        after = bracket + 1
        if self._text.startswith("(", after, self._end) and (tail := self._parenthesis(after + 1)):
            return tail
        if not self._definitions:
            return None
        end = after
        label = re.compile(_LABEL).match(self._text, after, self._end)
        if label:
            end = label.end()
        name = label[1] if label and label[1].strip() else self._own_label(text_start, bracket)
        found = self._definitions.get(label_key(name))
        return (found, end) if found else None

    def _own_label(self, text_start: int, bracket: int) -> str:
        label = re.compile(_LABEL).fullmatch(self._text, text_start - 1, bracket + 1)
        return label[1] if label else ""

    def _parenthesis(self, position: int) -> tuple[LinkDefinition, int] | None:
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
        return LinkDefinition(target, title), following + 1
