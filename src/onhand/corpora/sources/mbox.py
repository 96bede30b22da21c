"""Which mails are in a mailbox file? It is cut at its `From ` lines while it is read, one mail in memory at a time."""

import re
from collections.abc import Iterator

from onhand.corpora.files import Unreadable
from onhand.corpora.sources.mail import of_message
from onhand.corpora.sources.source import Item, Opened

_FROM = b"From "
_DATED = re.compile(rb"From .{0,1000}?[0-9]{1,2}:[0-9]{2}.{0,40}?[0-9]{4}")
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_BLANK = (b"\n", b"\r\n")


def read(opened: Opened) -> Iterator[Item]:
    """The mails, in the order of the file."""
    for number, (content, is_cut) in enumerate(_messages(opened), 1):
        plain = _ESCAPED.sub(rb"\1", content)
        yield from of_message(opened.source, f"message {number}", plain, is_cut)


def _messages(opened: Opened) -> Iterator[tuple[bytes, bool]]:
    """Each mail without its `From ` line, and whether it was too long to be kept whole."""
    parts = opened.parts_of_lines()
    first = next((part for part in parts if part not in _BLANK), b"").removeprefix(b"\xef\xbb\xbf")
    if not first.startswith(_FROM):
        raise Unreadable("no mailbox: its first line does not begin with 'From '")
    # Some programs write no date; where they do, a sentence that begins with From is none of their lines.
    is_dated = _DATED.match(first) is not None
    kept: list[bytes] = []
    size = 0
    is_after_blank = False
    is_line_start = first.endswith(b"\n")
    for part in parts:
        starts = is_line_start and is_after_blank and part.startswith(_FROM)
        if starts and (not is_dated or _DATED.match(part)):
            yield b"".join(kept), size > opened.max_bytes
            kept, size = [], 0
        elif size <= opened.max_bytes:
            size += len(part)
            kept.append(part if size <= opened.max_bytes else part[: opened.max_bytes - size])
        is_after_blank = is_line_start and part in _BLANK
        is_line_start = part.endswith(b"\n")
    yield b"".join(kept), size > opened.max_bytes
