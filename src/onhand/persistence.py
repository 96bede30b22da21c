"""Pass snapshots of an object to the caller's `on_persist` function, sync or async, one at a time.

A snapshot is taken when its turn comes, so an older one never follows a newer one. Persisters can be shared between
threads and event loops.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from threading import Lock
from typing import Any

from onhand.errors import InputError


class Persister:
    """Calls `function` with the return value of `snapshot`; without a function it does nothing."""

    def __init__(
        self, function: Callable[[Any], object] | None, snapshot: Callable[[], Any], *, automatic: bool = False
    ) -> None:
        if function is not None and not callable(function):
            raise InputError(f"on_persist must be a function that takes a snapshot, not {function!r:.60}")
        self._function, self._snapshot = function, snapshot
        self.is_automatic = automatic and function is not None
        self.error: str | None = None  # of the last `persist_quietly`
        self._is_async = function is not None and is_async(function)
        self._lock = Lock()
        self._current: Future[None] | None = None  # done when the current call has ended
        self._tasks: set[asyncio.Task[None]] = set()  # event loops keep only weak references to tasks

    def persist(self) -> "asyncio.Task[None] | None":
        """Persist now or, if the function is async and an event loop runs in this thread, in the returned task."""
        if self._function is None:
            return None
        if not self._is_async:
            self._persist_here(self._function)
            return None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._persist_here(lambda snapshot: asyncio.run(self._await_function(snapshot)))
            return None
        task = loop.create_task(self._persist_in_loop())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def persist_quietly(self) -> "asyncio.Task[None] | None":
        """Persist as `persist` does, but store an error in `error` instead of raising it."""
        try:
            pending = self.persist()
        except Exception as error:  # the caller's function may raise anything
            self.error = _describe(error)
            return None
        if pending is None:
            self.error = None
        else:
            pending.add_done_callback(self._note_outcome)
        return pending

    async def persist_quietly_async(self) -> None:
        """Persist as `persist_quietly` does, without blocking the event loop, and wait for the end."""
        if not self._is_async:
            await asyncio.to_thread(self.persist_quietly)
        elif pending := self.persist_quietly():
            await asyncio.wait([pending])

    def _persist_here(self, function: Callable[[Any], object]) -> None:
        while others := self._take_turn():
            others.result()
        try:
            returned = function(self._snapshot())
            if inspect.isawaitable(returned):
                close_coroutine(returned)
                raise InputError("on_persist returned an awaitable: pass an async function instead")
        finally:
            self._end_turn()

    async def _persist_in_loop(self) -> None:
        while others := self._take_turn():
            await asyncio.wrap_future(others)
        try:
            await self._await_function(self._snapshot())
        finally:
            self._end_turn()

    async def _await_function(self, snapshot: Any) -> None:
        await self._function(snapshot)  # type: ignore[misc]

    def _take_turn(self) -> "Future[None] | None":
        """Begin a call of the function, or return the future of the call that is still running."""
        with self._lock:
            if self._current is not None:
                return self._current
            self._current = Future()
            self._current.set_running_or_notify_cancel()  # so that a cancelled waiter cannot cancel it
            return None

    def _end_turn(self) -> None:
        with self._lock:
            current, self._current = self._current, None
        if current is not None:
            current.set_result(None)

    def _note_outcome(self, task: "asyncio.Task[None]") -> None:
        error = asyncio.CancelledError("it was cancelled") if task.cancelled() else task.exception()
        self.error = None if error is None else _describe(error)


def require_iterable(items: object, what: str) -> Iterable[Any]:
    """Return the items of an earlier snapshot; raise InputError if they are not iterable."""
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
        raise InputError(f"{what} must be a list of items that on_persist received, not {items!r:.60}")
    return items


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether calling the function returns an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def close_coroutine(awaitable: Awaitable[Any]) -> None:
    """Close a coroutine that is never awaited, so that Python does not warn about it."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
