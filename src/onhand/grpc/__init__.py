"""The gRPC door, which translates messages into calls and results into messages.

`Client` and `AsyncClient` call a server; `GrpcServer` is one. They are imported on first use, because they need the
`grpc` extra.
"""

DEFAULT_PORT = 50051

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.grpc.client import AsyncClient, Client
    from onhand.grpc.server import GrpcServer, ServerSettings

__all__ = ["AsyncClient", "Client", "GrpcServer", "ServerSettings"]

_HOMES = {"AsyncClient": "client", "Client": "client", "GrpcServer": "server", "ServerSettings": "server"}

if not TYPE_CHECKING:  # otherwise a type checker would believe that every name exists

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        from onhand.errors import MissingExtra

        try:
            return getattr(import_module(f"onhand.grpc.{_HOMES[name]}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("onhand"):
                raise
            raise MissingExtra("search over gRPC", "grpc") from error
