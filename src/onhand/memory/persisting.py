"""How does what is in memory get to whoever keeps it? As a whole, by their function, plain or async, one at a time.

What is handed over is what there is when its turn comes, so an older picture never follows a newer one. It knows
neither files nor what it hands over. Safe between threads and event loops.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import Any

from onhand.errors import InputError
from onhand.memory import steps


class Persisting:
    """Hands what `picture` gives to `function`."""

    def __init__(self, function: Callable[[Any], object], picture: Callable[[], Any]) -> None:
        if not callable(function):
            raise InputError(f"on_persist must be a function that is given everything, not {function!r:.60}")
        self._function, self._picture = function, picture
        self.is_async = is_async(function)
        self._lock = Lock()
        self._turn: Future[None] | None = None  # of who hands over just now
        self._tasks: set[asyncio.Task[None]] = set()  # a loop itself does not keep them alive

    def hand_over(self) -> "asyncio.Task[None] | None":
        """Do it now; or, where the function is async and an event loop runs here, a task that does."""
        if not self.is_async:
            return steps.run(self._handed_over(self._function))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return steps.run(self._handed_over(lambda picture: asyncio.run(self._awaited(picture))))
        task = loop.create_task(steps.soon(self._handed_over(self._function)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _handed_over(self, function: Callable[[Any], object]) -> steps.Procedure[None]:
        while True:
            with self._lock:
                others = self._turn
                if others is None:
                    ours: Future[None] = Future()
                    ours.set_running_or_notify_cancel()  # who waits and is cancelled does not cancel it
                    self._turn = ours
                    break
            yield steps.Wait(others)
        try:
            yield steps.Compute(partial(function, self._picture()))
        finally:
            with self._lock:
                self._turn = None
            ours.set_result(None)

    async def _awaited(self, picture: Any) -> None:
        await self._function(picture)  # type: ignore[misc]


def accepted_many(given: object, what: str) -> Iterable[Any]:
    """What was handed over before and comes back; InputError when it is nothing to go through."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        raise InputError(f"{what} must be a list of what on_persist was given, not {given!r:.60}")
    return given


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
