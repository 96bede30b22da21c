"""When may a program start that nobody waits for? One after the other, and while calls are made, only now and then.

A program that starts keeps a processor busy for half a second or more, which those feel who call other servers, and one
that is dead or hangs is started again and again. Nothing here knows servers. What somebody waits for does not ask here.
"""

import math
import os
from collections.abc import Generator
from contextlib import contextmanager

import anyio

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
FIRST_S = 0.5 / CORES  # between programs that were never started: they come to work at most as fast as they could
AGAIN_S = 8 * FIRST_S  # between those that have failed: a part of one processor
BUSY_S = 40 / CORES  # while calls are made: so that a start meets fewer than one in 20
QUIET_S = 1.0  # without a call: then whoever calls is likely to think for longer than a program takes to start


class Starts:
    """The programs that wait for their turn to start, and the calls that they give way to."""

    def __init__(self) -> None:
        self._queue = anyio.Lock()
        self._started_at = -math.inf
        self._calls = 0
        self._quiet_at = 0.0

    @contextmanager
    def call(self) -> Generator[None, None, None]:
        """While somebody waits for a server's answer."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._quiet_at = anyio.current_time() + QUIET_S

    async def turn(self, has_failed: bool) -> None:
        """Wait until it is a program's turn."""
        async with self._queue:
            await anyio.sleep_until(self._started_at + (AGAIN_S if has_failed else FIRST_S))
            with anyio.CancelScope(deadline=self._started_at + BUSY_S):
                await self._quiet()
            self._started_at = anyio.current_time()

    async def _quiet(self) -> None:
        while (wait := QUIET_S if self._calls else self._quiet_at - anyio.current_time()) > 0:
            await anyio.sleep(wait)
