"""Who hears the signals that ask a server to end? Whoever says so here, from within its event loop.

A signal that nobody hears ends a process where it stands, and what its tools have started goes on without it.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def heard(end: Callable[[int], None]) -> Iterator[None]:
    """Within it, each request to end is given to `end`; a hangup that is ignored stays so, as by nohup.

    After it the process ends, and what its tools have started with it: a further request must not cut that short.
    """
    loop, numbers = asyncio.get_running_loop(), []
    for number in ENDING:
        if number == getattr(signal, "SIGHUP", None) and signal.getsignal(number) is signal.SIG_IGN:
            continue
        with suppress(ValueError):  # not the main thread, which alone hears them
            signal.signal(number, lambda number, _: loop.call_soon_threadsafe(end, number))
            numbers.append(number)
    try:
        yield
    finally:
        for number in numbers:  # at once: the loop's own way would leave a moment in which a signal kills
            signal.signal(number, signal.SIG_IGN)


async def until_asked_to_end(work: Awaitable[None]) -> int:
    """Do the work, which a request to end cancels; the exit code says by which signal, and 0 is by none."""
    task, by = asyncio.ensure_future(work), list[int]()

    def end(number: int) -> None:
        if not by:  # once: whoever ends what it has started is not to be interrupted in that
            task.cancel()
        by.append(number)

    with heard(end):
        try:
            await task
        except asyncio.CancelledError:
            if not by:
                raise
    return 128 + by[0] if by else 0
