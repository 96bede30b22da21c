"""Print output that is safe for a terminal, plain in a pipe, and UTF-8 as JSON.

What is printed may come from files that someone else wrote, so every text goes through `clean`.
"""

from __future__ import annotations

import os
import sys

from onhand.text import make_visible, quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

    from onhand.corpora.files import Problem

MAX_WARNINGS = 20  # more would push the answer out of sight

_BOLD, _RESET = "\x1b[1m", "\x1b[0m"


def clean(text: str) -> str:
    """Return the text with everything escaped that a terminal would obey; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    text = make_visible(text.replace("\r\n", "\n"))
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates cannot be encoded


def colour(stream: TextIO | None = None) -> bool:
    """Return whether to use colour: the stream is a terminal that has it, and NO_COLOR is not set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return (stream or sys.stdout).isatty()


def is_terminal() -> bool:
    """Return whether the output is a terminal."""
    return sys.stdout.isatty()


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
    """Print untrusted text, cleaned, with what the stream's encoding lacks escaped. A heading is bold."""
    stream = file or sys.stdout
    shown = clean(text)
    _write(f"{_BOLD}{shown}{_RESET}" if heading and colour(stream) else shown, stream)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings where they do not mix with the output."""
    for warning in warnings:
        complain(f"onhand: warning: {warning}")


def complain(text: str) -> None:
    """Print to the error stream; if it is closed, the output and the exit code stay the same."""
    try:
        say(text, file=sys.stderr)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # for the rest of the buffer


def warn_of(problems: Sequence[Problem], command: str) -> None:
    """Print the problems of files, up to a limit; `command` lists them all."""
    warn(f"{one_line(problem.path)}: {problem.reason}" for problem in problems[:MAX_WARNINGS])
    if len(problems) > MAX_WARNINGS:
        warn([f"and {len(problems) - MAX_WARNINGS:,} more: `{command}` lists them all"])


def one_line(text: str) -> str:
    """Return a text on one line, so that it cannot be mistaken for a line of ours."""
    return text.replace("\n", "\\n")


def flowing(text: str) -> str:
    """Return prose on one line, with all white space collapsed."""
    return " ".join(text.split())


def print_excerpt(text: str, max_lines: int) -> None:
    """Print a text under its heading; in a terminal only its beginning."""
    lines = text.strip().splitlines()
    shown = lines[:max_lines] if is_terminal() else lines
    for line in shown:
        say(f"   {line}".rstrip())
    if len(shown) < len(lines):
        say(f"   … {quantity(len(lines) - len(shown), 'more line')}")
    say()


def print_table(rows: Sequence[Sequence[str]], *, header: Sequence[str] = ()) -> None:
    """Print rows with aligned columns, under a bold header when there is one."""
    shown = [[_cell(cell) for cell in row] for row in ([header] if header else []) + list(rows)]
    columns = len(shown[0]) if shown else 0
    widths = [max(_columns(row[index]) for row in shown) for index in range(columns)]
    paint = bool(header) and colour()
    for number, row in enumerate(shown):
        line = "  ".join(cell + " " * (wide - _columns(cell)) for cell, wide in zip(row, widths, strict=True))
        _write(f"{_BOLD}{line.rstrip()}{_RESET}" if paint and number == 0 else line.rstrip(), sys.stdout)


def print_json(value: object) -> None:
    """Print as JSON: always UTF-8 whatever the locale, in the order given, and safe for a terminal."""
    import json

    # In JSON only strings can contain what `clean` escapes, and \uXXXX is JSON's own escape.
    text = clean(json.dumps(value, ensure_ascii=False, indent=2)) + "\n"
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
    return clean(text).replace("\n", "\\n").replace("\t", "\\t")


def _columns(text: str) -> int:
    """Return how many columns a text takes: wide East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
