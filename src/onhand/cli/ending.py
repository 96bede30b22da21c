"""How does a command end when a signal asks it to? As by Ctrl-C: what is under way is ended first, and cleared up.

Only for commands that start others. Whoever serves has its own way, and the rest may end at once.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def unwound() -> Iterator[None]:
    """Within it, a request to end is raised where the program is; one that is ignored stays so, as by nohup."""
    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heard = [number for number in wanted if signal.getsignal(number) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)
