"""How do programs of any language ask? The search service over the documents, as the configuration asks for it."""

import os

from onhand.app.documents import documents_path, open_documents, open_index
from onhand.config import Config
from onhand.errors import ConfigError
from onhand.listening import token_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.grpc.server import Server

MAX_PEM_BYTES = 1024 * 1024


def open_grpc(asked: Config, path: str | None = None) -> "Server":
    """The search service over the documents of a file, by default the project's, as the configuration asks for it.

    What writes has a connection of its own, so that searches do not wait for it.
    """
    from onhand.grpc import Server, Settings

    path = path or documents_path(asked)
    ours = asked.grpc
    writer = open_index(path, asked.documents.embedder) if ours.writes else None
    settings = Settings(
        token=token_in(ours.token_env),
        certificate=_pem(asked, "tls_cert"),
        private_key=_pem(asked, "tls_key"),
        client_ca=_pem(asked, "client_ca"),
        max_in_flight=ours.max_in_flight,
        max_message_bytes=ours.max_message_bytes,
        log_queries=ours.log_queries,
    )
    telemetry = None
    if ours.metrics:
        from onhand.grpc.telemetry import OpenTelemetry

        telemetry = OpenTelemetry()
    return Server(open_documents(asked, path), writer, settings, telemetry)


def _pem(asked: Config, name: str) -> bytes:
    """What is in a file that an option of gRPC names; nothing if it names none."""
    named: str = getattr(asked.grpc, name)
    if not named:
        return b""
    path = os.path.join(asked.project, named)
    try:
        with open(path, "rb") as file:
            return file.read(MAX_PEM_BYTES)
    except OSError as error:
        raise ConfigError(f"grpc.{name}: {path} cannot be read: {error.strerror or error}") from None
