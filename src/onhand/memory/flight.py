"""Who computes, when many ask the same at once? The first; the others wait for what comes of it.

It knows keys and answers, and neither questions nor caches. Safe between threads and event loops.
"""

import asyncio
from collections.abc import Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from threading import Lock
from typing import Any

_ours: ContextVar[tuple["Flight", ...]] = ContextVar("onhand_memory_flights", default=())
_waiting = Lock()  # over who awaits whom, of all caches: two that wait for each other may be of different ones


class Flight:
    """One computation, and those who wait for it.

    Waiters get the value or the error. When it is abandoned, because who computed was cancelled or interrupted, they
    get `Abandoned` and try anew: nobody is cancelled for another.
    """

    def __init__(self) -> None:
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()  # from now on, a waiter that is cancelled cannot cancel it
        self.loop = _running_loop()
        self.awaits: list[Flight] = []  # those without which it does not end


class Abandoned(Exception):
    """The computation ended without a value or an error of its own."""


class Flights:
    """The computations under way, by key."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._flights: dict[Hashable, Flight] = {}

    def join(self, key: Hashable) -> tuple[Flight, bool]:
        """The flight of a key, and whether it is the caller's own to end by `land`."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is not None:
                return flight, False
            flight = self._flights[key] = Flight()
            return flight, True

    def land(self, key: Hashable, flight: Flight, value: Any = None, error: BaseException | None = None) -> None:
        """End a flight for all who wait."""
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]
        if error is None:
            flight.future.set_result(value)
        elif isinstance(error, Exception):
            flight.future.set_exception(error)
        else:
            flight.future.set_exception(Abandoned())

    def __len__(self) -> int:
        return len(self._flights)


def board(flight: Flight) -> "Token[tuple[Flight, ...]]":
    """Note that what runs now belongs to a flight."""
    return _ours.set((*_ours.get(), flight))


def leave(token: "Token[tuple[Flight, ...]]") -> None:
    """What runs from here on belongs to it no more."""
    with suppress(ValueError):  # a coroutine that nobody awaits to its end is closed in another context
        _ours.reset(token)


@contextmanager
def waiting_for(flight: Flight, blocks: bool) -> Iterator[bool]:
    """Whether a flight can be waited for here, and note that it is.

    Not when that would never end: when it is or awaits something that we are part of or, if waiting blocks, something
    that needs our loop.
    """
    ours, loop = _ours.get(), _running_loop()
    with _waiting:
        before = _awaited(flight)
        can_wait = before.isdisjoint(ours) and not (blocks and loop and any(one.loop is loop for one in before))
        for one in ours if can_wait else ():
            one.awaits.append(flight)
    try:
        yield can_wait
    finally:
        with _waiting:
            for one in ours if can_wait else ():
                one.awaits.remove(flight)


def _awaited(flight: Flight) -> set[Flight]:
    """A flight and all that it awaits."""
    found = [flight]
    for one in found:
        found += [other for other in one.awaits if other not in found]
    return set(found)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
