"""Carry out gRPC calls: decode them, run them in a worker thread, answer them, log them, and stop cancelled ones.

Threads do the work, because everything below this door is synchronous; the event loop only waits. A call occupies its
slot until the work itself has ended, even if nobody waits for it any more, so that abandoned work cannot pile up.
Python's own thread pool would need three times as many lock operations per call.

Messages are decoded here rather than by gRPC, which would answer an unreadable one with the name of a Python class.
Each call is logged as a line of JSON with a request id, the method, the status and the duration; the query is logged
only if the operator enables that.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from logging import INFO, WARNING, LogRecord, getLogger
from os import urandom
from queue import SimpleQueue
from threading import BoundedSemaphore, Thread
from time import monotonic, perf_counter
from typing import Any, Protocol, TypeVar

import grpc

from onhand import cancellation
from onhand.document import Document
from onhand.errors import Busy, Cancelled, InputError
from onhand.grpc import search_pb2 as wire
from onhand.grpc import translate
from onhand.grpc.services import RpcMethod
from onhand.grpc.statuses import DETAILS, failure_of
from onhand.search.index import BATCH, Index, Written

T = TypeVar("T")

LOG = getLogger("onhand.grpc")
REQUEST_ID = "x-request-id"
MAX_LOGGED_CHARS = 1_000  # of an error
MAX_LOGGED_QUERY_CHARS = 200
BATCH_BYTES = 8 * 1024 * 1024  # of documents that are written together
_USABLE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")

EndCall = Callable[[str, float], None]  # takes the status and the duration in seconds


class CallTelemetry(Protocol):
    """A recorder of calls, in addition to the log."""

    def begin(self, method: str, request_id: str, metadata: Mapping[str, str]) -> EndCall:
        """Record the start of a call, and return a function to call at its end."""


class ObservedCall:
    """One call, from start to end."""

    def __init__(self, method: str, metadata: Iterable[tuple[str, Any]], telemetry: CallTelemetry | None) -> None:
        texts = {name: value for name, value in metadata if isinstance(value, str)}
        id = texts.get(REQUEST_ID, "")
        self.method = method
        self.request_id = id if _USABLE_ID.fullmatch(id) else urandom(16).hex()
        self.facts: dict[str, object] = {}
        self._started = perf_counter()
        self._end = telemetry.begin(method, self.request_id, texts) if telemetry else None

    def end(self, code: str, error: Exception | None = None) -> None:
        """Log the outcome, with all details of an error, since only the operator reads the log."""
        seconds = perf_counter() - self._started
        if self._end:
            self._end(code, seconds)
        fields = {"request_id": self.request_id, "method": self.method, "code": code, "ms": round(seconds * 1000, 3)}
        if error:
            fields["error"] = f"{type(error).__name__}: {error}"[:MAX_LOGGED_CHARS]
        log(WARNING if error else INFO, "call", **fields, **self.facts)


def log(level: int, event: str, **facts: object) -> None:
    """Write an event to the log, without the stack walk that a logger makes for each record."""
    if LOG.isEnabledFor(level):
        LOG.handle(LogRecord(LOG.name, level, __file__, 0, _LogLine(event=event, **facts), None, None))


class _LogLine(dict[str, object]):
    """A line of JSON in ASCII, so that nothing a caller sends can forge another line.

    It is serialised only when it is formatted, which may be later and in another thread.
    """

    def __str__(self) -> str:
        return json.dumps(self, default=str)


class Workers:
    """Worker threads with a limit on the calls that run or wait."""

    def __init__(self, name: str, threads: int, max_calls: int) -> None:
        self.max_calls = max_calls
        self._slots = BoundedSemaphore(max_calls)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = [Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], T], remaining_s: float | None) -> T:
        """Run work in a thread and return its result; it stops between steps at its deadline or when cancelled."""
        if not self._slots.acquire(blocking=False):
            raise Busy(f"{self.max_calls:,} requests are already in flight: try again in a second")
        job = _Job(work, None if remaining_s is None else monotonic() + remaining_s)
        self._jobs.put(job)
        try:
            answer: T = await job.answer
            return answer
        finally:
            job.is_abandoned = True

    def close(self) -> None:
        """Wait until the work in progress has ended; queued work that nobody waits for is dropped."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            notify_caller = job.execute()
            self._slots.release()  # before the caller is notified, because it may call again at once
            notify_caller()


class _Job:
    """Work to do in a thread, and the future that its caller awaits."""

    def __init__(self, work: Callable[[], Any], deadline: float | None) -> None:
        self.is_abandoned = False
        self._work = work
        self._deadline = deadline
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self._loop.create_future()

    def execute(self) -> Callable[[], None]:
        """Do the work in this thread, and return a function that notifies the caller."""
        try:
            result = self._context.run(self._run_work)
            return lambda: self._notify(self.answer.set_result, result)
        except BaseException as error:
            # A future rejects StopIteration, and an exception that ends a program must not end the event loop.
            failure = error if _is_plain(error) else RuntimeError(repr(error))
            return lambda: self._notify(self.answer.set_exception, failure)

    def _run_work(self) -> Any:
        cancellation.continue_while(self._is_needed)
        cancellation.check()
        return self._work()

    def _is_needed(self) -> bool:
        return not self.is_abandoned and (self._deadline is None or monotonic() < self._deadline)

    def _notify(self, set_outcome: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the event loop has ended, and the caller with it
            self._loop.call_soon_threadsafe(self._finish, set_outcome, value)

    def _finish(self, set_outcome: Callable[[Any], None], value: Any) -> None:
        if not self.answer.done():
            set_outcome(value)


def _is_plain(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, StopIteration)


class Calls:
    """Handlers that carry out calls with a pool of workers."""

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
                with self._open_stream():
                    async for batch in _read_batches(messages):
                        put_batch = partial(index.put, batch)
                        counts = await self._workers.run(put_batch, _remaining_s(context))
                        written = Written(*map(sum, zip(written, counts, strict=True)))
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
        # As initial metadata, which is sent at once, it would make a call a fifth more expensive.
        context.set_trailing_metadata(((REQUEST_ID, call.request_id),))
        return call

    def _answer(self, method: RpcMethod, raw: bytes, call: ObservedCall) -> bytes:
        request = method.request.FromString(raw)
        if self._log_queries and hasattr(request, "query"):
            call.facts["query"] = request.query[:MAX_LOGGED_QUERY_CHARS]
        response = method.answer(request)
        if hasattr(response, "hits"):
            call.facts["hits"] = len(response.hits)
        answer = response.SerializeToString()
        if len(answer) > self._max_message_bytes:
            raise InputError(
                f"the response has {len(answer):,} bytes, but at most {self._max_message_bytes:,} can be sent: "
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
    def _open_stream(self) -> Iterator[None]:
        if self._streams >= self._workers.max_calls:
            raise Busy(f"{self._streams:,} streams are already open: try again in a second")
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1


async def _read_batches(messages: AsyncIterator[bytes]) -> AsyncIterator[list[Document]]:
    """Yield the documents of a stream in batches to be written together."""
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
    """Return how long the caller will wait, or None without a deadline. Raise Cancelled if it has passed."""
    remaining = _time_remaining(context)
    if remaining is not None and remaining <= 0:
        raise Cancelled("the deadline passed before the work began: allow more time")
    return remaining


def _time_remaining(context: Any) -> float | None:
    remaining: float | None = context.time_remaining()
    return remaining
