"""Where does a page lead? Its links, with the line of the file on which each begins.

Only links that a reader could follow count: not those in code, comments or tags, and no images (but a link
around an image does). Nothing is opened, resolved or checked here: a path may lead outside of the project,
and whoever follows it confines it. HTML `<a href>` and bare addresses in running text are not read.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from onhand.markdown.blocks import Page, indented_code, read_page
from onhand.markdown.inline import (
    Definition,
    Span,
    label_key,
    read_spans,
    read_target,
    read_title,
    skip_space,
)
from onhand.markdown.plain import plain


class Link(NamedTuple):
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
    """The links to files, in the order of the page; with include_external, all links.

    Links that stay on the page (`#anchor`, an empty target) name no file: they too come with include_external
    only.
    `extensions` (".md" or "md", in any case) and `pattern` (found anywhere in it) select by the link's path.
    """
    wanted = None if extensions is None else _extensions(extensions)
    path_pattern = _compiled(pattern)
    links = []
    for link in _links(read_page(text)):
        if not include_external and (not link.path or is_external(link.target)):
            continue
        if wanted is not None and extension(link.path) not in wanted:
            continue
        if path_pattern is None or path_pattern.search(link.path):
            links.append(link)
    return links


# A single letter before the colon is a drive of Windows.
_EXTERNAL = re.compile(r"\s*+(?:[A-Za-z][A-Za-z0-9+.\-]++:|[/\\]{2})")


def is_external(target: str) -> bool:
    """Whether a target is no path: any scheme (`https:`, `mailto:`, `file:`), `//host` or `\\\\host`."""
    return _EXTERNAL.match(target) is not None


def extension(path: str) -> str:
    """The extension with its dot, in lower case; "" without one. The name `.env` has none."""
    name = re.split(r"[/\\]", path)[-1].lstrip(".")
    dot = name.rfind(".")
    return name[dot:].lower() if 0 < dot < len(name) - 1 else ""


def _extensions(extensions: Collection[str]) -> set[str]:
    given = [extensions] if isinstance(extensions, str) else extensions
    return {"." + name.removeprefix(".").lower() if name else "" for name in given}


def _compiled(pattern: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    if not isinstance(pattern, str):
        return pattern
    try:
        return re.compile(pattern)
    except re.error as error:
        from onhand.errors import InputError

        raise InputError(f"the pattern {pattern!r} is no regular expression ({error}): correct it") from None


def _links(page: Page) -> Iterator[Link]:
    chunks = list(_chunks(page))
    definitions: dict[str, Definition] = {}
    for index, (start, end) in enumerate(chunks):
        chunks[index] = (_take_definitions(page.text, start, end, definitions), end)
    line, counted = 0, 0
    for start, end in chunks:
        for span in _followable(read_spans(page.text, start, end, definitions)):
            line += page.text.count("\n", counted, span.start)
            counted = span.start
            shown = _QUOTE_MARKS.sub("\n", page.text[span.shown_start : span.shown_end])
            yield _link(shown if span.kind == "autolink" else plain(shown, definitions), span, line)


# The lines with which a new paragraph, list item, table row or heading begins, in quotes too.
_BREAK = re.compile(r"\n(?=[ \t>]*+(?:\n|\Z|\||[-+*][ \t]|[0-9]{1,9}+[.)][ \t]|#{1,6}+[ \t]))")


def _chunks(page: Page) -> Iterator[tuple[int, int]]:
    """The stretches of text that one link cannot leave: paragraphs, headings, list items, rows of tables."""
    for start, end in _prose(page):
        for at in _BREAK.finditer(page.text, start, end):
            if _may_link(page.text, start, at.start()):
                yield start, at.start()
            start = at.start()
        if _may_link(page.text, start, end):
            yield start, end


def _prose(page: Page) -> Iterator[tuple[int, int]]:
    """What lies between code, comments and the borders of headings."""
    borders = [(at, at) for heading in page.headings for at in (heading.start - 1, heading.end)]
    position = page.body
    for start, end in sorted(page.verbatim + indented_code(page) + borders):
        if start > position:
            yield position, start
        position = max(position, end)
    yield position, len(page.text)


def _may_link(text: str, start: int, end: int) -> bool:
    return text.find("]", start, end) >= 0 or text.find("<", start, end) >= 0


_DEFINITION = re.compile(
    r"\s*+[ \t>]*+(?:(?:[-+*]|[0-9]{1,9}+[.)])[ \t]++)*+\[((?:[^\[\]\\]|\\.){1,999}+)\]:", re.DOTALL
)
_LINE_END = re.compile(r"[ \t]*+(?=\n|\Z)")


def _take_definitions(text: str, start: int, end: int, definitions: dict[str, Definition]) -> int:
    """Read the definitions with which a chunk begins and say where they end; the first of a label counts."""
    while label := _DEFINITION.match(text, start, end):
        found = _definition(text, label.end(), end)
        if found is None or not label[1].strip():
            break
        definition, start = found
        definitions.setdefault(label_key(label[1]), definition)
    return start


def _definition(text: str, position: int, end: int) -> tuple[Definition, int] | None:
    position = skip_space(text, position, end)
    read = read_target(text, position, end)
    if read is None or read[1] == position:
        return None
    target, position = read
    following = skip_space(text, position, end)
    if following > position and (title := read_title(text, following, end)):
        closed = _LINE_END.match(text, title[1], end)
        if closed:
            return Definition(target, title[0]), closed.end()
    closed = _LINE_END.match(text, position, end)
    return (Definition(target, ""), closed.end()) if closed else None


def _followable(spans: list[Span]) -> Iterator[Span]:
    """The links among the spans; what stands in an image's description leads nowhere."""
    image_end = -1
    for span in spans:
        if span.kind == "image":
            image_end = max(image_end, span.end)
        elif span.kind in ("link", "autolink") and span.start >= image_end:
            yield span


# Escapes, as in CommonMark, but for the dot: `..\..\a.md` are separators of Windows.
_ESCAPE = re.compile(r"\\([!-\-/:-@\[-`{-~])")
_PATH = re.compile(r"([^?#]*+)(?:\?[^#]*+)?+(?:#(.*+))?+", re.DOTALL)
_QUOTE_MARKS = re.compile(r"\n[ \t]*+>[ \t>]*+")


def _link(text: str, span: Span, line: int) -> Link:
    parts = _PATH.match(_ESCAPE.sub(r"\1", span.target))
    path, anchor = parts.groups(default="") if parts else ("", "")
    title = _ESCAPE.sub(r"\1", span.title)
    return Link(text, span.target, _decoded(path), _decoded(anchor), title, line)


def _decoded(text: str) -> str:
    """Decode %20 and its like once; what would become a control character, or no text, stays as it is."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text
    return text if re.search(r"[\x00-\x1f\x7f]", decoded) else decoded
