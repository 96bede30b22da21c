"""Is a mailbox cut into its mails, one at a time?"""

import pytest

from onhand.corpora.sources import read_sources
from onhand.document import Document
from requirements import requirement

from .conftest import Files

LINE = "From sarah@x.example Mon Jun 29 10:00:00 2026\n"


def message(number: int, body: str) -> str:
    return f"{LINE}From: Sarah <sarah@x.example>\nSubject: Mail {number}\nMessage-ID: <{number}@x>\n\n{body}\n\n"


@requirement("documents.import")
@pytest.mark.parametrize("name", ["inbox.mbox", "inbox"])
def test_a_mailbox_is_cut_into_its_mails(files: Files, name: str) -> None:
    read = files.of(name, "".join(message(number, f"words {number}") for number in (1, 2, 3)))
    assert [document[:3] for document in read.documents] == [
        (f"{number}@x", f"Mail {number}", f"words {number}") for number in (1, 2, 3)
    ]
    assert {document.scope for document in read.documents} == {"inbox"}
    assert read.problems == []


def test_a_sentence_that_begins_with_from_cuts_nothing_and_escapes_are_undone(files: Files) -> None:
    body = "one\nFrom here on\n\nFrom there on\n>From a to b\n>>From c\n\n> From d"
    read = files.of("a.mbox", message(1, body) + message(2, "words"))
    assert [document.text for document in read.documents] == [body.replace(">From", "From"), "words"]


def test_lines_between_mails_need_no_date_where_none_has_one(files: Files) -> None:
    content = (message(1, "one") + message(2, "two")).replace(LINE, "From sarah\n").replace("\n", "\r\n")
    assert [document.text for document in files.of("a.mbox", content).documents] == ["one", "two"]


def test_the_same_mail_twice_is_kept_once_and_reported(files: Files) -> None:
    read = files.of("a.mbox", message(1, "words") + message(2, "other") + message(1, "words"))
    assert [document.id for document in read.documents] == ["1@x", "2@x"]
    assert read.reasons == [("message 3", "the id '1@x' was already read: left out")]


def test_a_bad_mail_is_reported_by_its_number_and_the_others_are_read(files: Files) -> None:
    read = files.of("a.mbox", message(1, "one") + LINE + "\n\n" + message(3, "three"))
    assert [document.text for document in read.documents] == ["one", "three"]
    assert read.reasons == [("message 2", "empty")]


def test_what_is_not_a_mailbox_is_one_problem(files: Files) -> None:
    for content in ("", "Hello\n", "\0" * 100):
        assert files.of("a.mbox", content).reasons == [
            ("", "not a mailbox: its first line does not begin with 'From '"),
        ]


def test_a_mail_that_is_too_long_is_cut_and_the_next_is_read(files: Files) -> None:
    read = files.of("a.mbox", message(1, "x" * 700_000) + message(2, "two"), max_record_bytes=10_000)
    assert [document.title for document in read.documents] == ["Mail 1", "Mail 2"]
    assert 9_000 < len(read.documents[0].text) < 10_000
    assert read.reasons == [("message 1", "too long: only its beginning was read")]


@requirement("documents.import-streams")
def test_a_mail_is_handed_over_before_the_next_is_read(files: Files) -> None:
    path = files.write("a.mbox", "".join(message(number, "x" * 100_000) for number in range(20)))
    sources = read_sources(path)
    assert sources.total_bytes == path.stat().st_size
    done = []
    for item in sources:
        assert isinstance(item, Document)
        done.append(sources.done_bytes)
    assert done == sorted(done)
    assert done[0] < 400_000
    assert done[-1] == sources.total_bytes
