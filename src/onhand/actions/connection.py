"""How is an address connected to, and for how long? Until its time is over, or nobody waits for the answer any more.

It connects to addresses that somebody else has checked, and knows nothing of what is said over a connection.
"""

import os
import selectors
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from errno import EINPROGRESS, EWOULDBLOCK
from threading import Event, Thread
from time import monotonic

from onhand import wanted
from onhand.errors import Unwanted

ASK_S = 0.1  # how often it is looked whether anybody still waits
ATTEMPT_S = 3.0  # for an address that is not the last: networks that swallow IPv6 are common


def connected(addresses: Sequence[str], port: int, deadline: float) -> socket.socket | None:
    """A connection to the first address that answers, up to a monotonic moment; None when there is none.

    Each gets its share of the time that is left: one that swallows everything must not cost the others theirs.
    """
    for others, address in zip(reversed(range(len(addresses))), addresses, strict=True):
        left_s = deadline - monotonic()
        if left_s <= 0:
            return None
        share_s = min(left_s / (others + 1), ATTEMPT_S) if others else left_s
        with suppress(OSError):
            return _connected(address, port, monotonic() + share_s)
    return None


def _connected(address: str, port: int, ends_at: float) -> socket.socket:
    connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        connection.setblocking(False)
        problem = connection.connect_ex((address, port))
        if problem in (EINPROGRESS, EWOULDBLOCK):
            _await(connection, ends_at)
            problem = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            raise OSError(problem, os.strerror(problem))
        connection.setblocking(True)
        return connection
    except BaseException:
        connection.close()
        raise


def _await(connection: socket.socket, ends_at: float) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_WRITE)
        while not selector.select(min(ASK_S, max(0.0, ends_at - monotonic()))):
            wanted.check()
            if monotonic() >= ends_at:
                raise TimeoutError


@contextmanager
def cut(connection: socket.socket, deadline: float) -> Iterator[None]:
    """Within it, a connection is cut at a monotonic moment, or soon after nobody waits: who drips must not hold us."""
    held, is_over = connection.dup(), Event()  # its own: TLS takes the other one over
    watching = Thread(target=copy_context().run, args=(_watch, held, deadline, is_over), name="cut", daemon=True)
    watching.start()
    try:
        yield
    finally:
        is_over.set()
        watching.join()
        held.close()


def _watch(held: socket.socket, deadline: float, is_over: Event) -> None:
    with suppress(Unwanted):
        while monotonic() < deadline:
            if is_over.wait(min(ASK_S, max(0.0, deadline - monotonic()))):
                return
            wanted.check()
    with suppress(OSError):
        held.shutdown(socket.SHUT_RDWR)
