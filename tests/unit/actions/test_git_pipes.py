"""Is a pipe that git would wait at named instead?"""

import os
import shutil
from pathlib import Path

import pytest

from onhand.actions import git_pipes, programs
from onhand.actions.workspace import Workspace
from onhand.errors import InputError
from requirements import requirement

from .conftest import Git, said

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@requirement("actions.git-read-only", "actions.confined")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(("sub/deep/.gitattributes", words) for words in ("diff", "log -p", "show", "status", "ls-files -m")),
        *((".gitattributes", "blame f.txt"), (".gitignore", "status -s"), ("sub/.gitignore", "status -s")),
        *(("untracked/.gitignore", "ls-files -o --exclude-standard"), (".mailmap", "log")),
        *(("inner/.git/HEAD", "status"), ("inner/.git/config", "diff")),
    ],
)
def test_a_pipe_in_the_tree_is_named_and_not_waited_for(
    workspace: Workspace, with_submodule: Path, name: str, words: str
) -> None:
    (with_submodule / name).unlink(missing_ok=True)
    os.mkfifo(with_submodule / name)
    with pytest.raises(InputError, match=rf"^{name} is a pipe"):
        said(workspace, *words.split())


@requirement("actions.git-read-only", "actions.confined")
def test_a_pipe_in_place_of_a_file_that_git_knows_is_named(
    workspace: Workspace, with_submodule: Path, run: Git
) -> None:
    file = with_submodule / "sub" / "deep" / ".gitattributes"
    file.touch()
    run("add", "-A")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InputError, match=r"sub/deep/\.gitattributes"):  # git itself names it, or waits at it
        said(workspace, "diff")


@requirement("actions.git-read-only")
def test_a_tree_is_looked_through_in_short_steps(
    workspace: Workspace, with_submodule: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_pipes, "STEP_S", -1.0)
    os.mkfifo(with_submodule / "untracked" / ".gitignore")
    steps = git_pipes.search(workspace, workspace.place("."))
    for _ in range(git_pipes.PATIENCE + 1):
        next(steps)
    with pytest.raises(InputError, match=r"^untracked/\.gitignore is a pipe"):
        list(steps)


@requirement("actions.git-read-only", "actions.confined")
def test_a_link_to_a_pipe_is_named_and_not_waited_for(workspace: Workspace, with_submodule: Path) -> None:
    os.mkfifo(with_submodule / "pipe")
    (with_submodule / "inner" / ".git" / "config").unlink()
    (with_submodule / "inner" / ".git" / "config").symlink_to("../../pipe")
    with pytest.raises(InputError, match=r"^inner/\.git/config leads to a pipe"):
        said(workspace, "diff")


@requirement("actions.git-read-only")
def test_a_pipe_that_git_does_not_open_is_no_matter(
    workspace: Workspace, with_submodule: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "ASK_MS", 0)  # every silence is long enough
    monkeypatch.setattr(git_pipes, "PATIENCE", 0)
    for name in ("sub/pipe", "untracked/pipe"):
        os.mkfifo(with_submodule / name)
    os.mkfifo(with_submodule.parent / "outside" / "pipe")
    (with_submodule / "sub" / ".mailmap").symlink_to("../../outside/pipe")
    assert "sub/changed.txt" in said(workspace, "status", "-s")
