"""How is something listened to that blocks? It works in a thread of its own, and tells what it has as it has it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from threading import Thread
from typing import Any

Tell = Callable[[Any], None]


async def threaded(work: Callable[[Tell], None], stop: Callable[[], None]) -> AsyncGenerator[Any, None]:
    """What `work` tells, in order; what it raises is raised here. `stop` is called when nobody listens any more.

    The thread is a daemon: one that hangs must not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[tuple[Any, BaseException | None]] = asyncio.Queue()

    def tell(value: Any, end: BaseException | None = None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(arrived.put_nowait, (value, end))

    def run() -> None:
        try:
            work(tell)
            tell(None, StopAsyncIteration())
        except BaseException as failure:
            tell(None, failure)

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
