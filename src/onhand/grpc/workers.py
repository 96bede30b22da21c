"""Who does the work, and how much at once? Threads, because everything below is synchronous; the event loop only waits.

A place is taken until the work itself ends, also when nobody waits for it any more: so work that was given up cannot
pile up behind the bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import BoundedSemaphore
from time import monotonic
from typing import TypeVar

from onhand import wanted
from onhand.errors import Busy

T = TypeVar("T")


class Workers:
    """Some threads, and a bound on what they do and what waits for them."""

    def __init__(self, name: str, threads: int, most: int) -> None:
        self.most = most
        self._places = BoundedSemaphore(most)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, work: Callable[[], T], remaining_s: float | None) -> T:
        """What the work gives. It stops between two steps once its time is over or the caller is cancelled."""
        if not self._places.acquire(blocking=False):
            raise Busy(f"{self.most:,} requests are being worked on already: try again in a second")
        asker = _Asker(None if remaining_s is None else monotonic() + remaining_s)
        try:
            future = self._threads.submit(copy_context().run, _while_wanted, asker, work)
        except BaseException:
            self._places.release()
            raise
        future.add_done_callback(self._leave)
        try:
            return await asyncio.wrap_future(future)
        finally:
            asker.has_gone = True

    def close(self) -> None:
        """Wait for what has begun, and begin nothing else."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _leave(self, _: Future[T]) -> None:
        self._places.release()


class _Asker:
    """Whoever waits for an answer."""

    def __init__(self, deadline: float | None) -> None:
        self.deadline = deadline
        self.has_gone = False

    def is_waiting(self) -> bool:
        return not self.has_gone and (self.deadline is None or monotonic() < self.deadline)


def _while_wanted(asker: _Asker, work: Callable[[], T]) -> T:
    wanted.ask_whether(asker.is_waiting)
    wanted.check()
    return work()
