"""Decode bytes by their byte order mark, their declared encoding or as UTF-8; otherwise guess, with a warning."""

import codecs
import re

from onhand.corpora.files import Unreadable
from onhand.text import BYTE_ORDER_MARKS, FALLBACK_ENCODING, byte_order_mark, decode_leniently

_SAME_AS_GUESS = frozenset({"iso8859-1", "ascii"})
# Codecs of Python that are not encodings of text; decoding some of them takes quadratic time.
_NOT_TEXT = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "mbcs", "oem"})
_DECLARED_IN = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_DECLARATION_BYTES = 4096  # of a page, in which its encoding must be declared; browsers look at 1024


def text_of(content: bytes) -> tuple[str, str | None]:
    """Return the text of a page, and a warning if its encoding was guessed."""
    mark, encoding = byte_order_mark(content)
    if mark:
        return decode_leniently(content[len(mark) :], encoding)
    if b"\0" in content:
        raise Unreadable("a binary file, not text")
    return text_of_line(content)


def text_of_line(content: bytes) -> tuple[str, str | None]:
    """Return the text of a line, and a warning if its encoding was guessed."""
    return decode_leniently(content, "utf-8")


def text_of_html(content: bytes) -> tuple[str, str | None]:
    """Return the text of an HTML page, which may declare its encoding, and a warning if that was guessed."""
    declared = _DECLARED_IN.search(content, 0, _DECLARATION_BYTES)
    marked = content.startswith(tuple(mark for mark, _ in BYTE_ORDER_MARKS))
    name = python_encoding(declared[1].decode("ascii")) if declared and not marked else None
    if name in (None, "utf-8") or name.startswith(
        ("utf-16", "utf-32")
    ):  # in UTF-16, the declaration could not have been read
        return text_of(content)
    if b"\0" in content:
        raise Unreadable("a binary file, not text")
    return text_of_part(content, name), None


def text_of_part(content: bytes, declared: str | None) -> str:
    """Return the text of a part of a mail in its declared encoding or, if that is wrong, in one that fits."""
    name = python_encoding(declared) if declared else None
    # Valid UTF-8 is read as UTF-8 even if it is declared as Latin-1, as some programs do with everything.
    for encoding in ("utf-8",) if name in (None, FALLBACK_ENCODING) else (name, "utf-8"):
        try:
            return content.decode(encoding)
        except ValueError:
            continue
    return content.decode(FALLBACK_ENCODING, "replace")


def python_encoding(name: str) -> str | None:
    """Return Python's name of a text encoding, or None if there is no such encoding."""
    try:
        found = codecs.lookup(name.strip())
    except (LookupError, ValueError):
        return None
    if found.name in _NOT_TEXT or not getattr(found, "_is_text_encoding", True):  # such as zip and rot13
        return None
    return FALLBACK_ENCODING if found.name in _SAME_AS_GUESS else found.name
