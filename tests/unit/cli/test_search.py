"""Does `onhand search` bring everything in one list, and say where each hit is from?"""

import json
from pathlib import Path

import pytest

from requirements import requirement

from .conftest import Run


@pytest.fixture(autouse=True)
def project_of_all(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "none")
    (project / ".AGENTS").mkdir()
    (project / ".AGENTS/a.md").write_text("# Zebra page\n\nStripes.\n", encoding="utf-8")
    (project / "AGENTS.md").write_text("# Zebra rule\n\nFeed the zebra.\n", encoding="utf-8")
    (project / ".agents/skills/zebra-care").mkdir(parents=True)
    skill = "---\nname: zebra-care\ndescription: How to groom a zebra.\n---\n"
    (project / ".agents/skills/zebra-care/SKILL.md").write_text(skill, encoding="utf-8")
    (project / "mail.jsonl").write_text(json.dumps({"id": "m", "title": "Zebra mail", "text": "x"}), encoding="utf-8")
    assert run("notes", "write", "zebra note", "body", "--description", "zebra things").code == 0
    assert run("docs", "import", "mail.jsonl", "--embedder", "none").code == 0


@requirement("search.everything", "notes.never-override")
def test_hits_of_all_kinds_are_labelled(run: Run) -> None:
    done = run("search", "zebra")
    assert done.code == 0
    heads = [line for line in done.out.splitlines() if line[:1].isdigit()]
    assert len(heads) == 5
    assert {head.split("[")[1].split("]")[0] for head in heads} == {"rules", "context", "skills", "documents", "notes"}
    assert any("[notes] (written by an agent, not by the project) zebra note: zebra things" in head for head in heads)
    assert done.out.endswith("the best 5 hits; found: 1 rules, 1 context, 1 skills, 1 documents, 1 notes\n")
    assert "documents: only words were compared" in done.err


@requirement("search.everything")
def test_json_has_kinds_places_ranks_and_what_was_searched(run: Run) -> None:
    answer = json.loads(run("search", "zebra", "--json", "--kind", "rules", "--kind", "notes", "-k", "1").out)
    (hit,) = answer["hits"]
    assert (hit["kind"], hit["place"], hit["rank"]) == ("rules", "AGENTS.md:1-3", 1)
    assert [one["kind"] for one in answer["searched"]] == ["rules", "notes"]
    assert "rank 1 in rules, rank 1 of all by words" in run("search", "zebra", "--kind", "rules", "--explain").out


@requirement("search.everything")
def test_a_corpus_that_fails_is_warned_of_and_the_others_answer(run: Run, project: Path) -> None:
    (project / ".onhand/documents.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    done = run("search", "zebra")
    assert done.code == 0
    assert "documents could not be searched: " in done.err
    assert "[rules]" in done.out
    assert run("search", "zebra", "--kind", "documents").code == 1


def test_a_miss_is_a_success_and_wrong_usage_is_not(run: Run) -> None:
    missed = run("search", "wombat")
    assert missed.code == 0
    assert "nothing matches in rules, context, skills, documents, notes\n" in missed.out
    for words in (["search"], ["search", "x", "--kind", "mails"], ["search", "x", "-k", "51"], ["search", " "]):
        done = run(*words)
        assert (done.code, done.out) == (2, ""), words
