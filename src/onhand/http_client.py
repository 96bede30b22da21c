"""A small HTTP client for endpoints of models and hubs: addresses, keys, redirects, errors and retries.

No key is sent unencrypted to another machine, and no redirect takes one elsewhere.
"""

import json
import os
import socket
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from threading import Lock, Timer
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler

from onhand.errors import InputError, OnhandError
from onhand.text import one_line

LOOPBACK_HOSTS = {"localhost", "127.0.0.1", "::1"}
USER_AGENT = "onhand"
RETRYABLE_STATUSES = {429, 500, 502, 503, 504, 529}
MAX_ERROR_BYTES = 64 << 10  # of a response that reports an error


def parse_url(url: str) -> SplitResult:
    """Parse an HTTP address; raise InputError, without quoting secrets, if it is not one."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"not an address: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise InputError("credentials in an address end up in logs: put the key in an environment variable instead")
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or not url.isascii() or " " in url:
        raise InputError(f"{url!r:.200} is not an HTTP address: write https://HOST/PATH")
    return parts


def is_loopback(parts: SplitResult) -> bool:
    """Return whether an address is on this machine."""
    return parts.hostname in LOOPBACK_HOSTS


class SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects unless they drop encryption, and stores the headers of the first response."""

    def __init__(self, allowed: bool, parts: SplitResult) -> None:
        self.allowed = allowed
        self._parts = parts
        self.first: dict[str, str] = {}

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Return the next request; None makes the redirect an HTTPError for the caller."""
        self.first = self.first or {name.lower(): value for name, value in headers.items()}
        downgraded = self._parts.scheme == "https" and urlsplit(newurl).scheme != "https"
        if not self.allowed or downgraded:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def build_opener(parts: SplitResult, redirects: SafeRedirects, *more: Any) -> urllib.request.OpenerDirector:
    """Return an opener that uses the proxies of the environment, except for this machine."""
    handlers: list[Any] = [redirects, *more]
    if is_loopback(parts):
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


def validate_key_name(name: str) -> None:
    """Raise InputError unless this is a valid name of an environment variable."""
    if not (name.isascii() and name.isidentifier()):
        # Someone may have passed the key itself; it must not reach a terminal or a log.
        raise InputError("api_key_env must be the name of the variable that holds the key, such as OPENAI_API_KEY")


def read_api_key(name: str | None, failure: type[OnhandError]) -> str | None:
    """Return the key in an environment variable; no message contains it."""
    if name is None:
        return None
    key = os.environ.get(name, "").strip()
    if not key:
        raise failure(f"the variable {name} is empty: set it to the key of the endpoint")
    if not (key.isascii() and key.isprintable()):
        raise failure(f"the variable {name} does not hold a valid key: check its value")
    return key


def error_message(body: bytes) -> str:
    """Return the error message of a response body on one line."""
    try:
        message = json.loads(body)
        while isinstance(message, dict):
            message = next((message[name] for name in ("error", "message", "detail") if message.get(name)), "")
    except (ValueError, RecursionError):
        message = body.decode("utf-8", "replace")
    return one_line(str(message), 300)


def parse_retry_after(header: str) -> float | None:
    """Return the delay of a Retry-After header, a number or a date, in seconds."""
    if header.strip().isascii() and header.strip().isdigit():
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


class AbortableConnection:
    """The connection of one request, which another thread or a timer can abort, even before it is established.

    A socket has a timeout for each read, which a server that sends a byte now and then never exceeds.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self._is_aborted = False

    def abort(self) -> None:
        """End the connection; whoever reads from it gets an error or the end."""
        with self._lock:
            self._is_aborted = True
            if self._socket is not None:
                with suppress(OSError):  # already closed
                    self._socket.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def abort_after(self, seconds: float, failure: Exception) -> Iterator[None]:
        """Abort the connection, and raise `failure`, if the block takes longer."""
        expired = False

        def expire() -> None:
            nonlocal expired
            expired = True
            self.abort()

        timer = Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception:
            if expired:
                raise failure from None
            raise
        finally:
            timer.cancel()
        if expired:
            raise failure

    def close(self) -> None:
        """Release the socket."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def handlers(self) -> tuple[HTTPHandler, HTTPSHandler]:
        """Return handlers for urllib that make this connection."""
        connection = self

        class Plain(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                connection._attach(self.sock)

        class Encrypted(HTTPSConnection, Plain):
            """Its `connect` calls that of Plain before it encrypts the connection."""

        class PlainHandler(HTTPHandler):
            def http_open(self, req: urllib.request.Request) -> HTTPResponse:
                return self.do_open(Plain, req)

        class EncryptedHandler(HTTPSHandler):
            def https_open(self, req: urllib.request.Request) -> HTTPResponse:
                return self.do_open(Encrypted, req, context=ssl.create_default_context())

        return PlainHandler(), EncryptedHandler()

    def _attach(self, connected: socket.socket) -> None:
        with self._lock:
            self._socket = connected.dup()  # encryption replaces the other one
            if self._is_aborted:
                raise ConnectionAbortedError("the connection was aborted")


class RetryLater(Exception):
    """A request failed and may succeed later; `after_s` is the delay that the server asks for."""

    def __init__(self, message: str, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s


class RetryPolicy(NamedTuple):
    """How often and after which delays a request is repeated."""

    retries: int = 4
    first_wait_s: float = 1.0  # doubled each time
    max_wait_s: float = 60.0  # if a server asks for more, the request fails
    after_timeouts: bool = True

    def wait_s(self, attempt: int, later: RetryLater) -> float | None:
        """Return the delay after attempt 0, 1, …, or None to give up."""
        wait_s = self.first_wait_s * 2**attempt if later.after_s is None else later.after_s
        return None if attempt >= self.retries or wait_s > self.max_wait_s else wait_s


class JsonEndpoint:
    """An address that accepts JSON by POST; its errors are of the type `failure`.

    A server may be silent for `timeout_s`, also before its response begins, and take `answer_timeout_s` for the rest of
    it. The key is read from an environment variable for each request.
    """

    def __init__(
        self,
        url: str,
        api_key_env: str | None,
        failure: type[OnhandError],
        *,
        timeout_s: float,
        answer_timeout_s: float,
        policy: RetryPolicy,
    ) -> None:
        parts = parse_url(url)
        if api_key_env is not None:
            validate_key_name(api_key_env)
            if parts.scheme != "https" and not is_loopback(parts):
                raise InputError(f"a key is not sent unencrypted to {parts.hostname}: use https")
        if min(timeout_s, answer_timeout_s) <= 0 or policy.retries < 0:
            raise InputError("timeout_s must be above zero, and retries must not be negative")
        self.url = url
        self.timeout_s = timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._parts = parts
        self.api_key_env = api_key_env
        self._failure = failure
        self._policy = policy

    def read_key(self) -> str | None:
        """Return the current key."""
        return read_api_key(self.api_key_env, self._failure)

    def wait_s(self, attempt: int, later: RetryLater) -> float:
        """Return the delay before the next attempt; raise an error if there should be none."""
        wait_s = self._policy.wait_s(attempt, later)
        if wait_s is None:
            advice = "" if later.after_s is None else f" It asks to wait for {later.after_s:.0f} s."
            raise self._failure(f"{self.url} {later}.{advice} Try again later")
        return wait_s

    @contextmanager
    def post(
        self, value: Any, headers: Mapping[str, str], key: str | None, connection: AbortableConnection | None = None
    ) -> Iterator[Any]:
        """Send a value and yield the response; errors, also while it is read, become RetryLater or a failure."""
        headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT, **headers}
        request = urllib.request.Request(self.url, json.dumps(value).encode(), headers)  # noqa: S310  # see parse_url
        late = self._failure(f"{self.url} took more than {self._answer_timeout_s:g} s to answer: ask for less")
        try:
            with (
                closing(connection or AbortableConnection()) as connection,
                self._open(request, key, connection) as response,
                connection.abort_after(self._answer_timeout_s, late),
            ):
                yield response
        except TimeoutError:
            raise self._timeout_error() from None
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise self._timeout_error() from None
            if isinstance(error.reason, ConnectionResetError):
                raise RetryLater("closed the connection") from None
            raise self._failure(f"{self.url} cannot be reached ({error.reason}): check that it is running") from None
        except (HTTPException, ConnectionError, ssl.SSLError):
            raise RetryLater("closed the connection") from None

    def _open(self, request: urllib.request.Request, key: str | None, connection: AbortableConnection) -> Any:
        # A redirect would carry the key to wherever it points.
        opener = build_opener(self._parts, SafeRedirects(False, self._parts), *connection.handlers())
        try:
            with connection.abort_after(self.timeout_s, TimeoutError()):
                return opener.open(request, timeout=self.timeout_s)
        except HTTPError as error:
            with error:
                raise self._translate_status(error, key, connection) from None

    def _timeout_error(self) -> Exception:
        message = f"did not answer within {self.timeout_s:g} s"
        if self._policy.after_timeouts:
            return RetryLater(message)
        return self._failure(f"{self.url} {message}: increase the timeout")

    def _translate_status(self, error: HTTPError, key: str | None, connection: AbortableConnection) -> Exception:
        """Translate an error status, with the message of the server."""
        if 300 <= error.code < 400:
            return self._failure(f"{self.url} answered {error.code}, a redirect: use the target address")
        try:
            with connection.abort_after(self.timeout_s, TimeoutError()):
                details = error_message(error.read(MAX_ERROR_BYTES))
        except (OSError, HTTPException):
            details = ""
        details = details.replace(key, "…") if key else details
        message = f"answered {error.code}" + (f": {details}" if details else "")
        if error.code in RETRYABLE_STATUSES:
            return RetryLater(message, parse_retry_after(error.headers.get("Retry-After", "")))
        if error.code in (401, 403) and self.api_key_env is None:
            message += ". Set api_key_env to the name of the variable that holds the key"
        return self._failure(f"{self.url} {message}")
