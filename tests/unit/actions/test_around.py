"""Are the lines around a match those of the file, each made once?"""

import pytest

from onhand.actions.around import MAX_LINE_CHARS, Around
from requirements import requirement


@requirement("actions.grep")
@pytest.mark.parametrize(
    ("content", "before", "after"),
    [
        (b"x", (), ()),
        (b"x\n", (), ()),
        (b"a\r\nx\r\nb\r\n", ("a",), ("b",)),
        (b"a\n\nx\n\nb", ("a", ""), ("", "b")),
        (b"0\na\nb\nx\n\n\n1\n", ("a", "b"), ("", "")),
    ],
)
def test_lines_around_a_line_are_given_as_far_as_there_are_some(
    content: bytes, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    start = content.index(b"x")
    end = content.find(b"\n", start) if b"\n" in content[start:] else len(content)
    around = Around(content)
    assert (around.before(start, 2), around.line(start, end), around.after(end, 2)) == (before, "x", after)


@requirement("actions.grep")
def test_a_line_that_many_matches_name_is_made_once() -> None:
    content = b"x\n" + b"y" * 100_000 + b"\nx\n"
    around = Around(content)
    (after,), (before,) = around.after(1, 1), around.before(len(content) - 2, 1)
    assert after is before
    assert len(after) == MAX_LINE_CHARS


@requirement("actions.grep")
@pytest.mark.parametrize("rest", [b"y", b" " * 9_000 + b"y", b" " * 9_000])
def test_a_line_that_is_cut_says_so_whatever_is_left_out(rest: bytes) -> None:
    line = b"x" * MAX_LINE_CHARS + rest
    shown = Around(line).line(0, len(line))
    assert (len(shown), shown[-1]) == (MAX_LINE_CHARS, "\u2026")


@requirement("actions.grep")
def test_blanks_at_the_end_of_a_line_are_left_out() -> None:
    assert Around(b"x  \r").line(0, 4) == "x"
