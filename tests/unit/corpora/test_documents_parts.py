"""Is a part of a text what was asked for, and do the parts make up the whole?"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.corpora.documents import TextPart, part_of, shorten_part
from onhand.errors import InputError
from requirements import requirement

TEXT = "one\ntwo\nthrée\nfour"


def size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


def place(part: TextPart) -> tuple[str, list[int]]:
    return part.text, [part.first_line, part.last_line, part.first_byte, part.end_byte]


@requirement("documents.get-document")
@pytest.mark.parametrize(
    ("asked", "text", "where", "following"),
    [
        ({}, TEXT, [1, 4, 0, 19], None),
        ({"first_line": 2}, "two\nthrée\nfour", [2, 4, 4, 19], None),
        ({"first_line": 2, "last_line": 3}, "two\nthrée\n", [2, 3, 4, 15], {"first_line": 4}),
        ({"last_line": 1}, "one\n", [1, 1, 0, 4], {"first_line": 2}),
        ({"last_line": 400}, TEXT, [1, 4, 0, 19], None),
        ({"first_byte": 4, "max_bytes": 3}, "two", [2, 2, 4, 7], {"first_byte": 7}),
        ({"max_bytes": 4}, "one\n", [1, 1, 0, 4], {"first_byte": 4}),
        ({"first_byte": 15}, "four", [4, 4, 15, 19], None),
    ],
)
def test_lines_and_bytes_are_given_as_asked(
    asked: dict[str, int], text: str, where: list[int], following: dict[str, int] | None
) -> None:
    part = part_of(TEXT, **asked)
    assert place(part) == (text, where)
    assert (part.next, part.lines, part.bytes) == (following, 4, 19)


@requirement("documents.get-document")
def test_a_range_of_bytes_never_cuts_a_character() -> None:
    inside = TEXT.encode().index("é".encode()) + 1
    assert part_of(TEXT, first_byte=inside, max_bytes=1).text == "é"
    assert part_of(TEXT, first_byte=inside - 2, max_bytes=2).text == "r"
    assert part_of("🚲" * 3, first_byte=5, max_bytes=1).text == "🚲"


@requirement("documents.get-document")
@pytest.mark.parametrize(
    ("asked", "advice"),
    [
        ({"first_line": 0}, "counted from 1"),
        ({"first_line": 5}, "the document has 4 lines"),
        ({"first_line": 3, "last_line": 2}, "before first_line"),
        ({"first_byte": -1}, "counted from 0"),
        ({"first_byte": 19}, "the document has 19 bytes"),
        ({"max_bytes": 0}, "at least one"),
        ({"first_line": 1, "max_bytes": 5}, "not both"),
    ],
)
def test_a_range_that_is_not_there_is_refused_with_what_is(asked: dict[str, int], advice: str) -> None:
    with pytest.raises(InputError, match=advice):
        part_of(TEXT, **asked)


def test_an_empty_text_has_no_lines_and_is_read_like_any_other() -> None:
    part = part_of("")
    assert (place(part), part.lines, part.next) == (("", [1, 0, 0, 0]), 0, None)


@requirement("documents.get-document", "documents.byte-budget")
@given(st.text(alphabet="aé🚲\n\x01", max_size=80), st.integers(8, 40), st.booleans())
def test_going_on_as_told_gives_every_character_once(text: str, room: int, by_bytes: bool) -> None:
    asked: dict[str, int] | None = {"first_byte": 0} if by_bytes else {}
    pieces = []
    while asked is not None:
        part = shorten_part(part_of(text, **asked), room, size)
        assert size(part.text) <= room
        pieces.append(part.text)
        asked = part.next
        assert len(pieces) <= len(text) + 1
    assert "".join(pieces) == text


@requirement("documents.byte-budget")
def test_what_was_asked_for_is_asked_for_further_on() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 101))
    by_lines = shorten_part(part_of(text, 10, 50), 100, size)
    assert by_lines.text.startswith("line 10\n")
    assert by_lines.next == {"first_line": by_lines.last_line + 1, "last_line": 50}
    by_bytes = shorten_part(part_of(text, first_byte=7, max_bytes=500), 100, size)
    assert by_bytes.next == {"first_byte": by_bytes.end_byte, "max_bytes": 507 - by_bytes.end_byte}
