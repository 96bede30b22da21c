"""What has changed, in order, and is it on the disk? A file of lines to which changes are added.

The first line names the format and this file's generation. Every other line is one change, whole or absent: a sum of
the line, a space, and JSON. A writer that dies leaves at most half a line at the end, which counts for nothing and is
cut off by the next writer. Writers take turns by a lock beside the file; readers do not wait. Compacting puts another
file of another generation in its place, which readers notice.

It knows lines of JSON, and not what they mean.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from secrets import token_hex
from typing import Any, NamedTuple
from zlib import crc32

from onhand.errors import StoreError
from onhand.regular import open_file
from onhand.replace import replace_file
from onhand.store.files import locked_file

MAGIC = b"onhand-journal 1 "
HEADER_BYTES = len(MAGIC) + 16 + 1
SUM_CHARS = 8
MAX_BYTES = 256 * 1024 * 1024
MODE = 0o666  # less what the user's umask takes away


class News(NamedTuple):
    """What a reader has not seen yet; `anew`: forget what was read before, this is all there is."""

    anew: bool
    changes: list[Any]


class Journal:
    """A journal at a path, read from where this reader was. Not safe between threads: its owner holds a lock."""

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = True) -> None:
        self.path = os.path.realpath(path)
        self._sync = sync
        self._header = b""  # of the file that was read
        self._end = 0  # of what was read of it: behind a whole line

    def writing(self) -> AbstractContextManager[None]:
        """Be the only writer; call `news` inside before `append` or `compact`."""
        return self._translated(locked_file(self.path + ".lock"))

    def news(self) -> News:
        """The changes since the last call, in order."""
        with self._errors("read"):
            data = self._unread()
        if data is None:
            return News(bool(self._header) and self._forget(), [])
        header, anew, lines = data
        if anew:
            self._header, self._end = header, len(header)
        whole, _, _ = lines.rpartition(b"\n")
        changes = [self._change(line) for line in whole.split(b"\n")] if whole else []
        self._end += len(whole) + 1 if whole else 0
        return News(anew, changes)

    def append(self, change: Any) -> None:
        """Add a change; when this returns it will be found, and when it raises it will not."""
        line = _line(change)
        with self._errors("written"):
            if not self._header:
                self._begin([])
            number = os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            try:
                os.ftruncate(number, self._end)  # half a line of a writer that died
                self._write(number, line)
            finally:
                os.close(number)
        self._end += len(line)

    def compact(self, changes: Sequence[Any]) -> None:
        """Put a journal of these changes in the place of this one."""
        with self._errors("written"):
            self._begin(changes)

    def rewind(self) -> None:
        """Have `news` begin at the beginning."""
        self._forget()

    def _begin(self, changes: Sequence[Any]) -> None:
        header = MAGIC + token_hex(8).encode() + b"\n"
        data = header + b"".join(map(_line, changes))
        replace_file(self.path, data, MODE)
        self._header, self._end = header, len(data)

    def _unread(self) -> tuple[bytes, bool, bytes] | None:
        """The header, whether it is another file than before, and what is behind that; None: no file, or no header."""
        try:
            file = open_file(self.path)
        except FileNotFoundError:
            return None
        with file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise StoreError(f"{self.path} has more than {MAX_BYTES // 2**20} MiB: move it away and begin anew")
            header = file.read(HEADER_BYTES)
            if not _is_header(header):
                if MAGIC.startswith(header[: len(MAGIC)]) and len(header) < HEADER_BYTES:
                    return None  # cut off before anything was said
                raise StoreError(f"{self.path} is no journal of ours, and was left as it is: name another file")
            anew = header != self._header or size < self._end
            file.seek(len(header) if anew else self._end)
            return header, anew, file.read(MAX_BYTES)

    def _change(self, line: bytes) -> Any:
        try:
            text = line[SUM_CHARS + 1 :]
            if line[: SUM_CHARS + 1] == b"%08x " % crc32(text):
                return json.loads(text)
        except (ValueError, RecursionError):
            pass
        self._forget()
        raise StoreError(
            f"{self.path} is damaged in the line that begins {line[:60]!r}: "
            "what stands before it is whole; take out that line and what follows, or bring back a copy"
        )

    def _write(self, number: int, line: bytes) -> None:
        try:
            os.lseek(number, self._end, os.SEEK_SET)
            left = memoryview(line)
            while left:
                left = left[os.write(number, left) :]
            if self._sync:
                os.fsync(number)
        except BaseException:
            os.ftruncate(number, self._end)
            raise

    def _forget(self) -> bool:
        self._header, self._end = b"", 0
        return True

    @contextmanager
    def _translated(self, lock: AbstractContextManager[None]) -> Iterator[None]:
        with self._errors("locked"):
            lock.__enter__()
        try:
            yield
        finally:
            lock.__exit__(None, None, None)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise StoreError(f"{self.path} cannot be {what}: another process does not come to an end") from None
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be {what} ({error.strerror or error}): make room or change its permissions"
            ) from None


def _is_header(header: bytes) -> bool:
    return len(header) == HEADER_BYTES and header.startswith(MAGIC) and header.endswith(b"\n")


def _line(change: Any) -> bytes:
    text = json.dumps(change, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return b"%08x " % crc32(text) + text + b"\n"
