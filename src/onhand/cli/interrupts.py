"""Stop commands that start other programs: on a signal, those are stopped and cleaned up first, as on Ctrl-C.

Servers handle signals in their own way, and other commands may simply exit.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 5.0  # far more than it takes to stop what was started


@contextmanager
def unwind_on_signals() -> Iterator[None]:
    """Raise an exception where the program is when a signal asks it to stop; ignored signals stay ignored, as by nohup.

    The process then exits with all that it started. Signals come in pairs, as when a terminal is closed: a further one
    must not interrupt the clean-up, unless it comes so late that the clean-up seems to hang.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
    usual = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: handler for number in numbers if (handler := signal.getsignal(number)) in usual}
    stopped_at: float | None = None

    def end(number: int, frame: object) -> None:
        nonlocal stopped_at
        if stopped_at is None:
            stopped_at = monotonic()
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        if monotonic() - stopped_at > PATIENCE_S:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        if stopped_at is None:
            for number, handler in before.items():
                signal.signal(number, handler)
