"""Ports of this machine that a test can count on."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserve_port() -> Iterator[int]:
    """Yield a port at which only this process can listen; without it, another process may take the port first."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # so that the listener may bind to it, too
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]
