"""What does an HTML page say? Its text, without markup, and what it tells about itself.

It reads as a browser does where that matters for the text. Time is linear in the size of the page, whatever is in it:
the standard library's parser takes minutes for a hundred kilobytes of tags that are never closed.
"""

import re
from collections.abc import Iterator
from html import unescape

from onhand.record import Record

# Quotes count only after =. A quote without its other one is a letter, and that can happen only once for each kind.
_ATTRIBUTES = r"""(?:[^>=]|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+"""
_TAG = re.compile(rf"(?P<close>/)?+(?P<name>[a-zA-Z][^\s/>]*+)(?P<attributes>{_ATTRIBUTES})>")
_SHORT_TAG = re.compile(r"(?P<close>/)?+(?P<name>[a-zA-Z][^\s/<>]*+)(?P<attributes>[^<>]*+)>?+")
_ATTRIBUTE = re.compile(r"""([^\s=/"'>]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_HUGE_REFERENCE = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{8,});?")  # stands for no character
_SPACE = re.compile(r"[ \t\r\n\f\xa0]++")
_MANY_BREAKS = re.compile(r"\n{3,}")
_UNSEEN_IN_ADDRESS = re.compile(r"[\t\r\n]")  # browsers pass over it
_OPENS_TAG = re.compile(r"</?+[a-zA-Z]")

_RAW = {name: re.compile(rf"</{name}\b[^>]*+>?", re.IGNORECASE) for name in ("script", "style", "title", "textarea")}
_LEFT_OUT = frozenset({"nav", "svg", "math", "template", "iframe", "object", "select", "datalist"})
_PARAGRAPHS = frozenset(
    "p h1 h2 h3 h4 h5 h6 ul ol dl table blockquote pre section article main header footer aside figure form hr".split()
)
_LINES = frozenset("div nav li dt dd tr br caption figcaption address option summary details legend fieldset".split())
_CELLS = frozenset({"td", "th"})
_BLOCKS = _PARAGRAPHS | _LINES | _CELLS
_APART = frozenset({"tr", "table", "pre"})  # what never stands beside the mark of an item or a cell
_ITEM = "- "
_AUTHOR = ("author", "dc.creator", "dcterms.creator", "article:author")
_DATE = ("date", "dc.date", "dcterms.created", "dcterms.date", "article:published_time", "datepublished", "pubdate")
_MAX_META = 100
_MAX_ADDRESS_CHARS = 2_000


class Hypertext(Record):
    """What a page says."""

    title: str
    text: str
    author: str
    date: str
    description: str


def reduced(page: str, links_from: str = "") -> Hypertext:
    """The text of a page, and its title, author, date and description as far as it tells them.

    With the address that links start from, theirs stand behind their text, and menus are read too.
    """
    reading = _Reading(page, _LEFT_OUT - {"nav"} if links_from else _LEFT_OUT, links_from)
    if reading.depth:  # something to be left out is never closed: better too much than half a page
        reading = _Reading(page, frozenset(), links_from)
    meta = reading.meta
    return Hypertext(
        reading.title or reading.heading or meta.get("og:title", ""),
        reading.text(),
        next((meta[name] for name in _AUTHOR if meta.get(name)), ""),
        next((meta[name] for name in _DATE if meta.get(name)), ""),
        meta.get("description", ""),
    )


class _Reading:
    """One way through a page."""

    def __init__(self, page: str, left_out: frozenset[str], links_from: str) -> None:
        self.meta: dict[str, str] = {}
        self.title = ""
        self.heading = ""  # the first of the first level
        self.depth = 0  # of elements that are left out
        self._left_out = left_out
        self._pieces: list[str] = []
        self._verbatim = 0
        self._row_from: int | None = None  # where a row of a table begins, once it has a cell
        self._begun = -1  # where an item or a cell begins: its first paragraph stands there and not below
        self._heading_from: int | None = None
        self._links_from = links_from
        self._link_from, self._link = 0, ""  # where the text of a link begins, and its address
        for piece in _pieces_of(page):
            if isinstance(piece, str):
                self._say(piece)
            else:
                self._meet(*piece)
        self._end_link()

    def text(self) -> str:
        lines = "".join(self._pieces).split("\n")
        return _MANY_BREAKS.sub("\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")

    def _say(self, text: str) -> None:
        if not self.depth:
            plain = decoded(text)
            if piece := plain.replace("\r\n", "\n") if self._verbatim else self._flowing(plain):
                self._pieces.append(piece)

    def _flowing(self, text: str) -> str:
        """White space is one space, and none at the start of a line."""
        text = _SPACE.sub(" ", text)
        before = self._pieces[-1] if self._pieces else "\n"
        return text.lstrip(" ") if before.endswith(("\n", " ", "\t")) else text

    def _meet(self, name: str, closes: bool, attributes: str, content: str) -> None:
        if name in _APART or (closes and name in _BLOCKS):
            self._begun = -1
        if name in ("tr", "table"):
            self._end_row()
        if name in self._left_out:
            self.depth = max(0, self.depth + (-1 if closes else 0 if attributes.endswith("/") else 1))
            self._break("\n")
        elif name == "title" and not self.depth:
            self.title = self.title or " ".join(decoded(content).split())
        elif name == "textarea":
            self._say(content)
        elif name == "meta":
            self._note(attributes)
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
        """Put the address of a link behind the last of its text; not into code, which it would change."""
        if self._link and not self._verbatim:
            for at in reversed(range(self._link_from, len(self._pieces))):
                piece = self._pieces[at]
                if piece != _ITEM and (text := piece.rstrip()):
                    self._pieces[at] = f"{text} ({self._link}){piece[len(text) :]}"
                    return

    def _address(self, attributes: str) -> str:
        """Where a link leads; nothing unless that is another page."""
        from urllib.parse import urldefrag, urljoin

        href = _UNSEEN_IN_ADDRESS.sub("", decoded(_values(attributes).get("href", ""))).strip().replace(" ", "%20")
        try:
            address = urldefrag(urljoin(self._links_from, href)).url
        except ValueError:  # half of brackets
            return ""
        is_page = address.startswith(("https://", "http://")) and len(address) <= _MAX_ADDRESS_CHARS
        return address if is_page and href[:1] not in ("", "#") else ""

    def _begin_item(self) -> None:
        if self._pieces[-1:] != [_ITEM]:
            self._pieces.append(_ITEM)
        self._begun = len(self._pieces)

    def _begin_cell(self) -> None:
        """A tab between the cells of a row, also around an empty one: what follows stands in its own column."""
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
        """Take back what parts the end of a cell from nothing."""
        while len(self._pieces) > row_from and self._pieces[-1] in (" ", "\n", "\n\n"):
            self._pieces.pop()
        if len(self._pieces) > row_from:
            self._pieces[-1] = self._pieces[-1].rstrip(" ")

    def _break(self, mark: str, again: bool = False) -> None:
        """Part what follows from what was said, unless it already stands apart."""
        before = self._pieces[-1] if self._pieces else mark
        if self.depth or len(self._pieces) == self._begun or (before.endswith(mark) and not again):
            return
        self._pieces.append("\n" if before == "\n" else mark)

    def _mark(self, name: str, closes: bool) -> None:
        if name == "pre":
            self._verbatim = max(0, self._verbatim + (-1 if closes else 1))
        elif name == "h1" and not self.heading and closes and self._heading_from is not None:
            self.heading = " ".join("".join(self._pieces[self._heading_from :]).split())
            self._heading_from = None  # else every further closing tag would look at all of it again
        elif name == "h1" and not closes:
            self._heading_from = len(self._pieces)

    def _note(self, attributes: str) -> None:
        if len(self.meta) >= _MAX_META:
            return
        found = _values(attributes)
        name = found.get("name") or found.get("property") or found.get("itemprop") or ""
        self.meta.setdefault(decoded(name).lower(), " ".join(decoded(found.get("content", "")).split()))


def _values(attributes: str) -> dict[str, str]:
    return {match[1].lower(): match[2] or match[3] or match[4] or "" for match in _ATTRIBUTE.finditer(attributes)}


def _pieces_of(page: str) -> Iterator[str | tuple[str, bool, str, str]]:
    """Texts and tags in order; of a tag the name, whether it closes, its attributes, and its content if that is raw."""
    at = 0
    tag = _TAG
    unclosed: set[str] = set()  # what was looked for and is not in the rest of the page: nobody looks again
    while (start := page.find("<", at)) >= 0:
        if start > at:
            yield page[at:start]
        if page.startswith(("<!", "<?"), start):
            at = _after_declaration(page, start, unclosed)
            continue
        found = tag.match(page, start + 1)
        if found is None and tag is _TAG and _OPENS_TAG.match(page, start):
            tag = _SHORT_TAG  # no tag is closed from here on
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
    """Where a comment, doctype or instruction ends; behind its first letters if it never does."""
    opening, ending = ("<!--", "-->") if page.startswith("<!--", start) else ("<!", ">")
    end = -1 if ending in unclosed else page.find(ending, start + len(opening))
    if end >= 0:
        return end + len(ending)
    unclosed.add(ending)
    return start + len(opening)


def decoded(text: str) -> str:
    """The text with its character references resolved."""
    return unescape(_HUGE_REFERENCE.sub("\ufffd", text)) if "&" in text else text
