"""Are files read one after the other from where they were found, and from nowhere else?"""

import os
from pathlib import Path
from time import monotonic, time_ns

import pytest

from onhand import settled
from onhand.actions import in_turn
from onhand.actions.in_turn import InTurn
from onhand.actions.workspace import Place, Workspace
from requirements import requirement

from .conftest import past_the_tick

pytestmark = requirement("actions.confined", "actions.grep")


def test_files_of_several_directories_are_read_and_no_descriptor_is_left_open(workspace: Workspace, root: Path) -> None:
    (root / "a.txt").write_bytes(b"a")
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    with InTurn() as files:
        asked = ("a.txt", "sub/ok.txt", "a.txt", "sub/ok.txt", "sub/ok.txt")
        assert [files.content(Place(workspace.roots[0], inner)) for inner in asked] == [
            *(b"a", b"ok\n", b"a", b"ok\n", b"ok\n"),
        ]
        with pytest.raises(FileNotFoundError):
            files.content(Place(workspace.roots[0], "missing/a.txt"))
        assert files.content(Place(workspace.roots[0], "a.txt")) == b"a"
    assert not before or os.listdir("/proc/self/fd") == before


def test_what_is_no_file_below_is_not_read(
    workspace: Workspace, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").symlink_to(tmp_path / "outside" / "secret.txt")
    (root / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "pipe")
    (root / "large").write_bytes(b"x" * 101)
    monkeypatch.setattr(in_turn, "MAX_FILE_BYTES", 100)  # more than the secret has
    names = ("file", "link/secret.txt", "../outside/secret.txt", "/etc/passwd", "..", ".", "", "sub", "pipe", "large")
    with InTurn() as files:
        for inner in names:
            with pytest.raises(OSError):
                files.content(Place(workspace.roots[0], inner))
        assert files.content(Place(workspace.roots[0], "sub/ok.txt")) == b"ok\n"


def test_a_directory_that_becomes_a_link_is_not_followed(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    (root / "sub" / "secret.txt").write_bytes(b"inside")
    with InTurn() as files:
        assert files.content(Place(workspace.roots[0], "sub/secret.txt")) == b"inside"
        (root / "sub").rename(root / "moved")
        (root / "sub").symlink_to(tmp_path / "outside")
        assert files.content(Place(workspace.roots[0], "sub/secret.txt")) == b"inside"  # the directory that was found
    with InTurn() as files, pytest.raises(OSError):
        files.content(Place(workspace.roots[0], "sub/secret.txt"))


def test_a_change_of_the_file_or_of_its_way_is_seen_whenever_it_is_asked_for(
    workspace: Workspace, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "SETTLED_NS", 0)
    past_the_tick(tmp_path)
    place, began_ns = Place(workspace.roots[0], "sub/ok.txt"), time_ns()
    with InTurn() as files:
        files.content(place)
        assert files.was_same(began_ns, monotonic())
        past_the_tick(tmp_path)
        (root / "new").touch()
        files.content(place)
        assert not files.was_same(began_ns, monotonic())
        assert files.was_same(time_ns() + 10**9, monotonic())
        began_ns = time_ns()
        past_the_tick(tmp_path)
        (root / "sub" / "ok.txt").touch()
        files.content(place)
        assert not files.was_same(began_ns, monotonic())
