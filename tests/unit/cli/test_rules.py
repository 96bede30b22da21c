"""Does `onhand rules` say which rules hold, where and about what, to people and to programs?"""

import json
from pathlib import Path
from typing import Any

import pytest

from requirements import requirement

from .conftest import Run


@pytest.fixture(autouse=True)
def rules(project: Path) -> None:
    (project / "src/auth").mkdir(parents=True)
    (project / "AGENTS.md").write_text("# All\n\nUse spaces, see [style](style.md).\n", encoding="utf-8")
    (project / "style.md").write_text("# Style\n\nQuokka indentation.\n", encoding="utf-8")
    (project / "src/AGENTS.md").write_text("# Source\n\nNo zebra globals.\n", encoding="utf-8")


def as_json(run: Run, *words: str) -> Any:
    done = run("rules", *words, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@requirement("rules.search-tools", "rules.for-path")
def test_for_prints_the_rules_root_first(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("rules", "for", "src/auth/new.py")
    assert (done.code, done.err) == (0, "")
    assert done.out.index("Use spaces") < done.out.index("No zebra globals.")
    assert done.out.endswith("2 rule files for src/auth/new.py, nearest last\n")
    answer = as_json(run, "for", str(project / "src"))
    assert [file["path"] for file in answer["files"]] == ["AGENTS.md", "src/AGENTS.md"]
    assert [file["path"] for file in as_json(run, "for", "src/x.py", "--root", str(project))["files"]] == [
        "AGENTS.md",
        "src/AGENTS.md",
    ]
    (project / ".git").mkdir()
    monkeypatch.chdir(project / "src")
    assert as_json(run, "for", "auth/x.py")["path"] == "src/auth/x.py"


@requirement("rules.for-path")
def test_a_path_outside_exits_2(run: Run) -> None:
    done = run("rules", "for", "../x")
    assert (done.code, done.out) == (2, "")
    assert "outside" in done.err


@requirement("rules.budget")
def test_what_had_no_room_is_warned_of(run: Run, project: Path) -> None:
    (project / "AGENTS.md").write_text("r" * 40_000, encoding="utf-8")
    done = run("rules", "for", "src")
    assert "of 40,000 bytes left out, because 32,768 are allowed" in done.err


@requirement("rules.search-tools", "rules.references-on-match")
def test_search_prints_hits_with_their_places(run: Run) -> None:
    done = run("rules", "search", "quokka")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1. Style  style.md:1-3  score ")
    assert "linked from AGENTS.md:3\n" in done.out
    assert "   Quokka indentation.\n" in done.out
    assert done.out.endswith("1 of 3 sections in 3 files\n")
    (hit,) = as_json(run, "search", "quokka", "--explain", "-k", "1")["hits"]
    lines = (hit["section"]["first_line"], hit["section"]["last_line"])
    assert (hit["kind"], lines, hit["linked_from"]) == ("reference", (1, 3), ["AGENTS.md:3"])
    assert hit["contributions"][0]["term"] == "quokka"
    missed = run("rules", "search", "wombat")
    assert missed.code == 0
    assert "none of 3 sections has a word of the query" in missed.out


@requirement("rules.root-always")
def test_show_lists_files_links_and_cost(run: Run) -> None:
    done = run("rules", "show")
    assert (done.code, done.err) == (0, "")
    assert "AGENTS.md      in every prompt" in done.out
    assert "src/AGENTS.md  for its directory" in done.out
    assert "  style.md\n" in done.out
    assert run("rules", "show", "--prompt").out.startswith('<rules path="AGENTS.md">\n# All\n')
    assert as_json(run, "show")["files"] == ["AGENTS.md", "src/AGENTS.md"]
    assert "rules" in as_json(run, "show", "--prompt")["prompt"]


@requirement("rules.check")
def test_check_exits_1_when_a_link_is_broken(run: Run, project: Path) -> None:
    done = run("rules", "check")
    assert (done.code, done.out) == (0, "0 problems; 1 link checked\n")
    (project / "style.md").unlink()
    done = run("rules", "check")
    assert done.code == 1
    assert done.out.splitlines()[0] == (
        "AGENTS.md:3: the link to 'style.md' cannot be followed: no such file or directory"
    )
    done = run("rules", "check", "--json")
    assert (done.code, json.loads(done.out)["problems"][0]["path"]) == (1, "AGENTS.md:3")


@pytest.mark.parametrize(
    "words", [["search"], ["for"], ["search", "-k", "0", "x"], ["shwo"], ["show", "--root", "none"]]
)
def test_wrong_usage_exits_2(run: Run, words: list[str]) -> None:
    done = run("rules", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err
