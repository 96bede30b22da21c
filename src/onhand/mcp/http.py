"""Serve MCP over HTTP: the SDK's streamable HTTP transport behind a strict request guard.

Any web page can send requests to this machine; what gives it away are the Host and Origin headers. Both are parsed
strictly, because `localhost:3001.evil.com` begins like a good one. Only this machine is let in, unless whoever runs the
server says otherwise and sets a token.
"""

import re
import socket
import sys
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import anyio
import mcp_types as types
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onhand.errors import InputError
from onhand.mcp.http_connections import EXTENSION, Connections
from onhand.mcp.http_sessions import MAX_OPENING, Sessions
from onhand.mcp.http_workers import WorkerSessions, listen_for_workers
from onhand.mcp.stdio import MAX_LINE_BYTES, Refusal, parse_message
from onhand.mcp.surface import Surface, build_server
from onhand.net import LOOPBACK_HOST, ListenAddress, Token, require_token
from onhand.serving import handle_stop_signals

PATH = "/mcp"
DEFAULT_PORT = 8321
SMALL_BODY_BYTES = 64 * 1024  # of a body; only what is beyond counts towards the next limit
MAX_BUFFERED_BYTES = 64 * 1024 * 1024  # of all large bodies that are being read
BACKLOG = 256  # connections that wait to be accepted, and the most that are accepted at once
KEEP_ALIVE_S = 75  # between requests: a little longer than the reverse proxies that keep connections to us
FINISH_S = 2  # for open streams after a stop signal
METADATA_PATH = "/.well-known/oauth-protected-resource"
METHODS = ("GET", "POST", "DELETE")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_AUTHORITY = r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::(?P<port>[0-9]{1,5}))?"
_HOST = re.compile(_AUTHORITY, re.ASCII)
_ORIGIN = re.compile(rf"https?://{_AUTHORITY}", re.ASCII)
_JSON = re.compile(r'application/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?', re.ASCII | re.IGNORECASE)


class HttpLimits(NamedTuple):
    """What clients over HTTP may take."""

    max_connections: int = 1_000
    max_sessions: int = 1_000
    timeout_s: float = 30.0  # to send a request or to read a response, in addition to a second for each kilobyte
    session_idle_s: float = 1_800.0


DEFAULT_LIMITS = HttpLimits()
NO_TOKENS: Mapping[str, str] = {}


class WorkerPlace(NamedTuple):
    """The place of this process among several that serve one port."""

    number: int  # from 1
    directory: str  # of the sockets through which the workers reach each other


class Endpoint(NamedTuple):
    """A surface at a path of its own; clients of it need its token, and no other opens it."""

    path: str
    surface: Surface
    token: str = ""


async def serve(
    surface: Surface,
    address: ListenAddress,
    token: str,
    announce: Callable[[str], None],
    limits: HttpLimits = DEFAULT_LIMITS,
    profiles: Sequence[Endpoint] = (),
    worker: WorkerPlace | None = None,
) -> None:
    """Serve a surface at PATH and others beside it until a stop signal; `announce` gets each URL when it is open."""

    class Server(uvicorn.Server):
        """Ends on a signal without raising it again, as uvicorn does: the caller may have more to end."""

        @contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            with handle_stop_signals(lambda number: self.handle_exit(number, None)):
                yield

    app = application(surface, address.host, token, limits, profiles, worker)
    connections = Connections(min(limits.max_connections, _max_sockets()), limits.timeout_s)
    with ExitStack() as stack:
        listener = stack.enter_context(_listen(address, shares_port=worker is not None))
        listeners = [listener]
        if worker:
            listeners.append(stack.enter_context(listen_for_workers(worker.directory, worker.number)))
        config = uvicorn.Config(
            app,
            http=connections.protocol,
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            proxy_headers=False,  # anybody could send them
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            backlog=BACKLOG,
            timeout_graceful_shutdown=FINISH_S,
        )
        for path in (PATH, *(endpoint.path for endpoint in profiles)):
            announce(f"http://{address._replace(port=listener.getsockname()[1])}{path}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connections.watch)
            await Server(config).serve(sockets=listeners)
            tasks.cancel_scope.cancel()


def _max_sockets() -> int:
    """Return how many connections leave half of the file descriptors of this process for everything else."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft // 2


def _listen(address: ListenAddress, shares_port: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server(
            (address.host, address.port), family=family, backlog=BACKLOG, reuse_port=shares_port
        )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot listen on {address}: {reason}; choose another port") from None
    # With its protocol named: asyncio sets TCP_NODELAY only then, and without it a response waits 40 ms for the
    # client's delayed acknowledgement.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, listener.detach())


def application(
    surface: Surface,
    host: str = LOOPBACK_HOST,
    token: str = "",
    limits: HttpLimits = DEFAULT_LIMITS,
    profiles: Sequence[Endpoint] = (),
    worker: WorkerPlace | None = None,
) -> ASGIApp:
    """Return surfaces as an ASGI application; InputError if other machines could reach one without a token."""
    endpoints = (Endpoint(PATH, surface, token), *profiles)
    for endpoint in endpoints:
        require_token(host, endpoint.token, "name the variable that holds it in serve.token_env or by --token-env")
    apps = {endpoint.path: _make_app(endpoint, limits) for endpoint in endpoints}
    tokens = {endpoint.path: endpoint.token for endpoint in endpoints}
    app = Paths(apps) if profiles else apps[PATH]
    return Guard(WorkerSessions(app, *worker) if worker else app, tokens, host=host)


def _make_app(endpoint: Endpoint, limits: HttpLimits) -> ASGIApp:
    app = build_server(endpoint.surface).streamable_http_app(
        streamable_http_path=endpoint.path,
        # The guard does this more strictly: the SDK only compares how a host begins.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=MAX_LINE_BYTES,
        session_idle_timeout=limits.session_idle_s,
        max_sessions=limits.max_sessions + MAX_OPENING,
    )
    return Sessions(app, endpoint.path, limits.max_sessions, limits.session_idle_s)


class Paths:
    """ASGI application that passes requests on by their path, and lives as long as all of its applications."""

    def __init__(self, apps: Mapping[str, ASGIApp]) -> None:
        self._apps = apps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or start and stop all applications."""
        if scope["type"] == "http":
            await self._apps.get(scope["path"], self._apps[PATH])(scope, receive, send)
            return
        async with anyio.create_task_group() as tasks:
            lives = [_Life(app, scope) for app in self._apps.values()]
            message = await receive()
            reply: Message = {}
            for life in lives:
                tasks.start_soon(life.run)
                reply = await life.tell(message)
                if reply["type"] != "lifespan.startup.complete":
                    break
            await send(reply)
            if reply["type"] == "lifespan.startup.complete":
                message = await receive()
                for life in reversed(lives):  # the first one opened what they share
                    reply = await life.tell(message)
                await send(reply)
            tasks.cancel_scope.cancel()


class _Life:
    """The life of one application, which is told when to start and to stop."""

    def __init__(self, app: ASGIApp, scope: Scope) -> None:
        self._app, self._scope = app, scope
        self._told, self._tell = anyio.create_memory_object_stream[Message](1)[::-1]
        self._reply, self._replies = anyio.create_memory_object_stream[Message](1)

    async def run(self) -> None:
        """Run until it has stopped."""
        await self._app(self._scope, self._told.receive, self._reply.send)

    async def tell(self, message: Message) -> Message:
        """Pass a message on and return the reply."""
        await self._tell.send(message)
        return await self._replies.receive()


class HttpRefusal(NamedTuple):
    """The error response to a request that goes no further."""

    status: int
    text: str
    id: int | str | None = None
    code: int = types.INVALID_REQUEST
    challenge: str = ""
    closes: bool = False  # the connection, because what follows on it cannot be told from the rest of the request

    def response(self) -> JSONResponse:
        """Return the HTTP response, whose body is a JSON-RPC error."""
        headers = {"www-authenticate": self.challenge} if self.challenge else {}
        if self.closes:
            headers["connection"] = "close"
        if self.status == 405:
            headers["allow"] = ", ".join(METHODS)
        error = {"code": self.code, "message": self.text}
        return JSONResponse({"jsonrpc": "2.0", "id": self.id, "error": error}, self.status, headers)


_OVERLOADED = HttpRefusal(503, "The server is reading too many large requests. Try again later.")
_TWO_LENGTHS = HttpRefusal(
    400, "A request must have either Content-Length or Transfer-Encoding, not both.", closes=True
)
_TOO_LARGE = HttpRefusal(413, f"The body has more than {MAX_LINE_BYTES:,} bytes. Send less at once.")


class Guard:
    """ASGI middleware that lets only requests through that are addressed to us, well-formed and authorized.

    A path may have a token, which every request to it must carry; if one has none, only requests to this machine are
    accepted. Any other path has the token of PATH.
    """

    def __init__(self, app: ASGIApp, tokens: Mapping[str, str] = NO_TOKENS, *, host: str = LOOPBACK_HOST) -> None:
        self._app = app
        self._buffered_bytes = 0
        self._tokens = {path: Token(token) if token else None for path, token in tokens.items()}
        host = f"[{host}]" if ":" in host else host.lower()
        is_guarded = bool(tokens) and all(tokens.values())
        self._hosts = None if is_guarded and host not in LOOPBACK else (*LOOPBACK, host)  # None: any

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._check_headers(scope["method"], headers)
        if refusal is None:
            origin = f"{scope.get('scheme', 'http')}://{headers['host']}"
            if scope["path"] == METADATA_PATH and any(self._tokens.values()):
                # How a client gets in (RFC 9728): with a token that whoever runs the server hands out.
                metadata = {"resource": origin, "bearer_methods_supported": ["header"]}
                await JSONResponse(metadata)(scope, receive, send)
                return
            refusal = self._check_token(headers, scope["path"], origin)
        if refusal is None and scope["method"] == "POST":
            body, refusal = await self._read_body(receive)
            receive = _replay(body, receive)
        if refusal is None:
            if (connection := scope.get("extensions", {}).get(EXTENSION)) is not None:
                connection.accept_request()
            await self._app(scope, receive, send)
        else:
            await refusal.response()(scope, receive, send)

    async def _read_body(self, receive: Receive) -> tuple[bytes, HttpRefusal | None]:
        """Return the body and, if it is not a valid message, the error response."""
        body = bytearray()
        counted = 0
        try:
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return b"", HttpRefusal(400, "The request was not sent completely.")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > MAX_LINE_BYTES:
                    return b"", _TOO_LARGE
                large = max(0, len(body) - SMALL_BODY_BYTES)
                self._buffered_bytes += large - counted
                counted = large
                if counted and self._buffered_bytes > MAX_BUFFERED_BYTES:
                    return b"", _OVERLOADED
        finally:
            self._buffered_bytes -= counted
        parsed = parse_message(bytes(body)) if body.strip() else Refusal(types.PARSE_ERROR, "The body is empty.")
        if isinstance(parsed, Refusal):
            return b"", HttpRefusal(400, parsed.text, parsed.id, parsed.code)
        return bytes(body), None

    def _check_headers(self, method: str, headers: Headers) -> HttpRefusal | None:
        if "content-length" in headers and "transfer-encoding" in headers:  # request smuggling (RFC 9112, 6.3)
            return _TWO_LENGTHS
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or len(origins) > 1:
            return HttpRefusal(400, "A request must have one Host and at most one Origin.")
        host = _HOST.fullmatch(hosts[0].lower())
        if host is None or not _is_port(host["port"]) or (self._hosts and host["host"] not in self._hosts):
            return HttpRefusal(421, "This Host is not served here.")
        if origins and not self._is_same_origin(origins[0], hosts[0]):
            return HttpRefusal(403, "Requests from this Origin are not accepted.")
        if method not in METHODS:
            return HttpRefusal(405, "Use POST, GET or DELETE.")
        return _check_body_headers(headers) if method == "POST" else None

    def _is_same_origin(self, origin: str, host: str) -> bool:
        match = _ORIGIN.fullmatch(origin.lower())
        if match is None or not _is_port(match["port"]):
            return False
        return match["host"] in self._hosts if self._hosts else origin.lower().partition("://")[2] == host.lower()

    def _check_token(self, headers: Headers, path: str, origin: str) -> HttpRefusal | None:
        expected = self._tokens.get(path, self._tokens.get(PATH))
        if expected is None:
            return None
        values = headers.getlist("authorization")
        scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        if scheme.lower() == "bearer" and expected.equals(token.strip()):
            return None
        challenge = f'Bearer resource_metadata="{origin}{METADATA_PATH}"'
        return HttpRefusal(401, "Send the server's token as a bearer token.", challenge=challenge)


def _check_body_headers(headers: Headers) -> HttpRefusal | None:
    kinds = headers.getlist("content-type")
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        return HttpRefusal(415, "Send application/json in UTF-8.")
    if any(coding.strip().lower() != "identity" for coding in headers.getlist("content-encoding")):
        return HttpRefusal(415, "Send the body without a content encoding.")
    lengths = headers.getlist("content-length")
    if lengths and (not lengths[0].isdecimal() or len(lengths[0]) > 12 or int(lengths[0]) > MAX_LINE_BYTES):
        return _TOO_LARGE
    return None


def _is_port(port: str | None) -> bool:
    return port is None or 0 < int(port) < 65536


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that gives the body again and then continues with the original one."""
    waiting: deque[Message] = deque([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> Message:
        return waiting.popleft() if waiting else await receive()

    return replay
