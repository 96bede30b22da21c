"""The sandbox from the command line: what this machine can do, and a command behind the walls."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onhand.cli.main import main
from onhand.cli.sandbox import needed_paths
from onhand.errors import SandboxError
from onhand.sandbox import landlock
from onhand.sandbox.policy import Policy, workspace_policy
from onhand.sandbox.sandbox import Command, check_backends, choose
from requirements import requirement
from workplace import workplace


@pytest.fixture
def place() -> Iterator[Path]:
    with workplace() as directory:
        yield directory


@requirement("sandbox.check")
def test_check_says_for_every_backend_whether_it_works_and_why_not(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    code = main(["sandbox", "check", "--json"])
    said = json.loads(capfd.readouterr().out)
    assert list(said["backends"]) == ["bubblewrap", "landlock"]
    for backend in said["backends"].values():
        assert backend["works"] is (backend["reason"] is None)
    working = [name for name, backend in said["backends"].items() if backend["works"]]
    assert said["used"] == (working[0] if working else "refuse")
    assert code == (0 if working else 1)
    if working:
        assert (
            "memory (4096 MiB) and processor time (3600 s) of all processes of a command together" in said["notes"][0]
        )
    assert main(["sandbox", "check"]) == code
    assert "bubblewrap" in capfd.readouterr().out


@requirement("sandbox.check")
def test_check_tells_of_no_limits_where_nothing_keeps_them(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("ONHAND_SANDBOX_BACKEND", "none")
    assert main(["sandbox", "check", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert (said["used"], said["notes"]) == ("none", [])


def checked(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a check says, on a machine on which a sandbox works."""
    code = main(["sandbox", "check", "--json"])
    said: dict[str, Any] = json.loads(capfd.readouterr().out)
    if said["used"] == "refuse":
        pytest.skip("no sandbox works here")
    assert code == (0 if said["problem"] is None else 1)
    return said


@requirement("sandbox.check")
def test_check_says_why_no_command_starts_in_this_project(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    assert checked(capfd)["problem"] is None
    (place / ".vscode").symlink_to("src")
    assert ".vscode is a link and cannot be protected from commands" in checked(capfd)["problem"]
    assert main(["sandbox", "check"]) == 1
    assert "no command can start in this project: " in capfd.readouterr().out


@requirement("sandbox.check")
def test_check_says_where_the_repository_of_a_working_tree_is_if_commands_cannot_look_there(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    repository, tree = place / "whole" / ".git", place / "tree"
    kept = repository / "worktrees" / "tree"
    for directory in (kept, repository / "objects", tree):
        directory.mkdir(parents=True)
    (kept / "commondir").write_text("../..\n")
    (tree / ".git").write_text(f"gitdir: {kept}\n")
    monkeypatch.chdir(tree)
    advice = f"git needs {repository}, which commands cannot read: add it to sandbox.writable"

    assert advice in checked(capfd)["notes"]
    monkeypatch.setenv("ONHAND_SANDBOX_WRITABLE", str(repository))
    assert advice not in checked(capfd)["notes"]
    monkeypatch.delenv("ONHAND_SANDBOX_WRITABLE")
    (tree / ".git").write_text(f"gitdir: {place}/src\n")  # which is no repository
    assert not any("sandbox.writable" in note for note in checked(capfd)["notes"])


@requirement("sandbox.check")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has projects of root")
def test_check_says_why_commands_could_not_change_a_project_of_root(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if landlock.root_refusal(Policy()):
        pytest.skip(f"root cannot stay root under Landlock: {landlock.root_refusal(Policy())}")
    tree = place / "tree"
    tree.mkdir()
    monkeypatch.chdir(tree)
    told = f"with landlock, commands can read but not change {tree}, because root owns it and"
    assert not any(note.startswith(told) for note in checked(capfd)["notes"])
    monkeypatch.setenv("ONHAND_SANDBOX_LANDLOCK", "strict")
    reason = "the strict form (sandbox.landlock) lets no broker decide about files"
    assert f"{told} {reason}" in checked(capfd)["notes"]


@requirement("sandbox.check", "sandbox.explains-refusals")
def test_check_names_the_directories_whose_programs_commands_cannot_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (place / "bin").mkdir()
    (place / "tree").mkdir()
    monkeypatch.chdir(place / "tree")
    monkeypatch.setenv("PATH", f"{place}/bin:/usr/bin:{place}/missing")
    told = f"commands cannot run the programs in {place}/bin: to let them, add a directory"
    assert any(note.startswith(told) for note in checked(capfd)["notes"])
    monkeypatch.setenv("ONHAND_SANDBOX_READABLE", f"{place}/bin")
    assert not any("cannot run the programs" in note for note in checked(capfd)["notes"])


@requirement("sandbox.never-silently-open")
def test_a_backend_that_cannot_work_here_is_not_replaced_by_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onhand.sandbox.bubblewrap._missing_requirement", lambda: "bwrap is not installed")
    refusing = choose(Policy(), "bubblewrap")
    assert refusing.name == "refuse"
    with pytest.raises(SandboxError, match=r"bwrap is not installed.*onhand sandbox check"):
        refusing.start(Policy(), Command(["true"], "/", {}))
    monkeypatch.setattr("onhand.sandbox.landlock._missing_requirement", lambda: "the kernel is too old")
    assert [one.refusal for one in check_backends(Policy())] == ["bwrap is not installed", "the kernel is too old"]
    assert choose(Policy()).name == "refuse"


def test_a_policy_that_cannot_be_meant_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sandbox", "run", "--domain", "no domain", "--", "true"]) == 2
    assert "is not a domain" in capfd.readouterr().err
    assert main(["sandbox", "run"]) == 2


@pytest.mark.parametrize(
    ("flag", "given"),
    [
        ("--time", "0"),
        ("--time", "nan"),
        ("--time", "inf"),
        ("--time", "soon"),
        ("--memory", "0"),
        ("--memory", "9999999999999"),
        ("--cpu", "-1"),
        ("--cpu", "1.5"),
        ("--processes", "0"),
        ("--write", ""),
        ("--deny", ""),
        ("--read", ""),
    ],
)
def test_a_wrong_value_is_reported_by_the_name_of_its_flag(
    flag: str, given: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["sandbox", "run", f"{flag}={given}", "--", "true"]) == 2
    assert f"argument {flag}: " in capfd.readouterr().err


def test_a_limit_in_the_configuration_that_cannot_be_is_reported_by_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONHAND_SANDBOX_MEMORY_MB", "9999999999")
    assert main(["sandbox", "check"]) == 2
    assert "sandbox.memory_mb" in capfd.readouterr().err


@requirement("sandbox.secrets-unreadable")
def test_where_python_looks_for_modules_opens_no_secret_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, library = tmp_path / "project", tmp_path / "library"
    for directory in (project / "src", library):
        directory.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(project / "src"), str(library), *sys.path])
    paths = needed_paths(workspace_policy(str(project)))
    assert str(library) in paths
    assert str(project / "src") not in paths


@pytest.fixture
def quarantined(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    """The id of an AGENTS.md and a .vscode that a command has created."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if main(["sandbox", "run", "--backend", "bubblewrap", "--", "sh", "-c", "echo new > AGENTS.md; mkdir src/.vscode"]):
        pytest.skip("bubblewrap does not work here")
    said = capfd.readouterr().err
    assert "moved to quarantine: 'AGENTS.md', 'src/.vscode'" in said
    assert sorted(path.name for path in place.iterdir()) == ["notes.txt", "src"]
    return said.rpartition("onhand sandbox restore ")[2].strip(" `.\n")


@requirement("sandbox.restore")
def test_what_a_command_created_is_listed_and_restored(
    place: Path, quarantined: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["sandbox", "restore"]) == 0
    assert f"{quarantined}  file       {place}/AGENTS.md" in capfd.readouterr().out
    assert main(["sandbox", "restore", "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)["files"]
    assert [(one["id"], one["path"], one["kind"]) for one in listed] == [
        (quarantined, str(place / "AGENTS.md"), "file"),
        (quarantined, str(place / "src" / ".vscode"), "directory"),
    ]
    assert main(["sandbox", "restore", "AGENTS.md"]) == 0
    assert capfd.readouterr().out == f"restored {place}/AGENTS.md\n"
    assert main(["sandbox", "restore", quarantined, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"restored": [str(place / "src" / ".vscode")]}
    assert (place / "AGENTS.md").read_text() == "new\n"
    assert main(["sandbox", "restore"]) == 0
    assert capfd.readouterr().out == "Nothing is in quarantine.\n"


@requirement("sandbox.restore")
def test_nothing_is_replaced_unless_it_is_asked_for(
    place: Path, quarantined: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (place / "AGENTS.md").write_text("mine\n")
    assert main(["sandbox", "restore", quarantined]) == 2
    assert "AGENTS.md exists: move it away, or pass --overwrite to move it to quarantine" in capfd.readouterr().err
    assert (place / "AGENTS.md").read_text() == "mine\n"
    assert main(["sandbox", "restore", "AGENTS.md", "--overwrite"]) == 0
    assert (place / "AGENTS.md").read_text() == "new\n"
    assert main(["sandbox", "restore", "nothing.md"]) == 1
    assert "nothing in quarantine has the id or the path 'nothing.md'" in capfd.readouterr().err
