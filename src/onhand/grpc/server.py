"""How is the service run? Ports, credentials, health, reflection, a beginning and an end, inside of any event loop.

What the methods do is in services.py; how one call is carried out, in calls.py.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from onhand.errors import InputError
from onhand.grpc.access import TokenRequired
from onhand.grpc.calls import Calls
from onhand.grpc.observe import log
from onhand.grpc.reading import ReadHere
from onhand.grpc.services import SEARCH, WRITE, search_methods, write_methods
from onhand.grpc.workers import Workers
from onhand.listening import Address, refuse_to_be_open

if TYPE_CHECKING:
    from onhand.corpora.documents import Documents
    from onhand.grpc.observe import Telemetry
    from onhand.search.index import Index

TO_BE_CLOSED = "name the variable that holds it in grpc.token_env, or set grpc.client_ca"
# One search runs at a time in any case (`Documents`). A second thread would only fetch its memory anew for each call,
# which costs more CPU than all that the door does in it.
READERS = 1
WRITERS = 1  # writes queue in any case
MAX_WRITES = 16  # streams and other writes at once
MAX_STREAMS = 1_000  # calls at once on one connection; a caller's next ones wait in its own library
MAX_PENDING = 10_000  # calls of all connections that nobody has looked at yet, at 5 KiB each; more are cut off
MAX_METADATA_BYTES = 16 * 1024
INFO, WARNING = 20, 30  # as logging counts


class Settings(NamedTuple):
    """How a server is run; what is empty is not used."""

    token: str = ""  # that every call has to carry
    certificate: bytes = b""  # in PEM, with those that it rests on; then the server speaks TLS
    private_key: bytes = b""
    client_ca: bytes = b""  # in PEM; then a caller needs a certificate that rests on it
    max_in_flight: int = 64  # searches that are worked on or wait for it
    max_message_bytes: int = 4 * 1024 * 1024
    log_queries: bool = False


class Server:
    """Serves documents; with a `writer`, an index of the same file, it takes writes too."""

    def __init__(
        self,
        documents: Documents,
        writer: Index | None = None,
        settings: Settings = Settings(),  # noqa: B008  # immutable
        telemetry: Telemetry | None = None,
    ) -> None:
        self._documents = documents
        self._writer = writer
        self._settings = settings
        self._telemetry = telemetry
        self._server: Any = None
        self._health: Any = None
        self._workers: list[Workers] = []

    async def start(self, host: str, port: int) -> int:
        """Listen, and answer from now on; the port, which the system chooses for 0. Call it inside the event loop."""
        settings = self._settings
        refuse_to_be_open(host, settings.token, TO_BE_CLOSED, knows_callers=bool(settings.client_ca))
        interceptors = [TokenRequired(settings.token, _log_refused)] if settings.token else []
        self._server = grpc.aio.server(interceptors=interceptors, options=_options(settings))
        bound = self._listen(str(Address(host, port)))
        services = self._add_services()
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, ReadHere(self._server))
        described = reflection.aio.ReflectionServicer([*services, health.SERVICE_NAME, reflection.SERVICE_NAME])
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(described, ReadHere(self._server))
        await self._server.start()
        for service in ("", *services):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        log(INFO, "started", host=host, port=bound, services=services, tls=bool(settings.certificate))
        return bound

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, tell so whoever watches, and finish what has begun, for so long at most."""
        if self._server is None:
            return
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)
        for workers in self._workers:
            await asyncio.to_thread(workers.close)
        self._server = None
        log(INFO, "stopped")

    def close(self) -> None:
        """Let go of the documents, once it has stopped."""
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


def _options(settings: Settings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        # Or a stream would count until Python has let go of it, and the caller's next one, which it sends once the last
        # is answered, would be refused unread (UNAVAILABLE). What is pending is bounded below.
        ("grpc.http.overload_protection", 0),
        ("grpc.server.max_pending_requests", MAX_PENDING),  # 1,000 if not set, which ten callers can exceed
        ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.so_reuseport", 0),  # or another process could take a part of the calls
    ]


def _credentials(settings: Settings) -> Any:
    """What TLS needs; None without a certificate."""
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


def _log_refused(method: str) -> None:
    log(WARNING, "refused", method=method[:200], code="UNAUTHENTICATED")
