"""A workspace with something worth stealing beside it."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from onhand.actions import workspace as workspaces
from onhand.actions.git import run_git
from onhand.actions.workspace import Workspace

SECRET = "do not tell"
Tree = Callable[[Mapping[str, str | bytes]], Path]
Git = Callable[..., None]


def past_the_tick(directory: Path) -> None:
    """Wait until whatever changes next gets a later time than what has changed: the kernel notes times by a clock that
    ticks."""
    clock = directory / "clock"
    clock.touch()
    before = clock.stat().st_ctime_ns
    while clock.stat().st_ctime_ns == before:
        clock.touch()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "ok.txt").write_text("ok\n", encoding="utf-8")
    for beside in (tmp_path / "outside", tmp_path / "root-evil"):
        beside.mkdir()
        (beside / "secret.txt").write_text(SECRET, encoding="utf-8")
    return root


@pytest.fixture(params=["kernel", "steps"])
def workspace(root: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace, once with the kernel's own way to stay below a directory and once without."""
    if request.param == "steps":
        monkeypatch.setattr(workspaces, "_openat2", lambda: None)
    elif workspaces._openat2() is None:
        pytest.skip("this kernel has no openat2")
    return Workspace(root)


@pytest.fixture
def tree(root: Path) -> Tree:
    """Makes files by their names below the root."""

    def made(files: Mapping[str, str | bytes]) -> Path:
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return made


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "somebody"),
        **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "some@body"),
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
    }


@pytest.fixture
def run(root: Path, environ: dict[str, str]) -> Git:
    def run(*words: str, cwd: Path = root) -> None:
        subprocess.run(["git", *words], cwd=cwd, env=environ, check=True, capture_output=True, timeout=60)

    return run


@pytest.fixture
def repository(root: Path, run: Git) -> Path:
    run("init", "-q", "-b", "main")
    (root / "f.txt").write_text("one\n", encoding="utf-8")
    (root / ".env").write_text("TOKEN=old\n", encoding="utf-8")
    run("add", "-A", "-f")
    run("commit", "-qm", "First commit")
    run("branch", "feature/x-y_z.1")
    (root / "f.txt").write_text("one\ntwo\n", encoding="utf-8")
    run("commit", "-qam", "Second commit")
    (root / "f.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (root / ".env").write_text("TOKEN=new\n", encoding="utf-8")
    (root / "new.txt").touch()
    return root


@pytest.fixture
def with_submodule(repository: Path, run: Git) -> Path:
    """A repository with another one inside, and changes in directories."""
    inner = repository / "inner"
    inner.mkdir()
    run("init", "-q", "-b", "main", cwd=inner)
    run("commit", "-q", "--allow-empty", "-m", "x", cwd=inner)
    for directory in ("", "sub/", "sub/deep/"):
        (repository / directory / "changed.txt").parent.mkdir(exist_ok=True)
        (repository / directory / "changed.txt").touch()
    run("add", "-A")
    run("commit", "-qm", "All")
    for directory in ("", "sub/", "sub/deep/"):
        (repository / directory / "changed.txt").write_text("x\n", encoding="utf-8")
    (repository / "untracked").mkdir()
    return repository


def said(workspace: Workspace, *words: str, path: str = ".") -> str:
    return run_git(workspace, words, path).output
