"""What a model reads is capped between characters, and what was left off is said."""

from typing import Any

import pytest

from onhand.errors import InputError, ToolError
from onhand.hidden_characters import repair_surrogates
from onhand.tools.fitting import MAX_MARKER_BYTES, cap_text, present
from onhand.tools.tool import Output, Tool
from requirements import requirement


def tool(max_output_bytes: int = 8192) -> Tool:
    return Tool("t", "d", {"type": "object"}, str, max_output_bytes=max_output_bytes)


@requirement("tools.output-is-capped-at-a-character")
@pytest.mark.parametrize(
    ("text", "max_bytes", "expected"),
    [
        ("", 1, ("", 0)),
        ("abc", 3, ("abc", 0)),
        ("abcd", 3, ("abc\n\n[truncated: 1 more bytes]", 1)),
        ("éé", 3, ("é\n\n[truncated: 2 more bytes]", 2)),
        ("🧪", 3, ("\n\n[truncated: 4 more bytes]", 4)),
        ("é" * 16384, 16384, ("é" * 8192 + "\n\n[truncated: 16384 more bytes]", 16384)),
        ("a\0b", 2, ("a[\n\n[truncated: 8 more bytes]", 8)),
    ],
)
def test_a_text_is_cut_between_characters_and_says_how_much_is_missing(
    text: str, max_bytes: int, expected: tuple[str, int]
) -> None:
    assert cap_text(text, max_bytes) == expected


@requirement("tools.output-is-safe-to-encode")
def test_halves_of_surrogate_pairs_are_joined_or_replaced() -> None:
    assert repair_surrogates("a\ud800b") == "a\ufffdb"
    assert repair_surrogates("\ude00\ud83d") == "\ufffd\ufffd"
    assert repair_surrogates("\ud83e\uddea") == "🧪"
    assert repair_surrogates("\ufeffplain\r\n") == "\ufeffplain\r\n"


def test_every_kind_of_value_becomes_text() -> None:
    for value, text, structured in [
        ("text", "text", None),
        (None, "(no output)", None),
        ({"é": [1, None]}, '{"é": [1, null]}', {"é": [1, None]}),
        ([1, (2,)], "[1, [2]]", [1, [2]]),
        (False, "false", False),
        (Output("said", {"a": 1}), "said", {"a": 1}),
        ({"name": "bad\udcff"}, '{"name": "bad\ufffd"}', {"name": "bad\ufffd"}),
    ]:
        capped, found = present(tool(), value)
        assert (capped.text, found) == (text, structured)


@requirement("tools.structured-output-is-whole-or-absent")
def test_json_that_is_too_large_is_left_out_whole_and_the_text_says_so() -> None:
    capped, structured = present(tool(10), Output("short", {"a": "x" * 100}))
    assert structured is None
    assert capped.text == "short\n\n[structured output left out: 109 bytes, more than 10]"
    capped, structured = present(tool(10), {"a": "é" * 100})
    assert structured is None
    assert capped.truncated_bytes > 0
    assert len(capped.text.encode()) <= 10 + MAX_MARKER_BYTES


def test_a_handler_that_gives_something_else_is_told_what_to_give() -> None:
    values: list[Any] = [object(), {1, 2}, b"raw", {"a": float("inf")}]
    for value in values:
        with pytest.raises(InputError, match="the output of t"):
            present(tool(), value)
    with pytest.raises(ToolError, match="its handler must return a str"):
        present(tool(), Output(5))  # type: ignore[arg-type]
