"""How long is somebody else's function waited for? So long, and then it is left to itself.

A thread cannot be stopped, so a function that does not come back keeps its own. There are only so many of them, and
while all are kept like that nobody waits at all. It knows nothing of what it calls. Safe between threads.
"""

import os
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import TIMEOUT_MAX, Condition, Lock, Thread
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 4
IDLE_S = 5.0  # a thread that nobody needed for so long ends


class TooLate(Exception):
    """The function has not come back in time."""


class Bounded:
    """Calls functions, each for at most `timeout_s`, in at most `threads` threads that never keep the process alive."""

    def __init__(self, timeout_s: float, threads: int = THREADS) -> None:
        self.timeout_s = timeout_s
        self._threads = threads
        self._begin()

    def call(self, function: Callable[[], T]) -> T:
        """What the function gives or raises; TooLate when it takes too long, or earlier calls keep every thread."""
        if os.getpid() != self._process:  # a fork has none of our threads
            self._begin()
        deadline = monotonic() + self.timeout_s
        call = _Call(function)
        self._thread(deadline).put(call)
        if not call.ended.acquire(timeout=_left(deadline)):
            with self._changed:
                if not call.is_over:
                    self._late.add(call)
                    raise TooLate(f"it has not come back within {self.timeout_s:g} s")
        if call.error is not None:
            raise call.error
        return call.value  # type: ignore[no-any-return]

    def _begin(self) -> None:
        """Start over without any threads."""
        self._process = os.getpid()
        self._changed = Condition()
        self._idle: list[SimpleQueue[_Call]] = []  # one for each thread that waits for something to do
        self._running = 0
        self._late: set[_Call] = set()  # that nobody waits for any more

    def _thread(self, deadline: float) -> "SimpleQueue[_Call]":
        """Where a thread waits for a call; the last one that was busy, which is still warm."""
        with self._changed:
            while not self._idle:
                if self._running < self._threads:
                    return self._started()
                if len(self._late) >= self._threads or not self._changed.wait(_left(deadline)):
                    raise TooLate("earlier calls have not come back")
            return self._idle.pop()

    def _started(self) -> "SimpleQueue[_Call]":
        self._running += 1
        calls: SimpleQueue[_Call] = SimpleQueue()
        Thread(target=self._work, args=(calls,), name="onhand-bounded", daemon=True).start()
        return calls

    def _work(self, calls: "SimpleQueue[_Call]") -> None:
        while True:
            try:
                call = calls.get(timeout=IDLE_S)
            except Empty:
                with self._changed:
                    if calls not in self._idle:  # something to do is on its way
                        continue
                    self._idle.remove(calls)
                    self._running -= 1
                return
            call.make()
            with self._changed:
                call.is_over = True
                self._late.discard(call)
                self._idle.append(calls)
                self._changed.notify()
            call.ended.release()
            del call  # while it waits, it keeps nothing alive


class _Call:
    """A call of a function in the context of who wants it, and what came of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function, self._context = function, copy_context()
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        self.ended = Lock()
        self.ended.acquire()

    def make(self) -> None:
        try:
            self.value = self._context.run(self._function)
        except BaseException as error:  # it belongs to who waits
            self.error = error


def _left(deadline: float) -> float:
    return max(0.0, min(deadline - monotonic(), TIMEOUT_MAX))
