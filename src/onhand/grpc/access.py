"""Who may call? Whoever carries the token, and to ask for health, anybody. Nothing here knows a method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NoReturn

import grpc

from onhand.errors import Refused
from onhand.grpc.statuses import DETAILS, failure_of
from onhand.listening import Token

DEFAULT_PORT = 50051
OPEN_TO_ALL = ("/grpc.health.v1.Health/",)  # whoever watches over processes has no token, and learns nothing else


class TokenRequired(grpc.aio.ServerInterceptor):
    """Lets a call through if it carries the token; it takes as long for a wrong one as for the right one."""

    def __init__(self, token: str, on_refused: Callable[[str], None]) -> None:
        self._expected = Token(f"Bearer {token}")
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
        return self._expected.equals(given[0] if len(given) == 1 else "")


async def _refuse(_: object, context: Any) -> NoReturn:
    failure = failure_of(Refused("the call carries no valid token: send 'authorization: Bearer TOKEN'"))
    await context.abort(failure.code, failure.message, ((DETAILS, failure.details),))
    raise AssertionError("abort does not return")
