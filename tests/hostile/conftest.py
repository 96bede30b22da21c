"""A workspace with something worth stealing beside it."""

from pathlib import Path

import pytest

from onhand.actions.workspace import Workspace

SECRET = "do not tell"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "ok.txt").write_text("ok\n", encoding="utf-8")
    for beside in (tmp_path / "outside", tmp_path / "root-evil", tmp_path / "other"):
        beside.mkdir()
        (beside / "secret.txt").write_text(SECRET, encoding="utf-8")
    return root


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)
