"""Do rules, notes and one search across everything work as a person runs them, in processes of their own?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import requirement


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "home" / "project"
    (project / "src").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".AGENTS").mkdir()
    (project / "AGENTS.md").write_text("# Rules\n\nWrite zebra tests, see [how](how.md).\n", encoding="utf-8")
    (project / "how.md").write_text("# How\n\nQuokka first.\n", encoding="utf-8")
    (project / "src/AGENTS.md").write_text("# Source\n\nNo globals.\n", encoding="utf-8")
    (project / ".AGENTS/a.md").write_text("# Page\n\nAbout a zebra.\n", encoding="utf-8")
    return project


def run(words: list[str], environ: dict[str, str], where: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "onhand", *words],
        cwd=where,
        env=environ,
        input=text,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@requirement("rules.search-tools", "rules.for-path")
def test_rules_are_found_from_anywhere_in_the_repository(environ: dict[str, str], project: Path) -> None:
    done = run(["rules", "for", "new/x.py", "--json"], environ, project / "src")
    assert (done.returncode, done.stderr) == (0, "")
    assert [file["path"] for file in json.loads(done.stdout)["files"]] == ["AGENTS.md", "src/AGENTS.md"]
    found = run(["rules", "search", "quokka"], environ, project / "src")
    assert found.stdout.startswith("1. How  how.md:1-3  score ")
    assert run(["rules", "check"], environ, project).returncode == 0
    (project / "how.md").unlink()
    assert run(["rules", "check"], environ, project).returncode == 1


@requirement("notes.write", "search.everything", "notes.never-override")
def test_a_note_of_one_process_is_found_by_the_next_and_by_one_search(environ: dict[str, str], project: Path) -> None:
    assert run(["search", "zebra", "--kind", "notes"], environ, project).returncode == 0
    written = run(["notes", "write", "zebra", "--description", "what it eats"], environ, project, "Grass, ünd hay.\n")
    assert (written.returncode, written.stderr) == (0, "")
    answer = json.loads(run(["search", "zebra", "--json"], environ, project).stdout)
    assert {hit["kind"] for hit in answer["hits"]} == {"rules", "context", "notes"}
    (note,) = (hit for hit in answer["hits"] if hit["kind"] == "notes")
    assert (note["text"], note["mark"]) == ("Grass, ünd hay.", "written by an agent, not by the project")
    assert run(["notes", "delete", "zebra"], environ, project).returncode == 0
    assert run(["notes", "search", "grass"], environ, project).stdout.startswith("there are no notes in ")


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="an administrator may write anywhere")
def test_a_directory_that_nobody_may_write_to_is_named(environ: dict[str, str], project: Path) -> None:
    (project / ".onhand").mkdir(mode=0o500)
    done = run(["notes", "write", "a", "b", "--description", "c"], environ, project)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot write in" in done.stderr
