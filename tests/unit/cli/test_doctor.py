"""Does a person learn what is missing and how to get it?"""

import json
import re
import sqlite3
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

from onhand import __version__
from requirements import requirement

from .conftest import Run


@requirement("cli.doctor")
def test_every_extra_is_installed_or_comes_with_the_command_that_installs_it(run: Run) -> None:
    report = json.loads(run("doctor", "--json").out)
    extras = set(distribution("onhand").metadata.get_all("Provides-Extra") or []) - {"all", "console"}
    assert set(report["extras"]) == extras >= {"semantic", "gguf", "mcp", "grpc", "acp"}
    for name, extra in report["extras"].items():
        assert extra["packages"] or extra["missing"]
        assert extra["installed"] is (not extra["missing"])
        assert extra["install"] == ("" if extra["installed"] else f"pip install 'onhand[{name}]'")


def test_a_package_of_an_extra_is_installed_exactly_when_it_can_be_found(run: Run) -> None:
    report = json.loads(run("doctor", "--json").out)
    for extra in report["extras"].values():
        for package in extra["packages"]:
            name, version = package.split()
            assert distribution(name).version == version


def test_the_extras_are_those_that_the_project_declares(run: Run) -> None:
    declared = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    optional = declared["project"]["optional-dependencies"]
    for name, extra in json.loads(run("doctor", "--json").out)["extras"].items():
        packages = {package.split()[0] for package in extra["packages"]} | set(extra["missing"])
        assert packages == {re.split(r"[<>=]", requirement)[0] for requirement in optional[name]}


def test_python_sqlite_and_the_configuration_are_named(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("")
    done = run("doctor")
    assert done.code == 0
    rows = dict(line.split(maxsplit=1) for line in done.out.split("\n\n")[0].splitlines())
    assert rows["onhand"] == __version__
    assert rows["python"].endswith(f"({sys.executable})")
    assert rows["sqlite"].startswith(sqlite3.sqlite_version)
    assert rows["config"] == str(project / "onhand.toml")


@requirement("cli.doctor")
def test_what_commands_and_git_need_is_named_or_missed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    used = json.loads(run("sandbox", "check", "--json").out)["used"]
    found = json.loads(run("doctor", "--json").out)["sandbox"]
    assert found == used or (used == "refuse" and found.startswith("none works here"))
    monkeypatch.setattr("onhand.sandbox.bubblewrap._missing_requirement", lambda: "not installed")
    monkeypatch.setattr("onhand.sandbox.landlock._missing_requirement", lambda: "too old")
    monkeypatch.setenv("PATH", "")
    report = json.loads(run("doctor", "--json").out)
    assert report["sandbox"] == "none works here, so commands are refused; `onhand sandbox check` shows why"
    assert report["git"].startswith("missing: install git")


def test_a_broken_configuration_is_reported_and_the_rest_still_shown(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("limit")
    done = run("doctor")
    assert done.code == 0
    assert "config   unusable: " in done.out
    assert "EXTRA" in done.out
