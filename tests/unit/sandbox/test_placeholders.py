"""Placeholders exist while a command needs them, and nobody's files are lost."""

import os
import subprocess
from pathlib import Path

import pytest

from onhand.errors import SandboxError
from onhand.sandbox.bubblewrap import Placeholders
from onhand.sandbox.launcher import SandboxedProcess
from onhand.sandbox.layout import Layout, resolve_layout
from onhand.sandbox.policy import Policy


def looking(place: Path) -> Layout:
    return resolve_layout(
        Policy(writable=(str(place),), denied=(str(place / ".env"),), protected=(f"{place}/.git/hooks/",))
    )


def placeholders(place: Path) -> Placeholders:
    return Placeholders([str(place)], lambda: looking(place), lambda layout: None)


def names(place: Path) -> set[str]:
    return set(os.listdir(place)) - {"src", "notes.txt"}


def test_placeholders_exist_until_they_are_removed(place: Path) -> None:
    made = placeholders(place)
    assert names(place) == {".env", ".git"}
    assert (place / ".git").is_dir()
    made.remove()
    assert names(place) == set()
    made.remove()  # a second time does nothing


def test_the_last_command_removes_shared_placeholders(place: Path) -> None:
    first, second = placeholders(place), placeholders(place)
    first.remove()
    assert names(place) == {".env", ".git"}
    second.remove()
    assert names(place) == set()


def test_commands_with_different_temporary_directories_share_placeholders(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removing a placeholder would remove the mount on it, and the second command could write there."""
    first = placeholders(place)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    second = placeholders(place)
    first.remove()
    assert names(place) == {".env", ".git"}
    second.remove()
    assert names(place) == set()


def test_commands_in_nested_directories_share_placeholders(place: Path) -> None:
    inner = place / "src"
    both = Policy(writable=(str(place), str(inner)), denied=(f"{place}/.env", f"{inner}/.env"))
    outer = Placeholders([str(place), str(inner)], lambda: resolve_layout(both), lambda layout: None)
    part = Placeholders([str(inner)], lambda: resolve_layout(Policy(writable=(str(inner),))), lambda layout: None)
    outer.remove()
    assert (names(place), names(inner)) == (set(), {".env", "app.py"})
    part.remove()
    assert names(inner) == {"app.py"}


def test_whoever_is_interrupted_while_they_are_made_leaves_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = os.mkdir

    def interrupted(path: str, mode: int = 0o777) -> None:
        if str(path).startswith(str(place)):
            assert names(place) == {".env"}
            raise KeyboardInterrupt
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        placeholders(place)
    assert names(place) == set()


def test_whoever_is_interrupted_while_they_are_removed_can_go_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = placeholders(place)

    def interrupted(path: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", interrupted)
        ended = SandboxedProcess(subprocess.Popen(["true"]), -1, [made.remove])
        with pytest.raises(KeyboardInterrupt):
            ended.wait()
    ended.kill()
    assert names(place) == set()


def test_what_somebody_made_or_filled_meanwhile_stays(place: Path) -> None:
    made = placeholders(place)
    (place / ".env").unlink()
    (place / ".env").write_text("MINE=1")
    (place / ".git").chmod(0o755)
    (place / ".git" / "HEAD").write_text("ref: refs/heads/main")
    made.remove()
    assert (place / ".env").read_text() == "MINE=1"
    assert (place / ".git" / "HEAD").exists()


def test_the_next_command_removes_placeholders_of_a_crashed_one(place: Path) -> None:
    crashed = placeholders(place)
    for descriptor in crashed._locks:  # as the kernel does when a process ends
        os.close(descriptor)
    crashed._locks = []
    assert names(place) == {".env", ".git"}
    placeholders(place).remove()
    assert names(place) == set()


def test_a_file_that_was_there_is_never_touched(place: Path) -> None:
    (place / ".env").write_text("")
    placeholders(place).remove()
    assert names(place) == {".env"}


def test_what_programs_read_is_stood_in_for_by_a_file_that_changes_nothing(place: Path) -> None:
    (place / ".git").mkdir()
    policy = Policy(writable=(str(place),), protected=(f"{place}/.git/commondir", f"{place}/.git/config.worktree"))
    made = Placeholders([str(place)], lambda: resolve_layout(policy), lambda layout: None)
    assert (place / ".git" / "commondir").read_text() == ".\n"
    (place / ".git" / "config.worktree").chmod(0o644)
    (place / ".git" / "config.worktree").write_text("[core]\n")  # by somebody outside
    made.remove()
    assert os.listdir(place / ".git") == ["config.worktree"]


def test_git_takes_no_notice_of_a_directory_that_stands_in_and_what_is_put_there_stays(place: Path) -> None:
    policy = Policy(writable=(str(place),), protected=(f"{place}/.onhand/config.toml", f"{place}/.github/a.md"))
    made = Placeholders([str(place)], lambda: resolve_layout(policy), lambda layout: None)
    second = Placeholders([str(place)], lambda: resolve_layout(policy), lambda layout: None)
    assert (
        (place / ".onhand" / ".gitignore").read_text()
        == (place / ".github" / ".gitignore").read_text()
        == "/.gitignore\n"
    )
    (place / ".onhand" / "notes").mkdir()  # by somebody outside
    made.remove()
    second.remove()
    assert names(place) == {".onhand"}
    assert os.listdir(place / ".onhand") == ["notes"]


def test_a_list_that_must_not_come_into_being_hides_no_file_from_git(place: Path) -> None:
    policy = Policy(writable=(str(place),), protected=(f"{place}/.gitignore",))
    made = Placeholders([str(place)], lambda: resolve_layout(policy), lambda layout: None)
    assert (place / ".gitignore").read_text() == "/.gitignore\n"
    made.remove()
    assert names(place) == set()


def test_a_directory_of_registers_that_others_can_write_is_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onhand.sandbox.layout.REGISTER_PARENT", str(tmp_path))
    (tmp_path / f"onhand-placeholders-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"onhand-placeholders-{os.getuid()}").chmod(0o777)
    with pytest.raises(SandboxError, match="a directory that only you can access"):
        placeholders(place)
