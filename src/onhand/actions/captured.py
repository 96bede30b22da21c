"""What did a command print? Its beginning and its end at hand, and all of it in a file when it is long.

It takes bytes as they come, from one thread, and can be read from others meanwhile. It starts and ends nothing.
"""

import os
from codecs import getincrementaldecoder
from contextlib import suppress
from threading import Lock
from typing import IO, Any

from onhand.errors import NotFound

MAX_FILE_BYTES = 64 << 20  # a command that prints for ever must not fill the disk


class Captured:
    """One stream of one command."""

    def __init__(self, path: str, keep_bytes: int, at_once: bool = False) -> None:
        """`path` is the file for what is too long to keep; with `at_once`, everything goes there from the start."""
        self.path = path
        self.total_bytes = 0
        self.is_cut = False  # whether the file has more than `text` shows
        self._half = max(1, keep_bytes // 2)
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._text_bytes = 0  # that it takes as text, until it is cut
        self._head = b""
        self._tail = b""
        self._at_once = at_once
        self._file: IO[Any] | None = None
        self._written = 0
        self._is_full = False
        self._lock = Lock()

    @property
    def kept_bytes(self) -> int:
        """How much of it, from its beginning, can be read."""
        if self._written:
            return self._written
        return len(self._head) if self.is_cut else len(self._head) + len(self._tail)

    def add(self, piece: bytes) -> None:
        """Take what was printed next."""
        with self._lock:
            self.total_bytes += len(piece)
            self._text_bytes += 0 if self.is_cut else len(self._decoder.decode(piece).encode())
            self.is_cut = max(self._text_bytes, self.total_bytes) > 2 * self._half
            if self._at_once or self.is_cut:
                self._spill(piece)
            room = self._half - len(self._head)
            self._head += piece[:room] if room > 0 else b""
            self._tail = (self._tail + piece[max(0, room) :])[-self._half :]

    def text(self) -> str:
        """All of it, or its two ends with what is missing counted between them."""
        with self._lock:
            if not self.is_cut:
                return (self._head + self._tail).decode("utf-8", "replace")
            head, tail = whole_end(beginning(self._head, self._half)), _whole_start(_ending(self._tail, self._half))
            left_out = self.total_bytes - len(head) - len(tail)
            ends = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
            return f"{ends[0]}\n[… {left_out} bytes left out …]\n{ends[1]}"

    def read(self, offset: int, max_bytes: int) -> bytes:
        """A part of what was printed so far, from its file or from memory."""
        with self._lock:
            if not self._written:
                return (self._head + self._tail)[: self.kept_bytes][offset : offset + max_bytes]
            try:
                with open(self.path, "rb") as file:
                    file.seek(min(offset, self.total_bytes))
                    return file.read(max_bytes)
            except OSError:
                raise NotFound("what was printed is not there any more, somebody removed it: run it again") from None

    def finish(self) -> None:
        """Nothing more will come; the file stays."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def forget(self) -> None:
        """Remove the file."""
        self.finish()
        with suppress(OSError):
            os.unlink(self.path)

    def _spill(self, piece: bytes) -> None:
        """Into the file, as long as there is room: a disk that is full does not stop the command."""
        if self._is_full:
            return
        try:
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                self._file = open(os.open(self.path, flags, 0o600), "r+b", buffering=0)  # noqa: SIM115  # until finish
                piece = self._head + self._tail + piece
            taken = self._file.write(piece[: MAX_FILE_BYTES - self._written])
        except OSError:
            taken = 0
        self._written += taken
        self._is_full = taken < len(piece)


def beginning(piece: bytes, max_bytes: int) -> bytes:
    """As much of it as takes no more than that as text, in which three bytes stand for one that is no UTF-8."""
    return piece[: _fitting(piece, max_bytes)]


def _ending(piece: bytes, max_bytes: int) -> bytes:
    return piece[len(piece) - _fitting(piece, max_bytes) :]


def _fitting(piece: bytes, max_bytes: int) -> int:
    """How many bytes of it surely fit: a third of the room is always enough, and each less is one less in the text."""
    excess = len(piece.decode("utf-8", "replace").encode()) - max_bytes
    return len(piece) if excess <= 0 else max(1, max_bytes // 3, len(piece) - excess)


def whole_end(piece: bytes) -> bytes:
    """Without the beginning of a character that its end cuts."""
    for back in range(1, min(4, len(piece)) + 1):
        byte = piece[-back]
        if byte & 0xC0 != 0x80:
            needed = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return piece[:-back] if needed > back else piece
    return piece


def _whole_start(piece: bytes) -> bytes:
    """Without the rest of a character that was cut before it."""
    start = 0
    while start < min(3, len(piece)) and piece[start] & 0xC0 == 0x80:
        start += 1
    return piece[start:]
