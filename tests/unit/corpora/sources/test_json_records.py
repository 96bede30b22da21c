"""Does each line of JSON become a document, and does a bad one cost only itself?"""

import json
from datetime import UTC, datetime

import pytest

from requirements import requirement

from .conftest import Files


@requirement("documents.import")
def test_a_line_gives_every_field_of_a_document_and_the_rest_is_metadata(files: Files) -> None:
    line = {
        "id": "m-1",
        "title": "Minutes",
        "text": "We met.",
        "author": "Sarah <sarah@x.example>",
        "tags": ["a", "b"],
        "scope": "board",
        "created_time": "2026-06-28T14:30:00+02:00",
        "kind": "minutes",
        "room": 7,
        "metadata": {"pages": [1, 2]},
    }
    read = files.of("board.jsonl", json.dumps(line))
    document = read.only
    assert document[:6] == ("m-1", "Minutes", "We met.", "Sarah <sarah@x.example>", ("a", "b"), "board")
    assert document.created_time == datetime(2026, 6, 28, 12, 30, tzinfo=UTC)
    assert document.metadata == {"room": 7, "pages": [1, 2]}
    assert (document.kind, document.source_path) == ("minutes", str(files.directory / "board.jsonl"))
    assert read.problems == []


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ({"_id": 7, "text": "x"}, "id", "7"),
        ({"document_id": "d", "text": "x"}, "id", "d"),
        ({"subject": "S", "text": "x"}, "title", "S"),
        ({"name": "N", "text": "x"}, "title", "N"),
        ({"Title": " T ", "text": "x"}, "title", "T"),
        ({"body": "B"}, "text", "B"),
        ({"content": "C"}, "text", "C"),
        ({"text": ["one", "two"]}, "text", "one\ntwo"),
        ({"html": "<p>one<p>two &amp; three"}, "text", "one\n\ntwo & three"),
        ({"title": "T", "description": "D"}, "text", "D"),
        ({"from": "F", "text": "x"}, "author", "F"),
        ({"author": {"name": "Sarah", "email": "s@x.example"}, "text": "x"}, "author", "Sarah <s@x.example>"),
        ({"authors": ["A", {"name": "B"}], "text": "x"}, "author", "A, B"),
        ({"tags": "a, b,,a ", "text": "x"}, "tags", ("a", "b")),
        ({"tags": [1, "b"], "text": "x"}, "tags", ("1", "b")),
        ({"channel": "c", "text": "x"}, "scope", "c"),
        ({"project": {"name": "p"}, "text": "x"}, "scope", "p"),
    ],
)
def test_other_names_for_the_same_thing_are_understood(
    files: Files, line: dict[str, object], field: str, expected: object
) -> None:
    read = files.of("a.jsonl", json.dumps(line))
    assert getattr(read.only, field) == expected
    assert read.problems == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("created_at", "2026-06-28"),
        ("Created At", "Sun, 28 Jun 2026 00:00:00 GMT"),
        ("date", 20260628),
        ("timestamp", 1782604800),
        ("timestamp", 1782604800000),
        ("timestamp", "1782604800"),
        ("created", 1782604800.0),
    ],
)
def test_a_time_may_be_text_or_a_number_under_several_names(files: Files, key: str, value: object) -> None:
    document = files.of("a.jsonl", json.dumps({"text": "x", key: value})).only
    assert document.created_time == datetime(2026, 6, 28, tzinfo=UTC)
    assert document.metadata == {}


def test_a_value_that_cannot_be_used_is_kept_in_the_metadata_and_reported(files: Files) -> None:
    read = files.of("a.jsonl", json.dumps({"text": "x", "date": "soon", "title": {"a": 1}, "tags": [["b"]]}))
    assert read.only.created_time is None
    assert read.only.metadata == {"date": "soon", "title": {"a": 1}, "tags": [["b"]]}
    assert {reason.split(":")[0] for _, reason in read.reasons} == {"date", "title", "tags"}
    assert {where for where, _ in read.reasons} == {"line 1"}


@requirement("documents.import")
def test_a_bad_line_is_reported_by_its_number_and_the_others_are_read(files: Files) -> None:
    lines = [
        '{"id": 1, "text": "a"}',
        "{oops",
        "",
        "[1]",
        "null",
        '{"x": 1}',
        '{"n": NaN, "text": "b"}',
        '{"text": "c"}',
    ]
    read = files.of("a.jsonl", "\r\n".join(lines))
    assert [document.text for document in read.documents] == ["a", "c"]
    assert [where for where, _ in read.reasons] == ["line 2", "line 4", "line 5", "line 6", "line 7"]
    assert "not JSON" in read.reasons[0][1]
    assert "a JSON array" in read.reasons[1][1]
    assert "no text, body, content or title" in read.reasons[3][1]


def test_a_byte_order_mark_and_line_ends_inside_of_text_change_nothing(files: Files) -> None:
    content = "\ufeff" + '{"id": 1, "text": "a\u2028b\u0085c"}\r\n\r\n{"id": 2, "text": "d"}'
    assert [document.text for document in files.of("a.jsonl", content).documents] == ["a\u2028b\u0085c", "d"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_a_file_of_wide_characters_is_one_clear_problem(files: Files, encoding: str) -> None:
    read = files.of("a.jsonl", ('{"text": "a"}\n' * 50).encode(encoding))
    assert read.documents == []
    ((where, reason),) = read.reasons
    assert where == ""
    assert "save it as UTF-8" in reason


def test_a_line_that_is_not_utf8_is_guessed_and_reported(files: Files) -> None:
    read = files.of("a.jsonl", b'{"text": "caf\xe9"}\n{"text": "caf\xc3\xa9!"}')
    assert [document.text for document in read.documents] == ["café", "café!"]
    ((where, reason),) = read.reasons
    assert (where, reason[:20]) == ("line 1", "not UTF-8 (byte 13):")


def test_a_line_that_is_too_long_is_passed_over_and_not_kept_in_memory(files: Files) -> None:
    content = b'{"text": "' + b"x" * 3_000_000 + b'"}\n{"text": "after"}\n'
    read = files.of("a.jsonl", content, max_record_bytes=100_000)
    assert [document.text for document in read.documents] == ["after"]
    assert read.reasons == [("line 1", "longer than 100,000 bytes: left out; split it")]


@requirement("documents.import-is-bounded")
@pytest.mark.parametrize("line", ["[" * 100_000, '{"text": ' * 100_000, '{"n": ' + "9" * 5000 + "}"])
def test_a_hostile_line_is_a_problem_and_no_crash(files: Files, line: str) -> None:
    read = files.of("a.jsonl", line + '\n{"text": "after"}')
    assert [document.text for document in read.documents] == ["after"]
    assert [where for where, _ in read.reasons] == ["line 1"]


def test_a_number_that_is_not_finite_is_left_out_with_its_line(files: Files) -> None:
    read = files.of("a.jsonl", '{"text": "a", "n": 1e999}')
    assert read.documents == []
    assert read.reasons[0][0] == "line 1"


def test_a_document_without_an_id_has_the_same_one_wherever_the_line_moves(files: Files) -> None:
    one = files.of("a.jsonl", '{"text": "a"}\n{"text": "b"}').documents
    other = files.of("a.jsonl", '{"text": "new"}\n\n{"text": "b"}\n{"text": "a"}').documents
    assert {document.text: document.id for document in one}.items() <= {d.text: d.id for d in other}.items()
    assert one[0].id.startswith("a.jsonl#")


def test_half_a_surrogate_pair_becomes_a_replacement_character(files: Files) -> None:
    assert files.of("a.jsonl", '{"text": "x\\udfff"}').only.text == "x\ufffd"
