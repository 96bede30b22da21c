"""A real server over HTTP in this process, for tests that have to see its limits or its sockets."""

import asyncio
import os
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from onhand.mcp import http
from onhand.mcp.http import HttpLimits
from onhand.mcp.surface import Surface
from onhand.net import ListenAddress
from rawmcp import Http

PATIENCE_S = 60


@contextmanager
def serving(surface: Surface, limits: HttpLimits = http.DEFAULT_LIMITS, token: str = "") -> Iterator[Http]:
    """A surface at a free port, in an event loop of its own."""
    announced: Future[str] = Future()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def main() -> None:
        running.append((asyncio.get_running_loop(), asyncio.current_task()))
        with suppress(asyncio.CancelledError):
            await http.serve(surface, ListenAddress("127.0.0.1", 0), token, announced.set_result, limits)

    thread = Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        yield Http(announced.result(PATIENCE_S))
    finally:
        for loop, task in running:
            assert task is not None
            loop.call_soon_threadsafe(task.cancel)
        thread.join(PATIENCE_S)


def sockets_to(port: int) -> list[socket.socket]:
    """Copies of the sockets of this process whose other end has a port on this machine."""
    found = []
    for descriptor in [int(name) for name in os.listdir("/proc/self/fd") if _is_socket(name)]:
        with suppress(OSError):
            copy = socket.socket(fileno=os.dup(descriptor))
            try:
                peer = copy.getpeername()
            except OSError:  # it listens, or it is one of a pair
                peer = ()
            if isinstance(peer, tuple) and peer[1:2] == (port,):
                found.append(copy)
            else:
                copy.close()
    return found


def _is_socket(name: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode)
    except OSError:
        return False
