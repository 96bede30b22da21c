"""The protocol of models: take a conversation and tools, and stream what the model says."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, Protocol

from onhand.agent.events import Stream
from onhand.formats.message import Message

Emit = Callable[[Any], None]


class Model(Protocol):
    """A model. It keeps no state between requests: each one carries the whole conversation."""

    name: str

    def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """Yield what the model says as it says it; exactly one event is an `Answered`, the last one.

        A ModelError says what can be done. Cancelling, or closing the iterator, also ends the work of the model.
        """


async def stream_from_thread(work: Callable[[Emit], None], stop: Callable[[], None]) -> AsyncGenerator[Any, None]:
    """Run blocking `work` in a thread and yield what it emits; raise what it raises. At the end, `stop` is called.

    The thread is a daemon: one that hangs must not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[tuple[Any, BaseException | None]] = asyncio.Queue()

    def emit(value: Any, end: BaseException | None = None) -> None:
        with suppress(RuntimeError):  # the loop is closed, so there is no listener
            loop.call_soon_threadsafe(arrived.put_nowait, (value, end))

    def run() -> None:
        try:
            work(emit)
            emit(None, StopAsyncIteration())
        except BaseException as failure:
            emit(None, failure)

    Thread(target=run, name="model", daemon=True).start()
    try:
        while True:
            value, end = await arrived.get()
            if isinstance(end, StopAsyncIteration):
                return
            if end is not None:
                raise end
            yield value
    finally:
        stop()
