"""Compute once when several callers ask for the same key at the same time; the others wait for the result.

Safe between threads and event loops: a thread can wait for a task, and a task for a thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar, Token
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")

# The computations that the running code is part of: one that asks for its own key must not wait for itself.
_enclosing: ContextVar[tuple["Flight", ...]] = ContextVar("onhand_cache_flights", default=())


class Flight:
    """A computation under way. Its future ends with the value, the error, or `Abandoned`."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()  # a cancelled waiter must not cancel it
        self._loop = _running_loop()

    def can_be_awaited(self, *, blocking: bool) -> bool:
        """Return whether waiting can end: not from inside the computation, nor while blocking the loop it runs in."""
        loop = _running_loop()
        return self not in _enclosing.get() and not (blocking and loop is not None and loop is self._loop)


class Abandoned(Exception):
    """The computation was cancelled or interrupted. Its waiters try again: nobody is cancelled for another."""


class SingleFlight:
    """The computations under way, by key."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._flights: dict[Hashable, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def run(self, key: Hashable, compute: Callable[[], T]) -> tuple[T, bool]:
        """Return the value for a key, and whether another caller computed it."""
        while True:
            flight, is_leader = self._join(key)
            if is_leader:
                return self._lead(key, flight, compute), False
            if not flight.can_be_awaited(blocking=True):
                return compute(), False
            with suppress(Abandoned):
                return flight.future.result(), True

    async def run_async(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Do what `run` does without blocking the event loop."""
        while True:
            flight, is_leader = self._join(key)
            if is_leader:
                return await self._lead_async(key, flight, compute), False
            if not flight.can_be_awaited(blocking=False):
                return await compute(), False
            with suppress(Abandoned):
                return await asyncio.wrap_future(flight.future), True

    def _join(self, key: Hashable) -> tuple[Flight, bool]:
        """Return the flight of a key, and whether the caller has begun it."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is not None:
                return flight, False
            flight = self._flights[key] = Flight()
            return flight, True

    def _lead(self, key: Hashable, flight: Flight, compute: Callable[[], T]) -> T:
        token = _enter(flight)
        try:
            value = compute()
        except BaseException as error:
            self._fail(key, flight, error)
            raise
        finally:
            _leave(token)
        return self._finish(key, flight, value)

    async def _lead_async(self, key: Hashable, flight: Flight, compute: Callable[[], Awaitable[T]]) -> T:
        token = _enter(flight)
        try:
            value = await compute()
        except BaseException as error:
            self._fail(key, flight, error)
            raise
        finally:
            _leave(token)
        return self._finish(key, flight, value)

    def _finish(self, key: Hashable, flight: Flight, value: T) -> T:
        self._forget(key)
        flight.future.set_result(value)
        return value

    def _fail(self, key: Hashable, flight: Flight, error: BaseException) -> None:
        self._forget(key)
        flight.future.set_exception(error if isinstance(error, Exception) else Abandoned())

    def _forget(self, key: Hashable) -> None:
        with self._lock:
            del self._flights[key]


def _enter(flight: Flight) -> "Token[tuple[Flight, ...]]":
    return _enclosing.set((*_enclosing.get(), flight))


def _leave(token: "Token[tuple[Flight, ...]]") -> None:
    with suppress(ValueError):  # a coroutine that nobody awaits to its end is closed in another context
        _enclosing.reset(token)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
