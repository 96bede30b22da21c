"""What did a command print? Its beginning and its end at hand, and all of it in a file when it is long.

It takes bytes as they come, from one thread, and can be read from others meanwhile. It starts and ends nothing.
"""

import os
from contextlib import suppress
from threading import Lock
from typing import IO, Any

MAX_FILE_BYTES = 64 << 20  # a command that prints for ever must not fill the disk


class Captured:
    """One stream of one command."""

    def __init__(self, path: str, keep_bytes: int, at_once: bool = False) -> None:
        """`path` is the file for what is too long to keep; with `at_once`, everything goes there from the start."""
        self.path = path
        self.total_bytes = 0
        self._half = max(1, keep_bytes // 2)
        self._head = b""
        self._tail = b""
        self._at_once = at_once
        self._file: IO[Any] | None = None
        self._written = 0
        self._is_full = False
        self._lock = Lock()

    @property
    def is_cut(self) -> bool:
        """Whether the file has more than `text` shows."""
        return self.total_bytes > 2 * self._half

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
            head, tail = whole_end(self._head), _whole_start(self._tail)
            left_out = self.total_bytes - len(head) - len(tail)
            return (
                f"{head.decode('utf-8', 'replace')}\n[… {left_out} bytes left out …]\n{tail.decode('utf-8', 'replace')}"
            )

    def read(self, offset: int, max_bytes: int) -> bytes:
        """A part of what was printed so far, from its file or from memory."""
        with self._lock:
            if not self._written:
                return (self._head + self._tail)[: self.kept_bytes][offset : offset + max_bytes]
            with open(self.path, "rb") as file:
                file.seek(offset)
                return file.read(max_bytes)

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
