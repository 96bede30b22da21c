"""Synchronous and asynchronous clients with the names, arguments, results and errors of an Index.

    with Client("127.0.0.1:50051") as client:
        client.keyword("dock sensors").hits[0].title

`AsyncClient` has the same methods, to be awaited. Both drive the generators in rpc_calls.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc

from onhand.errors import InputError, OnhandError
from onhand.grpc import DEFAULT_PORT, rpc_calls
from onhand.grpc import search_pb2 as wire
from onhand.grpc.rpc_calls import RequestStream, RpcGenerator, RpcRequest
from onhand.grpc.statuses import error_of
from onhand.net import LOOPBACK_HOST, is_loopback

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_ADDRESS = f"{LOOPBACK_HOST}:{DEFAULT_PORT}"
DEFAULT_TIMEOUT_S = 30.0
MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # of a response; a server sends less unless its operator raised the limit


class _Channel:
    """The connection to a server."""

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
        """Open a channel.

        `tls` trusts this machine's certificate authorities, `ca` (PEM) trusts only that one, and `certificate` is the
        client's own.
        """
        self._timeout_s = timeout_s
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
        if is_loopback(address.rpartition(":")[0].strip("[]")):
            options.append(("grpc.enable_http_proxy", 0))  # a proxy could not reach this machine
        elif token and not (tls or ca):
            raise InputError(
                "a token is not sent unencrypted to another machine: pass tls=True, or its certificate authority as ca"
            )
        if tls or ca:
            credentials = grpc.ssl_channel_credentials(ca or None, private_key or None, certificate or None)
            self._channel = self._connections.secure_channel(address, credentials, options)
        else:
            self._channel = self._connections.insecure_channel(address, options)

    _connections: Any = grpc

    def _call(self, request: RpcRequest) -> Any:
        """Start a call; its result, or what awaiting it gives, is the response."""
        service = wire.DESCRIPTOR.services_by_name[request.service].full_name
        kind = self._channel.stream_unary if isinstance(request.request, RequestStream) else self._channel.unary_unary
        method = kind(
            f"/{service}/{request.method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=request.response.FromString,
        )
        if isinstance(
            request.request, RequestStream
        ):  # which lasts as long as the caller takes to produce its documents
            return method(iter(request.request), metadata=self._metadata)
        return method(request.request, timeout=self._timeout_s, metadata=self._metadata)


def _sync_method(exchange: Callable[P, RpcGenerator[T]]) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._drive(exchange(*args, **kwargs))

    return update_wrapper(method, exchange)


def _async_method(exchange: Callable[P, RpcGenerator[T]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self._drive(exchange(*args, **kwargs))

    return update_wrapper(method, exchange)


class Client(_Channel):
    """A client that blocks until the server responds. Threads may share it."""

    keyword = _sync_method(rpc_calls.keyword)
    semantic = _sync_method(rpc_calls.semantic)
    filter = _sync_method(rpc_calls.filter)
    fused = _sync_method(rpc_calls.fused)
    get = _sync_method(rpc_calls.get)
    put = _sync_method(rpc_calls.put)
    delete = _sync_method(rpc_calls.delete)
    stats = _sync_method(rpc_calls.stats)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _drive(self, exchange: RpcGenerator[T]) -> T:
        answer = None
        while True:
            try:
                request = exchange.send(answer)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                answer = self._call(request)
            except grpc.RpcError as error:
                raise _to_onhand_error(error) from None


class AsyncClient(_Channel):
    """A client for use inside an event loop."""

    _connections = grpc.aio

    keyword = _async_method(rpc_calls.keyword)
    semantic = _async_method(rpc_calls.semantic)
    filter = _async_method(rpc_calls.filter)
    fused = _async_method(rpc_calls.fused)
    get = _async_method(rpc_calls.get)
    put = _async_method(rpc_calls.put)
    delete = _async_method(rpc_calls.delete)
    stats = _async_method(rpc_calls.stats)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _drive(self, exchange: RpcGenerator[T]) -> T:
        answer = None
        while True:
            try:
                request = exchange.send(answer)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                answer = await self._call(request)
            except grpc.RpcError as error:
                raise _to_onhand_error(error) from None


def _to_onhand_error(error: Any) -> OnhandError:
    trailers = dict(tuple(error.trailing_metadata() or ()))  # pairs, in an object that only looks like a mapping
    return error_of(error.code(), error.details() or "", trailers)
