"""Carry out one gRPC call: decode it, run it in a worker thread, answer it, log it, and stop it when it is cancelled.

Threads do the work, because everything below is synchronous; the event loop only waits. A slot stays taken until the
work itself has ended, even if nobody waits for it any more, so abandoned work cannot pile up behind the limit. Python's
own thread pool does the same with three times the locking, which every call would pay for.

Messages are decoded here rather than by gRPC, which would answer an unreadable one with the name of a Python class.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from queue import SimpleQueue
from threading import BoundedSemaphore, Thread
from time import monotonic
from typing import Any, TypeVar

import grpc

from onhand import cancellation
from onhand.document import Document
from onhand.errors import Busy, Cancelled, InputError
from onhand.grpc import search_pb2 as wire
from onhand.grpc import translate
from onhand.grpc.call_log import REQUEST_ID, CallTelemetry, ObservedCall
from onhand.grpc.services import RpcMethod, put_batch
from onhand.grpc.statuses import DETAILS, failure_of
from onhand.search.index import BATCH, Index, Written

T = TypeVar("T")


class Workers:
    """Worker threads with a limit on the calls that run or wait."""

    def __init__(self, name: str, threads: int, most: int) -> None:
        self.most = most
        self._places = BoundedSemaphore(most)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = [Thread(target=self._work, name=f"{name}-{place}", daemon=True) for place in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], T], remaining_s: float | None) -> T:
        """Run the work in a thread and return its result; it stops between steps at its deadline or when cancelled."""
        if not self._places.acquire(blocking=False):
            raise Busy(f"{self.most:,} requests are in flight already: try again in a second")
        job = _Job(work, None if remaining_s is None else monotonic() + remaining_s)
        self._jobs.put(job)
        try:
            answer: T = await job.answer
            return answer
        finally:
            job.is_abandoned = True

    def close(self) -> None:
        """Wait for running work; queued work that nobody waits for is dropped."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            notify_caller = job.execute()
            self._places.release()  # before the caller is notified, which may call again at once
            notify_caller()


class _Job:
    """Work, and the future of the caller that waits for its result."""

    def __init__(self, work: Callable[[], Any], deadline: float | None) -> None:
        self.is_abandoned = False
        self._work = work
        self._deadline = deadline
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self._loop.create_future()

    def execute(self) -> Callable[[], None]:
        """Do the work in this thread and return a function that notifies the caller."""
        try:
            result = self._context.run(self._do)
            return lambda: self._notify(self.answer.set_result, result)
        except BaseException as error:
            # A future rejects StopIteration, and an exception that ends a program must not end the event loop.
            failure = error if _is_plain(error) else RuntimeError(repr(error))
            return lambda: self._notify(self.answer.set_exception, failure)

    def _do(self) -> Any:
        cancellation.continue_while(self._is_wanted)
        cancellation.check()
        return self._work()

    def _is_wanted(self) -> bool:
        return not self.is_abandoned and (self._deadline is None or monotonic() < self._deadline)

    def _notify(self, settle: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the event loop has ended, and the caller with it
            self._loop.call_soon_threadsafe(self._settle, settle, value)

    def _settle(self, settle: Callable[[Any], None], value: Any) -> None:
        if not self.answer.done():
            settle(value)


def _is_plain(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, StopIteration)


BATCH_BYTES = 8 * 1024 * 1024  # of documents that wait to be written together


class Calls:
    """Carries out calls with a pool of workers."""

    def __init__(
        self,
        workers: Workers,
        max_message_bytes: int,
        telemetry: CallTelemetry | None = None,
        log_queries: bool = False,
    ) -> None:
        self._workers = workers
        self._max_message_bytes = max_message_bytes
        self._telemetry = telemetry
        self._log_queries = log_queries
        self._streams = 0

    def handlers(self, service: str, methods: Mapping[str, RpcMethod]) -> dict[str, Any]:
        """Return a handler for each unary method."""
        return {
            name: grpc.unary_unary_rpc_method_handler(self._unary(f"/{service}/{name}", method))
            for name, method in methods.items()
        }

    def put_handler(self, service: str, name: str, index: Index) -> Any:
        """Return the handler of the method that takes a stream of documents."""

        async def put(messages: AsyncIterator[bytes], context: Any) -> bytes:
            call = self._begin_call(f"/{service}/{name}", context)
            written = Written()
            try:
                with self._stream():
                    async for batch in _read_batches(messages):
                        work = _put(index, batch, written)
                        written = await self._workers.run(work, _remaining_s(context))
            except asyncio.CancelledError:
                self._end_cancelled(call, context)
                raise
            except Exception as error:
                return await self._abort(call, context, error, documents_kept=str(sum(written)))
            call.facts["documents"] = sum(written)
            call.end("OK")
            return translate.written_message(written).SerializeToString()

        return grpc.stream_unary_rpc_method_handler(put)

    def _unary(self, path: str, method: RpcMethod) -> Callable[[bytes, Any], Any]:
        async def handle(raw: bytes, context: Any) -> bytes:
            call = self._begin_call(path, context)
            try:
                answer = await self._workers.run(lambda: self._answer(method, raw, call), _remaining_s(context))
            except asyncio.CancelledError:
                self._end_cancelled(call, context)
                raise
            except Exception as error:
                return await self._abort(call, context, error)
            call.end("OK")
            return answer

        return handle

    def _begin_call(self, path: str, context: Any) -> ObservedCall:
        call = ObservedCall(path, context.invocation_metadata() or (), self._telemetry)
        context.set_trailing_metadata(((REQUEST_ID, call.request_id),))  # sending it at once would cost a fifth more
        return call

    def _answer(self, method: RpcMethod, raw: bytes, call: ObservedCall) -> bytes:
        request = method.request.FromString(raw)
        if self._log_queries and hasattr(request, "query"):
            call.facts["query"] = request.query[:200]
        response = method.answer(request)
        if hasattr(response, "hits"):
            call.facts["hits"] = len(response.hits)
        answer = response.SerializeToString()
        if len(answer) > self._max_message_bytes:
            raise InputError(
                f"the response has {len(answer):,} bytes, but at most {self._max_message_bytes:,} may be sent: "
                "ask for fewer hits, or without explain",
                "limit",
            )
        return answer

    async def _abort(self, call: ObservedCall, context: Any, error: Exception, **metadata: str) -> bytes:
        failure = failure_of(error, request_id=call.request_id, **metadata)
        call.end(failure.code.name, error if failure.is_ours else None)
        trailers = ((DETAILS, failure.details), (REQUEST_ID, call.request_id))
        await context.abort(failure.code, failure.message, trailers)
        return b""

    def _end_cancelled(self, call: ObservedCall, context: Any) -> None:
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


async def _read_batches(messages: AsyncIterator[bytes]) -> AsyncIterator[list[Document]]:
    """Yield the documents of a stream in batches that are written together."""
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
    """Return how long the caller still waits; raise Cancelled if its deadline has passed."""
    remaining = _time_remaining(context)
    if remaining is not None and remaining <= 0:
        raise Cancelled("the deadline passed before the work began: allow more time")
    return remaining


def _time_remaining(context: Any) -> float | None:
    remaining: float | None = context.time_remaining()
    return remaining
