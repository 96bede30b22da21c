"""How is the gRPC door opened from a command line? It runs inside of any event loop, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from onhand import app
from onhand.cli import terminal
from onhand.listening import Address, address_of, is_loopback
from onhand.signals import heard

if TYPE_CHECKING:
    from onhand.config import Config

LOG_LINES = 10_000  # that may wait for a slow reader; then the oldest are dropped
LOG_EVERY_S = 0.2  # to write each line at once would cost a call more than to make it
PATIENCE_S = 5.0  # with a reader of the log who does not read, at the end


async def serve_grpc(asked: Config, address: str, path: str | None = None) -> None:
    """Serve until a signal asks us to end, then finish what has begun."""
    ended = asyncio.Event()
    with heard(lambda _: ended.set()):
        async with grpc_served(asked, address, path):
            await ended.wait()


@asynccontextmanager
async def grpc_served(asked: Config, address: str, path: str | None = None) -> AsyncIterator[None]:
    """The service runs in the current event loop while this is entered; what else the process serves can go inside."""
    from onhand.errors import MissingExtra

    try:
        from onhand.grpc.access import DEFAULT_PORT
    except ModuleNotFoundError as error:
        raise MissingExtra("search over gRPC", "grpc") from error
    host, port = address_of(address, DEFAULT_PORT)
    server = app.open_grpc(asked, path)
    with _logging() as begin_to_log, _metrics(asked.grpc.metrics):
        bound = await server.start(host, port)
        try:
            if not is_loopback(host) and not asked.grpc.tls_cert:
                terminal.warn(["tokens and documents travel unencrypted: set grpc.tls_cert and grpc.tls_key"])
            terminal.complain(f"onhand: serving gRPC on {Address(host, bound)}")
            begin_to_log()
            yield
        finally:
            await server.stop(asked.grpc.shutdown_s)
            server.close()


@contextmanager
def _metrics(address: str) -> Iterator[None]:
    if not address:
        yield
        return
    from onhand.grpc.telemetry import DEFAULT_PORT, serve_metrics

    host, port = address_of(address, DEFAULT_PORT)
    server, bound = serve_metrics(host, port)
    terminal.complain(f"onhand: metrics at http://{Address(host, bound)}/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _logging() -> Iterator[Callable[[], None]]:
    """Lines of JSON to standard error, from when it is told to begin: not amid other lines."""
    logger, lines = logging.getLogger("onhand.grpc"), _Lines()
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield lines.thread.start
    finally:
        logger.removeHandler(lines)
        lines.end()


class _Lines(logging.Handler):
    """Collects lines, which a thread of its own writes some at a time: a call waits neither for it nor for a reader."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = Thread(target=self._write, daemon=True)
        self._waiting: deque[logging.LogRecord] = deque(maxlen=LOG_LINES)
        self._has_ended = Event()

    def emit(self, record: logging.LogRecord) -> None:
        self._waiting.append(record)

    def end(self) -> None:
        self._has_ended.set()
        if self.thread.is_alive():
            self.thread.join(PATIENCE_S)

    def _write(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._has_ended.wait(LOG_EVERY_S)
            lines = [self._waiting.popleft().getMessage() for _ in range(len(self._waiting))]
            if lines:
                terminal.complain("\n".join(lines))
