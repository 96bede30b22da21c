"""Decode bytes by their mark, their declaration or as UTF-8; otherwise guess, and say so."""

import codecs
import re

from onhand.corpora.files import Unreadable
from onhand.text import BYTE_ORDER_MARKS, FALLBACK_ENCODING, byte_order_mark, decode_leniently

_SAME_AS_GUESS = frozenset({"iso8859-1", "ascii"})
# Python's own notations, which nobody writes letters in; reading some of them takes quadratic time.
_NO_LETTERS = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "mbcs", "oem"})
_DECLARED_IN = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_LOOKED_AT_BYTES = 4096  # of a page: browsers look at 1024


def text_of(content: bytes) -> tuple[str, str | None]:
    """The text of a page, and what is wrong with it although it can be used."""
    mark, encoding = byte_order_mark(content)
    if mark:
        return decode_leniently(content[len(mark) :], encoding)
    if b"\0" in content:
        raise Unreadable("a binary file, not text")
    return text_of_line(content)


def text_of_line(content: bytes) -> tuple[str, str | None]:
    """The text of a line, and what is wrong with it although it can be used."""
    return decode_leniently(content, "utf-8")


def text_of_html(content: bytes) -> tuple[str, str | None]:
    """The text of an HTML page, which may declare its encoding itself."""
    declared = _DECLARED_IN.search(content, 0, _LOOKED_AT_BYTES)
    marked = content.startswith(tuple(mark for mark, _ in BYTE_ORDER_MARKS))
    name = python_encoding(declared[1].decode("ascii")) if declared and not marked else None
    if name in (None, "utf-8") or name.startswith(("utf-16", "utf-32")):  # of these, nobody could have read it
        return text_of(content)
    if b"\0" in content:
        raise Unreadable("a binary file, not text")
    return text_of_part(content, name), None


def text_of_part(content: bytes, declared: str | None) -> str:
    """The text of a mail's part, by what it declares, or by what fits when that is wrong."""
    name = python_encoding(declared) if declared else None
    # What happens to be UTF-8 is UTF-8, whatever a program that knows only Latin-1 has written above it.
    for encoding in ("utf-8",) if name in (None, FALLBACK_ENCODING) else (name, "utf-8"):
        try:
            return content.decode(encoding)
        except ValueError:
            continue
    return content.decode(FALLBACK_ENCODING, "replace")


def python_encoding(name: str) -> str | None:
    """How Python calls an encoding of text, if it knows it."""
    try:
        found = codecs.lookup(name.strip())
    except (LookupError, ValueError):
        return None
    if found.name in _NO_LETTERS or not getattr(found, "_is_text_encoding", True):  # such as zip and rot13
        return None
    return FALLBACK_ENCODING if found.name in _SAME_AS_GUESS else found.name
