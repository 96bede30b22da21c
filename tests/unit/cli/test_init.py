"""Does the file that is written explain everything and change nothing?"""

import json
import re
import tomllib
from pathlib import Path

import pytest

from onhand import config
from onhand.config import SETTINGS
from onhand.config.settings import ContextSettings, DocumentsSettings
from requirements import requirement

from .conftest import Run


@requirement("config.init-writes-commented-file")
def test_the_written_file_loads_to_exactly_the_defaults(run: Run, project: Path) -> None:
    done = run("init")
    assert done.code == 0
    assert "Next:" in done.out
    loaded = config.load()
    assert loaded.files == (str(project / "onhand.toml"),)
    assert (loaded.context, loaded.documents) == (ContextSettings(), DocumentsSettings())
    assert set(loaded.sources.values()) == {"default"}


@requirement("config.init-writes-commented-file")
def test_uncommented_it_says_every_default_and_still_loads(run: Run, project: Path) -> None:
    run("init")
    path = project / "onhand.toml"
    path.write_text(re.sub(r"^# (\w+ = )", r"\1", path.read_text(), flags=re.MULTILINE))
    said = tomllib.loads(path.read_text())
    assert [f"{section}.{name}" for section in said for name in said[section]] == [option.key for option in SETTINGS]
    loaded = config.load()
    assert loaded.context == ContextSettings()
    assert loaded.documents == DocumentsSettings()
    assert "default" not in loaded.sources.values()


def test_a_file_that_is_there_is_kept_without_force(run: Run, project: Path) -> None:
    path = project / "onhand.toml"
    path.write_text("[context]\nlimit = 8\n")
    done = run("init")
    assert done.code == 2
    assert "already exists: edit it, or replace it with --force" in done.err
    assert path.read_text() == "[context]\nlimit = 8\n"
    assert run("init", "--force").code == 0
    assert config.load().context.limit == 3
    assert [entry.name for entry in project.iterdir()] == ["onhand.toml"]


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_file_that_cannot_be_filled_leaves_nothing_behind(
    run: Run, project: Path, force: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    signals = pytest.importorskip("signal")
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # the limit is for every file that is written
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signals.signal(signals.SIGXFSZ, signals.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        done = run("init", *force)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signals.signal(signals.SIGXFSZ, old)
    assert done.code == 2
    assert "cannot be written" in done.err
    assert list(project.iterdir()) == []


def test_force_leaves_a_directory_of_that_name_alone(run: Run, project: Path) -> None:
    (project / "onhand.toml").mkdir()
    assert run("init", "--force").code == 2
    assert [entry.name for entry in project.iterdir()] == ["onhand.toml"]


def test_force_replaces_a_link_and_not_what_it_leads_to(run: Run, project: Path) -> None:
    precious = project / "precious"
    precious.write_text("mine")
    for name in ("onhand.toml", "onhand.toml.new"):
        (project / name).symlink_to(precious)
    assert run("init", "--force").code == 0
    assert precious.read_text() == "mine"
    assert not (project / "onhand.toml").is_symlink()


@pytest.mark.parametrize(("name", "text"), [(".onhand/config.toml", ""), ("pyproject.toml", "[tool.onhand]\n")])
def test_a_directory_that_is_configured_otherwise_gets_no_second_file(
    run: Run, project: Path, name: str, text: str
) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text(text)
    done = run("init", "--force")
    assert done.code == 2
    assert f"{name} already configures this directory" in done.err
    assert not (project / "onhand.toml").exists()


def test_another_directory_can_be_named_and_must_be_there(run: Run, project: Path) -> None:
    (project / "other").mkdir()
    assert run("init", "other").code == 0
    assert (project / "other" / "onhand.toml").is_file()
    done = run("init", "nowhere")
    assert done.code == 2
    assert "cannot be written" in done.err


def test_init_prints_the_path_as_json(run: Run, project: Path) -> None:
    assert json.loads(run("init", "--json").out) == {"path": "./onhand.toml"}
    assert (project / "onhand.toml").is_file()
