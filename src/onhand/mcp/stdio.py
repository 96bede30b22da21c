"""Serve MCP over the standard streams: one JSON-RPC message per line.

The SDK drops a line that it cannot read, and its sender waits forever. Here every request whose id can be read is
answered, an id is answered once, lines have a maximum length, and only so many requests run at the same time.
"""

import asyncio
import json
from typing import Any, NamedTuple, NoReturn

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

from onhand.hidden_characters import is_hidden_in
from onhand.json_rpc import find_id
from onhand.mcp.surface import Surface, build_server
from onhand.serving import BlockingWorker, EndlessLine, LineReader, LongLine, claim_stdio, write_all

MAX_LINE_BYTES = 4 * 1024 * 1024  # as much as the SDK accepts over HTTP
MAX_CONCURRENT_REQUESTS = 1_000  # further ones wait in the pipe, so that a flood costs its sender and not us
FINISH_S = 1.5  # for running requests after the client has disconnected; clients kill us after two seconds
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


async def serve(surface: Surface) -> None:
    """Serve one client over the standard streams until it closes them."""
    with claim_stdio() as (reading, writing):
        await converse(surface, reading, writing)


async def converse(surface: Surface, reading: int, writing: int) -> None:
    """Serve one client over two file descriptors until the first one ends."""
    server = build_server(surface)
    inbox, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, sent = anyio.create_memory_object_stream[SessionMessage](0)
    connection = StdioConnection(reading, writing, inbox)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(connection.receive)
            group.start_soon(_send_all, connection, sent, group.cancel_scope)
            await server.run(received, outbox, server.create_initialization_options())
            group.cancel_scope.cancel()
    except* anyio.BrokenResourceError:
        pass  # an interrupt reached the SDK while it was passing on a message
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _send_all(
    connection: "StdioConnection", sent: "MemoryObjectReceiveStream[SessionMessage]", scope: anyio.CancelScope
) -> None:
    async with sent:
        try:
            async for item in sent:
                await connection.send(item.message)
        except OSError:  # the client no longer reads
            scope.cancel()


class Refusal(NamedTuple):
    """The error response to a line that is not a valid message; the id is None if it cannot be read."""

    code: int
    text: str
    id: int | str | None = None

    def message(self) -> types.JSONRPCError:
        """Return the JSON-RPC message."""
        return types.JSONRPCError(jsonrpc="2.0", id=self.id, error=types.ErrorData(code=self.code, message=self.text))


class StdioConnection:
    """The connection to one client over a pair of file descriptors; it knows which requests are running."""

    def __init__(self, reading: int, writing: int, inbox: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        self._lines = LineReader(reading, MAX_LINE_BYTES)
        self._writing = writing
        self._reader, self._writer = BlockingWorker("mcp reader"), BlockingWorker("mcp writer")
        self._inbox = inbox
        self._running: set[str] = set()  # ids of requests
        self._finished = anyio.Event()

    async def receive(self) -> None:
        """Pass on every message until the client disconnects, then let running requests finish."""
        async with self._inbox:
            try:
                while (line := await self._reader.run(self._lines.next)) is not None:
                    await self._handle_line(line)
            except EndlessLine as error:
                refusal = refuse_long_line(error.line)
                await self.send(refusal._replace(text=f"{refusal.text} The connection is closed.").message())
            except (OSError, anyio.BrokenResourceError):
                return  # the client has disconnected, or the server has ended
            with anyio.move_on_after(FINISH_S):
                await self._wait_until_fewer_than(1)

    async def send(self, message: types.JSONRPCMessage) -> None:
        """Write a message as a line; wait for a client that reads slowly."""
        line = encode_message(message)
        await self._writer.run(lambda: write_all(self._writing, line))
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._finish(message.id)

    async def _handle_line(self, line: bytes | LongLine) -> None:
        message = refuse_long_line(line) if isinstance(line, LongLine) else parse_message(line)
        if message is None:
            return
        if isinstance(message, types.JSONRPCRequest):
            message = await self._admit(message)
        if isinstance(message, Refusal):
            await self.send(message.message())
            return
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._finish((message.params or {}).get("requestId"))  # it is never answered
        await self._inbox.send(SessionMessage(message))

    async def _admit(self, request: types.JSONRPCRequest) -> types.JSONRPCRequest | Refusal:
        key = str(request.id)  # the SDK takes 7 and "7" for the same id
        if key in self._running:
            # Without an id: a response with this id would be taken for that of the running request.
            return Refusal(
                types.INVALID_REQUEST, f"A request with the id {key[:100]} is still running. Use another id."
            )
        await self._wait_until_fewer_than(MAX_CONCURRENT_REQUESTS)
        if request.method != "subscriptions/listen":  # which is answered only when the client disconnects
            self._running.add(key)
        return request

    async def _wait_until_fewer_than(self, limit: int) -> None:
        while len(self._running) >= limit:
            self._finished = anyio.Event()
            await self._finished.wait()

    def _finish(self, request_id: object) -> None:
        self._running.discard(str(request_id))
        self._finished.set()


def parse_message(line: bytes) -> types.JSONRPCMessage | Refusal | None:
    """Return the message on a line, or the error to send back, or None if the line must not be answered."""
    line = line.strip().removeprefix(BYTE_ORDER_MARK)
    if not line:
        return None
    try:
        value = from_json(line, allow_inf_nan=False)
    except ValueError:
        return _refuse_unparsable(line)
    return _validate_message(value)


def encode_message(message: types.JSONRPCMessage) -> bytes:
    """Return a message as one line; a response that cannot be encoded becomes an error with its id."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return b""  # nobody waits for a notification
        text = "The result contains a lone surrogate, which cannot be encoded as UTF-8."
        return encode_message(Refusal(types.INTERNAL_ERROR, text, message.id).message())


def refuse_long_line(line: LongLine) -> Refusal:
    """Return the error for a line that is too long."""
    text = f"The message has more than {MAX_LINE_BYTES:,} bytes. Send less at once."
    return Refusal(types.INVALID_REQUEST, text, line.id)


def _validate_message(value: Any) -> types.JSONRPCMessage | Refusal | None:
    if not isinstance(value, dict):
        kind = "Batches are not supported" if isinstance(value, list) else "This is not a JSON object"
        return Refusal(types.INVALID_REQUEST, f"{kind}. Send one JSON-RPC message per line.")
    if "method" in value and "id" in value and _request_id(value) is None:  # the SDK would take it for a notification
        return Refusal(types.INVALID_REQUEST, "The id must be a string or an integer.")
    if is_hidden_in(str(value.get("method"))):  # the SDK would repeat it in its error
        unknown = Refusal(types.METHOD_NOT_FOUND, "No method has hidden characters in its name.", _request_id(value))
        return unknown if "id" in value else None
    try:
        return types.jsonrpc_message_adapter.validate_python(value)
    except ValidationError:
        return _refuse_invalid(value)


def _refuse_invalid(value: dict[str, Any]) -> Refusal | None:
    if "method" not in value and ("result" in value or "error" in value):
        return None  # a response, even an invalid one, is not answered
    if value.get("jsonrpc") != "2.0" or not isinstance(value.get("method"), str):
        text = 'A request needs "jsonrpc": "2.0", an id, and a method that is a string.'
        return Refusal(types.INVALID_REQUEST, text, _request_id(value))
    if "id" not in value:
        return None  # a notification
    return Refusal(types.INVALID_PARAMS, "params must be an object.", _request_id(value))


def _refuse_unparsable(line: bytes) -> Refusal | None:
    """Return the error for a line that the strict parser rejects; Python's may still find its id."""
    try:
        value = json.loads(line.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        return Refusal(types.PARSE_ERROR, "The message is nested too deeply. Flatten it.", find_id(line))
    except ValueError:
        return Refusal(types.PARSE_ERROR, "This is not JSON. Send one JSON-RPC message per line, in UTF-8.")
    message = _validate_message(value)
    if isinstance(message, Refusal):
        return message
    if not isinstance(message, types.JSONRPCRequest):
        return None
    text = "The message contains a lone surrogate or is nested too deeply. Send whole characters and flatter values."
    return Refusal(types.INVALID_PARAMS, text, _request_id(value))


def _request_id(value: dict[str, Any]) -> int | str | None:
    """Return the id of a request if it can be sent back."""
    request_id = value.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    try:
        str(request_id).encode()
    except ValueError:  # a lone surrogate, or an integer with thousands of digits
        return None
    return request_id


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
