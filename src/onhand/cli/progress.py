"""Show progress as a bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys

from onhand.cli import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

PERIOD_S = 0.1  # between two updates
BAR_CHARS = 24
_BACK, _CLEAR_LINE = "\r", "\x1b[K"


class Progress:
    """A line that is redrawn, and removed at the end."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = self._stream.isatty()
        self._next_s = 0.0

    def show(self, text: str, done: int = 0, total: int = 0) -> None:
        """Redraw the line, if it is visible and the last update was some time ago."""
        if not self._is_shown:
            return
        from time import monotonic

        now = monotonic()
        if now >= self._next_s:
            self._next_s = now + PERIOD_S
            self._write(f"{_BACK}{line(text, done, total, terminal.width())}{_CLEAR_LINE}")

    def end(self) -> None:
        """Remove the line."""
        if self._is_shown and self._next_s:
            self._write(f"{_BACK}{_CLEAR_LINE}")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError, UnicodeEncodeError):  # the terminal is closed
            self._is_shown = False


def line(text: str, done: int, total: int, columns: int) -> str:
    """Return `[#####-----]  50%  text`, without the bar if the total is unknown, at most as wide as the terminal."""
    shown = terminal.clean(text).replace("\n", " ")
    if total > 0:
        share = min(done / total, 1.0)
        filled = round(share * BAR_CHARS)
        shown = f"[{'#' * filled}{'-' * (BAR_CHARS - filled)}] {share:4.0%}  {shown}"
    return shown[: max(columns - 1, 1)]
