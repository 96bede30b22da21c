"""Does `onhand docs` import, find, read, delete and check documents, for people and for programs?"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mail import Concepts, mails
from onhand.cli.terminal import Progress, render_progress
from onhand.embed import choose
from onhand.project import Project, load_config, open_index
from onhand.store.memory import MemoryStore
from onhand.store.store import Damage
from requirements import requirement

from .conftest import Run

pytestmark = requirement("documents.cli")

NEW = {"id": "3", "text": "other"}
WITHOUT = "no embedder is installed: pip install 'onhand[semantic]'"


@pytest.fixture(autouse=True)
def at_hand(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Which embedder is there: by name, with "auto" for the one that is taken by itself."""
    known: dict[str, Any] = {"auto": None}

    def chosen(wanted: Any, on_download: Any = None) -> tuple[Any, str | None]:
        found = known.get(wanted) if isinstance(wanted, str) else wanted
        return found, None if found else WITHOUT

    monkeypatch.setattr(choose, "choose_embedder", chosen)
    return known


@pytest.fixture
def corpus(project: Path, at_hand: dict[str, Any]) -> Path:
    """The mails, in the project's own database, with their meaning."""
    at_hand["auto"] = Concepts()
    (project / ".onhand").mkdir()
    with open_index(project / ".onhand/documents.db") as index:
        index.put(mails())
    return project


def as_json(run: Run, *words: str) -> Any:
    done = run("docs", *words, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def ids(answer: Any) -> list[str]:
    return [hit["document_id"] for hit in answer["hits"]]


def jsonl(path: Path, *records: Any) -> str:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return str(path)


@pytest.mark.usefixtures("corpus")
def test_each_search_finds_and_prints_title_id_author_time_and_snippet(run: Run) -> None:
    done = run("docs", "keyword", "quarterly", "projections")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("1. Q3 revenue model - draft for review  score ")
    assert lines[1] == "   mail-forecast  Sarah Chen <sarah@tidewheel.example>  2026-06-28T09:30:00Z"
    assert "quarterly projections" in lines[2]
    assert lines[-1] == "1 document"
    assert "1 document with a cosine of at least 0.5" in run("docs", "semantic", "Q3 forecast").out
    assert run("docs", "fused", "Q3 forecast").out.startswith("1. Q3 revenue model")
    listed = run("docs", "filter", "--author", "sarah", "--limit", "2").out.splitlines()
    assert listed[0] == "1. Q3 revenue model - draft for review"
    assert listed[-2] == "2 of 23 documents"
    assert listed[-1].startswith("For the next page, repeat the command with --page-token ")


@pytest.mark.usefixtures("corpus")
def test_a_page_goes_on_where_the_one_before_ended(run: Run) -> None:
    token = run("docs", "filter", "--limit", "3").out.split()[-1]
    assert run("docs", "filter", "--limit", "3", "--page-token", token).out.startswith("4. ")
    done = run("docs", "filter", "--author", "bob", "--page-token", token)
    assert (done.code, done.out) == (2, "")
    assert "other arguments" in done.err


@pytest.mark.usefixtures("corpus")
def test_flags_are_the_filter(run: Run) -> None:
    assert ids(as_json(run, "filter", "--tag", "email", "--tag", "finance")) == ["mail-forecast"]
    assert as_json(run, "filter", "--author", "bob", "--author", "sarah")["total"] == 30
    assert ids(as_json(run, "filter", "--after", "2026-06-28", "--before", "2026-06-29T00:00Z")) == ["mail-forecast"]
    assert as_json(run, "filter", "--scope", "attic")["reason"] == "no document passes the filter"
    assert ids(as_json(run, "filter", "--order-by", "created_time", "--limit", "1")) == ["note-refunds"]


@pytest.mark.usefixtures("corpus")
def test_min_score_is_a_number_or_none_and_is_said(run: Run) -> None:
    assert as_json(run, "semantic", "Q3 forecast", "--min-score", "0.9")["min_score"] == 0.9
    everything = as_json(run, "semantic", "Q3 forecast", "--min-score", "none", "--limit", "50")
    assert (everything["min_score"], len(everything["hits"])) == (None, 31)


@pytest.mark.usefixtures("corpus")
def test_explain_shows_rank_and_score_of_each_layer_and_what_each_word_added(run: Run) -> None:
    shown = run("docs", "fused", "--explain", "--limit", "1", "quarterly projections").out
    assert "   keyword: rank 1, score " in shown
    assert "   semantic: rank 1, score " in shown
    assert "  projections  in text" in shown
    (hit,) = as_json(run, "keyword", "--explain", "quarterly projections")["hits"]
    keyword = hit["layers"]["keyword"]
    assert sum(part["score"] for part in keyword["contributions"]) == pytest.approx(hit["score"], abs=1e-5)
    assert {part["field"] for part in keyword["contributions"]} == {"text"}


@requirement("cli.miss-exits-zero")
@pytest.mark.usefixtures("corpus")
def test_a_miss_is_a_success_with_a_reason(run: Run) -> None:
    done = run("docs", "keyword", "zebra")
    assert (done.code, done.err) == (0, "")
    assert "no document has a word of the query" in done.out


@pytest.mark.usefixtures("corpus")
def test_get_shows_a_document_or_a_part_of_it(run: Run) -> None:
    shown = run("docs", "get", "mail-forecast").out
    assert shown.startswith("Q3 revenue model - draft for review\n")
    assert "to            team@tidewheel.example" in shown
    assert shown.endswith("Please comment by Friday.\n\nSarah\n")
    part = run("docs", "get", "mail-forecast", "--first-line", "3", "--last-line", "3")
    assert "part          lines 3-3 of 6" in part.out
    assert run("docs", "get", "--text", "mail-forecast", "--last-line", "1").out == "Hi all,\n"
    assert as_json(run, "get", "mail-forecast", "--max-bytes", "3")["next"] == {"first_byte": 3}
    missing = run("docs", "get", "mail-forcast")
    assert (missing.code, missing.out) == (1, "")
    assert "did you mean 'mail-forecast'" in missing.err
    assert run("docs", "get", "mail-forecast", "--first-line", "99").code == 2


@pytest.mark.usefixtures("corpus")
def test_delete_takes_out_what_is_there_and_names_what_is_not(run: Run) -> None:
    done = run("docs", "delete", "mail-000", "mail-xxx")
    assert (done.code, done.out) == (0, "deleted 1 document\n")
    assert "document 'mail-xxx' does not exist" in done.err
    assert as_json(run, "filter")["total"] == 30
    assert run("docs", "delete", "mail-000").code == 1


@pytest.mark.usefixtures("corpus")
def test_stats_tells_counts_embedder_and_what_is_there(run: Run, at_hand: dict[str, Any]) -> None:
    stats = as_json(run, "stats")
    assert (stats["documents"], stats["vectors"], stats["semantic"]) == (31, 31, "ready")
    assert stats["embedder"]["name"] == "concepts"
    assert stats["authors"]["most"]["bob@tidewheel.example"] == 7
    assert (stats["earliest"], stats["latest"]) == ("2026-01-05T08:00:00Z", "2026-06-28T09:30:00Z")
    shown = run("docs", "stats").out
    assert "embedder.name" in shown
    assert "email (30), finance (1), policy (1)" in shown
    at_hand["auto"] = None
    assert as_json(run, "stats")["semantic"] == WITHOUT


@pytest.mark.usefixtures("corpus")
def test_without_an_embedder_meaning_fails_and_fused_warns(run: Run, at_hand: dict[str, Any]) -> None:
    at_hand["auto"] = None
    done = run("docs", "semantic", "Q3 forecast")
    assert (done.code, done.out) == (1, "")
    assert WITHOUT in done.err
    fused = run("docs", "fused", "dock sensors")
    assert (fused.code, "only words were compared" in fused.err) == (0, True)
    assert run("docs", "fused", "dock", "--embedder", "none").code == 0


@pytest.mark.usefixtures("corpus")
def test_another_embedder_is_refused_until_everything_was_read_again(run: Run, at_hand: dict[str, Any]) -> None:
    class Others(Concepts):
        name = "others"

    at_hand["others"] = Others()
    refused = run("docs", "semantic", "Q3 forecast", "--embedder", "others")
    assert (refused.code, "onhand docs reembed" in refused.err) == (1, True)
    assert as_json(run, "reembed", "--embedder", "others") == {"embedded": 31, "vectors": 31, "documents": 31}
    assert run("docs", "semantic", "Q3 forecast", "--embedder", "others").code == 0
    assert run("docs", "reembed", "--embedder", "others").out.startswith("embedded 0 documents with others; 31 of 31")


@pytest.mark.usefixtures("corpus")
def test_check_exits_1_for_damage_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("docs", "check").out == "31 documents, no damage\n"
    assert run("docs", "check", "--rebuild").out == "rebuilt; 31 documents, no damage\n"

    class Damaged(MemoryStore):
        def check(self) -> list[Damage]:
            return [Damage("a vector is missing", "run `onhand docs check --rebuild`")]

    from onhand.store import sqlite

    monkeypatch.setattr(sqlite, "SqliteStore", lambda path: Damaged())
    done = run("docs", "check")
    assert (done.code, done.out.splitlines()[0]) == (1, "a vector is missing: run `onhand docs check --rebuild`")


@pytest.mark.parametrize(
    "verb", ["keyword x", "semantic x", "filter", "fused x", "get x", "delete x", "stats", "check"]
)
def test_a_database_that_is_not_there_is_not_made_and_the_way_to_make_it_is_said(
    run: Run, project: Path, verb: str
) -> None:
    for where in ([], ["--db", "elsewhere.db"]):
        done = run("docs", *verb.split(), *where)
        assert (done.code, done.out) == (1, "")
        assert "onhand docs import" in done.err
    assert list(project.iterdir()) == []


def test_import_reads_files_and_reports_what_is_new_changed_and_unchanged(run: Run, project: Path) -> None:
    file = jsonl(project / "a.jsonl", {"id": "1", "text": "zebra one"}, {"id": "2", "text": "zebra two"})
    done = run("docs", "import", file)
    assert done.code == 0
    assert "2 documents in" in done.out
    assert "2 added, 0 changed, 0 unchanged" in done.out
    assert f"found by words but not by meaning: {WITHOUT}" in done.err
    assert (project / ".onhand/documents.db").exists()
    jsonl(project / "a.jsonl", {"id": "1", "text": "zebra one"}, {"id": "2", "text": "zebra 2"}, NEW)
    again = as_json(run, "import", file)
    assert [again[name] for name in ("added", "changed", "unchanged", "problems")] == [1, 1, 1, []]
    assert sorted(ids(as_json(run, "keyword", "zebra"))) == ["1", "2"]


def test_what_holds_for_every_imported_document_is_said_once(run: Run, project: Path) -> None:
    file = jsonl(project / "a.jsonl", {"id": "1", "text": "zebra"}, {"id": "2", "text": "zebra"})
    flags = ["--author", "ann", "--scope", "notes", "--tag", "a", "--tag", "b", "--form", "jsonl"]
    assert run("docs", "import", file, *flags).code == 0
    assert as_json(run, "filter", "--author=ann", "--scope=notes", "--tag=a", "--tag=b")["total"] == 2


def test_problems_are_listed_and_do_not_stop_the_rest(run: Run, project: Path) -> None:
    file = project / "a.jsonl"
    file.write_text(
        '{"id": "1", "text": "zebra"}\nnonsense\n{"id": "%s", "text": "x"}\n{"id": "2", "text": "y"}\n' % ("i" * 20_000)
    )
    done = run("docs", "import", str(file), "missing.jsonl")
    assert done.code == 0
    assert "2 added, 0 changed, 0 unchanged and skipped; 3 problems" in done.out
    assert "a.jsonl" in done.err
    assert "missing.jsonl" in done.err
    assert "1 to 10,000 characters" in done.err


def test_an_import_of_nothing_exits_1_and_makes_no_database(run: Run, project: Path) -> None:
    done = run("docs", "import", "missing.jsonl")
    assert (done.code, done.out) == (1, "")
    assert "nothing was imported" in done.err
    assert list(project.iterdir()) == []


def test_an_interrupted_import_keeps_what_is_done_and_goes_on_from_there(
    run: Run, project: Path, at_hand: dict[str, Any]
) -> None:
    class Interrupted(Concepts):
        """Ctrl-C is pressed while the third batch is worked out."""

        calls = 0

        def embed(self, texts: Sequence[str], kind: str = "document") -> Any:
            self.calls += 1
            if self.calls == 3:
                raise KeyboardInterrupt
            return super().embed(texts, kind)

    at_hand["auto"] = Interrupted()
    file = jsonl(project / "a.jsonl", *({"id": str(number), "text": "zebra"} for number in range(600)))
    done = run("docs", "import", file)
    assert (done.code, done.out) == (130, "")
    assert "512 documents: run the command again to continue" in done.err
    again = as_json(run, "import", file)
    assert (again["added"], again["unchanged"]) == (88, 512)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["serch", "x"], "unknown value 'serch'"),
        (["keyword"], "QUERY"),
        (["keyword", "x", "--limit=-1"], "of at least 1"),
        (["keyword", "x", "--limit=many"], "'many' is not a whole number"),
        (["keyword", "x", "--limit=" + "9" * 5000], "is not a whole number"),
        (["keyword", "x", "--page-token=AAAA"], "Unknown page_token"),
        (["keyword", "  "], "query needs at least one letter or number"),
        (["keyword", "x" * 50_001], "at most 50,000"),
        (["keyword", "x", "--after", "yesterday"], "2026-06-28"),
        (["semantic", "x", "--min-score", "2"], "or 'none'"),
        (["filter", "--order-by", "colour"], "cannot order by 'colour'"),
        (["keyword", "x", "--order-by", "title"], "--order-by"),
        (["get", "mail-000", "--first-line", "1", "--max-bytes", "1"], "not both"),
    ],
)
@pytest.mark.usefixtures("corpus")
def test_wrong_usage_exits_2_and_says_what_to_do(run: Run, words: list[str], advice: str) -> None:
    done = run("docs", *words)
    assert (done.code, done.out) == (2, "")
    assert advice in done.err.replace("\n", "")
    assert "Traceback" not in done.err


@requirement("cli.terminal-is-safe")
def test_nothing_of_a_document_reaches_the_terminal_unspelled(run: Run, project: Path) -> None:
    evil = "\x1b[31mzebra\x07\n2. forged"
    file = jsonl(project / "a.jsonl", {"id": evil, "title": evil, "text": evil})
    assert run("docs", "import", file).code == 0
    for words in (["keyword", "zebra", "--explain"], ["filter"], ["get", evil], ["stats"], ["filter", "--json"]):
        done = run("docs", *words)
        assert done.code == 0
        assert not set(done.out + done.err) & set("\x1b\x07")
    assert run("docs", "filter").out.count("\n2. ") == 0


def test_the_settings_name_the_database_and_the_embedder(
    run: Run, project: Path, at_hand: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONHAND_DOCUMENTS_PATH", "mine/docs.db")
    monkeypatch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "mine")
    at_hand["mine"] = Concepts()
    done = run("docs", "import", jsonl(project / "a.jsonl", {"id": "1", "text": "refund"}))
    assert (done.code, done.err) == (0, "")
    assert (project / "mine/docs.db").exists()
    assert ids(as_json(run, "semantic", "money back")) == ["1"]


def test_a_database_that_a_clone_links_elsewhere_is_not_opened(run: Run, project: Path, tmp_path: Path) -> None:
    (tmp_path / "private.db").touch()
    (project / ".onhand").mkdir()
    (project / ".onhand/documents.db").symlink_to(tmp_path / "private.db")
    done = run("docs", "filter")
    assert (done.code, done.out) == (2, "")
    assert "is a link out of the project" in done.err
    assert "get_document" not in Project(load_config()).registry().names()


class Terminal:
    """A stream that a person looks at."""

    def __init__(self) -> None:
        self.written = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.written += text

    def flush(self) -> None: ...


def test_progress_is_a_bar_in_a_terminal_and_gone_in_the_end() -> None:
    stream: Any = Terminal()
    progress = Progress(stream)
    progress.show("120 documents", 1, 2)
    progress.show("too soon to draw again", 2, 2)
    assert stream.written == "\r[############------------]  50%  120 documents\x1b[K"
    progress.end()
    assert stream.written.endswith("\r\x1b[K")
    assert render_progress("120 documents", 0, 0, 80) == "120 documents"
    assert len(render_progress("x" * 500, 9, 3, 40)) == 39


def test_progress_says_nothing_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(sys.stderr)
    progress.show("120 documents", 1, 2)
    progress.end()
    assert capsys.readouterr() == ("", "")
