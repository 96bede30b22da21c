"""What is on the next line? Lines from a pipe that whoever holds its other end cannot make endless.

It knows nothing of what a line says. Doors that carry a message on each line read through it.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

CHUNK_BYTES = 64 * 1024
MAX_SKIPPED_BYTES = 64 * 1024 * 1024  # of a line that is too long; whoever sends more is not talking to us

Value = TypeVar("Value")


class TooLong(NamedTuple):
    """A line that is longer than the limit; the rest of it was passed over."""

    head: bytes


class EndlessLine(Exception):  # it ends a connection, and is never shown
    """A line goes on past all reason."""

    def __init__(self, head: bytes) -> None:
        super().__init__("a line has no end")
        self.head = head


class Lines:
    """Reads lines from a descriptor, none longer than the limit."""

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._searched = 0

    def next(self) -> bytes | TooLong | None:
        """The next line without its end; None at the end of all."""
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                return self._taken(end)
            self._searched = len(self._buffer)
            if self._searched > self._max_bytes:
                return self._skipped()
            chunk = os.read(self._descriptor, CHUNK_BYTES)
            if not chunk:
                rest = bytes(self._buffer)
                self._buffer.clear()
                self._searched = 0
                return rest or None
            self._buffer += chunk

    def _taken(self, end: int) -> bytes | TooLong:
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line if end <= self._max_bytes else TooLong(line[:CHUNK_BYTES])

    def _skipped(self) -> TooLong:
        """Read past the rest of the line without keeping it."""
        head = bytes(self._buffer[:CHUNK_BYTES])
        skipped = len(self._buffer)
        self._buffer.clear()
        self._searched = 0
        while chunk := os.read(self._descriptor, CHUNK_BYTES):
            end = chunk.find(b"\n")
            if end >= 0:
                self._buffer += chunk[end + 1 :]
                break
            skipped += len(chunk)
            if skipped > MAX_SKIPPED_BYTES:
                raise EndlessLine(head)
        return TooLong(head)


class Worker:
    """A thread for what may block for ever, one thing after the other: the process can end without it."""

    def __init__(self, name: str) -> None:
        self._waiting: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, work: Callable[[], Value]) -> Value:
        """What the work gives; who waits for it can be cancelled, the work cannot."""
        outcome: Future[Value] = Future()
        outcome.set_running_or_notify_cancel()
        self._waiting.put((work, outcome))
        return await asyncio.wrap_future(outcome)

    def _work(self) -> None:
        while True:
            work, outcome = self._waiting.get()
            try:
                outcome.set_result(work())
            except BaseException as error:
                outcome.set_exception(error)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it; a reader that does not read makes us wait."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def claimed_streams() -> Iterator[tuple[int, int]]:
    """The standard streams for messages alone: what else is printed goes to the error stream instead."""
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield reading, writing
    finally:
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        os.close(nothing)
