"""Let commands that start other programs stop and clean up these programs when a signal arrives.

Servers handle signals in their own way, and other commands can simply exit.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 5.0  # far more than it takes to stop the programs


@contextmanager
def unwind_on_signals() -> Iterator[None]:
    """Turn the first stop signal into an exception, so that `finally` blocks run; ignored signals stay ignored.

    Signals often come in pairs, as when a terminal is closed. A second one does not interrupt the clean-up unless the
    clean-up seems to hang.
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
