"""The connections of clients over HTTP: how many there may be, and how slowly each may send and read.

Uvicorn refuses all clients once there are too many connections, and waits forever for one that sends or reads slowly.
Here a new connection takes the place of one that has sent no valid request, and one that makes no progress is closed.
"""

import asyncio
from collections.abc import MutableMapping
from functools import partial
from math import inf
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from onhand.mcp.eviction import EvictionOrder

EXTENSION = "onhand.connection"  # of an ASGI scope: the connection that the request came in through
MIN_BYTES_PER_S = 1_000  # of a body that is sent to us or a response that is read; any mobile network is faster
LINGER_S = 5.0  # to read a refusal while the body is still being sent: closing at once could lose the refusal
CHECKS = 4  # of the progress of each connection, within the time that it has
MAX_CHECK_S = 1.0


def _error_response(status: bytes, text: bytes) -> bytes:
    headers = b"connection: close\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d" % len(text)
    return b"HTTP/1.1 " + status + b"\r\n" + headers + b"\r\n\r\n" + text


_BUSY = _error_response(b"503 Service Unavailable", b"All connections of the server are in use. Try again later.")
_TOO_SLOW = _error_response(b"408 Request Timeout", b"The request was not sent in time. Send it faster.")


class Connections:
    """All connections of one server."""

    def __init__(self, max_connections: int, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._open: dict[LimitedConnection, None] = {}
        self._order = EvictionOrder[LimitedConnection](max_connections)

    @property
    def protocol(self) -> Any:
        """What makes the protocol of each connection, for uvicorn."""
        return partial(LimitedConnection, self)

    async def watch(self) -> None:
        """Close connections that make no progress, until this is cancelled."""
        while True:
            await asyncio.sleep(min(MAX_CHECK_S, self.timeout_s / CHECKS))
            now = asyncio.get_running_loop().time()
            for connection in list(self._open):
                connection.check_progress(now)

    def admit(self, connection: "LimitedConnection", peer: str) -> bool:
        """Add a new connection, if necessary in place of another; return False if all others are in use."""
        self._open[connection] = None
        if self._order.is_full:
            replaced = self._order.choose()
            if replaced is None:
                return False
            self._order.remove(replaced)
            replaced.transport.abort()
        self._order.add(connection, peer, connection.loop.time())
        return True

    def hold(self, connection: "LimitedConnection") -> None:
        """Keep a connection that has sent a valid request until it is released."""
        self._order.hold(connection)

    def release(self, connection: "LimitedConnection") -> None:
        """Let a connection be replaced, now that its request has been answered."""
        self._order.release(connection, connection.loop.time(), is_proven=True)

    def remove(self, connection: "LimitedConnection") -> None:
        """Forget a connection that has been closed."""
        self._open.pop(connection, None)
        self._order.remove(connection)


class LimitedConnection(H11Protocol):
    """A connection that is closed when its client makes no progress."""

    def __init__(self, connections: Connections, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._connections = connections
        self._application, self.app = self.app, self._serve
        self._is_held = False
        self._received = 0
        self._phase: tuple[str, int] = ("", 0)  # what the client is doing, and in which request
        self._phase_began, self._done_before = 0.0, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or refuse it."""
        super().connection_made(transport)
        if not self._connections.admit(self, self.client[0] if self.client else ""):
            transport.write(_BUSY)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request."""
        self._received += len(data)
        super().data_received(data)

    def accept_request(self) -> None:
        """Keep the connection until its request, which is valid, has been answered."""
        self._is_held = True
        self._connections.hold(self)

    def on_response_complete(self) -> None:
        """Let the connection be replaced until it sends the next valid request."""
        if self._is_held:
            self._is_held = False
            self._connections.release(self)
        super().on_response_complete()

    def check_progress(self, now: float) -> None:
        """Close the connection if its client is too slow."""
        phase, limit_s, done = self._describe_phase()
        if phase != self._phase:
            self._phase, self._phase_began, self._done_before = phase, now, done
        elif now - self._phase_began >= limit_s + (done - self._done_before) / MIN_BYTES_PER_S:
            self._give_up()

    def _describe_phase(self) -> tuple[tuple[str, int], float, int]:
        """Return what the client is doing, how long that may take, and how many bytes of it are done."""
        cycle: RequestResponseCycle | None = self.cycle  # of the latest request
        is_answered, is_closing = cycle is not None and cycle.response_complete, self.transport.is_closing()
        limit_s, unsent = self._connections.timeout_s, self.transport.get_write_buffer_size()
        if unsent and (self.flow.write_paused or is_answered or is_closing):  # it only shrinks, as the client reads
            return ("reads", id(cycle)), limit_s, -unsent
        if is_closing:
            return ("leaves", id(cycle)), LINGER_S, 0
        if self.conn.their_state is h11.SEND_BODY:
            if is_answered:  # nothing more of it is used
                return ("sends on", id(cycle)), LINGER_S, 0
            return ("sends", id(cycle)), limit_s, self._received
        if self.conn.their_state is h11.IDLE and (cycle is None or self.conn.trailing_data[0]):
            return ("begins", id(cycle)), limit_s, 0
        return ("waits", id(cycle)), inf, 0

    def _give_up(self) -> None:
        if self._phase[0] in ("begins", "sends"):
            self.transport.write(_TOO_SLOW)
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    async def _serve(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        scope["extensions"] = {EXTENSION: self}
        await self._application(scope, receive, send)
