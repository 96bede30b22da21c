"""Does `onhand notes` keep, show, find and delete notes, for people and for programs?"""

import io
import json
import sys
from pathlib import Path

import pytest

from requirements import requirement

from .conftest import Run


@requirement("notes.write", "notes.form", "notes.never-override")
def test_a_note_is_written_listed_shown_and_found(run: Run, project: Path) -> None:
    done = run(
        "notes", "write", "Test db", "Run make zebra.", "--description", "How to \x1b reset it".replace("\x1b ", "")
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == f"wrote 'Test db' in {project}/.onhand/notes: test-db.md\n"
    listed = run("notes", "list").out
    assert "Test db  fact  " in listed
    assert listed.endswith(f"1 note in {project}/.onhand/notes, written by agents\n")
    shown = run("notes", "show", "test-db").out
    assert "(written by an agent, not by the project)\n" in shown
    assert "source       command line" in shown
    assert shown.endswith("\nRun make zebra.\n")
    found = run("notes", "search", "zebra").out
    assert found.startswith("1. Test db: How to reset it  score ")
    assert "fact, written by command line, an agent's note, 2" in found
    assert found.endswith("1 of 1 note\n")
    (hit,) = json.loads(run("notes", "search", "zebra", "--json", "-k", "3").out)["hits"]
    assert tuple(hit["note"][name] for name in ("written_by", "name", "body")) == (
        "agent",
        "Test db",
        "Run make zebra.",
    )
    assert json.loads(run("notes", "list", "--json").out)["notes"][0]["type"] == "fact"


@requirement("notes.write")
@pytest.mark.parametrize(
    "words",
    [
        ["key", "the text", "--description", "d"],
        ["key", "--description", "d", "the text"],
        ["--description", "d", "key", "the text"],
        ["key", "--description", "d", "--type", "fact", "--", "the text"],
    ],
    ids=" ".join,
)
def test_options_may_stand_before_between_and_behind_the_words(run: Run, words: list[str]) -> None:
    assert run("notes", "write", *words).code == 0
    assert json.loads(run("notes", "show", "key", "--json").out)["body"] == "the text"
    assert run("notes", "write", *words, "too much").code == 2


@requirement("notes.same-name-corrects")
def test_a_note_is_corrected_and_deleted(run: Run) -> None:
    run("notes", "write", "key", "old", "--description", "d")
    answer = json.loads(run("notes", "write", "KEY", "new", "--description", "d", "--type", "decision", "--json").out)
    assert (answer["note"]["body"], answer["replaced"]["body"]) == ("new", "old")
    assert run("notes", "write", "key", "newer", "--description", "d").out.startswith("replaced 'key'")
    assert run("notes", "delete", "key").out == "deleted 'key': d\n"
    for words in (["delete", "key"], ["show", "key"]):
        done = run("notes", *words)
        assert (done.code, done.out) == (1, "")
        assert "there is no note 'key'" in done.err


def test_the_body_may_come_from_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Zürich\n".encode())))
    assert run("notes", "write", "city", "--description", "d").code == 0
    assert run("notes", "show", "city").out.endswith("\nZürich\n")


@requirement("notes.form")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["write", "n", "b"], "--description"),
        (["write", "n", "b", "--description", ""], "the description is empty"),
        (["write", "n", "b" * 4097, "--description", "d"], "4,097 bytes, more than 4,096"),
        (["write", "n", "b", "--description", "d", "--type", "x"], "the type is one of"),
        (["search"], "QUERY"),
        (["lsit"], "did you mean 'list'?"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_to_do(run: Run, words: list[str], message: str) -> None:
    done = run("notes", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_what_others_put_there_cannot_move_the_cursor(run: Run, project: Path) -> None:
    run("notes", "write", "a", "b", "--description", "d")
    (project / ".onhand/notes/evil.md").write_text(
        '---\nname: "e\\e[2J"\ndescription: "x\\e]52;c;evil\\a"\n---\n\x1b[31mzebra', encoding="utf-8"
    )
    for words in (["list"], ["search", "zebra"], ["list", "--json"]):
        done = run("notes", *words)
        assert "\x1b" not in done.out + done.err
        assert "\x07" not in done.out
