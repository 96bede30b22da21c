"""Streamed requests to models behind HTTP endpoints, repeated while the server is busy.

This module parses server-sent events; the module of each provider interprets their data. When the caller stops
listening, the connection is closed at once, so that the server stops generating too.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple, Protocol

from onhand.agent.events import Answered, ModelEvent, Retrying, Stream
from onhand.agent.models.model import Emit, stream_from_thread
from onhand.errors import ModelError
from onhand.http_client import AbortableConnection, JsonEndpoint, RetryLater, RetryPolicy

TIMEOUT_S = 120.0  # of silence, because a model may think for a long time before its first word
ANSWER_TIMEOUT_S = 7200.0  # of a whole answer, which a small machine may write for an hour
RETRIES = RetryPolicy()
MAX_ANSWER_BYTES = 64 << 20
PIECE_BYTES = 1 << 16
DONE = "[DONE]"


class Reply(Protocol):
    """The part of a model's answer that has arrived, in the format of a provider."""

    def take(self, value: Any) -> Iterator[ModelEvent]:
        """Add a value of the stream, and yield the resulting events."""

    def finish(self) -> Answered:
        """Return the complete answer. Raise RetryLater if it is incomplete."""


class RequestPolicy(NamedTuple):
    """How long silence and a whole answer may last, how often a request is repeated, and what waits in between."""

    timeout_s: float = TIMEOUT_S
    answer_timeout_s: float = ANSWER_TIMEOUT_S
    retries: int = RETRIES.retries
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep


DEFAULT_POLICY = RequestPolicy()


class StreamingEndpoint:
    """An address that takes JSON and answers with a stream of JSON. `headers` is called with the key, or None."""

    def __init__(
        self,
        url: str,
        api_key_env: str | None,
        headers: Callable[[str | None], Mapping[str, str]],
        policy: RequestPolicy = DEFAULT_POLICY,
    ) -> None:
        retries = RETRIES._replace(retries=policy.retries)
        self._endpoint = JsonEndpoint(
            url,
            api_key_env,
            ModelError,
            timeout_s=policy.timeout_s,
            answer_timeout_s=policy.answer_timeout_s,
            policy=retries,
        )
        self._headers = headers
        self._wait = policy.wait

    @property
    def api_key_env(self) -> str | None:
        """The name of the variable that holds the key."""
        return self._endpoint.api_key_env

    async def stream(self, request: Mapping[str, Any], new_reply: "Callable[[], Reply]") -> Stream:
        """Yield the events of a reply, repeating the request as long as that may succeed."""
        attempt = 0
        while True:
            try:
                async with aclosing(self._attempt(request, new_reply())) as events:
                    async for event in events:
                        yield event
                return
            except RetryLater as later:
                wait_s = self._endpoint.wait_s(attempt, later)
                reason = str(later)
            yield Retrying(reason, wait_s)
            await self._wait(wait_s)
            attempt += 1

    async def _attempt(self, request: Mapping[str, Any], reply: "Reply") -> Stream:
        connection = AbortableConnection()

        def work(emit: Emit) -> None:
            for value in self._values(request, connection):
                emit(value)

        async with aclosing(stream_from_thread(work, connection.abort)) as values:
            async for value in values:
                for event in reply.take(value):
                    yield event
        yield reply.finish()

    def _values(self, request: Mapping[str, Any], connection: AbortableConnection) -> Iterator[Any]:
        """Yield the values of a stream, or the single value of a response that is not a stream."""
        key = self._endpoint.read_key()
        headers = {"Accept": "text/event-stream", **self._headers(key)}
        with self._endpoint.post(request, headers, key, connection) as response:
            is_stream = response.headers.get_content_type() == "text/event-stream"
            pieces = _read_pieces(response)
            yield from _parse_events(pieces) if is_stream else [_parse_json(b"".join(pieces))]


def _read_pieces(response: Any) -> Iterator[bytes]:
    """Yield the body as it arrives. Raise ModelError if it is too long."""
    size = 0
    while piece := response.read1(PIECE_BYTES):
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise ModelError(f"the model's server sent more than {MAX_ANSWER_BYTES >> 20} MiB: ask for less")
        yield piece
    if response.length:
        raise ConnectionError("the response is incomplete")


def _parse_events(pieces: Iterator[bytes]) -> Iterator[Any]:
    """Yield the data of server-sent events, which end with an empty line."""
    data: list[bytes] = []
    for line in _split_lines(pieces):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            whole = b"\n".join(data)
            data = []
            yield DONE if whole.strip() == DONE.encode() else _parse_json(whole)


def _split_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield complete lines. The pieces of an incomplete line are joined only once, which keeps this linear."""
    incomplete: list[bytes] = []
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join([*incomplete, line]).removesuffix(b"\r")
            incomplete = []
        incomplete.append(rest)


def _parse_json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise ModelError("the model's server did not answer with JSON: check the address") from None


def as_object(value: object) -> dict[str, Any]:
    """Return a JSON object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def as_count(value: object) -> int:
    """Return a number of tokens, or 0 in place of anything else."""
    return value if isinstance(value, int) else 0
