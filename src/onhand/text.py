"""Make text readable: encodings, single lines, plurals and digests.

This module is on the way to every search, so it imports only what Python has already loaded.
"""

from __future__ import annotations

from onhand.hidden_characters import sanitize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def one_line(text: str, max_chars: int | None = None) -> str:
    """Return untrusted text on one line, sanitized, with single spaces, and cut with an ellipsis if it is too long."""
    if max_chars is not None:
        text = text[: 4 * max_chars]  # more can hardly be visible
    if not text.isprintable():
        text = " ".join(text.splitlines())
    text = " ".join(sanitize(text).split())
    return text if max_chars is None or len(text) <= max_chars else f"{text[: max_chars - 1].rstrip()}…"


def count_lines(text: str | bytes) -> int:
    """Return the number of lines; the last one may lack its newline, and an empty text has none."""
    newline: Any = b"\n" if isinstance(text, bytes) else "\n"
    return text.count(newline) + (not text.endswith(newline)) if text else 0


def quantity(number: int, noun: str) -> str:
    """Return a number with its noun: `1 document`, `2 documents`, `3,000 directories`."""
    return f"{number:,} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """Return the noun in the form that follows this number."""
    if number == 1:
        return noun
    if noun.endswith("y") and not noun.endswith(("ay", "ey", "oy", "uy")):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


try:
    from _blake2 import blake2b  # hashlib's own, without OpenSSL, whose loading would cost half a start of Python
except ImportError:  # not every Python has it by that name
    from hashlib import blake2b


def digest(content: bytes) -> str:
    """Return a digest of the content that is unique for practical purposes."""
    return blake2b(content, digest_size=16).hexdigest()


# UTF-32 comes first, because its mark begins with that of UTF-16.
BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# Browsers read Latin-1 as Windows-1252, so text that claims to be Latin-1 usually is Windows-1252.
FALLBACK_ENCODING = "cp1252"
_ASCII = bytes(range(128))


def byte_order_mark(content: bytes) -> tuple[bytes, str]:
    """Return the byte order mark that the content begins with and its encoding, or two empty values."""
    return next((marked for marked in BYTE_ORDER_MARKS if content.startswith(marked[0])), (b"", ""))


def decode_leniently(content: bytes, encoding: str) -> tuple[str, str | None]:
    """Decode content without a byte order mark; also return a warning if its encoding had to be guessed."""
    try:
        return content.decode(encoding), None
    except ValueError as error:
        place = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        guess = guess_encoding(content) if encoding == "utf-8" else encoding
        problem = f"not {encoding.upper()}{place}: read as {guess}, letters may be wrong; save it as UTF-8"
        return content.decode(guess, "replace"), problem


def guess_encoding(content: bytes) -> str:
    """Guess the encoding of content that is not valid UTF-8: UTF-8 if most of its letters decode, else Windows-1252."""
    text = content.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    right = len(text) - wrong - (len(content) - len(content.translate(None, _ASCII)))
    return "utf-8" if right > wrong else FALLBACK_ENCODING
