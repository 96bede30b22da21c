"""Does the official MCP conformance suite pass?

It comes from npm and needs Node 24, so it runs where ONHAND_CONFORMANCE names a directory to keep it in; `make
conformance` prints the whole table.
"""

import os
from pathlib import Path

import pytest

from conformance.run import RUNS, Run, outcome_of
from requirements import requirement

HOME = os.environ.get("ONHAND_CONFORMANCE")


@requirement("mcp.conformance")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("run", RUNS, ids=[run.name for run in RUNS])
def test_every_scored_check_passes(run: Run) -> None:
    if not HOME:
        pytest.skip("needs the suite from npm: run `make conformance`")
    outcome = outcome_of(run, Path(HOME))
    assert outcome.ok, outcome.output
