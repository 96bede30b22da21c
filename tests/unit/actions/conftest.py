"""A workspace with something worth stealing beside it."""

from pathlib import Path

import pytest

from onhand.actions import beneath
from onhand.actions.workspace import Workspace

SECRET = "do not tell"


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
