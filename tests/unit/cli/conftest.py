"""Run a command in a project and a home of one's own."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from onhand.cli.main import main


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, project = tmp_path / "home", tmp_path / "home" / "project"
    project.mkdir(parents=True)
    for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def run(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> Done:
        code = main(words)
        return Done(code, *capsys.readouterr())

    return run
