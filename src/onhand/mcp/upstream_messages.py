"""The messages of upstream servers, however long, deep or broken they are.

A response that the SDK cannot parse would never reach the request that waits for it, so it is repaired, or becomes an
error response. This is the same for programs and for servers over HTTP.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from time import perf_counter
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import ByteReceiveStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from onhand.errors import UpstreamError
from onhand.hidden_characters import repair_surrogates
from onhand.json_rpc import MessageScanner, find_id

MAX_MESSAGE_BYTES = 32 * 1024 * 1024  # enough for a picture
MAX_SKIPPED_BYTES = 64 * 1024 * 1024  # of a message that is too long; after that, its connection is closed
SCANNED_BYTES = 64 * 1024  # at once, so that others are served meanwhile
MAX_DEPTH = 200  # of nested JSON: anything deeper is dropped, and the rest of the message is used
MAX_FLATTENED_BYTES = 4 * 1024 * 1024  # of a message that is searched for such nesting: at most a second of work
WORK_S = 0.005  # on lines of one server that are no messages, before others are served
REST_PART = 9  # times as long: a server that sends such lines without end takes a tenth of the event loop's time
_JSON_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)  # an unterminated string is one too

RequestId = int | str | None


class MessageBuffer:
    """A message that is being received: kept as long as it is within the limit, and only scanned beyond that.

    `request_id` is that of the request that it answers, if that is known.
    """

    def __init__(self, max_bytes: int, request_id: RequestId = None) -> None:
        self._max_bytes = max_bytes
        self._request_id = request_id
        self._clear()

    def _clear(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._scanner = MessageScanner()
        self._is_answered = False

    @property
    def is_json(self) -> bool:
        """Whether what was received so far begins like a message."""
        return self._size > self._max_bytes or b"".join(self._parts).lstrip().startswith(b"{")

    def take(self) -> bytes:
        """Return the received bytes, which are not a message, and start again."""
        raw = b"".join(self._parts)
        self._clear()
        return raw

    async def add(self, piece: bytes) -> SessionMessage | None:
        """Add a piece; return the error response to a message that is too long, as soon as its id is known."""
        self._size += len(piece)
        self._parts.append(piece)
        if self._size <= self._max_bytes:
            return None
        parts, self._parts = self._parts, []
        for part in parts:
            for start in range(0, len(part), SCANNED_BYTES):
                if self._is_answered:
                    return None
                self._scanner.scan(part[start : start + SCANNED_BYTES])
                if error := self._answer(self._scanner.is_response):
                    return error
                await anyio.lowlevel.checkpoint()
        if self._size > self._max_bytes + MAX_SKIPPED_BYTES and not self._is_answered:
            raise UpstreamError(f"it sent a message of more than {self._max_bytes:,} bytes")
        return None

    def end(self) -> SessionMessage | None:
        """Return the message, now that it is complete; None if it answers nothing, or has been answered."""
        is_long = self._size > self._max_bytes
        may_be_response = is_long and b"method" not in self._scanner.names
        is_answered = self._is_answered
        error = self._answer(may_be_response)
        raw = self.take()
        if may_be_response and not is_answered and error is None:  # somebody may wait for it
            raise UpstreamError(f"it sent a message of more than {self._max_bytes:,} bytes, without an id")
        return error if is_long else parse_message(raw, self._request_id)

    def _answer(self, is_response: bool) -> SessionMessage | None:
        request_id = self._scanner.id if self._request_id is None else self._request_id
        if self._is_answered or not is_response or request_id is None:
            return None
        self._is_answered = True
        return too_long(request_id, self._max_bytes)


class Pace:
    """Lets others be served while a server sends lines that are no messages, however many.

    Messages need no pace: each is handed over to the session, and others are served before the next.
    """

    def __init__(self) -> None:
        self._work_s = 0.0

    async def rest_after(self, work_s: float) -> None:
        """Count the work on such a line, and wait once it was enough; keeping a connection alive takes far less."""
        self._work_s += work_s
        if self._work_s >= WORK_S:
            wait_s, self._work_s = REST_PART * self._work_s, 0.0
            await anyio.sleep(wait_s)


async def read_messages(stream: ByteReceiveStream) -> AsyncIterator[SessionMessage]:
    """Yield the messages on the lines of a stream; raise UpstreamError after one that is too long to be answered."""
    line, pace = MessageBuffer(MAX_MESSAGE_BYTES), Pace()
    with suppress(anyio.EndOfStream):
        while True:
            pieces = (await stream.receive(65_536)).split(b"\n")
            for number, piece in enumerate(pieces, 1):
                began = perf_counter()
                error = await line.add(piece)
                message = line.end() if number < len(pieces) else None
                if found := error or message:
                    yield found
                elif number < len(pieces):
                    await pace.rest_after(perf_counter() - began)


def parse_message(raw: bytes, request_id: RequestId = None) -> SessionMessage | None:
    """Return a message, an error response if it cannot be parsed, or None if that would answer no request.

    `request_id` is that of the request that it answers, if that is known.
    """
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(raw, by_name=False))
    except ValueError:
        pass
    try:
        value = _load_json(raw)
    except (ValueError, RecursionError):
        found = find_id(raw) if raw.lstrip().startswith(b"{") else None
        return error_response(found if request_id is None else request_id, "the response is not JSON")
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_python(_repair_texts(value), by_name=False))
    except (ValidationError, RecursionError):
        if request_id is None and isinstance(value, dict) and "method" not in value:
            request_id = value.get("id")
        return error_response(request_id, "the response is not a JSON-RPC message")


def too_long(request_id: RequestId, max_bytes: int) -> SessionMessage | None:
    """Return the error response for a response that is too long."""
    return error_response(request_id, f"the response has more than {max_bytes:,} bytes: ask for less")


def error_response(request_id: Any, reason: str) -> SessionMessage | None:
    """Return an error response, or None if there is no id to respond to."""
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=reason)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


def _load_json(line: bytes) -> Any:
    try:
        return json.loads(line.decode(errors="replace"), strict=False)
    except RecursionError:
        if len(line) > MAX_FLATTENED_BYTES:
            raise
        return json.loads(flatten_json(line).decode(errors="replace"), strict=False)


def flatten_json(line: bytes) -> bytes:
    """Return JSON with null in place of everything that is nested too deeply for a parser."""
    parts: list[bytes] = []
    depth = end = 0
    for token in _JSON_TOKEN.finditer(line):
        if token[0] in (b"[", b"{"):
            if depth == MAX_DEPTH:
                parts += [line[end : token.start()], b"null"]
            depth += 1
        elif token[0] in (b"]", b"}"):
            depth -= 1
            if depth == MAX_DEPTH:
                end = token.end()
    return b"".join([*parts, line[end:]])


def _repair_texts(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a JSON value without lone surrogates, which JSON can contain but nothing can encode."""
    if isinstance(value, str):
        return repair_surrogates(value)
    if depth == 0:
        return None
    if isinstance(value, dict):
        return {repair_surrogates(key): _repair_texts(item, depth - 1) for key, item in value.items()}
    return [_repair_texts(item, depth - 1) for item in value] if isinstance(value, list) else value
