"""How does a command end when a signal asks it to? As by Ctrl-C: what is under way is ended first, and cleared up.

Only for commands that start others. Whoever serves has its own way, and the rest may end at once.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 5.0  # far more than it takes to end what was started


@contextmanager
def unwound() -> Iterator[None]:
    """Within it, a request to end is raised where the program is; one that is ignored stays so, as by nohup.

    From then on the process ends, with all that it has started. Requests come in pairs, as when a terminal is closed: a
    further one must not cut that short, unless it comes so late that the end seems to hang.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
    usual = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: handler for number in numbers if (handler := signal.getsignal(number)) in usual}
    asked_at: float | None = None

    def end(number: int, frame: object) -> None:
        nonlocal asked_at
        if asked_at is None:
            asked_at = monotonic()
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        if monotonic() - asked_at > PATIENCE_S:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        if asked_at is None:
            for number, handler in before.items():
                signal.signal(number, handler)
