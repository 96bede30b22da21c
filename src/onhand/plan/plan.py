"""A plan that several agents share: a graph of nodes in a journal file, used by any number of processes and threads.

A change is applied completely or not at all, and is on disk when the call returns. The first line of the journal names
the format and the generation of the file. Every other line is one change: a checksum, a space, and JSON. A writer that
dies leaves at most an incomplete last line, which readers ignore and the next writer removes. Writers take turns with a
lock file beside the journal; readers do not wait. Compacting replaces the file with one of another generation, which
readers notice.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from secrets import token_hex
from threading import RLock
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

from onhand.errors import OnhandError, StoreError
from onhand.fsio import FileLock, describe_fault, open_regular, write_atomic
from onhand.plan import render, tools
from onhand.plan.relations import Node, NodeIds, Relations
from onhand.tools.tool import Tool

# The journal is compacted when it has more changes than this many times the number of nodes, plus a constant.
COMPACT_FACTOR = 4
COMPACT_ABOVE = 256
NODES_PER_LINE = 100  # of a compacted journal

T = TypeVar("T")

MAGIC = b"onhand-journal 1 "
HEADER_BYTES = len(MAGIC) + 16 + 1
SUM_CHARS = 8
MAX_BYTES = 256 * 1024 * 1024
MODE = 0o666  # minus the user's umask


class Unread(NamedTuple):
    """The changes that a reader has not seen yet. With `from_start`, they replace everything read before."""

    from_start: bool
    changes: list[Any]


class PlanJournal:
    """A journal file, which is read from where this reader stopped. Not thread-safe: its owner holds a lock."""

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = True) -> None:
        self.path = os.path.realpath(path)
        self._sync = sync
        self._header = b""  # of the file that was read last
        self._end = 0  # of the last complete line that was read

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the journal for writing. Inside, call `read` before `append` or `compact`."""
        with ExitStack() as stack:
            with self._translate_errors("locked"):
                stack.enter_context(FileLock(self.path + ".lock"))
            yield

    def read(self) -> Unread:
        """Return the changes since the last call, in order."""
        with self._translate_errors("read"):
            data = self._read_bytes()
        if data is None:
            was_read = bool(self._header)
            self.rewind()
            return Unread(was_read, [])
        header, from_start, lines = data
        if from_start:
            self._header, self._end = header, len(header)
        whole, _, _ = lines.rpartition(b"\n")
        rest, _, last = whole.rpartition(b"\n")
        if b"\0" in last:  # the power failed when a part of it was on the disk; nobody was told that it is kept
            whole = rest
        changes = [self._decode(line) for line in whole.split(b"\n")] if whole else []
        self._end += len(whole) + 1 if whole else 0
        return Unread(from_start, changes)

    def append(self, change: Any) -> None:
        """Add a change, which is in the journal if this returns, and is not if it raises."""
        line = _encode_line(change)
        with self._translate_errors("written"):
            if not self._header:
                self._replace_file([])
            descriptor = os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            try:
                os.ftruncate(descriptor, self._end)  # removes an incomplete line of a writer that died
                self._write(descriptor, line)
            finally:
                os.close(descriptor)
        self._end += len(line)

    def compact(self, changes: Sequence[Any]) -> None:
        """Replace the journal with one that has these changes."""
        with self._translate_errors("written"):
            self._replace_file(changes)

    def rewind(self) -> None:
        """Make the next `read` begin at the start of the file."""
        self._header, self._end = b"", 0

    def _replace_file(self, changes: Sequence[Any]) -> None:
        header = MAGIC + token_hex(8).encode() + b"\n"
        data = header + b"".join(map(_encode_line, changes))
        write_atomic(self.path, data, MODE)
        self._header, self._end = header, len(data)

    def _read_bytes(self) -> tuple[bytes, bool, bytes] | None:
        """Return the header, whether to read from the start, and the unread bytes, or None for an empty journal."""
        try:
            file = open_regular(self.path)
        except FileNotFoundError:
            return None
        with file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise StoreError(
                    f"{self.path} is larger than {MAX_BYTES // 2**20} MiB: move it away and start a new plan"
                )
            header = file.read(HEADER_BYTES)
            if not _is_header(header):
                if MAGIC.startswith(header[: len(MAGIC)]) and len(header) < HEADER_BYTES:
                    return None  # its first writer died before the first change
                raise StoreError(f"{self.path} is not a plan file and was left unchanged: use another file")
            from_start = header != self._header or size < self._end
            file.seek(len(header) if from_start else self._end)
            return header, from_start, file.read(MAX_BYTES)

    def _decode(self, line: bytes) -> Any:
        try:
            text = line[SUM_CHARS + 1 :]
            if line[: SUM_CHARS + 1] == b"%08x " % crc32(text):
                return json.loads(text)
        except (ValueError, RecursionError):
            pass
        self.rewind()
        raise StoreError(
            f"{self.path} is damaged at the line that begins with {line[:60]!r}, and intact before it: "
            "delete that line and everything after it, or restore a backup"
        )

    def _write(self, descriptor: int, line: bytes) -> None:
        try:
            os.lseek(descriptor, self._end, os.SEEK_SET)
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if self._sync:
                os.fsync(descriptor)
        except BaseException:
            os.ftruncate(descriptor, self._end)
            raise

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"{self.path} cannot be {what}: {describe_fault(error)}") from None


def _is_header(header: bytes) -> bool:
    return len(header) == HEADER_BYTES and header.startswith(MAGIC) and header.endswith(b"\n")


def _encode_line(change: Any) -> bytes:
    text = json.dumps(change, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return b"%08x " % crc32(text) + text + b"\n"


class Plan:
    """The graph in a journal file, which the first change creates.

    With `sync=False`, the operating system decides when a change reaches the disk.
    """

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = True) -> None:
        self._journal = PlanJournal(path, sync=sync)
        self._lock = RLock()
        self._relations = self._new_graph()
        self._changes = 0  # in the journal, as far as it has been read
        self._pending: list[dict[str, Any]] = []

    @property
    def path(self) -> str:
        """The path of the journal."""
        return self._journal.path

    def read(self, work: Callable[[Relations], T]) -> T:
        """Return the result of `work` on the current graph, which it must not change."""
        with self._lock:
            self._catch_up()
            return work(self._relations)

    def change(self, work: Callable[[Relations], T]) -> T:
        """Let `work` change the current graph, and write all of its changes, or none if it raises."""
        with self._lock, self._journal.writing():
            self._catch_up()
            self._pending = []
            try:
                result = work(self._relations)
                if self._pending:
                    self._journal.append(self._pending)
            except BaseException:
                if self._pending:
                    self._reset()  # the graph in memory is half changed, so it is read again
                raise
            self._changes += len(self._pending)
            self._compact_when_due()
            return result

    def compact(self) -> None:
        """Rewrite the journal with each node once."""
        with self._lock, self._journal.writing():
            self._catch_up()
            self._compact()

    def to_context(
        self,
        ids: Iterable[str] | None = None,
        *,
        show_parents: bool = False,
        max_tokens: int = render.MAX_TOKENS,
    ) -> str:
        """Return text for a prompt: these nodes, each with its children, or the whole plan within `max_tokens`."""
        return self.read(lambda graph: graph.to_context(ids, show_parents=show_parents, max_tokens=max_tokens))

    def tools(self) -> list[Tool]:
        """Return the tools with which a model maintains this plan."""
        return tools.plan_tools(self)

    def _new_graph(self) -> Relations:
        return Relations(on_change=self._record)

    def _record(self, change: Node | NodeIds) -> None:
        self._pending.append({"put": change.to_json()} if isinstance(change, Node) else {"remove": change})

    def _catch_up(self) -> None:
        unread = self._journal.read()
        if unread.from_start:
            self._relations, self._changes = self._new_graph(), 0
        try:
            for line in unread.changes:
                self._apply(line)
        except (OnhandError, TypeError, KeyError) as error:
            self._reset()
            raise StoreError(
                f"{self.path} contains a change that cannot be applied ({error}): restore a backup"
            ) from None

    def _apply(self, line: Any) -> None:
        for change in line:
            self._relations.apply(change["put"] if "put" in change else list(change["remove"]))
            self._changes += 1

    def _reset(self) -> None:
        self._journal.rewind()
        self._relations, self._changes, self._pending = self._new_graph(), 0, []

    def _compact_when_due(self) -> None:
        if self._changes > COMPACT_FACTOR * self._relations.size + COMPACT_ABOVE:
            with suppress(StoreError):  # the change itself is on disk, and the next one will compact again
                self._compact()

    def _compact(self) -> None:
        nodes = {node.id: node for node in self._relations.all()}
        puts = [{"put": nodes[id].to_json()} for id in self._relations.topological()]
        self._journal.compact([puts[at : at + NODES_PER_LINE] for at in range(0, len(puts), NODES_PER_LINE)])
        self._changes = len(puts)
