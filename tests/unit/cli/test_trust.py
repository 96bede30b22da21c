"""Does a person see what is asked for before it is allowed, and can it be undone?"""

import json
from pathlib import Path

import pytest

from onhand import config
from requirements import requirement

from .conftest import Run


@requirement("trust.said-once")
def test_trust_shows_what_is_asked_for_and_allows_it(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '../shared'\nextra_roots = ['docs', '/etc']\n")
    assert config.load().context.root == ".AGENTS"
    done = run("trust")
    assert done.code == 0
    assert done.out.splitlines() == [
        f"{project} is now trusted with:",
        f"  context.root = '../shared', which leads out of {project} ({project}/onhand.toml:2)",
        f"  context.extra_roots = '/etc', which leads out of {project} ({project}/onhand.toml:3)",
        "Later changes to its configuration are trusted too.",
        f"To undo: onhand trust --remove {project}",
    ]
    assert config.load().context.extra_roots == ("docs", "/etc")
    assert run("trust", "--list").out == f"{project.resolve()}\n"


@requirement("trust.said-once")
def test_trust_can_be_taken_back(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\n")
    run("trust")
    done = run("trust", "--remove", ".")
    assert (done.code, done.out) == (0, f"{project.resolve()} is no longer trusted\n")
    assert config.load().context.root == ".AGENTS"
    again = run("trust", "--remove", ".")
    assert again.code == 1
    assert "was not trusted" in again.err


def test_a_file_that_asks_for_nothing_is_not_recorded(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nlimit = 3\n")
    done = run("trust")
    assert (done.code, done.out) == (
        0,
        f"{project} has no settings that need trust; nothing was recorded\n",
    )
    assert run("trust", "--list").out == ""


def test_without_a_directory_the_project_of_the_working_directory_is_meant(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\n")
    below = project / "below"
    below.mkdir()
    named = run("trust", "below")
    assert named.code == 2
    assert f"the nearest one is in {project}: trust that" in named.err
    assert run("trust", "--list").out == ""
    monkeypatch.chdir(below)
    assert run("trust").code == 0
    assert run("trust", "--list").out == f"{project.resolve()}\n"


def test_a_setting_of_the_environment_does_not_hide_what_the_file_asks_for(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\n")
    monkeypatch.setenv("ONHAND_CONTEXT_ROOT", "mine")
    assert "context.root = '/etc'" in run("trust").out


def test_a_broken_file_is_not_trusted(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\nlimit = 'x'\n")
    assert run("trust").code == 2
    assert run("trust", "--list").out == ""


def test_a_corrupt_store_is_reported(run: Run, project: Path) -> None:
    store = project.parent / ".local" / "state" / "onhand" / "trusted.json"
    store.parent.mkdir(parents=True)
    store.write_text("{")
    for words in (["--list"], ["--remove", "."]):
        done = run("trust", *words)
        assert done.code == 2
        assert "repair or delete it" in done.err


def test_every_form_of_trust_prints_json(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\n")
    granted = json.loads(run("trust", "--json").out)
    assert granted["trusted"] is True
    assert [setting["key"] for setting in granted["settings"]] == ["context.root"]
    assert json.loads(run("trust", "--list", "--json").out) == {"trusted": [str(project.resolve())]}
    assert json.loads(run("trust", "--remove", ".", "--json").out) == {"removed": [str(project.resolve())]}
    again = run("trust", "--remove", ".", "--json")
    assert (again.code, json.loads(again.out)) == (1, {"removed": []})
