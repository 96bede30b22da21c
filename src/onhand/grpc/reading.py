"""What if a message to health or reflection cannot be read? The same answer as from our own services.

gRPC itself would answer with the name of a Python class. What these services do is their own business.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from onhand.grpc.statuses import DETAILS, failure_of


class ReadHere(grpc.aio.ServerInterceptor):
    """Reads the messages of handlers that would have gRPC read them."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        """The handler, or one around it that takes bytes."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_deserializer is None:
            return handler
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
