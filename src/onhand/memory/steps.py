"""How does one procedure run both in a thread and in an event loop? As a generator that says what to wait for.

A procedure yields steps and is given what came of each. `run` does them one after the other in this thread; `soon`
awaits them. So what is between the steps is written once.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from onhand.errors import InputError

T = TypeVar("T")


class Step(Protocol):
    """Something that takes time."""

    def now(self) -> Any:
        """Do it in this thread."""

    def soon(self) -> Awaitable[Any]:
        """Do it without blocking the event loop."""


Procedure = Generator[Step, Any, T]


def run(procedure: Procedure[T]) -> T:
    """Do a procedure in this thread."""
    try:
        step = next(procedure)
        while True:
            try:
                value = step.now()
            except BaseException as error:
                step = procedure.throw(error)
            else:
                step = procedure.send(value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def soon(procedure: Procedure[T]) -> T:
    """Do a procedure in this event loop."""
    try:
        step = next(procedure)
        while True:
            try:
                value = await step.soon()
            except BaseException as error:
                step = procedure.throw(error)
            else:
                step = procedure.send(value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


class Work:
    """A plain function that takes some milliseconds: a loop has it done in a thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def now(self) -> Any:
        return self._function()

    def soon(self) -> Coroutine[Any, Any, Any]:
        return asyncio.to_thread(self._function)


class Compute:
    """The caller's own function: plain for `run`, async for `soon`."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def now(self) -> Any:
        value = self._function()
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise InputError(
                "the function gave something to await: pass an async function, not one that returns a coroutine"
            )
        return value

    def soon(self) -> Any:
        return self._function()


class Wait:
    """The end of a future that somebody else works on. Who stops waiting does not stop that work."""

    def __init__(self, future: "Future[Any]") -> None:
        self._future = future

    def now(self) -> Any:
        return self._future.result()

    def soon(self) -> Awaitable[Any]:
        return asyncio.wrap_future(self._future)


class Settled:
    """The end of a task, whatever comes of it. A loop that runs in this thread goes on only when we let it."""

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self._task = task

    def now(self) -> None:
        """It ends later."""

    def soon(self) -> Awaitable[Any]:
        return asyncio.wait([self._task])
