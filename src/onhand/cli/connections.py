"""Connect to MCP servers for a person who waits, and say how it goes."""

from __future__ import annotations

import sys

from onhand.cli import terminal
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onhand.mcp.upstreams import Upstreams


class ConnectionTest:
    """Connects to servers; each result is printed as soon as it is known."""

    def __init__(self, registry: Upstreams, keys: Sequence[str], timeout_s: float | None) -> None:
        self.keys = tuple(dict.fromkeys(keys))
        self.failures: dict[str, str] = {}  # "" for a server that works
        self._registry, self._timeout_s = registry, timeout_s
        self._progress = terminal.Progress()
        self._is_printed = True

    async def connect(self, print_each: bool) -> None:
        """Connect to all servers, and stop when the time is over."""
        import anyio

        self._is_printed = print_each
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._show_progress)
                with anyio.move_on_after(self._timeout_s):
                    await self._registry.connect(self.keys, on_result=self._take)
                tasks.cancel_scope.cancel()
        finally:
            self._progress.end()
        for key in self._waiting:
            self._take(key, f"{key} did not answer within {self._timeout_s:g} s")

    @property
    def _waiting(self) -> list[str]:
        return [key for key in self.keys if key not in self.failures]

    def _take(self, key: str, failure: str) -> None:
        self.failures[key] = failure
        if not self._is_printed:
            return
        self._progress.end()
        (state,) = (one for one in self._registry.status() if one.key == key)
        blocked = f", {state.blocked} blocked" if state.blocked else ""
        terminal.say(failure or f"{key}: {quantity(state.tools, 'tool')}{blocked}")
        sys.stdout.flush()
        warn_of_lists({key: state.problems})

    async def _show_progress(self) -> None:
        import anyio

        started = anyio.current_time()
        while True:
            elapsed_s = anyio.current_time() - started
            done, total = len(self.failures), len(self.keys)
            self._progress.show(f"{elapsed_s:.0f} s, waiting for {', '.join(self._waiting)}", done, total)
            await anyio.sleep(terminal.PROGRESS_PERIOD_S)


def warn_of_lists(listed: Mapping[str, Sequence[str]]) -> None:
    """Warn about invalid items in the lists of servers, which only their operators can fix."""
    terminal.warn(f"{key}: {problem}" for key, problems in listed.items() for problem in problems)
