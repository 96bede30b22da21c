"""Make untrusted text safe and readable: encodings, surrogates, single lines, plurals and digests.

This module is on the way to every search, so it imports only what Python has already loaded.
"""

# The default ignorable characters of Unicode, for use inside the brackets of a regular expression. They are invisible
# to readers, and file systems that fold case ignore them in names.
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_JOINERS = "\u200c\u200d"  # they join letters, and the parts of an emoji


def one_line(text: str, max_chars: int | None = None) -> str:
    """Return untrusted text on one line without invisible characters, cut with an ellipsis if it is too long.

    White space and unprintable characters become single spaces, and lone surrogates are escaped.
    """
    if max_chars is not None:
        text = text[: 4 * max_chars]  # more can hardly be visible
    if not text.isprintable():
        text = text.encode("utf-8", "backslashreplace").decode()
        text = "".join(char if char.isprintable() or char in _JOINERS else " " for char in text)
    text = " ".join(text.split())
    return text if max_chars is None or len(text) <= max_chars else f"{text[: max_chars - 1].rstrip()}…"


def make_visible(text: str) -> str:
    """Return the text with dangerous characters escaped as \\uXXXX; tabs and newlines stay.

    These are control characters, characters that change the direction of text, and characters that hide text from
    readers but not from models: tags, and the second set of variation selectors.
    """
    if text.isascii() and text.isprintable():
        return text
    if not _ESCAPES:  # built on first use, because most texts need none
        codes = [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F]
        codes += [*range(0x2028, 0x202F), *range(0x2066, 0x206A), *range(0xE0000, 0xE0080), *range(0xE0100, 0xE01F0)]
        _ESCAPES.update({code: _escape(code) for code in codes})
    return text.translate(_ESCAPES)


_ESCAPES: dict[int, str] = {}


def _escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def escape_unprintable(text: str) -> str:
    """Return the text on one line, with unprintable characters escaped as in a Python string."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def repair_surrogates(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


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
