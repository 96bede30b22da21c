"""Does `onhand mcp install` write what a client needs, once, or only show it?"""

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from onhand.cli.main import main
from requirements import requirement


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@requirement("mcp.install", "mcp.always-loaded")
def test_an_entry_is_written_once_and_the_file_before_it_is_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".claude.json").write_text('{"theme": "dark"}', encoding="utf-8")
    assert main(["mcp", "install", "claude"]) == 0
    out = capsys.readouterr().out
    assert f"a backup of the previous settings is in {home}/.claude.json.before-onhand" in out
    settings = json.loads((home / ".claude.json").read_text(encoding="utf-8"))
    assert settings["theme"] == "dark"
    assert settings["mcpServers"]["onhand"]["args"][-1] == "serve"
    assert settings["mcpServers"]["onhand"]["alwaysLoad"] is True
    assert main(["mcp", "install", "claude"]) == 0
    assert "already" in capsys.readouterr().out
    assert len(list(home.iterdir())) == 2


@requirement("mcp.install")
def test_codex_is_told_to_wait_for_us(home: Path) -> None:
    assert main(["mcp", "install", "codex"]) == 0
    assert tomllib.loads((home / ".codex" / "config.toml").read_text())["mcp_servers"]["onhand"]["required"] is True


def test_print_shows_the_entry_and_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "install", "vscode", "--project", "--print", "--name", "mine"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["servers"]["mine"]["command"] == "onhand"
    assert str(home / ".vscode/mcp.json") in shown.err
    assert list(home.iterdir()) == []


def test_a_name_that_a_client_could_not_bear_and_an_unknown_client_are_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", "install", "claude", "--name", 'a"]\n[x']) == 2
    assert main(["mcp", "install", "clawde"]) == 2
    assert "did you mean 'claude'?" in capsys.readouterr().err
    (home / ".claude.json").write_text("[]", encoding="utf-8")
    assert main(["mcp", "install", "claude"]) == 2
    assert "Add this by hand" in capsys.readouterr().err
    assert (home / ".claude.json").read_text(encoding="utf-8") == "[]"


@requirement("project.missing-extra-names-its-command")
@pytest.mark.parametrize("words", ["mcp install claude", "acp install zed"])
def test_an_extra_that_the_client_would_miss_is_named_when_the_entry_is_written(
    words: str, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(words.split()) == 0
    extra = words.partition(" ")[0]
    assert f"needs the '{extra}' extra: pip install 'onhand[{extra}]'" in capsys.readouterr().err


@requirement("mcp.install")
def test_what_is_written_imports_nothing_from_the_project_in_which_a_client_starts_us(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["mcp", "install", "claude"]) == 0
    entry = json.loads((home / ".claude.json").read_text(encoding="utf-8"))["mcpServers"]["onhand"]
    for name in ("argparse", "onhand", "json"):  # a command in the sandbox may write any of these
        (home / f"{name}.py").write_text("raise SystemExit('imported from the project')")
    environ = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "HOME": str(home)}
    words = [entry["command"], *entry["args"][:-1], "--version"]
    done = subprocess.run(words, cwd=home, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout[:6]) == (0, "onhand"), done.stderr
