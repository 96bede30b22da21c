"""How do several clients talk to us over HTTP? The SDK's streamable HTTP behind our guard, on an address that is safe.

Only this machine is let in, unless whoever runs us says otherwise and gives a token. Both eras of the protocol are
served at one path.
"""

import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onhand.errors import InputError
from onhand.listening import LOOPBACK_HOST, Address, refuse_to_be_open
from onhand.mcp.guard import Guard
from onhand.mcp.messages import MAX_LINE_BYTES
from onhand.mcp.server import build
from onhand.mcp.surface import Surface
from onhand.signals import heard

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PATH = "/mcp"
DEFAULT_PORT = 8321
MAX_CONNECTIONS = 1_000  # at once; further ones are told to come back
FINISH_S = 2  # for open streams when we are told to end


def application(surface: Surface, host: str = LOOPBACK_HOST, token: str = "") -> "ASGIApp":
    """A surface as an ASGI application; InputError when others could reach it and no token guards it."""
    refuse_to_be_open(host, token, "name the variable that holds it in serve.token_env or by --token-env")
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

    class Server(uvicorn.Server):
        """Ends on a signal and then lets its caller go on, who may have more to end: uvicorn raises it once more."""

        @contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            with heard(lambda number: self.handle_exit(number, None)):
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


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=256)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot listen on {address}: {reason}; choose another port") from None
