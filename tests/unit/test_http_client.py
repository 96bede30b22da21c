"""Endpoints that send a byte now and then: no part of a response may take for ever."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest

from onhand.errors import ModelError
from onhand.http_client import JsonEndpoint, RetryPolicy

HEAD = b"HTTP/1.1 200 OK\r\n"
UNAUTHORIZED = b"HTTP/1.1 401 Unauthorized\r\n"
HANDSHAKE = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc"  # the first bytes of an answer of TLS, 16 KiB long
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@contextmanager
def trickling(start: bytes, piece: bytes) -> Iterator[int]:
    """A server on the returned port that sends `start`, and then `piece` again and again until nobody listens."""
    ended = Event()

    def serve() -> None:
        connected, _ = listener.accept()
        with connected, suppress(OSError):
            connected.sendall(start)
            while not ended.wait(0.01):
                connected.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            thread.join()


def read_answer(url: str, *, timeout_s: float, answer_timeout_s: float = 60.0) -> None:
    policy = RetryPolicy(after_timeouts=False)
    endpoint = JsonEndpoint(
        url, None, ModelError, timeout_s=timeout_s, answer_timeout_s=answer_timeout_s, policy=policy
    )
    with endpoint.post({}, {}, None) as response:
        while response.read1(100):
            pass


@pytest.mark.parametrize(
    ("start", "piece"),
    [(HEAD, b"X: y\r\n"), (HEAD + b"X: ", b"y"), (b"H", b"T"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n")],
    ids=["header lines", "one header line", "status line", "interim responses"],
)
def test_a_head_that_trickles_is_given_up_like_silence(start: bytes, piece: bytes) -> None:
    with trickling(start, piece) as port, pytest.raises(ModelError, match=r"did not answer within 0\.3 s"):
        read_answer(f"http://127.0.0.1:{port}", timeout_s=0.3)


def test_a_handshake_that_trickles_is_given_up_like_silence() -> None:
    with trickling(HANDSHAKE, b"\0") as port, pytest.raises(ModelError, match=r"did not answer within 0\.3 s"):
        read_answer(f"https://127.0.0.1:{port}", timeout_s=0.3)


@pytest.mark.parametrize(
    ("headers", "piece"), [(b"\r\n", b"x"), (CHUNKED, b"1\r\nx\r\n"), (b"Content-Length: 9999\r\n\r\n", b"x")]
)
def test_an_answer_that_trickles_has_a_total_time(headers: bytes, piece: bytes) -> None:
    with trickling(HEAD + headers, piece) as port, pytest.raises(ModelError, match=r"took more than 0\.3 s to answer"):
        read_answer(f"http://127.0.0.1:{port}", timeout_s=60, answer_timeout_s=0.3)


def test_an_error_that_trickles_is_reported_without_its_text() -> None:
    with (
        trickling(UNAUTHORIZED + b"\r\n", b"x") as port,
        pytest.raises(ModelError, match=r"answered 401\. Set api_key"),
    ):
        read_answer(f"http://127.0.0.1:{port}", timeout_s=0.3)
