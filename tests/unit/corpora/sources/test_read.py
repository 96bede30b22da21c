"""Are all forms read through one door, again the same, with how far it is and what went wrong?"""

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from onhand import open_index
from onhand.corpora.sources import FORMS, MAX_PROBLEMS, read_sources
from onhand.corpora.sources.source import ImportProblem
from onhand.document import Document, Filter
from onhand.errors import InputError
from onhand.search.index import Written
from requirements import requirement

from .conftest import Files, imported

SAMPLE_MAIL = Path(__file__).parents[4] / "examples" / "sample-mail"


def documents(path: Path) -> Iterator[Document]:
    return (item for item in read_sources(path) if isinstance(item, Document))


def every_form(files: Files) -> list[Path]:
    contents = {
        "a.jsonl": '{"text": "a"}\noops\n',
        "b.json": '[{"text": "b"}]',
        "c.csv": "text\nc\n",
        "d.tsv": "title\ttext\nx\td\n",
        "e.md": "e",
        "f.txt": "f",
        "g.html": "<p>g",
        "h.mbox": "From x Mon Jun 29 10:00:00 2026\nFrom: x@x.example\n\nh\n",
        "i.eml": "From: x@x.example\n\ni\n",
    }
    return [files.write(name, content) for name, content in contents.items()]


@requirement("documents.import")
def test_every_form_is_known_by_its_name_and_problems_stop_nothing(files: Files) -> None:
    paths = every_form(files)
    read = imported(files.directory / "missing.md", *paths)
    assert [document.text for document in read.documents] == list("abcdefghi")
    assert [(Path(problem.path).name, problem.where) for problem in read.problems] == [
        ("missing.md", ""),
        ("a.jsonl", "line 2"),
    ]


def test_a_file_of_another_name_is_known_by_how_it_begins_or_by_the_form_that_is_given(files: Files) -> None:
    assert files.of("export", '\n{"text": "a"}').only.text == "a"
    assert files.of("export2", '[{"text": "b"}]').only.text == "b"
    assert files.of("page", "<!DOCTYPE html><p>c").only.text == "c"
    assert files.of("README", "d", form="text").only.text == "d"
    assert "unknown form" in files.of("README", "d").reasons[0][1]


def test_an_archive_is_not_opened(files: Files) -> None:
    assert files.of("mail.mbox.gz", b"\x1f\x8b").reasons == [("", "an archive: unpack it first")]


def test_a_directory_gives_its_pages_and_mail_and_tells_of_tables(files: Files) -> None:
    every_form(files)
    read = imported(files.directory)
    assert [document.text for document in read.documents] == list("efghi")
    ((where, reason),) = read.reasons
    assert where == ""
    assert reason.startswith("a.jsonl and 2 others left out")


def test_a_form_that_is_given_chooses_the_files_of_a_directory(files: Files) -> None:
    every_form(files)
    assert imported(files.directory, form="csv").only.text == "c"


@pytest.mark.parametrize(("form", "reason"), [("auto", "nothing to import"), ("maildir", "not a Maildir")])
def test_a_directory_without_anything_to_import_says_so(files: Files, form: str, reason: str) -> None:
    files.write("x.png", b"x")
    read = imported(files.directory, form=form)
    assert reason in read.reasons[0][1]


def test_an_unknown_form_and_tags_that_are_not_a_list_are_refused_at_once() -> None:
    with pytest.raises(InputError, match="use one of auto, jsonl"):
        read_sources("x", form="pdf")
    with pytest.raises(InputError, match="pass a list of tags"):
        read_sources("x", tags="one")
    assert {"jsonl", "csv", "markdown", "html", "mbox", "eml"} <= set(FORMS)


def test_author_and_scope_can_be_set_and_tags_added(files: Files) -> None:
    line = '{"text": "x", "author": "A", "scope": "s", "tags": ["t"]}'
    document = files.of("a.jsonl", line, author="B", scope="r", tags=["u", "t"]).only
    assert (document.author, document.scope, document.tags) == ("B", "r", ("t", "u"))


def test_the_first_of_two_documents_with_one_id_stays_and_the_other_is_reported(files: Files) -> None:
    one = files.write("one.jsonl", '{"id": 1, "text": "first"}\n{"id": 1, "text": "second"}')
    two = files.write("two.csv", "id,text\n1,third\n")
    read = imported(one, two)
    assert read.only.text == "first"
    assert [(Path(problem.path).name, problem.where) for problem in read.problems] == [
        ("one.jsonl", "line 2"),
        ("two.csv", "line 2"),
    ]


def test_a_million_bad_lines_are_reported_in_short(files: Files) -> None:
    read = files.of("a.jsonl", "oops\n" * 5000 + '{"text": "good"}\n')
    assert read.only.text == "good"
    assert len(read.problems) == MAX_PROBLEMS + 1
    assert read.reasons[-1] == ("", f"{5000 - MAX_PROBLEMS:,} more problems in this file")


@requirement("documents.import-streams")
def test_how_far_reading_is_grows_to_the_end_whatever_is_in_the_files(files: Files) -> None:
    paths = [*every_form(files), files.write("bad.json", "[oops" + " " * 1000), files.write("bad.md", b"\0")]
    sources = read_sources(paths)
    assert sources.total_bytes == sum(path.stat().st_size for path in paths)
    assert (sources.files, sources.done_bytes) == (len(paths), 0)
    done = [sources.done_bytes for _ in sources]
    assert done == sorted(done)
    assert sources.done_bytes == sources.total_bytes


def test_a_file_that_is_gone_when_its_turn_comes_is_a_problem(files: Files) -> None:
    one, two = files.write("a.md", "a"), files.write("b.md", "b")
    sources = iter(read_sources([one, two]))
    next(sources)
    two.unlink()
    (problem,) = sources
    assert isinstance(problem, ImportProblem)
    assert "no such file" in problem.reason


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="who may read everything cannot show it")
def test_a_file_that_may_not_be_read_is_a_problem(files: Files) -> None:
    files.write("a.md", "a").chmod(0)
    files.write("b.md", "b")
    assert imported(files.directory).reasons == [("", "permission denied")]


def test_the_same_files_give_the_same_documents_wherever_one_stands(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_form(files)
    absolute = imported(files.directory)
    monkeypatch.chdir(files.directory.parent)
    assert imported(Path("files")) == absolute
    monkeypatch.chdir(files.directory)
    assert imported(Path(".")) == absolute


@requirement("documents.import")
def test_what_was_imported_and_did_not_change_is_passed_over(files: Files) -> None:
    path = files.write("a.jsonl", "".join(f'{{"id": {number}, "text": "words {number}"}}\n' for number in range(10)))
    with open_index(None, embedder=None) as index:
        assert index.put(documents(path)) == Written(added=10)
        assert index.put(documents(path)) == Written(unchanged=10)
        path.write_text(path.read_text().replace("words 7", "other 7"), encoding="utf-8")
        assert index.put(documents(path)) == Written(changed=1, unchanged=9)
        assert [hit.document_id for hit in index.keyword("other").hits] == ["7"]


@requirement("documents.import-resumes")
def test_an_import_that_was_stopped_goes_on_where_it_was(files: Files) -> None:
    lines = [json.dumps({"text": f"words {number}"}) for number in range(100)]
    path = files.write("a.jsonl", "\n".join(lines))

    def stopping() -> Iterator[Document]:
        yield from islice(documents(path), 55)
        raise KeyboardInterrupt

    with open_index(None, embedder=None) as index:
        with pytest.raises(KeyboardInterrupt):
            index.put(stopping(), batch=10)
        assert index.stats().documents == 50
        assert index.put(documents(path), batch=10) == Written(added=50, unchanged=50)
        assert index.stats().documents == 100


@requirement("documents.import")
def test_the_sample_mail_is_what_the_examples_say_it_is() -> None:
    read = imported(SAMPLE_MAIL)
    assert read.problems == []
    assert len(read.documents) == 45
    with open_index(None, embedder=None) as index:
        index.put(read.documents)
        found = index.filter(Filter(author=("sarah",)), limit=50)
        assert found.total == 23
        (model,) = (hit for hit in found.hits if hit.title == "Q3 revenue model - draft for review")
        text = index.get(model.document_id).text
    assert "forecast" not in text.lower()
    assert all(word in text for word in ("quarterly projections", "assumptions", "pipeline"))
    assert model.created_time and model.created_time.date().isoformat() == "2026-06-28"
    (news,) = (document for document in read.documents if document.title.startswith("Harbour news"))
    assert "<" not in news.text
    assert "lock at the Nesserland side" in news.text
