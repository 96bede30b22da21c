"""Is what is printed safe for a terminal and plain in a pipe?"""

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.cli import terminal
from requirements import requirement


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@requirement("cli.terminal-is-safe")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("windows\r\nline", "windows\r\nline"),
        ("over\rwritten", "over[U+000D]written"),
        ("\x1b[31mred", "red"),
        ("\x1b[2Jcleared", "[U+001B][2Jcleared"),
        ("\x1b]0;title\x07", "[U+001B]]0;title[U+0007]"),
        ("\x9b31m", "[U+009B]31m"),
        ("\x7f\x00", "[U+007F and 1 more hidden character]"),
        ("user\u202etxt.exe", "user[U+202E]txt.exe"),
        ("\udcff", "\ufffd"),
        ("naïve 日本語 👩‍💻 نمی‌خواهم", "naïve 日本語 👩‍💻 نمی‌خواهم"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(text: str, shown: str) -> None:
    screen = io.StringIO()
    terminal.say(text, file=screen)
    assert screen.getvalue() == f"{shown}\n"


@pytest.mark.parametrize("columns", ["0", "-1", "x", "9" * 5000, "9" * 20])
def test_a_width_that_no_terminal_has_is_not_heard(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    without = terminal.width()
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal.width() == without


@given(st.text(st.characters()))
def test_what_is_printed_has_no_control_characters_and_can_be_encoded(text: str) -> None:
    screen = io.StringIO()
    terminal.say(text, file=screen)
    printed = screen.getvalue().replace("\r\n", "\n")
    assert all(char in "\t\n" or not (ord(char) < 32 or 127 <= ord(char) < 160) for char in printed)
    assert printed.encode("utf-8")[:0] == b""


@requirement("cli.plain-when-piped")
@pytest.mark.parametrize(
    ("variables", "stream", "expected"),
    [
        ({}, Terminal(), True),
        ({}, io.StringIO(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"NO_COLOR": ""}, Terminal(), True),
        ({"TERM": "dumb"}, Terminal(), False),
    ],
)
def test_colour_is_for_terminals_that_can_and_people_who_want_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], stream: io.StringIO, expected: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert terminal.colour(stream) is expected


def test_a_header_is_bold_on_a_terminal_and_plain_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal.print_table([("a", "b")], header=("K", "V"))
    assert capsys.readouterr().out == "K  V\na  b\n"
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    terminal.print_table([("a", "b")], header=("K", "V"))
    assert screen.getvalue() == "\x1b[1mK  V\x1b[0m\na  b\n"


def test_columns_are_aligned_also_under_wide_and_combining_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal.print_table([("日本", "x"), ("abcd", "y"), ("e\u0301", "z"), ("a\nb", "")])
    assert capsys.readouterr().out == "日本  x\nabcd  y\ne\u0301     z\na\\nb\n"


def test_a_table_without_rows_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_table([])
    assert capsys.readouterr().out == ""


@requirement("cli.json-always-works")
@given(st.recursive(st.text(st.characters()) | st.integers() | st.booleans() | st.none(), st.lists, max_leaves=5))
def test_any_value_printed_as_json_reads_back_the_same(value: object) -> None:
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    before, sys.stdout = sys.stdout, screen
    try:
        terminal.print_json({"value": value})
    finally:
        sys.stdout = before
    assert json.loads(screen.buffer.getvalue()) == {"value": value}


def test_json_keeps_its_order_and_its_letters(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_json({"b": "é\x9b", "a": 1})
    assert capsys.readouterr().out == '{\n  "b": "é\\u009b",\n  "a": 1\n}\n'


def test_what_an_encoding_cannot_say_is_spelled_out() -> None:
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    terminal.say("é日", file=screen)
    screen.flush()
    assert screen.buffer.getvalue() == b"\\xe9\\u65e5\n"


def test_the_width_is_that_of_the_terminal_or_eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", "132")
    assert terminal.width() == 132
    monkeypatch.setenv("COLUMNS", "0")
    assert terminal.width() == 80


@requirement("mcp.visible")
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("columns", [80, 40, 10])
def test_a_table_fits_a_narrow_terminal_in_any_encoding(
    columns: int, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding=encoding, write_through=True))
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal.print_table([("name", "x" * 100, "state"), ("other", "y", "z")], header=("A", "B", "C"), cut=(1,))
    lines = output.getvalue().decode(encoding).splitlines()
    assert max(map(len, lines)) <= columns
    assert next(line.split()[0] for line in lines) == ("A" if columns > 10 else "name")
    assert all(word in output.getvalue().decode(encoding) for word in ("name", "other", "state", "z"))
