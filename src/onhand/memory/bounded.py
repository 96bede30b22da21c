"""How long is somebody else's function waited for? So long, and then it is left to itself.

A thread cannot be stopped, so a function that does not come back keeps its own. There are only so many of them, and
while all are kept like that nobody waits at all. It knows nothing of what it calls. Safe between threads.
"""

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Condition, Thread
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")
Job = tuple[Callable[[], Any], "Future[Any]"]

THREADS = 4
IDLE_S = 5.0  # a thread that nobody needed for so long ends


class TooLate(Exception):
    """The function has not come back in time."""


class Bounded:
    """Calls functions, each for at most `timeout_s`, in at most `threads` threads that never keep the process alive."""

    def __init__(self, timeout_s: float, threads: int = THREADS) -> None:
        self.timeout_s = timeout_s
        self._threads = threads
        self._changed = Condition()
        self._idle: list[SimpleQueue[Job]] = []  # one for each thread that waits for something to do
        self._running = 0
        self._late: set[Future[Any]] = set()  # calls that nobody waits for any more

    def call(self, function: Callable[[], T]) -> T:
        """What the function gives or raises; TooLate when it takes too long, or earlier calls keep every thread."""
        deadline = monotonic() + self.timeout_s
        jobs = self._thread(deadline)
        future: Future[T] = Future()
        context = copy_context()
        jobs.put((lambda: context.run(function), future))
        wait([future], max(0.0, deadline - monotonic()))
        with self._changed:
            if not future.done():
                self._late.add(future)
                raise TooLate(f"it has not come back within {self.timeout_s:g} s")
        return future.result()

    def _thread(self, deadline: float) -> "SimpleQueue[Job]":
        with self._changed:
            while not self._idle:
                if self._running < self._threads:
                    return self._started()
                left = deadline - monotonic()
                if len(self._late) >= self._threads or not self._changed.wait(max(0.0, left)):
                    raise TooLate("earlier calls have not come back")
            return self._idle.pop()

    def _started(self) -> "SimpleQueue[Job]":
        self._running += 1
        jobs: SimpleQueue[Job] = SimpleQueue()
        Thread(target=self._work, args=(jobs,), name="onhand-bounded", daemon=True).start()
        return jobs

    def _work(self, jobs: "SimpleQueue[Job]") -> None:
        while True:
            try:
                function, future = jobs.get(timeout=IDLE_S)
            except Empty:
                with self._changed:
                    if jobs not in self._idle:  # something to do is on its way
                        continue
                    self._idle.remove(jobs)
                    self._running -= 1
                return
            result = _outcome(function)
            with self._changed:
                result(future)
                self._late.discard(future)
                self._idle.append(jobs)
                self._changed.notify()
            del function, future, result  # while it waits, it keeps nothing alive


def _outcome(function: Callable[[], Any]) -> "Callable[[Future[Any]], None]":
    try:
        value = function()
    except BaseException as error:
        raised = error
        return lambda future: future.set_exception(raised)
    return lambda future: future.set_result(value)
