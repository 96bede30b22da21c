"""Does the command itself tell what a catalog costs, in a pipe and from a cold start?"""

import json
import os
import subprocess
import sys
from pathlib import Path

from requirements import requirement

ROOT = Path(__file__).parents[2]


def onhand(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "onhand", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@requirement("catalog.token-table", "catalog.saving")
def test_tokens_of_the_sample_are_told_as_json_and_as_a_table() -> None:
    told = onhand("tools", "tokens", "--catalog", "examples/sample-tools/tools.json", "--json")
    assert (told.returncode, told.stderr) == (0, "")
    costs = json.loads(told.stdout)
    table = onhand("tools", "tokens", "--catalog", "examples/sample-tools/tools.json").stdout
    assert f"{costs['eager_tokens']:,}" in table
    assert f"{costs['lazy_tokens']:,}" in table
    assert costs["saved_share"] >= 0.89


@requirement("catalog.token-table")
def test_a_catalog_file_that_is_not_there_fails_with_its_name() -> None:
    told = onhand("tools", "tokens", "--catalog", "nowhere.json")
    assert told.returncode == 2
    assert "nowhere.json" in told.stderr
