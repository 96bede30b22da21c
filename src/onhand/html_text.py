"""Extract the text of an HTML page, and its title, author, date and description.

It parses like a browser where that matters for the text. Time is linear in the size of the page, whatever its content;
the standard library's parser takes minutes for a hundred kilobytes of unclosed tags.
"""

import re
from collections.abc import Iterator
from html import unescape

from onhand.record import Record

# Quotes count only after =. An unmatched quote is plain text, which can happen only once for each kind of quote.
_ATTRIBUTES = r"""(?:[^>=]|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+"""
_TAG = re.compile(rf"(?P<close>/)?+(?P<name>[a-zA-Z][^\s/>]*+)(?P<attributes>{_ATTRIBUTES})>")
_SHORT_TAG = re.compile(r"(?P<close>/)?+(?P<name>[a-zA-Z][^\s/<>]*+)(?P<attributes>[^<>]*+)>?+")
_ATTRIBUTE = re.compile(r"""([^\s=/"'>]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_HUGE_REFERENCE = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{8,});?")  # beyond any character
_SPACE = re.compile(r"[ \t\r\n\f\xa0]++")
_MANY_BREAKS = re.compile(r"\n{3,}")
_IGNORED_IN_ADDRESS = re.compile(r"[\t\r\n]")  # ignored by browsers
_OPENS_TAG = re.compile(r"</?+[a-zA-Z]")

_RAW = {name: re.compile(rf"</{name}\b[^>]*+>?", re.IGNORECASE) for name in ("script", "style", "title", "textarea")}
_SKIPPED = frozenset({"nav", "svg", "math", "template", "iframe", "object", "select", "datalist"})
_PARAGRAPHS = frozenset(
    "p h1 h2 h3 h4 h5 h6 ul ol dl table blockquote pre section article main header footer aside figure form hr".split()
)
_LINES = frozenset("div nav li dt dd tr br caption figcaption address option summary details legend fieldset".split())
_CELLS = frozenset({"td", "th"})
_BLOCKS = _PARAGRAPHS | _LINES | _CELLS
_APART = frozenset({"tr", "table", "pre"})  # never on the same line as the marker of an item or a cell
_ITEM = "- "
_AUTHOR = ("author", "dc.creator", "dcterms.creator", "article:author")
_DATE = ("date", "dc.date", "dcterms.created", "dcterms.date", "article:published_time", "datepublished", "pubdate")
_MAX_META = 100
_MAX_ADDRESS_CHARS = 2_000


class HtmlText(Record):
    """The text of a page and its metadata."""

    title: str
    text: str
    author: str
    date: str
    description: str


def extract_text(page: str, links_from: str = "") -> HtmlText:
    """Return the text and metadata of a page.

    If `links_from` gives the page's own address, the text also has the addresses of its links, and menus are included.
    """
    extractor = _TextExtractor(page, _SKIPPED - {"nav"} if links_from else _SKIPPED, links_from)
    if extractor.depth:  # a skipped element is never closed, so skip nothing rather than half of the page
        extractor = _TextExtractor(page, frozenset(), links_from)
    meta = extractor.meta
    return HtmlText(
        extractor.title or extractor.heading or meta.get("og:title", ""),
        extractor.text(),
        next((meta[name] for name in _AUTHOR if meta.get(name)), ""),
        next((meta[name] for name in _DATE if meta.get(name)), ""),
        meta.get("description", ""),
    )


class _TextExtractor:
    """One pass over a page."""

    def __init__(self, page: str, skipped: frozenset[str], links_from: str) -> None:
        self.meta: dict[str, str] = {}
        self.title = ""
        self.heading = ""  # the first h1
        self.depth = 0  # of elements that are left out
        self._skipped = skipped
        self._pieces: list[str] = []
        self._verbatim = 0
        self._row_from: int | None = None  # where a table row starts, once it has a cell
        self._begun = -1  # where an item or a cell starts; its first paragraph stays on that line
        self._heading_from: int | None = None
        self._links_from = links_from
        self._link_from, self._link = 0, ""  # where the text of a link starts, and its address
        for piece in _pieces_of(page):
            if isinstance(piece, str):
                self._add_text(piece)
            else:
                self._handle_tag(*piece)
        self._end_link()

    def text(self) -> str:
        lines = "".join(self._pieces).split("\n")
        return _MANY_BREAKS.sub("\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")

    def _add_text(self, text: str) -> None:
        if not self.depth:
            plain = decode_references(text)
            if piece := plain.replace("\r\n", "\n") if self._verbatim else self._collapse_spaces(plain):
                self._pieces.append(piece)

    def _collapse_spaces(self, text: str) -> str:
        """Replace white space by single spaces, and by none at the start of a line."""
        text = _SPACE.sub(" ", text)
        before = self._pieces[-1] if self._pieces else "\n"
        return text.lstrip(" ") if before.endswith(("\n", " ", "\t")) else text

    def _handle_tag(self, name: str, closes: bool, attributes: str, content: str) -> None:
        if name in _APART or (closes and name in _BLOCKS):
            self._begun = -1
        if name in ("tr", "table"):
            self._end_row()
        if name in self._skipped:
            self.depth = max(0, self.depth + (-1 if closes else 0 if attributes.endswith("/") else 1))
            self._break("\n")
        elif name == "title" and not self.depth:
            self.title = self.title or " ".join(decode_references(content).split())
        elif name == "textarea":
            self._add_text(content)
        elif name == "meta":
            self._add_meta(attributes)
        elif name in _PARAGRAPHS:
            self._break("\n\n")
            self._mark(name, closes)
        elif name in _LINES:
            self._break("\n", again=name == "br")
            if name == "li" and not closes and not self.depth:
                self._begin_item()
        elif name in _CELLS and not closes and not self.depth:
            self._begin_cell()
        elif name in ("a", "base") and self._links_from and not self.depth:
            self._follow(name, "" if closes else self._address(attributes))

    def _follow(self, name: str, address: str) -> None:
        if name == "base":
            self._links_from = address or self._links_from
        else:
            self._end_link()
            self._link_from, self._link = len(self._pieces), address

    def _end_link(self) -> None:
        """Append the address of a link to its text, except in code."""
        if self._link and not self._verbatim:
            for at in reversed(range(self._link_from, len(self._pieces))):
                piece = self._pieces[at]
                if piece != _ITEM and (text := piece.rstrip()):
                    self._pieces[at] = f"{text} ({self._link}){piece[len(text) :]}"
                    return

    def _address(self, attributes: str) -> str:
        """Return the address of a link, or "" unless it leads to another page."""
        from urllib.parse import urldefrag, urljoin

        href = (
            _IGNORED_IN_ADDRESS.sub("", decode_references(_values(attributes).get("href", "")))
            .strip()
            .replace(" ", "%20")
        )
        try:
            address = urldefrag(urljoin(self._links_from, href)).url
        except ValueError:  # an unmatched bracket
            return ""
        is_page = address.startswith(("https://", "http://")) and len(address) <= _MAX_ADDRESS_CHARS
        return address if is_page and href[:1] not in ("", "#") else ""

    def _begin_item(self) -> None:
        if self._pieces[-1:] != [_ITEM]:
            self._pieces.append(_ITEM)
        self._begun = len(self._pieces)

    def _begin_cell(self) -> None:
        """Put a tab between the cells of a row, including empty ones, so that columns line up."""
        if self._row_from is None:
            self._break("\n")
            self._row_from = len(self._pieces)
        else:
            self._end_cell(self._row_from)
            if len(self._pieces) == self._row_from or not self._pieces[-1].endswith("\n"):
                self._pieces.append("\t")
        self._begun = len(self._pieces)

    def _end_row(self) -> None:
        if self._row_from is not None and not self.depth:
            self._end_cell(self._row_from)
            self._row_from = None

    def _end_cell(self, row_from: int) -> None:
        """Remove trailing breaks and spaces of a cell."""
        while len(self._pieces) > row_from and self._pieces[-1] in (" ", "\n", "\n\n"):
            self._pieces.pop()
        if len(self._pieces) > row_from:
            self._pieces[-1] = self._pieces[-1].rstrip(" ")

    def _break(self, mark: str, again: bool = False) -> None:
        """Start a new line or paragraph, unless one has just started."""
        before = self._pieces[-1] if self._pieces else mark
        if self.depth or len(self._pieces) == self._begun or (before.endswith(mark) and not again):
            return
        self._pieces.append("\n" if before == "\n" else mark)

    def _mark(self, name: str, closes: bool) -> None:
        if name == "pre":
            self._verbatim = max(0, self._verbatim + (-1 if closes else 1))
        elif name == "h1" and not self.heading and closes and self._heading_from is not None:
            self.heading = " ".join("".join(self._pieces[self._heading_from :]).split())
            self._heading_from = None  # otherwise every further closing tag would scan the page again
        elif name == "h1" and not closes:
            self._heading_from = len(self._pieces)

    def _add_meta(self, attributes: str) -> None:
        if len(self.meta) >= _MAX_META:
            return
        found = _values(attributes)
        name = found.get("name") or found.get("property") or found.get("itemprop") or ""
        self.meta.setdefault(
            decode_references(name).lower(), " ".join(decode_references(found.get("content", "")).split())
        )


def _values(attributes: str) -> dict[str, str]:
    return {match[1].lower(): match[2] or match[3] or match[4] or "" for match in _ATTRIBUTE.finditer(attributes)}


def _pieces_of(page: str) -> Iterator[str | tuple[str, bool, str, str]]:
    """Yield texts and tags in order; a tag is its name, whether it closes, its attributes, and its raw content."""
    at = 0
    tag = _TAG
    unclosed: set[str] = set()  # endings that the rest of the page does not have
    while (start := page.find("<", at)) >= 0:
        if start > at:
            yield page[at:start]
        if page.startswith(("<!", "<?"), start):
            at = _after_declaration(page, start, unclosed)
            continue
        found = tag.match(page, start + 1)
        if found is None and tag is _TAG and _OPENS_TAG.match(page, start):
            tag = _SHORT_TAG  # no tag is complete from here on
            found = tag.match(page, start + 1)
        if found is None:
            yield "<"
            at = start + 1
            continue
        name, closes, content = found["name"].lower(), found["close"] is not None, ""
        at = found.end()
        if name in _RAW and not closes and name not in unclosed:
            ending = _RAW[name].search(page, at)
            if ending:
                content, at = page[at : ending.start()], ending.end()
            elif name in ("script", "style"):
                return
            else:
                unclosed.add(name)
        yield name, closes, found["attributes"], content
    yield page[at:]


def _after_declaration(page: str, start: int, unclosed: set[str]) -> int:
    """Return the end of a comment, doctype or instruction, or the end of its opening if it is never closed."""
    opening, ending = ("<!--", "-->") if page.startswith("<!--", start) else ("<!", ">")
    end = -1 if ending in unclosed else page.find(ending, start + len(opening))
    if end >= 0:
        return end + len(ending)
    unclosed.add(ending)
    return start + len(opening)


def decode_references(text: str) -> str:
    """Return the text with character references decoded."""
    return unescape(_HUGE_REFERENCE.sub("\ufffd", text)) if "&" in text else text
