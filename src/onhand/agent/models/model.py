"""The protocol of models: they take a conversation and tools, and stream an answer."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, Protocol

from onhand.agent.events import Stream
from onhand.formats.message import Message

Emit = Callable[[Any], None]


class Model(Protocol):
    """A model. It keeps no state between requests, each of which carries the whole conversation."""

    name: str

    def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """Yield the answer as it arrives; the last event, and only the last, is an `Answered`.

        Raise ModelError with advice if there is no answer. Cancelling or closing the iterator stops the model too.
        """


async def stream_from_thread(work: Callable[[Emit], None], stop: Callable[[], None]) -> AsyncGenerator[Any, None]:
    """Run blocking `work` in a thread, yield what it emits, raise what it raises, and finally call `stop`.

    The thread is a daemon, so that one that hangs does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[Any, BaseException | None]] = asyncio.Queue()

    def emit(value: Any, end: BaseException | None = None) -> None:
        with suppress(RuntimeError):  # the event loop is closed, so nobody reads the queue
            loop.call_soon_threadsafe(queue.put_nowait, (value, end))

    def run() -> None:
        try:
            work(emit)
            emit(None, StopAsyncIteration())
        except BaseException as failure:
            emit(None, failure)

    Thread(target=run, name="model", daemon=True).start()
    try:
        while True:
            value, end = await queue.get()
            if isinstance(end, StopAsyncIteration):
                return
            if end is not None:
                raise end
            yield value
    finally:
        stop()
