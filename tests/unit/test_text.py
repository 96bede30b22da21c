"""Surrogates, plurals, digests and encodings."""

import pytest

from onhand.text import one_line, quantity


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (1, "tool", "1 tool"),
        (0, "tool", "0 tools"),
        (12_345, "tool", "12,345 tools"),
        (1, "directory", "1 directory"),
        (2, "more directory", "2 more directories"),
        (2, "day", "2 days"),
        (2, "search", "2 searches"),
        (3, "address", "3 addresses"),
    ],
)
def test_a_noun_has_the_form_that_its_number_asks_for(number: int, noun: str, said: str) -> None:
    assert quantity(number, noun) == said


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n\tb  c", "a b c"),
        ("a\x00b\x1b[31mc\u2028d\u200be", "a[U+0000]bc d[U+200B]e"),
        ("\u202eright\u202c", "[U+202E]right[U+202C]"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("a\udcffb", "a\ufffdb"),
        ("plain", "plain"),
    ],
)
def test_a_strangers_text_becomes_one_visible_line(text: str, line: str) -> None:
    assert one_line(text) == line


def test_a_long_line_ends_in_an_ellipsis() -> None:
    assert one_line("abc defg", 5) == "abc…"
    assert one_line("abcde", 5) == "abcde"
