"""Open a file to import once and read it piece by piece: bytes, lines and limits, but not what they mean."""

import os
from collections.abc import Iterator
from typing import BinaryIO

from onhand.corpora import files
from onhand.corpora.files import FoundFile, Unreadable
from onhand.document import Document
from onhand.record import Record

MAX_RECORD_BYTES = 32 * 1024 * 1024  # of one line, page or mail; a text of that size is no answer to anything
PIECE_BYTES = 256 * 1024
LOOKED_AT_BYTES = 4096  # of a file, to see what it is

# What a reader of a form gives: where in the file, and there a document or what is wrong.
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
    name: str  # relative to the directory that was named: what ids are made of
    folder: str  # of a mail: the mailbox it is in
    form: str
    file: FoundFile


class SourceReader:
    """A source that is open; `done_bytes` grows while it is read. A context manager."""

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
        """All of a file, as it was at one moment."""
        size = self.source.file.stamp.size
        if size > self.max_bytes:
            raise Unreadable(f"{size:,} bytes, more than {self.max_bytes:,}: split it")
        return files.read_bytes(self.source.file, self.max_bytes)

    def pieces(self) -> Iterator[bytes]:
        """The file, a piece at a time."""
        while piece := self._file.read(PIECE_BYTES):
            self.done_bytes += len(piece)
            yield piece

    def parts_of_lines(self) -> Iterator[bytes]:
        """The lines with their ends; one that is long comes in parts."""
        file = self._file
        while part := file.readline(PIECE_BYTES):
            self.done_bytes += len(part)
            yield part

    def lines(self) -> Iterator[tuple[int, bytes | None]]:
        """Each line with its number and its end; None in place of one that is too long."""
        self._refuse_what_has_no_lines()
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

    def _refuse_what_has_no_lines(self) -> None:
        head = self._file.read(LOOKED_AT_BYTES)
        self._file.seek(0)
        if head.startswith(_WIDE_MARKS):
            raise Unreadable("UTF-16 or UTF-32: save it as UTF-8")
        if b"\0" in head:
            raise Unreadable("a binary file, or UTF-16 without a mark: save it as UTF-8")


def too_long(max_bytes: int) -> str:
    """What is wrong with a record that is not read."""
    return f"longer than {max_bytes:,} bytes: left out; split it"


def stable_id(name: str, content: bytes) -> str:
    """An id for what has none: the same as long as the file's name and the content are."""
    from hashlib import blake2b

    return f"{name}#{blake2b(content, digest_size=8).hexdigest()}"
