"""What answers on this machine in place of a service? A real HTTP server, whose answers a test gives."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A request as it came in."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Reply(NamedTuple):
    """What goes back; `cut` breaks the connection off after so many bytes of the body.

    A body may be an iterator, which is stopped when the other side hangs up.

    With `then`, the body is only the beginning: the connection stays open until that returns, with a function to read
    from it, which gives nothing once the other side has hung up.
    """

    body: bytes | str | dict[str, Any] | list[Any] | Iterator[bytes] = b""
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012  # of one reply; nobody writes to it
    cut: int | None = None
    then: Callable[[Callable[[int], bytes]], None] | None = None


class Loopback:
    """A server, and what it was asked so far."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []


@contextmanager
def serving(answer: Callable[[Asked], Reply]) -> Iterator[Loopback]:
    """A server on a free port that answers by a function, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, self.rfile.read(length))
            loopback.asked.append(asked)
            reply = answer(asked)
            pieces = reply.body if isinstance(reply.body, Iterator) else None
            given = b"" if pieces else reply.body
            body = given if isinstance(given, bytes | str) else json.dumps(given)
            raw = body.encode() if isinstance(body, str) else body
            self.send_response(reply.status)
            length_header = {} if reply.then or pieces else {"Content-Length": str(len(raw))}
            for name, value in {**length_header, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw[: reply.cut])
            for piece in pieces or ():
                try:
                    self.wfile.write(piece)
                except OSError:  # the other side has hung up
                    break
            if reply.then:
                self.wfile.flush()
                reply.then(self.connection.recv)
            self.close_connection = True

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    loopback = Loopback(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield loopback
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
