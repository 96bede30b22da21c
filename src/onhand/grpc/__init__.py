"""The gRPC door: translates messages into calls and answers into messages, and nothing else.

`Client` and `AsyncClient` ask a server; `Server` is one. They are loaded on first use, because all need the grpc extra.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.grpc.client import AsyncClient, Client
    from onhand.grpc.server import Server, Settings

__all__ = ["AsyncClient", "Client", "Server", "Settings"]

_HOMES = {"AsyncClient": "client", "Client": "client", "Server": "server", "Settings": "server"}

if not TYPE_CHECKING:  # or a type checker would believe that every name exists

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
