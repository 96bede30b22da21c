"""What if a message to health or reflection cannot be read? The same answer as from our own services.

gRPC itself would answer with the name of a Python class. What these services do is their own business.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from onhand.grpc.statuses import DETAILS, failure_of


class ReadHere:
    """Stands where a service is added to a server, and adds it so that its messages are read here.

    An interceptor could do the same, and every call of every service would pay for it.
    """

    def __init__(self, server: Any) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, services: Iterable[Any]) -> None:
        """Add services by their handlers."""
        self._server.add_generic_rpc_handlers([_Service(service) for service in services])

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """A shortcut to handlers that were added already; it would lead past us."""


class _Service(grpc.GenericRpcHandler):
    def __init__(self, service: Any) -> None:
        self._service = service

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a call, around it one that takes bytes; None if there is none."""
        handler = self._service.service(handler_call_details)
        if handler is None:
            return None
        read = handler.request_deserializer
        if handler.stream_stream:
            return handler._replace(request_deserializer=None, stream_stream=_stream(read, handler.stream_stream))
        if handler.unary_stream:
            return handler._replace(request_deserializer=None, unary_stream=_single(read, handler.unary_stream))
        return handler._replace(request_deserializer=None, unary_unary=_single(read, handler.unary_unary))


def _single(read: Callable[[bytes], Any], answer: Callable[[Any, Any], Awaitable[Any]]) -> Any:
    async def answered(raw: bytes, context: Any) -> Any:
        return await answer(await _message(read, raw, context), context)

    return answered


def _stream(read: Callable[[bytes], Any], answers: Callable[[Any, Any], AsyncIterator[Any]]) -> Any:
    async def messages(raws: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        async for raw in raws:
            yield await _message(read, raw, context)

    async def answered(raws: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        async for answer in answers(messages(raws, context), context):
            yield answer

    return answered


async def _message(read: Callable[[bytes], Any], raw: bytes, context: Any) -> Any:
    try:
        return read(raw)
    except DecodeError as error:
        failure = failure_of(error)
        return await context.abort(failure.code, failure.message, ((DETAILS, failure.details),))
