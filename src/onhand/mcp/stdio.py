"""How does a client that started us talk to us? A message on each line of the standard streams, until its end.

It shields the SDK: a line is never longer than `MAX_LINE_BYTES`, what is no message is answered, an id is answered
once, and only so many requests are at work at a time. What it carries it does not know.
"""

import asyncio

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from onhand.mcp.messages import MAX_LINE_BYTES, Refusal, encoded, parsed, too_long
from onhand.mcp.surface import Surface, build_server
from onhand.serving import BlockingWorker, EndlessLine, LineReader, LongLine, claim_stdio, write_all

MAX_AT_WORK = 1_000  # requests; further ones wait in the pipe, so that a flood costs its sender and not us
FINISH_S = 1.5  # for what is at work when the client has gone; clients kill us after two seconds


class Wire:
    """One client over a pair of descriptors: what comes in, what goes out, and which requests are at work."""

    def __init__(self, reading: int, writing: int, inbox: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        self._lines = LineReader(reading, MAX_LINE_BYTES)
        self._writing = writing
        self._reader, self._writer = BlockingWorker("mcp reader"), BlockingWorker("mcp writer")
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
                answer = too_long(error.head).text
                await self.send(Refusal(types.INVALID_REQUEST, f"{answer}; the connection is closed").message())
            except (OSError, anyio.BrokenResourceError):
                return  # the client has gone, or the server has ended
            with anyio.move_on_after(FINISH_S):
                await self._until_fewer(1)

    async def send(self, message: types.JSONRPCMessage) -> None:
        """Write a message as a line; a client that does not read makes us wait."""
        line = encoded(message)
        await self._writer.run(lambda: write_all(self._writing, line))
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._settle(message.id)

    async def _take(self, line: bytes | LongLine) -> None:
        message = too_long(line.head) if isinstance(line, LongLine) else parsed(line)
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


async def serve(surface: Surface) -> None:
    """Serve one client over the standard streams until it closes them."""
    with claim_stdio() as (reading, writing):
        await converse(surface, reading, writing)


async def converse(surface: Surface, reading: int, writing: int) -> None:
    """Serve one client over two descriptors until the first one ends."""
    server = build_server(surface)
    inbox, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, sent = anyio.create_memory_object_stream[SessionMessage](0)
    wire = Wire(reading, writing, inbox)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.receive)
            group.start_soon(_send_all, wire, sent, group.cancel_scope)
            await server.run(received, outbox, server.create_initialization_options())
            group.cancel_scope.cancel()
    except* anyio.BrokenResourceError:
        pass  # an interrupt met the SDK while it handed on a message
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _send_all(
    wire: Wire, sent: "MemoryObjectReceiveStream[SessionMessage]", conversation: anyio.CancelScope
) -> None:
    async with sent:
        try:
            async for item in sent:
                await wire.send(item.message)
        except OSError:  # nobody reads any more
            conversation.cancel()
