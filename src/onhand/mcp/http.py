"""Serve MCP over HTTP: the SDK's streamable HTTP transport behind a strict request guard.

Who may ask over HTTP, and what may a request look like? Everything is refused here before the SDK reads it.

A page of any web site can send requests to this machine; what gives it away are the Host and Origin of the request.
Both are taken apart strictly: `localhost:3001.evil.com` begins like a good one. It does not know what is served.
How do several clients talk to us over HTTP? The SDK's streamable HTTP behind our guard, on an address that is safe.

Only this machine is let in, unless whoever runs us says otherwise and gives a token. Both eras of the protocol are
served at one path.
"""

import json
import re
import socket
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple

import mcp_types as types
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onhand.errors import InputError
from onhand.mcp.messages import MAX_LINE_BYTES, Refusal, parsed
from onhand.mcp.surface import Surface, build_server
from onhand.net import LOOPBACK_HOST, ListenAddress, Token, require_token
from onhand.serving import handle_stop_signals

METADATA_PATH = "/.well-known/oauth-protected-resource"
METHODS = ("GET", "POST", "DELETE")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_AUTHORITY = r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::(?P<port>[0-9]{1,5}))?"
_HOST = re.compile(_AUTHORITY, re.ASCII)
_ORIGIN = re.compile(rf"https?://{_AUTHORITY}", re.ASCII)
_JSON = re.compile(r'application/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?', re.ASCII | re.IGNORECASE)


class Refused(NamedTuple):
    """Why a request goes no further."""

    status: int
    text: str
    id: int | str | None = None
    code: int = types.INVALID_REQUEST
    challenge: str = ""


class Guard:
    """An application that lets through to another only what is addressed to us, well formed and permitted.

    With a token, every request must carry it; without one, only requests to this machine itself are taken.
    """

    def __init__(self, app: "ASGIApp", token: str = "", *, host: str = LOOPBACK_HOST) -> None:
        self._app = app
        self._token = Token(token) if token else None
        shown = f"[{host}]" if ":" in host else host.lower()
        self._hosts = None if token and shown not in LOOPBACK else (*LOOPBACK, shown)  # None: any

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is None and scope["path"] == METADATA_PATH and self._token:
            await _answer(send, 200, _metadata(scope))
            return
        refused = refused or self._unpermitted(scope)
        if refused is not None:
            await _refuse(send, refused)
            return
        if scope["method"] == "POST":
            body, problem = await _body(receive)
            if problem is not None:
                await _refuse(send, problem)
                return
            receive = _replaying(body, receive)
        await self._app(scope, receive, send)

    def _refused(self, scope: "Scope") -> Refused | None:
        hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
        if len(hosts) != 1 or len(origins) > 1:
            return Refused(400, "a request has one Host and at most one Origin")
        host = _HOST.fullmatch(hosts[0].lower())
        if host is None or not _is_port(host["port"]) or (self._hosts and host["host"] not in self._hosts):
            return Refused(421, "this Host is not served here")
        if origins and not self._is_ours(origins[0], hosts[0]):
            return Refused(403, "requests of this Origin are not taken")
        if scope["method"] not in METHODS:
            return Refused(405, "use POST, GET or DELETE")
        if scope["method"] == "POST":
            return _unreadable(scope)
        return None

    def _is_ours(self, origin: str, host: str) -> bool:
        found = _ORIGIN.fullmatch(origin.lower())
        if found is None or not _is_port(found["port"]):
            return False
        return found["host"] in self._hosts if self._hosts else origin.lower().partition("://")[2] == host.lower()

    def _unpermitted(self, scope: "Scope") -> Refused | None:
        if self._token is None:
            return None
        given = _values(scope, b"authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() == "bearer" and self._token.equals(token.strip()):
            return None
        where = f"{scope.get('scheme', 'http')}://{_values(scope, b'host')[0]}{METADATA_PATH}"
        return Refused(401, "send the server's token as a bearer", challenge=f'Bearer resource_metadata="{where}"')


def _unreadable(scope: "Scope") -> Refused | None:
    kinds = _values(scope, b"content-type")
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        return Refused(415, "send application/json in UTF-8")
    if any(coding.strip().lower() != "identity" for coding in _values(scope, b"content-encoding")):
        return Refused(415, "send the body as it is, without an encoding")
    lengths = _values(scope, b"content-length")
    if lengths and (not lengths[0].isdecimal() or len(lengths[0]) > 12 or int(lengths[0]) > MAX_LINE_BYTES):
        return _TOO_LARGE
    return None


_TOO_LARGE = Refused(413, f"a body of more than {MAX_LINE_BYTES:,} bytes is not read: send less at once")


async def _body(receive: "Receive") -> tuple[bytes, Refused | None]:
    """What was sent, and why that is not to be served."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return b"", Refused(400, "the request was not sent whole")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_LINE_BYTES:
            return b"", _TOO_LARGE
    read = parsed(bytes(body)) if body.strip() else Refusal(types.PARSE_ERROR, "the body is empty")
    if isinstance(read, Refusal):
        return b"", Refused(400, read.text, read.id, read.code)
    return bytes(body), None


def _replaying(body: bytes, receive: "Receive") -> "Receive":
    waiting: deque[Message] = deque([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> "Message":
        return waiting.popleft() if waiting else await receive()

    return replay


def _values(scope: "Scope", name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _is_port(port: str | None) -> bool:
    return port is None or 0 < int(port) < 65536


def _metadata(scope: "Scope") -> dict[str, object]:
    """What a client may know of how to be let in (RFC 9728): by a token that whoever runs us gives out."""
    resource = f"{scope.get('scheme', 'http')}://{_values(scope, b'host')[0]}"
    return {"resource": resource, "bearer_methods_supported": ["header"]}


async def _refuse(send: "Send", refused: Refused) -> None:
    error = {"code": refused.code, "message": refused.text}
    challenge = [(b"www-authenticate", refused.challenge.encode("latin-1"))] if refused.challenge else []
    allowed = [(b"allow", ", ".join(METHODS).encode())] if refused.status == 405 else []
    body = {"jsonrpc": "2.0", "id": refused.id, "error": error}
    await _answer(send, refused.status, body, [*challenge, *allowed])


async def _answer(send: "Send", status: int, body: object, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    raw = json.dumps(body).encode()
    told = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode()), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": raw})


PATH = "/mcp"
DEFAULT_PORT = 8321
MAX_CONNECTIONS = 1_000  # at once; further ones are told to come back
FINISH_S = 2  # for open streams when we are told to end


def application(surface: Surface, host: str = LOOPBACK_HOST, token: str = "") -> "ASGIApp":
    """A surface as an ASGI application; InputError when others could reach it and no token guards it."""
    require_token(host, token, "name the variable that holds it in serve.token_env or by --token-env")
    from mcp.server.transport_security import TransportSecuritySettings

    app = build_server(surface).streamable_http_app(
        streamable_http_path=PATH,
        # The guard does this, and more strictly: the SDK compares how a host begins.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=MAX_LINE_BYTES,
    )
    return Guard(app, token, host=host)


async def serve(surface: Surface, address: ListenAddress, token: str, announce: Callable[[str], None]) -> None:
    """Serve until we are told to end; `announce` is given the address once clients can connect."""
    import uvicorn

    class Server(uvicorn.Server):
        """Ends on a signal and then lets its caller go on, who may have more to end: uvicorn raises it once more."""

        @contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            with handle_stop_signals(lambda number: self.handle_exit(number, None)):
                yield

    app = application(surface, address.host, token)
    with _listening(address) as listener:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            proxy_headers=False,  # anybody could send them
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=FINISH_S,
        )
        announce(f"http://{address._replace(port=listener.getsockname()[1])}{PATH}")
        await Server(config).serve(sockets=[listener])


def _listening(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=256)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot listen on {address}: {reason}; choose another port") from None
