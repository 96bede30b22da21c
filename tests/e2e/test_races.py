"""Does nothing leave the workspace while another process swaps links in it? The long run is benchmarks/races.py."""

import sys
from pathlib import Path

import pytest
from benchmarks import races

from onhand.actions import workspace
from requirements import requirement


@requirement("actions.confined")
@pytest.mark.skipif(sys.platform != "linux", reason="names are exchanged at once only by Linux")
@pytest.mark.parametrize("way", ["openat2", "steps"])
def test_whoever_swaps_links_causes_errors_and_no_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "steps":
        monkeypatch.setattr(workspace, "_openat2", lambda: None)
    outcome = races.run(tmp_path, 2000, way)
    assert (outcome.swaps >= 2000, outcome.attempts >= 2000, outcome.escapes) == (True, True, 0)
    assert 0 < outcome.answered < outcome.attempts  # some were refused: there was a race
