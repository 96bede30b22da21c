"""The gRPC server: ports, credentials, authentication, health and reflection, inside any event loop.

`services` has the methods of the contract, and `calls` carries out one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from logging import INFO, WARNING
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from onhand.errors import InputError, Unauthenticated
from onhand.grpc.calls import Calls, CallTelemetry, Workers, log
from onhand.grpc.services import SEARCH, WRITE, search_methods, write_methods
from onhand.grpc.statuses import DETAILS, failure_of
from onhand.net import ListenAddress, Token, require_token

if TYPE_CHECKING:
    from onhand.corpora.documents import Documents
    from onhand.search.index import Index

# Process supervisors have no token, and the health check reveals nothing else.
WITHOUT_TOKEN = ("/grpc.health.v1.Health/",)


class TokenRequired(grpc.aio.ServerInterceptor):
    """Rejects calls that do not carry the token, which is compared in constant time."""

    def __init__(self, token: str) -> None:
        self._expected = Token(f"Bearer {token}")

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        """Return the handler of the call, or one that rejects it before its message is read."""
        method = handler_call_details.method
        if method.startswith(WITHOUT_TOKEN) or self._is_authorized(handler_call_details.invocation_metadata):
            return await continuation(handler_call_details)
        log(WARNING, "refused", method=method[:200], code="UNAUTHENTICATED")
        return grpc.stream_stream_rpc_method_handler(_reject)

    def _is_authorized(self, metadata: Iterable[tuple[str, Any]] | None) -> bool:
        tokens = [value for name, value in metadata or () if name == "authorization"]
        return self._expected.equals(tokens[0] if len(tokens) == 1 else "")


async def _reject(_: object, context: Any) -> NoReturn:
    failure = failure_of(Unauthenticated("the call has no valid token: send 'authorization: Bearer TOKEN'"))
    await context.abort(failure.code, failure.message, ((DETAILS, failure.details),))
    raise AssertionError("abort does not return")


class DecodingServer:
    """A server to add services such as health and reflection to, whose messages are then decoded by us.

    An unreadable message then gets the same error as in our own services. An interceptor could do the same, but would
    slow down every call of every service.
    """

    def __init__(self, server: Any) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, services: Iterable[Any]) -> None:
        """Add services by their handlers."""
        self._server.add_generic_rpc_handlers([_DecodingService(service) for service in services])

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """Ignore this shortcut to handlers that are already added, because it would bypass the decoding."""


class _DecodingService(grpc.GenericRpcHandler):
    def __init__(self, service: Any) -> None:
        self._service = service

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a call, wrapped to take bytes, or None for an unknown method."""
        handler = self._service.service(handler_call_details)
        if handler is None:
            return None
        read = handler.request_deserializer
        if handler.stream_stream:
            return handler._replace(
                request_deserializer=None, stream_stream=_decode_stream(read, handler.stream_stream)
            )
        if handler.unary_stream:
            return handler._replace(request_deserializer=None, unary_stream=_decode_unary(read, handler.unary_stream))
        return handler._replace(request_deserializer=None, unary_unary=_decode_unary(read, handler.unary_unary))


def _decode_unary(read: Callable[[bytes], Any], answer: Callable[[Any, Any], Awaitable[Any]]) -> Any:
    async def handle(raw: bytes, context: Any) -> Any:
        return await answer(await _decode_message(read, raw, context), context)

    return handle


def _decode_stream(read: Callable[[bytes], Any], answers: Callable[[Any, Any], AsyncIterator[Any]]) -> Any:
    async def messages(raws: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        async for raw in raws:
            yield await _decode_message(read, raw, context)

    async def handle(raws: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        async for answer in answers(messages(raws, context), context):
            yield answer

    return handle


async def _decode_message(read: Callable[[bytes], Any], raw: bytes, context: Any) -> Any:
    try:
        return read(raw)
    except DecodeError as error:
        failure = failure_of(error)
        return await context.abort(failure.code, failure.message, ((DETAILS, failure.details),))


ACCESS_HINT = "set grpc.token_env to the name of the variable that holds it, or set grpc.client_ca"
# `Documents` runs one search at a time in any case. A second thread would only refill the CPU caches for each call,
# which costs more than everything else that this door does.
READERS = 1
WRITERS = 1  # writes take turns in any case
MAX_WRITES = 16  # streams and other writes at once
MAX_STREAMS = 1_000  # concurrent calls on one connection; more calls wait in the caller's library
MAX_PENDING = 10_000  # unread calls on all connections, 5 KiB each; more calls are rejected
MAX_METADATA_BYTES = 16 * 1024


class ServerSettings(NamedTuple):
    """The settings of a server. Empty ones are not used."""

    token: str = ""  # which every call must carry
    certificate: bytes = b""  # in PEM, with its chain; enables TLS
    private_key: bytes = b""
    client_ca: bytes = b""  # in PEM; requires callers to present a certificate signed by it
    max_in_flight: int = 64  # searches that run or wait for a thread
    max_message_bytes: int = 4 * 1024 * 1024
    log_queries: bool = False
    shares_port: bool = False  # with other processes of this user


class GrpcServer:
    """Serves documents. With a `writer`, an index over the same file, it also accepts writes."""

    def __init__(
        self,
        documents: Documents,
        writer: Index | None = None,
        settings: ServerSettings = ServerSettings(),  # noqa: B008  # immutable
        telemetry: CallTelemetry | None = None,
    ) -> None:
        self._documents = documents
        self._writer = writer
        self._settings = settings
        self._telemetry = telemetry
        self._server: Any = None
        self._health: Any = None
        self._workers: list[Workers] = []

    async def start(self, host: str, port: int) -> int:
        """Start to listen, inside the running event loop, and return the port; the system chooses one for port 0."""
        settings = self._settings
        require_token(host, settings.token, ACCESS_HINT, knows_callers=bool(settings.client_ca))
        interceptors = [TokenRequired(settings.token)] if settings.token else []
        self._server = grpc.aio.server(interceptors=interceptors, options=_options(settings))
        bound = self._listen(str(ListenAddress(host, port)))
        services = self._add_services()
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, DecodingServer(self._server))
        described = reflection.aio.ReflectionServicer([*services, health.SERVICE_NAME, reflection.SERVICE_NAME])
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(described, DecodingServer(self._server))
        await self._server.start()
        for service in ("", *services):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        log(INFO, "started", host=host, port=bound, services=services, tls=bool(settings.certificate))
        return bound

    async def stop(self, grace_s: float) -> None:
        """Accept no more calls, report that as health, and give running calls `grace_s` seconds to finish."""
        if self._server is None:
            return
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)
        for workers in self._workers:
            await asyncio.to_thread(workers.close)
        self._server = None
        log(INFO, "stopped")

    def close(self) -> None:
        """Close the documents after the server has stopped."""
        for index in filter(None, (self._documents.index, self._writer)):
            index.close()

    def _add_services(self) -> list[str]:
        calls = self._calls(Workers("search", READERS, self._settings.max_in_flight))
        services = {SEARCH: calls.handlers(SEARCH, search_methods(self._documents))}
        if self._writer:
            calls = self._calls(Workers("write", WRITERS, MAX_WRITES))
            services[WRITE] = calls.handlers(WRITE, write_methods(self._writer))
            services[WRITE]["PutDocuments"] = calls.put_handler(WRITE, "PutDocuments", self._writer)
        for name, handlers in services.items():
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        return list(services)

    def _calls(self, workers: Workers) -> Calls:
        self._workers.append(workers)
        return Calls(workers, self._settings.max_message_bytes, self._telemetry, self._settings.log_queries)

    def _listen(self, address: str) -> int:
        credentials = _credentials(self._settings)
        try:
            bound: int = (
                self._server.add_secure_port(address, credentials)
                if credentials
                else self._server.add_insecure_port(address)
            )
        except RuntimeError:
            bound = 0
        if not bound:
            certificates = ", or the certificate or its key cannot be used" if credentials else ""
            raise InputError(
                f"cannot listen on {address}: the port is taken, or the address is not this machine's{certificates}"
            )
        return bound


def _options(settings: ServerSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        # With this protection, a stream counts until Python has freed it, so that a caller's next call, sent as soon as
        # the last is answered, would be rejected unread (UNAVAILABLE). Pending calls are limited below.
        ("grpc.http.overload_protection", 0),
        ("grpc.server.max_pending_requests", MAX_PENDING),  # the default of 1,000 is exceeded by ten callers
        ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.so_reuseport", int(settings.shares_port)),  # else another process could receive some of the calls
    ]


def _credentials(settings: ServerSettings) -> Any:
    """Return the TLS credentials, or None without a certificate."""
    if not settings.certificate:
        if settings.private_key or settings.client_ca:
            raise InputError("TLS needs a certificate with its key: set grpc.tls_cert and grpc.tls_key")
        return None
    if not settings.private_key:
        raise InputError("the certificate needs its private key: set grpc.tls_key")
    return grpc.ssl_server_credentials(
        [(settings.private_key, settings.certificate)],
        root_certificates=settings.client_ca or None,
        require_client_auth=bool(settings.client_ca),
    )
