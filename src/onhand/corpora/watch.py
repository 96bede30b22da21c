"""How does a long-running process notice edits before somebody searches? It looks, every so often, in the background.

Looking works on every file system, also on those that report no events. A search looks for itself as well, so a
watcher is never needed for a right answer: it makes the next one faster and tells others that something changed.
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

REST_PER_LOOK = 50  # a look that takes 20 ms is followed by a second of rest: at most 2 % of one core


class Watcher:
    """Calls `on_change` when a look gives another version than the last one; use it as a context manager."""

    def __init__(self, look: Callable[[], int], on_change: Callable[[], None], interval_s: float) -> None:
        self._look = look
        self._on_change = on_change
        self._interval_s = interval_s
        self._seen = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onhand-watch", daemon=True)

    def __enter__(self) -> Self:
        self._seen = self._look()  # what is there now is not a change
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        rest_s = self._interval_s
        while not self._stop.wait(rest_s):
            start = time.monotonic()
            version = self._look()
            rest_s = max(self._interval_s, REST_PER_LOOK * (time.monotonic() - start))
            if version != self._seen:
                self._seen = version
                self._on_change()
