"""Is what was acknowledged in the plan after kills, with two writers at once?"""

import os
from pathlib import Path

import pytest
from benchmarks import plan_kills

from requirements import requirement


@requirement("relations.journal")
@pytest.mark.skipif(os.name != "posix", reason="kills are of POSIX")
def test_kills_at_any_moment_lose_no_acknowledged_change_and_leave_no_half_of_one(tmp_path: Path) -> None:
    outcome = plan_kills.run(24, 5, tmp_path)
    assert outcome == plan_kills.Outcome(24, outcome.acknowledged)
    assert outcome.acknowledged > 12  # whoever waited for a word got one
