"""Read a file to import: once, piece by piece, as bytes, lines or text, within limits.

Text is decoded by its byte order mark, its declared encoding or as UTF-8; otherwise it is guessed, with a warning.
"""

import codecs
import os
import re
from collections.abc import Iterator
from typing import BinaryIO

from onhand.corpora import files
from onhand.corpora.files import FoundFile, Unreadable
from onhand.document import Document
from onhand.record import Record
from onhand.text import BYTE_ORDER_MARKS, FALLBACK_ENCODING, byte_order_mark, decode_leniently

MAX_RECORD_BYTES = 32 * 1024 * 1024  # of one line, page or mail; a larger text does not answer any question
PIECE_BYTES = 256 * 1024
HEAD_BYTES = 4096  # of a file, to detect its form

# What a reader of a form yields: a place in the file, and a document or what is wrong there.
Item = tuple[str, Document | str]

_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"


class ImportProblem(Record):
    """Something that was left out or could be used only in part, and why."""

    path: str
    where: str  # "line 7", "message 3"; "" for the whole file
    reason: str


class Source(Record):
    """A file to import."""

    path: str  # absolute, with forward slashes
    name: str  # relative to the imported directory; ids are made of it
    folder: str  # for a mail, its mailbox
    form: str
    file: FoundFile


class SourceReader:
    """Reads a source; `done_bytes` grows meanwhile. Leaving its context closes the file."""

    def __init__(self, source: Source, max_bytes: int = MAX_RECORD_BYTES) -> None:
        self.source = source
        self.max_bytes = max_bytes
        self.done_bytes = 0
        self._opened: BinaryIO | None = None

    def __enter__(self) -> "SourceReader":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._opened:
            self._opened.close()

    @property
    def _file(self) -> BinaryIO:
        if self._opened is None:
            self._opened = os.fdopen(files.open_regular(self.source.file), "rb")
        return self._opened

    def whole(self) -> bytes:
        """Return the whole file as it was at one moment."""
        size = self.source.file.stamp.size
        if size > self.max_bytes:
            raise Unreadable(f"{size:,} bytes, more than {self.max_bytes:,}: split it")
        return files.read_bytes(self.source.file, self.max_bytes)

    def pieces(self) -> Iterator[bytes]:
        """Yield the file in pieces of at most PIECE_BYTES."""
        while piece := self._file.read(PIECE_BYTES):
            self.done_bytes += len(piece)
            yield piece

    def parts_of_lines(self) -> Iterator[bytes]:
        """Yield the lines with their ends; a long line comes in several parts."""
        file = self._file
        while part := file.readline(PIECE_BYTES):
            self.done_bytes += len(part)
            yield part

    def lines(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield each line with its number, or None instead of a line that is too long."""
        self._refuse_other_encodings()
        number = 0
        while line := self._file.readline(self.max_bytes + 1):
            number += 1
            self.done_bytes += len(line)
            if number == 1:
                line = line.removeprefix(_UTF8_MARK)
            if len(line) > self.max_bytes:
                self._skip_line(line)
                yield number, None
            else:
                yield number, line

    def _skip_line(self, part: bytes) -> None:
        while part and not part.endswith(b"\n"):
            part = self._file.readline(PIECE_BYTES)
            self.done_bytes += len(part)

    def _refuse_other_encodings(self) -> None:
        head = self._file.read(HEAD_BYTES)
        self._file.seek(0)
        if head.startswith(_WIDE_MARKS):
            raise Unreadable("UTF-16 or UTF-32: save it as UTF-8")
        if b"\0" in head:
            raise Unreadable("a binary file, or UTF-16 without a mark: save it as UTF-8")


def too_long(max_bytes: int) -> str:
    """Return the problem of a record that is too long to be read."""
    return f"longer than {max_bytes:,} bytes: left out; split it"


def stable_id(name: str, content: bytes) -> str:
    """Return an id for a record without one, which stays the same while the file's name and the content do."""
    from hashlib import blake2b

    return f"{name}#{blake2b(content, digest_size=8).hexdigest()}"


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
