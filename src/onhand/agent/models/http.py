"""How is a model asked over HTTP? One request, its answer as it arrives, and patience with a server that is busy.

It knows addresses, server-sent events and statuses; what a provider says in them is for the file of that provider.
Whoever stops listening hangs up: the connection is cut at once, so that the other side stops working too.
"""

import asyncio
import http.client
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from threading import Lock
from typing import Any, NamedTuple, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import HTTPHandler, HTTPSHandler, Request

from onhand.agent.events import Answered, ModelEvent, Retrying, Stream
from onhand.agent.models.threaded import Tell, threaded
from onhand.endpoint import (
    PASSING,
    USER_AGENT,
    Redirects,
    accept_key_name,
    accepted_url,
    is_loopback,
    key_of,
    opener,
    retry_after_s,
    said_in,
)
from onhand.errors import InputError, ModelError

TIMEOUT_S = 120.0  # of silence: a model may think for long before its first word
RETRIES = 4
FIRST_WAIT_S = 1.0  # doubled each time
MAX_WAIT_S = 60.0  # a server that asks for more is not waited for
MAX_ANSWER_BYTES = 64 << 20
MAX_REFUSAL_BYTES = 64 << 10
PIECE_BYTES = 1 << 16
DONE = "[DONE]"


class Later(Exception):
    """It may work in a moment; after how many seconds, if the server said so."""

    def __init__(self, message: str, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s


class Reply(Protocol):
    """What has arrived of an answer, as a provider spells it."""

    def take(self, value: Any) -> Iterator[ModelEvent]:
        """Add a value of the stream; what it lets a listener know."""

    def answered(self) -> Answered:
        """The whole of it; Later when it broke off."""


class Patience(NamedTuple):
    """How long silence is borne, how often a request is made again, and how one waits."""

    timeout_s: float = TIMEOUT_S
    retries: int = RETRIES
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep


PATIENT = Patience()


class Endpoint:
    """An address that takes JSON and answers with a stream of it. A key is known by the name of its variable alone."""

    def __init__(
        self,
        url: str,
        api_key_env: str | None,
        headers: Callable[[str | None], Mapping[str, str]],
        patience: Patience = PATIENT,
    ) -> None:
        parts = accepted_url(url)
        if api_key_env is not None:
            accept_key_name(api_key_env)
            if parts.scheme != "https" and not is_loopback(parts):
                raise InputError(f"a key is not sent unencrypted to {parts.hostname}: use https")
        if patience.timeout_s <= 0 or patience.retries < 0:
            raise InputError("timeout_s is above zero, and retries are not less than none")
        self.url = url
        self._parts = parts
        self._api_key_env = api_key_env
        self._headers = headers
        self._patience = patience

    async def events(self, wanted: Mapping[str, Any], begun: "Callable[[], Reply]") -> Stream:
        """What a model says to a request, made again as long as the server says "later" and patience lasts."""
        for number in range(self._patience.retries + 1):
            try:
                async with aclosing(self._attempt(wanted, begun())) as events:
                    async for event in events:
                        yield event
                return
            except Later as later:
                wait_s = FIRST_WAIT_S * 2**number if later.after_s is None else later.after_s
                if number == self._patience.retries or wait_s > MAX_WAIT_S:
                    said = "" if later.after_s is None else f" It asks to wait for {later.after_s:.0f} s."
                    raise ModelError(f"{self.url} {later}.{said} Try again later") from None
                reason = str(later)
            yield Retrying(reason, wait_s)
            await self._patience.wait(wait_s)

    async def _attempt(self, wanted: Mapping[str, Any], reply: "Reply") -> Stream:
        """One request, and its answer as it arrives; Later or ModelError when there is none."""
        line = _Line()
        body = json.dumps(wanted).encode()

        def work(tell: Tell) -> None:
            for value in self._values(body, line):
                tell(value)

        async with aclosing(threaded(work, line.hang_up)) as values:
            async for value in values:
                for event in reply.take(value):
                    yield event
        yield reply.answered()

    def _values(self, body: bytes, line: "_Line") -> Iterator[Any]:
        key = key_of(self._api_key_env, ModelError)
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": USER_AGENT}
        request = Request(self.url, body, {**headers, **self._headers(key)})  # noqa: S310  # http and https only
        # A redirect would carry the key to wherever it points.
        ask = opener(self._parts, Redirects(False, self._parts), *line.handlers())
        timeout_s = self._patience.timeout_s
        try:
            with ask.open(request, timeout=timeout_s) as response:
                is_stream = response.headers.get_content_type() == "text/event-stream"
                yield from _events(_pieces(response)) if is_stream else [_loaded(b"".join(_pieces(response)))]
        except HTTPError as error:
            with error:
                raise self._refusal(error, key) from None
        except TimeoutError:
            raise Later(f"was silent for {timeout_s:g} s") from None
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise Later(f"was silent for {timeout_s:g} s") from None
            if isinstance(error.reason, ConnectionResetError):
                raise Later("broke the connection off") from None
            raise ModelError(f"{self.url} cannot be reached ({error.reason}): check that it runs") from None
        except (http.client.HTTPException, ConnectionError, ssl.SSLError):
            raise Later("broke the connection off") from None

    def _refusal(self, error: HTTPError, key: str | None) -> Exception:
        """What a status other than 200 means, with the server's words."""
        if 300 <= error.code < 400:
            return ModelError(f"{self.url} answered {error.code}, a redirect: give the address that it leads to")
        said = ""
        with suppress(OSError, http.client.HTTPException):
            said = said_in(error.read(MAX_REFUSAL_BYTES))
        said = said.replace(key, "…") if key else said
        message = f"answered {error.code}" + (f": {said}" if said else "")
        if error.code in PASSING:
            return Later(message, retry_after_s(error.headers.get("Retry-After", "")))
        if error.code in (401, 403) and self._api_key_env is None:
            message += ". Give api_key_env, the name of the variable that holds the key"
        return ModelError(f"{self.url} {message}")


class _Line:
    """A connection that can be cut from another thread, whether it is made already or not."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False

    def hang_up(self) -> None:
        with self._lock:
            self._is_cut = True
            if self._socket is not None:
                with suppress(OSError):  # it is closed already
                    self._socket.shutdown(socket.SHUT_RDWR)

    def connected(self, made: socket.socket) -> None:
        with self._lock:
            self._socket = made
            if self._is_cut:
                raise ConnectionAbortedError("nobody listens any more")

    def handlers(self) -> tuple[HTTPHandler, HTTPSHandler]:
        """What makes connections that this line knows of."""
        line = self

        class Plain(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                line.connected(self.sock)

        class Encrypted(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                line.connected(self.sock)

        class PlainHandler(HTTPHandler):
            def http_open(self, req: Request) -> http.client.HTTPResponse:
                return self.do_open(Plain, req)

        class EncryptedHandler(HTTPSHandler):
            def https_open(self, req: Request) -> http.client.HTTPResponse:
                return self.do_open(Encrypted, req, context=ssl.create_default_context())

        return PlainHandler(), EncryptedHandler()


def _pieces(response: Any) -> Iterator[bytes]:
    """The body as it arrives, unless it is endless."""
    size = 0
    while piece := response.read1(PIECE_BYTES):
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise ModelError(f"the model's server sent more than {MAX_ANSWER_BYTES >> 20} MiB: ask for shorter answers")
        yield piece
    if response.length:
        raise ConnectionError("the answer is not whole")


def _events(pieces: Iterator[bytes]) -> Iterator[Any]:
    """The data of server-sent events: lines up to an empty one, of which those with `data:` count."""
    data: list[bytes] = []
    for line in _lines(pieces):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            whole = b"\n".join(data)
            data = []
            yield DONE if whole.strip() == DONE.encode() else _loaded(whole)


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without their ends. What is unfinished waits in pieces: to join it anew each time would be quadratic."""
    begun: list[bytes] = []
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join([*begun, line]).removesuffix(b"\r")
            begun = []
        begun.append(rest)


def _loaded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise ModelError("the model's server did not answer with JSON: check the address and what runs there") from None
