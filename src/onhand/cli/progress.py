"""How far is it? A bar on the error stream of a terminal, and nothing anywhere else."""

from __future__ import annotations

import sys

from onhand.cli import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

PERIOD_S = 0.1  # between two drawings: more would cost time and show no more
BAR_CHARS = 24
_BACK, _CLEAR_LINE = "\r", "\x1b[K"


class Progress:
    """A line that is drawn again and again, and is gone in the end."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = self._stream.isatty()
        self._next_s = 0.0

    def show(self, text: str, done: int = 0, total: int = 0) -> None:
        """Draw the line, if a person can see it and the last drawing is some time ago."""
        if not self._is_shown:
            return
        from time import monotonic

        now = monotonic()
        if now >= self._next_s:
            self._next_s = now + PERIOD_S
            self._write(f"{_BACK}{line(text, done, total, terminal.width())}{_CLEAR_LINE}")

    def end(self) -> None:
        """Take the line away."""
        if self._is_shown and self._next_s:
            self._write(f"{_BACK}{_CLEAR_LINE}")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError, UnicodeEncodeError):  # nobody looks any more
            self._is_shown = False


def line(text: str, done: int, total: int, columns: int) -> str:
    """`[#####-----]  50%  text`, without the bar where the total is not known, as wide as the terminal at most."""
    shown = terminal.clean(text).replace("\n", " ")
    if total > 0:
        share = min(done / total, 1.0)
        filled = round(share * BAR_CHARS)
        shown = f"[{'#' * filled}{'-' * (BAR_CHARS - filled)}] {share:4.0%}  {shown}"
    return shown[: max(columns - 1, 1)]
