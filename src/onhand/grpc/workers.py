"""Who does the work, and how much at once? Threads, because everything below is synchronous; the event loop only waits.

A place is taken until the work itself ends, also when nobody waits for it any more: so work that was given up cannot
pile up behind the bound. Python's own thread pool does the same with three times the locks, which every call would pay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from threading import BoundedSemaphore, Thread
from time import monotonic
from typing import Any, TypeVar

from onhand import wanted
from onhand.errors import Busy

T = TypeVar("T")


class Workers:
    """Some threads, and a bound on what they do and what waits for them."""

    def __init__(self, name: str, threads: int, most: int) -> None:
        self.most = most
        self._places = BoundedSemaphore(most)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = [Thread(target=self._work, name=f"{name}-{place}", daemon=True) for place in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], T], remaining_s: float | None) -> T:
        """What the work gives. It stops between two steps once its time is over or the caller is cancelled."""
        if not self._places.acquire(blocking=False):
            raise Busy(f"{self.most:,} requests are being worked on already: try again in a second")
        job = _Job(work, None if remaining_s is None else monotonic() + remaining_s)
        self._jobs.put(job)
        try:
            answer: T = await job.answer
            return answer
        finally:
            job.has_gone = True

    def close(self) -> None:
        """Wait for what has begun; what has not is given up where nobody waits for it."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            tell = job.carried_out()
            self._places.release()  # before the caller hears of it, who may ask again at once
            tell()


class _Job:
    """Work, and whoever waits for what it gives."""

    def __init__(self, work: Callable[[], Any], deadline: float | None) -> None:
        self.has_gone = False
        self._work = work
        self._deadline = deadline
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self._loop.create_future()

    def carried_out(self) -> Callable[[], None]:
        """Do it, in a thread; what is given back tells the caller."""
        try:
            result = self._context.run(self._do)
            return lambda: self._tell(self.answer.set_result, result)
        except BaseException as error:
            # A future takes no StopIteration, and nothing that ends a program may end the event loop.
            failure = error if _is_plain(error) else RuntimeError(repr(error))
            return lambda: self._tell(self.answer.set_exception, failure)

    def _do(self) -> Any:
        wanted.ask_whether(self._is_wanted)
        wanted.check()
        return self._work()

    def _is_wanted(self) -> bool:
        return not self.has_gone and (self._deadline is None or monotonic() < self._deadline)

    def _tell(self, settle: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it whoever waited
            self._loop.call_soon_threadsafe(self._settle, settle, value)

    def _settle(self, settle: Callable[[Any], None], value: Any) -> None:
        if not self.answer.done():
            settle(value)


def _is_plain(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, StopIteration)
