"""What upstream servers respond over HTTP, within limits.

The SDK reads the bodies of responses whole, whatever their size. A body that is a message, or a stream of events with
messages, is passed on to it with the repairs and limits of `upstream_messages`; any other body is only limited. What
counts is the size after decompression.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from time import perf_counter

import anyio
import httpx2
from mcp.shared.message import SessionMessage

from onhand.errors import UpstreamError
from onhand.json_rpc import find_id
from onhand.mcp.upstream_messages import MessageBuffer, Pace, RequestId, error_response, parse_message, too_long

MAX_OTHER_BYTES = 1024 * 1024  # of OAuth metadata, tokens, redirects and errors, which have a few kilobytes
MAX_FIELD_BYTES = 64 * 1024  # of everything in an event but its data
MAX_SSE_BYTES = 1024 * 1024 - MAX_FIELD_BYTES  # of an event in the older transport, which the SDK limits to 1 MiB
_LISTEN = "subscriptions/listen"  # the one request whose response may take for ever
_DATA = b"data:"
_LINE_END = re.compile(rb"\r\n|\r|\n")


def limit_wait(client: httpx2.AsyncClient, timeout_s: float) -> None:
    """Have each request of a client answered with status 504 if the head of the response does not arrive in time.

    The time between two bytes is limited by httpx, their sum is not, nor the number of interim responses (1xx).
    """
    send = client._send_single_request

    async def send_in_time(request: httpx2.Request) -> httpx2.Response:
        with anyio.move_on_after(timeout_s):
            return await send(request)
        return httpx2.Response(504, request=request)

    setattr(client, "_send_single_request", send_in_time)  # noqa: B010  # it is a method


def limit_response(response: httpx2.Response, max_bytes: int, timeout_s: float) -> None:
    """Limit a response whose body has not been read yet.

    Whatever reads a body goes through `aiter_bytes`, which is replaced here because httpx has no such limit.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_message = kind == "application/json" and response.status_code < 300
    request_id = find_id(response.request.content) if response.request.method == "POST" else None
    body = response.aiter_bytes
    limited: AsyncGenerator[bytes]
    if kind == "text/event-stream":
        is_response = request_id is not None and response.request.headers.get("mcp-method") != _LISTEN
        events = limit_events(body(), MessageBuffer(max_bytes, request_id))
        limited = _end_in_time(events, request_id, timeout_s) if is_response else events
    elif is_message and request_id is not None:
        limited = _limit_message(body(), request_id, max_bytes, timeout_s)
    else:
        limited = _limit_body(body(), timeout_s, response.is_success)
    setattr(response, "aiter_bytes", lambda chunk_size=None: limited)  # noqa: B010  # it is a method


async def _limit_message(
    body: AsyncIterator[bytes], request_id: RequestId, max_bytes: int, timeout_s: float
) -> AsyncGenerator[bytes]:
    """Yield the message of a body, or an error response in its place."""
    raw = bytearray()
    message = error_response(request_id, f"the response did not arrive within {timeout_s:g} s")
    with anyio.move_on_after(timeout_s):
        async for piece in body:
            raw += piece
            if len(raw) > max_bytes:
                break
        message = too_long(request_id, max_bytes) if len(raw) > max_bytes else parse_message(bytes(raw), request_id)
    if message is not None:
        yield _serialise(message)


async def _limit_body(body: AsyncIterator[bytes], timeout_s: float, is_used: bool) -> AsyncGenerator[bytes]:
    """Yield a body that is not a message; yield nothing of an error or a redirect that is too long or too slow."""
    raw = bytearray()
    problem = f"its response did not arrive within {timeout_s:g} s"
    with anyio.move_on_after(timeout_s):
        async for piece in body:
            raw += piece
            if len(raw) > MAX_OTHER_BYTES:
                problem = f"it sent a response of more than {MAX_OTHER_BYTES:,} bytes"
                break
        else:
            problem = ""
    if problem and is_used:
        raise UpstreamError(problem)
    yield b"" if problem else bytes(raw)


async def _end_in_time(events: AsyncGenerator[bytes], request_id: RequestId, timeout_s: float) -> AsyncGenerator[bytes]:
    """Yield the events of a response, and after the time limit an error response: by then, nobody waits any more."""
    ends_at = anyio.current_time() + timeout_s
    while anyio.current_time() < ends_at:
        raw = b""
        with anyio.CancelScope(deadline=ends_at) as scope:
            raw = await anext(events, b"")
        if not raw and not scope.cancelled_caught:
            return
        if raw:
            yield raw
    error = error_response(request_id, f"the response did not arrive within {timeout_s:g} s")
    if error is not None:
        yield _DATA + _serialise(error) + b"\n\n"


async def limit_events(body: AsyncIterator[bytes], buffer: MessageBuffer) -> AsyncGenerator[bytes]:
    """Yield the events of a stream, each with one message on one line."""
    event, pace = _Event(buffer), Pace()
    rest = b""
    async for chunk in body:
        data = rest + chunk
        rest = b"\r" if data.endswith(b"\r") else b""  # its line feed may follow
        pieces = _LINE_END.split(data.removesuffix(rest))
        for number, piece in enumerate(pieces, 1):
            began = perf_counter()
            error = await event.add(piece)
            raw = event.end_line() if number < len(pieces) else b""
            if error:
                yield _DATA + _serialise(error) + b"\n\n"
            elif raw:
                yield raw
            elif number < len(pieces):
                await pace.rest_after(perf_counter() - began)


class _Event:
    """An event that is being received."""

    def __init__(self, buffer: MessageBuffer) -> None:
        self._buffer = buffer
        self._line = b""  # the one that is being received, unless it is data
        self._fields = b""
        self._has_data = self._is_data = False

    async def add(self, piece: bytes) -> SessionMessage | None:
        """Add a piece of a line; return an error response if the message is too long."""
        if not self._is_data:
            self._line += piece
            if not self._line.startswith(_DATA):
                if len(self._line) + len(self._fields) > MAX_FIELD_BYTES:
                    raise UpstreamError(f"it sent an event whose fields have more than {MAX_FIELD_BYTES:,} bytes")
                return None
            piece = (b"\n" if self._has_data else b"") + self._line[len(_DATA) :].removeprefix(b" ")
            self._line, self._is_data, self._has_data = b"", True, True
        return await self._buffer.add(piece)

    def end_line(self) -> bytes:
        """End a line; return the event if it is the last one."""
        line, self._line = self._line, b""
        if self._is_data:
            self._is_data = False
        elif line:
            self._fields += b"" if line.startswith(b":") else line + b"\n"  # a comment keeps the connection open
        else:
            return self._end()
        return b""

    def _end(self) -> bytes:
        fields, self._fields = self._fields, b""
        if not self._has_data:
            return fields + b"\n" if fields else b""
        self._has_data = False
        if not self._buffer.is_json:  # the address of the older transport, or an id to resume from
            return fields + _DATA + self._buffer.take().replace(b"\n", b"\n" + _DATA) + b"\n\n"
        message = self._buffer.end()
        return b"" if message is None else fields + _DATA + _serialise(message) + b"\n\n"


def _serialise(message: SessionMessage) -> bytes:
    return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
