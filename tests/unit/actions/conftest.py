"""A workspace with something worth stealing beside it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from onhand import settled
from onhand.actions import beneath
from onhand.actions.tree import TIMEOUT_S
from onhand.actions.workspace import Workspace

SECRET = "do not tell"
Tree = Callable[[Mapping[str, str | bytes]], Path]


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
        monkeypatch.setattr(beneath, "_openat2", lambda: None)
    elif beneath._openat2() is None:
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
def everything_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all files were old, so that what ripgrep tells of their lines counts."""
    monkeypatch.setattr(settled, "SETTLED_NS", -TIMEOUT_S * 10**9)
