"""Does each row of a table become a document?"""

import pytest

from requirements import requirement

from .conftest import Files


@requirement("documents.import")
def test_the_first_row_names_the_columns_and_every_other_row_is_a_document(files: Files) -> None:
    content = (
        "\ufeffID,Title,Body,From,Tags,Created At,Room\r\n"
        '1,"Say ""hello""","two\r\nlines, really",Sarah,"a, b",2026-06-28,7\r\n'
        "\r\n"
        "2,Short\r\n"
    )
    read = files.of("a.csv", content)
    first, second = read.documents
    assert first[:5] == ("1", 'Say "hello"', "two\r\nlines, really", "Sarah", ("a", "b"))
    assert first.created_time and first.created_time.isoformat() == "2026-06-28T00:00:00+00:00"
    assert first.metadata == {"Room": "7"}
    assert second[:3] == ("2", "Short", "")
    assert read.problems == []


@pytest.mark.parametrize(
    ("name", "delimiter"), [("a.csv", ","), ("a.csv", ";"), ("a.csv", "|"), ("a.csv", "\t"), ("a.tsv", "\t")]
)
def test_the_delimiter_is_seen_from_the_first_row(files: Files, name: str, delimiter: str) -> None:
    content = f"title{delimiter}text{delimiter}x\nT{delimiter}a, b{delimiter}y\n".replace("a, b", '"a, b"')
    assert files.of(name, content).only[1:3] == ("T", "a, b")


@pytest.mark.parametrize("content", ["1,2,3\n4,5,6\n", "", "\n\n", "when,where\nnow,here\n"])
def test_a_table_without_a_header_is_one_clear_problem(files: Files, content: str) -> None:
    read = files.of("a.csv", content)
    assert read.documents == []
    assert [where for where, _ in read.reasons] == [""]
    assert "the first row must name a column text, body, content or title" in read.reasons[0][1]


def test_a_row_with_too_many_fields_is_reported_by_its_line(files: Files) -> None:
    read = files.of("a.csv", 'title,text\na,"b\nc"\nd,e,f\ng,h,,\n')
    assert [document.title for document in read.documents] == ["a", "g"]
    assert read.reasons == [
        ("line 4", "3 fields under 2 columns: left out; put fields with a delimiter in quotes"),
    ]


def test_columns_of_the_same_name_or_of_none_are_distinguished(files: Files) -> None:
    read = files.of("a.csv", "text,x,x,\na,1,2,3\n")
    assert read.only.metadata == {"x": "1", "x_3": "2", "column_4": "3"}


def test_a_field_may_be_as_long_as_an_article_and_more(files: Files) -> None:
    assert len(files.of("a.csv", f'text\n"{"x" * 1_000_000}"\n').only.text) == 1_000_000


def test_a_line_that_is_too_long_is_passed_over(files: Files) -> None:
    read = files.of("a.csv", f"text\n{'x' * 10_000}\nafter\n", max_record_bytes=1000)
    assert [document.text for document in read.documents] == ["after"]
    assert read.reasons == [("line 2", "longer than 1,000 bytes: left out; split it")]


def test_letters_that_are_not_utf8_are_guessed_and_reported(files: Files) -> None:
    read = files.of("a.csv", b"text\ncaf\xe9\nplain\n")
    assert [document.text for document in read.documents] == ["café", "plain"]
    assert [where for where, _ in read.reasons] == ["line 2"]


def test_nul_and_lone_quotes_do_no_harm(files: Files) -> None:
    content = b"text\n" + b"x" * 5000 + b'\na\0b\n"never closed\n'
    texts = [document.text for document in files.of("a.csv", content).documents]
    assert texts[1:] == ["a\0b", "never closed\n"]
