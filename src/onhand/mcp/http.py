"""How do several clients talk to us over HTTP? The SDK's streamable HTTP behind our guard, on an address that is safe.

Only this machine is let in, unless whoever runs us says otherwise and gives a token. Both eras of the protocol are
served at one path.
"""

import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from onhand.errors import InputError
from onhand.mcp.guard import Guard
from onhand.mcp.messages import MAX_LINE_BYTES
from onhand.mcp.server import build
from onhand.mcp.surface import Surface

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PATH = "/mcp"
LOOPBACK_HOST = "127.0.0.1"
DEFAULT_PORT = 8321
MIN_TOKEN_CHARS = 16  # fewer can be guessed
MAX_CONNECTIONS = 1_000  # at once; further ones are told to come back
FINISH_S = 2  # for open streams when we are told to end


class Address(NamedTuple):
    """Where to listen; port 0 means any that is free."""

    host: str
    port: int


def address_of(text: str) -> Address:
    """The address that HOST:PORT names; a missing host is this machine."""
    host, colon, port = text.rpartition(":")
    if not colon and not text.isdecimal():
        host, port = text, str(DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise InputError(f"{text[:100]!r} is not HOST:PORT: write an IPv6 address as [::1]:{DEFAULT_PORT}")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 65536):
        raise InputError(f"{text[:100]!r} is not HOST:PORT: a port is a number up to 65535, such as {DEFAULT_PORT}")
    return Address(host or LOOPBACK_HOST, int(port))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def application(surface: Surface, host: str = LOOPBACK_HOST, token: str = "") -> "ASGIApp":
    """A surface as an ASGI application; InputError when others could reach it and no token guards it."""
    if not token and not is_loopback(host):
        raise InputError(
            f"others can reach {host}: name the environment variable that holds a token in serve.token_env or by "
            f"--token-env, or listen on {LOOPBACK_HOST}"
        )
    if token and len(token) < MIN_TOKEN_CHARS:
        raise InputError(f"the token has {len(token)} characters and can be guessed: use {MIN_TOKEN_CHARS} or more")
    from mcp.server.transport_security import TransportSecuritySettings

    app = build(surface).streamable_http_app(
        streamable_http_path=PATH,
        # The guard does this, and more strictly: the SDK compares how a host begins.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=MAX_LINE_BYTES,
    )
    return Guard(app, token, host=host)


async def serve(surface: Surface, address: Address, token: str, announce: Callable[[str], None]) -> None:
    """Serve until we are told to end; `announce` is given the address once clients can connect."""
    import uvicorn

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
        shown = f"[{address.host}]" if ":" in address.host else address.host
        announce(f"http://{shown}:{listener.getsockname()[1]}{PATH}")
        await uvicorn.Server(config).serve(sockets=[listener])


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=256)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot listen on {address.host}:{address.port}: {reason}; choose another port") from None
