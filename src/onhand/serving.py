"""Servers on standard streams: bounded lines, blocking workers, and signals that ask a server to stop.

An unhandled signal would end the process at once and leave running what its tools have started.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from onhand.json_rpc import MessageScanner, find_id

CHUNK_BYTES = 64 * 1024
MAX_SKIPPED_BYTES = 64 * 1024 * 1024  # of a line that is too long; more than that is not a message

Value = TypeVar("Value")


class LongLine(NamedTuple):
    """A line that exceeds the limit and was skipped."""

    id: int | str | None  # of the message on it, if it can be found


class EndlessLine(Exception):  # ends a connection and is never shown
    """A line exceeds even the limit for skipping."""

    def __init__(self, line: LongLine) -> None:
        super().__init__("the line is too long")
        self.line = line


class LineReader:
    """Reads lines from a descriptor, none longer than the limit."""

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._searched = 0

    def next(self) -> bytes | LongLine | None:
        """Return the next line without its newline, or None at the end of the input."""
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                return self._take_line(end)
            self._searched = len(self._buffer)
            if self._searched > self._max_bytes:
                return self._skip_line()
            chunk = os.read(self._descriptor, CHUNK_BYTES)
            if not chunk:
                rest = bytes(self._buffer)
                self._buffer.clear()
                self._searched = 0
                return rest or None
            self._buffer += chunk

    def _take_line(self, end: int) -> bytes | LongLine:
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line if end <= self._max_bytes else LongLine(find_id(line))

    def _skip_line(self) -> LongLine:
        """Read past the rest of the line without keeping it."""
        scanner, skipped = MessageScanner(), len(self._buffer)
        scanner.scan(bytes(self._buffer))
        self._buffer.clear()
        self._searched = 0
        while chunk := os.read(self._descriptor, CHUNK_BYTES):
            end = chunk.find(b"\n")
            scanner.scan(chunk if end < 0 else chunk[:end])
            if end >= 0:
                self._buffer += chunk[end + 1 :]
                break
            skipped += len(chunk)
            if skipped > MAX_SKIPPED_BYTES:
                raise EndlessLine(LongLine(scanner.id))
        return LongLine(scanner.id)


class BlockingWorker:
    """A daemon thread for work that may block forever, one item at a time."""

    def __init__(self, name: str) -> None:
        self._waiting: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, work: Callable[[], Value]) -> Value:
        """Run the work and return its result; waiting can be cancelled, the work cannot."""
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
    """Write all of the data, waiting for a slow reader."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def claim_stdio() -> Iterator[tuple[int, int]]:
    """Reserve the standard streams for messages; anything else that is printed goes to standard error."""
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


STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def handle_stop_signals(end: Callable[[int], None]) -> Iterator[None]:
    """Pass each stop signal to `end`; an ignored SIGHUP, as under nohup, stays ignored.

    Afterwards stop signals are ignored: the process ends what its tools have started and must not be interrupted.
    """
    loop, numbers = asyncio.get_running_loop(), []
    for number in STOP_SIGNALS:
        if number == getattr(signal, "SIGHUP", None) and signal.getsignal(number) is signal.SIG_IGN:
            continue
        with suppress(ValueError):  # not the main thread, which alone receives signals
            signal.signal(number, lambda number, _: loop.call_soon_threadsafe(end, number))
            numbers.append(number)
    try:
        yield
    finally:
        for number in numbers:  # not through the event loop, which would leave a moment in which a signal kills us
            signal.signal(number, signal.SIG_IGN)


async def run_until_stopped(work: Awaitable[None]) -> int:
    """Run the work until it ends or a stop signal cancels it; return the exit code, 0 without a signal."""
    task, received = asyncio.ensure_future(work), list[int]()

    def end(number: int) -> None:
        if not received:  # only once: the clean-up must not be interrupted
            task.cancel()
        received.append(number)

    with handle_stop_signals(end):
        try:
            await task
        except asyncio.CancelledError:
            if not received:
                raise
    return 128 + received[0] if received else 0
