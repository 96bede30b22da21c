"""A home of one's own, for a process of one's own."""

import os
from pathlib import Path

import pytest

import onhand


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    places = {name: str(tmp_path / "home") for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA")}
    return {**kept, **places, "TERM": "xterm", "PYTHONPATH": str(Path(onhand.__file__).parents[1])}
