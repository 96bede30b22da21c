"""How does Python ask a server? As it asks an Index: the same names, arguments, results and errors.

    with Client("127.0.0.1:50051") as client:
        client.keyword("dock sensors").hits[0].title

`AsyncClient` has the same methods, to be awaited. Both carry out what exchanges.py says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc

from onhand.errors import InputError, OnhandError
from onhand.grpc import exchanges
from onhand.grpc import search_pb2 as wire
from onhand.grpc.access import DEFAULT_PORT
from onhand.grpc.exchanges import Ask, Exchange, Stream
from onhand.grpc.statuses import error_of
from onhand.listening import LOOPBACK_HOST, is_loopback

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_ADDRESS = f"{LOOPBACK_HOST}:{DEFAULT_PORT}"
DEFAULT_TIMEOUT_S = 30.0
MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # that an answer may have: a server sends less unless its operator raised it


class _Caller:
    """Where a server is, and how it is called."""

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        token: str = "",
        tls: bool = False,
        ca: bytes = b"",
        certificate: bytes = b"",
        private_key: bytes = b"",
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
    ) -> None:
        """`tls` trusts whom this machine trusts, `ca`, in PEM, only that; `certificate` is the caller's own."""
        self._timeout_s = timeout_s
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
        if is_loopback(address.rpartition(":")[0].strip("[]")):
            options.append(("grpc.enable_http_proxy", 0))  # a proxy could not reach this machine
        elif token and not (tls or ca):
            raise InputError("a token is not sent unencrypted to another machine: say tls=True, or name its authority")
        if tls or ca:
            credentials = grpc.ssl_channel_credentials(ca or None, private_key or None, certificate or None)
            self._channel = self._connections.secure_channel(address, credentials, options)
        else:
            self._channel = self._connections.insecure_channel(address, options)

    _connections: Any = grpc

    def _call(self, ask: Ask) -> Any:
        """The call begun: what it gives, or is awaited for, is the answer."""
        service = wire.DESCRIPTOR.services_by_name[ask.service].full_name
        kind = self._channel.stream_unary if isinstance(ask.request, Stream) else self._channel.unary_unary
        method = kind(
            f"/{service}/{ask.method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=ask.response.FromString,
        )
        if isinstance(ask.request, Stream):  # which takes as long as whoever makes its documents
            return method(iter(ask.request), metadata=self._metadata)
        return method(ask.request, timeout=self._timeout_s, metadata=self._metadata)


def _waiting(exchange: Callable[P, Exchange[T]]) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._carry_out(exchange(*args, **kwargs))

    return update_wrapper(method, exchange)


def _awaited(exchange: Callable[P, Exchange[T]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self._carry_out(exchange(*args, **kwargs))

    return update_wrapper(method, exchange)


class Client(_Caller):
    """Asks a server, and waits for its answers. Threads may share it."""

    keyword = _waiting(exchanges.keyword)
    semantic = _waiting(exchanges.semantic)
    filter = _waiting(exchanges.filter)
    fused = _waiting(exchanges.fused)
    get = _waiting(exchanges.get)
    put = _waiting(exchanges.put)
    delete = _waiting(exchanges.delete)
    stats = _waiting(exchanges.stats)

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _carry_out(self, exchange: Exchange[T]) -> T:
        answer = None
        while True:
            try:
                ask = exchange.send(answer)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                answer = self._call(ask)
            except grpc.RpcError as error:
                raise _translated(error) from None


class AsyncClient(_Caller):
    """Asks a server from inside an event loop."""

    _connections = grpc.aio

    keyword = _awaited(exchanges.keyword)
    semantic = _awaited(exchanges.semantic)
    filter = _awaited(exchanges.filter)
    fused = _awaited(exchanges.fused)
    get = _awaited(exchanges.get)
    put = _awaited(exchanges.put)
    delete = _awaited(exchanges.delete)
    stats = _awaited(exchanges.stats)

    async def close(self) -> None:
        """Let go of the connection."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _carry_out(self, exchange: Exchange[T]) -> T:
        answer = None
        while True:
            try:
                ask = exchange.send(answer)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                answer = await self._call(ask)
            except grpc.RpcError as error:
                raise _translated(error) from None


def _translated(error: Any) -> OnhandError:
    trailers = dict(tuple(error.trailing_metadata() or ()))  # pairs, of what may look like a mapping
    return error_of(error.code(), error.details() or "", trailers)
