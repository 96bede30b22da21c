"""Who may call, and where may a server listen? Nothing here knows a method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from typing import Any, NoReturn

import grpc

from onhand.errors import InputError, Refused
from onhand.grpc.statuses import DETAILS, failure_of

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 50051
OPEN_TO_ALL = ("/grpc.health.v1.Health/",)  # whoever watches over processes has no token, and learns nothing else
MIN_TOKEN_CHARS = 16


def address_of(text: str) -> tuple[str, int]:
    """The host and port of HOST:PORT; either may be left out, and the host is then this machine alone."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = (text, "") if not text.isdecimal() else ("", text)
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if ":" in host and not _is_address(host):
        raise InputError(f"{text[:100]!r} is not HOST:PORT: write an IPv6 address as [::1]:{DEFAULT_PORT}")
    if port and not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
        raise InputError(f"{text[:100]!r} is not HOST:PORT: a port is a number up to 65535, such as {DEFAULT_PORT}")
    return host or DEFAULT_HOST, int(port) if port else DEFAULT_PORT


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def refuse_to_be_open(host: str, token: str, client_ca: bytes) -> None:
    """InputError for a server that anybody on the network could ask."""
    if not is_loopback(host) and not token and not client_ca:
        raise InputError(
            f"to listen on {host}, which others can reach, the server needs a token: name the environment variable "
            "that holds it in grpc.token_env (or set grpc.client_ca), or listen on 127.0.0.1"
        )
    if token and len(token) < MIN_TOKEN_CHARS:
        raise InputError(f"the token has {len(token)} characters, which can be guessed: use {MIN_TOKEN_CHARS} or more")


class TokenRequired(grpc.aio.ServerInterceptor):
    """Lets a call through if it carries the token; it takes as long for a wrong one as for the right one."""

    def __init__(self, token: str, on_refused: Callable[[str], None]) -> None:
        self._expected = _digest(f"Bearer {token}")
        self._on_refused = on_refused

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        """The handler of the call, or one that refuses it before anything is read."""
        method = handler_call_details.method
        if method.startswith(OPEN_TO_ALL) or self._is_right(handler_call_details.invocation_metadata):
            return await continuation(handler_call_details)
        self._on_refused(method)
        return grpc.stream_stream_rpc_method_handler(_refuse)

    def _is_right(self, metadata: Iterable[tuple[str, Any]] | None) -> bool:
        given = [value for name, value in metadata or () if name == "authorization"]
        return compare_digest(_digest(given[0] if len(given) == 1 else ""), self._expected)


async def _refuse(_: object, context: Any) -> NoReturn:
    failure = failure_of(Refused("the call carries no valid token: send 'authorization: Bearer TOKEN'"))
    await context.abort(failure.code, failure.message, ((DETAILS, failure.details),))
    raise AssertionError("abort does not return")


def _digest(text: str | bytes) -> bytes:
    """Of one length, so that not even the length of the token shows in the time that a comparison takes."""
    return sha256(text if isinstance(text, bytes) else text.encode(errors="replace")).digest()


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
