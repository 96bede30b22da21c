"""Does a look into directories tell which are meant, and what ripgrep would see otherwise?"""

import os
from pathlib import Path
from time import monotonic

import pytest

from onhand import settled
from onhand.actions import survey as surveying
from onhand.actions import tree
from onhand.actions.survey import Survey
from onhand.actions.tree import LATE, Scope
from onhand.actions.workspace import Workspace
from requirements import requirement

from .conftest import past_the_tick

pytestmark = requirement("actions.grep-fallback")


def surveyed(workspace: Workspace, path: str = ".", hidden: bool = False, ends_at: float | None = None) -> Survey:
    ends_at = monotonic() + 1000 if ends_at is None else ends_at
    survey = Survey(Scope.at(workspace, workspace.place(path), hidden), ends_at)
    for _ in survey:
        pass
    assert survey.is_over
    return survey


def test_the_directories_that_are_meant_are_told(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    for name in ("a/b/c", "a/left/d", ".hidden/e", ".git/f", ".ssh/g"):
        (root / name).mkdir(parents=True)
    (root / "a" / ".gitignore").write_text("left/\n", encoding="utf-8")
    (root / "link").symlink_to(tmp_path / "outside")
    assert sorted(surveyed(workspace).directories) == ["", "a", "a/b", "a/b/c", "sub"]
    assert sorted(surveyed(workspace, "a").directories) == ["a", "a/b", "a/b/c"]
    assert sorted(surveyed(workspace, hidden=True).directories) == [
        *("", ".hidden", ".hidden/e", "a", "a/b", "a/b/c", "sub"),
    ]


def test_one_odd_file_among_those_that_count_is_enough(workspace: Workspace, root: Path) -> None:
    (root / "a" / "left").mkdir(parents=True)
    (root / ".gitignore").write_text("left/\n", encoding="utf-8")
    (root / "a" / "left" / ".gitignore").write_text("{a,b}\n", encoding="utf-8")
    assert surveyed(workspace).is_clear
    (root / "a" / ".gitignore").write_text("{a,b}\n", encoding="utf-8")
    assert not surveyed(workspace).is_clear
    (root / "a" / ".gitignore").unlink()
    (root / "a" / ".gitignore").symlink_to("../.gitignore")
    assert not surveyed(workspace).is_clear


def test_what_is_not_looked_at_is_told(workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert surveyed(workspace, ends_at=0.0).gaps.notes() == [LATE]
    monkeypatch.setattr(surveying, "MAX_ENTRIES", 1)
    assert surveyed(workspace).gaps.is_cut
    monkeypatch.setattr(tree, "MAX_DEPTH", 1)
    monkeypatch.setattr(surveying, "MAX_ENTRIES", 1000)
    assert surveyed(workspace).gaps.skipped == 1


def test_whoever_leaves_early_leaves_nothing_open(workspace: Workspace, root: Path) -> None:
    (root / "a" / "b" / "c").mkdir(parents=True)
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    looking = iter(Survey(Scope.at(workspace, workspace.place("a")), monotonic() + 1000))
    for _ in range(3):
        next(looking)
    looking.close()  # type: ignore[attr-defined]  # it is a generator
    assert not before or os.listdir("/proc/self/fd") == before


def test_a_directory_that_has_not_changed_is_not_read_again(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / ".gitignore").write_text("*.log\n", encoding="utf-8")
    surveyed(workspace)
    monkeypatch.setattr(settled, "SETTLED_NS", 0)
    past_the_tick(root.parent)
    first = surveyed(workspace)
    monkeypatch.setattr(os, "scandir", lambda path: pytest.fail("a directory was read again"))
    again = surveyed(workspace)
    assert (again.directories, again.is_clear) == (first.directories, True)
    (root / "a" / ".gitignore").write_text("{a,b}\n", encoding="utf-8")  # which is no change of the directory
    assert not surveyed(workspace).is_clear


def test_a_directory_that_has_changed_is_read_again(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "SETTLED_NS", 0)
    past_the_tick(root.parent)
    assert surveyed(workspace).directories == ["", "sub"]
    (root / "sub" / "lower").mkdir()
    assert surveyed(workspace).directories == ["", "sub", "sub/lower"]
    past_the_tick(root.parent)
    surveyed(workspace)
    (root / "sub" / ".gitignore").write_text("{a,b}\n", encoding="utf-8")
    assert not surveyed(workspace).is_clear
    past_the_tick(root.parent)
    surveyed(workspace)
    (root / "sub").rename(root / "other")
    (root / "sub").symlink_to("other")
    assert surveyed(workspace).directories == ["", "other", "other/lower"]


def test_a_directory_that_has_just_changed_is_not_remembered(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "SETTLED_NS", 3600 * 10**9)
    surveyed(workspace)
    assert surveying._known_below(str(root)) == {}


def test_no_more_directories_are_remembered_than_there_is_room_for(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "SETTLED_NS", 0)
    monkeypatch.setattr(surveying, "MAX_KNOWN", 2)
    for name in ("a", "b", "c"):
        (root / name).mkdir()
    past_the_tick(root.parent)
    assert sorted(surveyed(workspace).directories) == ["", "a", "b", "c", "sub"]
    assert len(surveying._known_below(str(root))) == 2
    assert surveyed(workspace, "a").directories == ["a"]
    assert [*surveying._known_below(str(root))] == ["a"]
    monkeypatch.setattr(surveying, "MAX_ENTRIES", 2)
    assert surveyed(workspace).gaps.is_cut
    assert [*surveying._known_below(str(root))] == ["a"]  # and not the first few of what is in the root


def test_a_known_directory_with_more_than_there_is_room_for_ends_the_look(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "SETTLED_NS", 0)
    for number in range(60):
        (root / "sub" / f"{number}").mkdir()
    past_the_tick(root.parent)
    surveyed(workspace)
    for number in range(20):  # most of them are looked into after it, in whatever order
        (root / f"new-{number}").mkdir()
    monkeypatch.setattr(surveying, "MAX_ENTRIES", 40)
    assert surveyed(workspace).gaps.is_cut
