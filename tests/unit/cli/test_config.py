"""Does a person see what is set, and by whom?"""

import json
from pathlib import Path

import pytest

from onhand.cli.config import reference
from onhand.config import SETTINGS
from requirements import requirement

from .conftest import Run


@requirement("config.show-tells-origins")
def test_show_has_every_setting_with_its_value_and_source(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "onhand.toml").write_text("[context]\nlimit = 8\n")
    monkeypatch.setenv("ONHAND_CONTEXT_RANKING", "seed")
    (project / "notes").mkdir()
    done = run("config", "show", "--root", "notes")
    rows = [line.split(maxsplit=1) for line in done.out.splitlines()]
    assert [row[0] for row in rows] == ["KEY", *(option.key for option in SETTINGS)]
    lines = dict(rows)
    assert lines["context.limit"].split() == ["8", f"{project}/onhand.toml:2"]
    assert lines["context.ranking"].split() == ['"seed"', "$ONHAND_CONTEXT_RANKING"]
    assert lines["context.root"].split() == ['"notes"', "--root"]
    assert lines["context.extra_roots"].split() == ["[]", "default"]
    assert (done.code, done.err) == (0, "")


def test_show_as_json_has_a_value_and_a_source_for_each_key(run: Run) -> None:
    shown = json.loads(run("config", "show", "--json").out)
    assert list(shown) == [option.key for option in SETTINGS]
    assert shown["context.pinned"] == {"value": ["overview.md", "conventions.md"], "source": "default"}


def test_warnings_are_on_stderr_and_leave_the_output_whole(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\n")
    done = run("config", "show", "--json")
    assert json.loads(done.out)["context.root"] == {"value": ".AGENTS", "source": "default"}
    assert done.err.startswith("onhand: warning: ")
    assert done.code == 0


def test_a_configuration_that_cannot_be_used_is_wrong_usage(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nlimit = 'x'\n")
    done = run("config", "show")
    assert (done.code, done.out) == (2, "")
    assert "onhand.toml:2: context.limit is 'x'" in done.err


def test_a_hostile_file_name_does_not_reach_the_terminal(run: Run, project: Path) -> None:
    hostile = project / "\x1b[2J"
    hostile.mkdir()
    done = run("init", str(hostile))
    assert "\x1b" not in done.out
    (hostile / "onhand.toml").write_text("x")
    assert "\x1b" not in run("trust", str(hostile)).err


def test_path_names_the_files_that_are_read(run: Run, project: Path) -> None:
    user = project.parent / ".config" / "onhand" / "config.toml"
    assert run("config", "path").out == f"user     {user} (does not exist)\nproject  none; `onhand init` writes one\n"
    user.parent.mkdir(parents=True)
    user.write_text("")
    (project / "onhand.toml").write_text("")
    assert run("config", "path").out == f"user     {user}\nproject  {project / 'onhand.toml'}\n"
    paths = [str(user), str(project / "onhand.toml")]
    assert json.loads(run("config", "path", "--json").out) == {
        "user": paths[0],
        "project": paths[1],
        "found": paths,
    }


def test_the_file_of_a_user_who_is_at_home_is_not_taken_for_a_projects(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = project.parent / ".config" / "onhand" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text("")
    monkeypatch.chdir(project.parent)
    paths = json.loads(run("config", "path", "--json").out)
    assert paths == {"user": str(user), "project": None, "found": [str(user)]}


def test_a_verb_is_needed(run: Run) -> None:
    assert run("config").code == 2


@requirement("config.one-table")
def test_the_reference_page_has_every_setting(project: Path) -> None:
    page = reference()
    for option in SETTINGS:
        assert f"### `{option.key}`\n\n{option.text}\n" in page
        assert f"`{option.variables[0]}`" in page
    assert "\\\\" not in page
