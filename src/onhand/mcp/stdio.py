"""How does a client that started us talk to us? A message on each line of the standard streams, until its end.

It shields the SDK: a line is never longer than `MAX_LINE_BYTES`, what is no message is answered, an id is answered
once, and only so many requests are at work at a time. What it carries it does not know.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from onhand.mcp.messages import MAX_LINE_BYTES, Refusal, encoded, parsed, too_long
from onhand.mcp.server import build
from onhand.mcp.surface import Surface

Value = TypeVar("Value")

CHUNK_BYTES = 64 * 1024
MAX_SKIPPED_BYTES = 64 * 1024 * 1024  # of a line that is too long; whoever sends more is not talking to us
MAX_AT_WORK = 1_000  # requests; further ones wait in the pipe, so that a flood costs its sender and not us
FINISH_S = 1.5  # for what is at work when the client has gone; clients kill us after two seconds


class EndlessLine(Exception):  # it ends the session, and never leaves this room
    """A line goes on past all reason."""


class Lines:
    """Reads lines from a descriptor, none longer than the limit."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._searched = 0

    def next(self) -> bytes | Refusal | None:
        """The next line, or the answer to one that is too long; None at the end."""
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                return self._taken(end)
            self._searched = len(self._buffer)
            if self._searched > MAX_LINE_BYTES:
                return self._skipped()
            chunk = os.read(self._descriptor, CHUNK_BYTES)
            if not chunk:
                rest = bytes(self._buffer)
                self._buffer.clear()
                self._searched = 0
                return rest or None
            self._buffer += chunk

    def _taken(self, end: int) -> bytes | Refusal:
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line if end <= MAX_LINE_BYTES else too_long(line)

    def _skipped(self) -> Refusal:
        """Read past the rest of the line without keeping it."""
        answer = too_long(bytes(self._buffer[:CHUNK_BYTES]))
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
                raise EndlessLine(answer.text)
        return answer


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


class Wire:
    """One client over a pair of descriptors: what comes in, what goes out, and which requests are at work."""

    def __init__(self, reading: int, writing: int, inbox: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        self._lines = Lines(reading)
        self._writing = writing
        self._reader, self._writer = Worker("mcp reader"), Worker("mcp writer")
        self._inbox = inbox
        self._at_work: set[str] = set()  # ids
        self._settled = anyio.Event()

    async def receive(self) -> None:
        """Hand on every message until the client has gone, then let what is at work be finished."""
        async with self._inbox:
            try:
                while (line := await self._reader.run(self._lines.next)) is not None:
                    await self._take(line)
            except EndlessLine as error:
                await self.send(Refusal(types.INVALID_REQUEST, f"{error}; the connection is closed").message())
            except (OSError, anyio.BrokenResourceError):
                return  # the client has gone, or the server has ended
            with anyio.move_on_after(FINISH_S):
                await self._until_fewer(1)

    async def send(self, message: types.JSONRPCMessage) -> None:
        """Write a message as a line; a client that does not read makes us wait."""
        line = encoded(message)
        await self._writer.run(lambda: self._write(line))
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._settle(message.id)

    async def _take(self, line: bytes | Refusal) -> None:
        message = line if isinstance(line, Refusal) else parsed(line)
        if message is None:
            return
        if isinstance(message, types.JSONRPCRequest):
            message = await self._admitted(message)
        if isinstance(message, Refusal):
            await self.send(message.message())
            return
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))  # it is never answered
        await self._inbox.send(SessionMessage(message))

    async def _admitted(self, request: types.JSONRPCRequest) -> types.JSONRPCRequest | Refusal:
        key = str(request.id)  # the SDK takes 7 and "7" for the same
        if key in self._at_work:
            # Without an id: an answer to the id would be taken for that of the request which is at work.
            return Refusal(types.INVALID_REQUEST, f"a request with the id {key[:100]} is still at work: use another")
        await self._until_fewer(MAX_AT_WORK)
        if request.method != "subscriptions/listen":  # whose answer comes when the client has gone
            self._at_work.add(key)
        return request

    async def _until_fewer(self, many: int) -> None:
        while len(self._at_work) >= many:
            self._settled = anyio.Event()
            await self._settled.wait()

    def _settle(self, request_id: object) -> None:
        self._at_work.discard(str(request_id))
        self._settled.set()

    def _write(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(self._writing, view) :]


async def serve(surface: Surface) -> None:
    """Serve one client over the standard streams until it closes them."""
    with _claimed_streams() as (reading, writing):
        await converse(surface, reading, writing)


async def converse(surface: Surface, reading: int, writing: int) -> None:
    """Serve one client over two descriptors until the first one ends."""
    server = build(surface)
    inbox, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, sent = anyio.create_memory_object_stream[SessionMessage](0)
    wire = Wire(reading, writing, inbox)
    async with anyio.create_task_group() as group:
        group.start_soon(wire.receive)
        group.start_soon(_send_all, wire, sent, group.cancel_scope)
        await server.run(received, outbox, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _send_all(
    wire: Wire, sent: "MemoryObjectReceiveStream[SessionMessage]", conversation: anyio.CancelScope
) -> None:
    async with sent:
        try:
            async for item in sent:
                await wire.send(item.message)
        except OSError:  # nobody reads any more
            conversation.cancel()


@contextmanager
def _claimed_streams() -> Iterator[tuple[int, int]]:
    """The standard streams for the protocol alone: what a tool prints goes to the error stream instead."""
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
