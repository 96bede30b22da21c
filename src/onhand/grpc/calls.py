"""How is one call carried out? Read, worked on in a thread, answered, told of; and given up when nobody waits for it.

It knows no method and no rule of search. Messages are read here and not by gRPC, which would answer one that cannot be
read with the name of a Python class.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc

from onhand.document import Document
from onhand.errors import Busy, InputError, Unwanted
from onhand.grpc import search_pb2 as wire
from onhand.grpc import translate
from onhand.grpc.observe import REQUEST_ID, Observed, Telemetry
from onhand.grpc.services import Method, put_batch
from onhand.grpc.statuses import DETAILS, failure_of
from onhand.grpc.workers import Workers
from onhand.search.index import BATCH, Index, Written

BATCH_BYTES = 8 * 1024 * 1024  # of documents that wait to be written together


class Calls:
    """Carries calls out, by some workers."""

    def __init__(
        self,
        workers: Workers,
        max_message_bytes: int,
        telemetry: Telemetry | None = None,
        log_queries: bool = False,
    ) -> None:
        self._workers = workers
        self._max_message_bytes = max_message_bytes
        self._telemetry = telemetry
        self._log_queries = log_queries
        self._streams = 0

    def handlers(self, service: str, methods: Mapping[str, Method]) -> dict[str, Any]:
        """A handler for each method that takes one message."""
        return {
            name: grpc.unary_unary_rpc_method_handler(self._unary(f"/{service}/{name}", method))
            for name, method in methods.items()
        }

    def put_handler(self, service: str, name: str, index: Index) -> Any:
        """The handler of the method that takes a stream of documents."""

        async def put(messages: AsyncIterator[bytes], context: Any) -> bytes:
            call = self._begun(f"/{service}/{name}", context)
            written = Written()
            try:
                with self._stream():
                    async for batch in _batches(messages):
                        work = _put(index, batch, written)
                        written = await self._workers.run(work, _remaining_s(context))
            except asyncio.CancelledError:
                self._gave_up(call, context)
                raise
            except Exception as error:
                return await self._failed(call, context, error, documents_kept=str(sum(written)))
            call.facts["documents"] = sum(written)
            call.end("OK")
            return translate.written_message(written).SerializeToString()

        return grpc.stream_unary_rpc_method_handler(put)

    def _unary(self, path: str, method: Method) -> Callable[[bytes, Any], Any]:
        async def answered(raw: bytes, context: Any) -> bytes:
            call = self._begun(path, context)
            try:
                answer = await self._workers.run(lambda: self._answer(method, raw, call), _remaining_s(context))
            except asyncio.CancelledError:
                self._gave_up(call, context)
                raise
            except Exception as error:
                return await self._failed(call, context, error)
            call.end("OK")
            return answer

        return answered

    def _begun(self, path: str, context: Any) -> Observed:
        call = Observed(path, context.invocation_metadata() or (), self._telemetry)
        context.set_trailing_metadata(((REQUEST_ID, call.request_id),))  # to send it at once would cost a fifth more
        return call

    def _answer(self, method: Method, raw: bytes, call: Observed) -> bytes:
        request = method.request.FromString(raw)
        if self._log_queries and hasattr(request, "query"):
            call.facts["query"] = request.query[:200]
        response = method.answer(request)
        if hasattr(response, "hits"):
            call.facts["hits"] = len(response.hits)
        answer = response.SerializeToString()
        if len(answer) > self._max_message_bytes:
            raise InputError(
                f"the answer has {len(answer):,} bytes, and {self._max_message_bytes:,} may be sent: "
                "ask for fewer hits, or without explain",
                "limit",
            )
        return answer

    async def _failed(self, call: Observed, context: Any, error: Exception, **metadata: str) -> bytes:
        failure = failure_of(error, request_id=call.request_id, **metadata)
        call.end(failure.code.name, error if failure.is_ours else None)
        trailers = ((DETAILS, failure.details), (REQUEST_ID, call.request_id))
        await context.abort(failure.code, failure.message, trailers)
        return b""

    def _gave_up(self, call: Observed, context: Any) -> None:
        remaining = _time_remaining(context)
        is_late = remaining is not None and remaining <= 0
        call.end("DEADLINE_EXCEEDED" if is_late else "CANCELLED")

    @contextmanager
    def _stream(self) -> Iterator[None]:
        if self._streams >= self._workers.most:
            raise Busy(f"{self._streams:,} streams are open already: try again in a second")
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1


def _put(index: Index, batch: list[Document], before: Written) -> Callable[[], Written]:
    return lambda: put_batch(index, batch, before)


async def _batches(messages: AsyncIterator[bytes]) -> AsyncIterator[list[Document]]:
    """The documents of a stream, as many together as are written together."""
    batch: list[Document] = []
    room = BATCH_BYTES
    async for raw in messages:
        documents = [translate.document_of(one) for one in wire.PutDocumentsRequest.FromString(raw).documents]
        for start in range(0, len(documents), BATCH):
            batch += documents[start : start + BATCH]
            if len(batch) >= BATCH:
                yield batch
                batch, room = [], BATCH_BYTES
        room -= len(raw)
        if room < 0 and batch:
            yield batch
            batch, room = [], BATCH_BYTES
    if batch:
        yield batch


def _remaining_s(context: Any) -> float | None:
    """How long the caller still waits; Unwanted if it does not."""
    remaining = _time_remaining(context)
    if remaining is not None and remaining <= 0:
        raise Unwanted("the deadline was over before the work began: give it more time")
    return remaining


def _time_remaining(context: Any) -> float | None:
    remaining: float | None = context.time_remaining()
    return remaining
