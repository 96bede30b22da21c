"""Print output that is safe for a terminal, plain in a pipe, and UTF-8 as JSON.

What is printed may come from files that someone else wrote, so every text is sanitized.
"""

from __future__ import annotations

import os
import sys

from onhand.hidden_characters import escape_hidden, sanitize
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

    from onhand.corpora.files import Problem

MAX_WARNINGS = 20  # more would push the answer out of sight

PROGRESS_PERIOD_S = 0.1  # between two updates
BAR_CHARS = 24
MIN_COLUMN_CHARS = 12  # of a column that is cut off
_BACK, _CLEAR_LINE = "\r", "\x1b[K"
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"


def colour(stream: TextIO | None = None) -> bool:
    """Return whether the stream is a terminal with colours and NO_COLOR is not set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return (stream or sys.stdout).isatty()


def width() -> int:
    """Return the number of columns of the terminal; 80 if there is none."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and len(columns) < 6 and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def say(text: str = "", *, heading: bool = False, file: TextIO | None = None) -> None:
    """Print untrusted text, sanitized; a heading is bold."""
    stream = file or sys.stdout
    shown = sanitize(text)
    _write(f"{_BOLD}{shown}{_RESET}" if heading and colour(stream) else shown, stream)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings to standard error."""
    for warning in warnings:
        complain(f"onhand: warning: {warning}")


def complain(text: str) -> None:
    """Print to standard error; a closed stream changes neither the output nor the exit code."""
    try:
        say(text, file=sys.stderr)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # for the rest of the buffer


def warn_of(problems: Sequence[Problem], command: str) -> None:
    """Print the first MAX_WARNINGS problems of files; `command` lists them all."""
    warn(f"{escape_newlines(problem.path)}: {problem.reason}" for problem in problems[:MAX_WARNINGS])
    if len(problems) > MAX_WARNINGS:
        warn([f"and {len(problems) - MAX_WARNINGS:,} more: `{command}` lists them all"])


def escape_newlines(text: str) -> str:
    """Return the text on one line, so that no part of it can pass for a line of the command itself."""
    return text.replace("\n", "\\n")


def join_lines(text: str) -> str:
    """Return prose on one line, with all white space collapsed."""
    return " ".join(text.split())


def print_excerpt(text: str, max_lines: int) -> None:
    """Print a text under its heading; in a terminal, only its first lines."""
    lines = text.strip().splitlines()
    shown = lines[:max_lines] if sys.stdout.isatty() else lines
    for line in shown:
        say(f"   {line}".rstrip())
    if len(shown) < len(lines):
        say(f"   … {quantity(len(lines) - len(shown), 'more line')}")
    say()


def print_table(rows: Sequence[Sequence[str]], *, header: Sequence[str] = (), cut: Sequence[int] = ()) -> None:
    """Print rows in aligned columns under an optional bold header.

    In a terminal that is too narrow, the columns in `cut` are cut off. If that is not enough, each row becomes a few
    lines.
    """
    shown = [[_cell(cell) for cell in row] for row in ([header] if header else []) + list(rows)]
    columns = len(shown[0]) if shown else 0
    widths = [max(_columns(row[index]) for row in shown) for index in range(columns)]
    room = width() if cut and _is_narrow() else 10**9
    excess = sum(widths) + 2 * (columns - 1) - room
    while excess > 0:
        widest = max(cut, key=lambda index: widths[index])
        if widths[widest] <= MIN_COLUMN_CHARS:
            _print_stacked(shown[1:] if header else shown, cut, room)
            return
        widths[widest] -= 1
        excess -= 1
    paint = bool(header) and colour()
    for number, row in enumerate(shown):
        cells = [_cut(cell, wide) for cell, wide in zip(row, widths, strict=True)]
        line = "  ".join(cell + " " * (wide - _columns(cell)) for cell, wide in zip(cells, widths, strict=True))
        _write(f"{_BOLD}{line.rstrip()}{_RESET}" if paint and number == 0 else line.rstrip(), sys.stdout)


def fit(line: str) -> str:
    """Return a line within the width of the terminal, if there is one."""
    return _cut(line, width()) if _is_narrow() else line


def say_wrapped(text: str, *, heading: bool = False) -> None:
    """Print a paragraph; in a terminal, wrapped between words."""
    say(wrap(text, len(text) - len(text.lstrip()) + 2) if _is_narrow() else text, heading=heading)


def wrap(text: str, indent: int = 0) -> str:
    """Return a paragraph in lines that fit the terminal; all but the first are indented."""
    if _columns(text) <= width():
        return text
    from textwrap import fill

    return fill(text, width(), subsequent_indent=" " * indent)


def _is_narrow() -> bool:
    """Return whether output has to fit: a terminal has a width, and a pipe only if COLUMNS says so."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def _print_stacked(rows: Sequence[Sequence[str]], cut: Sequence[int], room: int) -> None:
    """Print each row as a line with its first cell, and an indented line for each other cell."""
    for row in rows:
        for index, cell in enumerate(row):
            if cell:
                line = f"  {cell}" if index else cell
                _write(_cut(line, room) if index in cut else line, sys.stdout)


def _cut(text: str, columns: int) -> str:
    """Return the text within a number of columns; an ellipsis stands for what is missing."""
    if _columns(text) <= columns:
        return text
    ellipsis = "…" if _can_print("…") else "..."
    while text and _columns(text) + len(ellipsis) > columns:
        text = text[:-1]
    return text + ellipsis


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def print_json(value: object) -> None:
    """Print a value as JSON in UTF-8, whatever the locale."""
    import json

    # Programs read it, and are given the text as it is: \uXXXX is JSON's own escape.
    text = escape_hidden(json.dumps(value, ensure_ascii=False, indent=2)) + "\n"
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(text)
    else:
        buffer.write(text.encode("utf-8"))
        buffer.flush()


def _write(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream)
    except UnicodeEncodeError:  # an ASCII or 8-bit terminal
        encoding = stream.encoding or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def _cell(text: str) -> str:
    return sanitize(text.replace("\n", "\\n").replace("\t", "\\t"))


def _columns(text: str) -> int:
    """Return how many columns a text takes: wide East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


class Progress:
    """A progress bar on standard error that is redrawn in place and removed at the end; only a terminal shows it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = self._stream.isatty()
        self._next_s = 0.0

    def show(self, text: str, done: int = 0, total: int = 0) -> None:
        """Redraw the bar unless it was redrawn just now."""
        if not self._is_shown:
            return
        from time import monotonic

        now = monotonic()
        if now >= self._next_s:
            self._next_s = now + PROGRESS_PERIOD_S
            self._write(f"{_BACK}{render_progress(text, done, total, width())}{_CLEAR_LINE}")

    def end(self) -> None:
        """Remove the bar."""
        if self._is_shown and self._next_s:
            self._write(f"{_BACK}{_CLEAR_LINE}")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError, UnicodeEncodeError):  # the terminal is closed
            self._is_shown = False


def render_progress(text: str, done: int, total: int, columns: int) -> str:
    """Return `[#####-----]  50%  text`, without the bar if the total is unknown, at most as wide as the"""
    shown = sanitize(text.replace("\n", " "))
    if total > 0:
        share = min(done / total, 1.0)
        filled = round(share * BAR_CHARS)
        shown = f"[{'#' * filled}{'-' * (BAR_CHARS - filled)}] {share:4.0%}  {shown}"
    return shown[: max(columns - 1, 1)]
