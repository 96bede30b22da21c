"""Real repositories' rules are found by place and by words."""

import json
import os
from pathlib import Path

import pytest

from onhand import Registry, Rules

DATA = os.environ.get("ONHAND_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="set ONHAND_DATA to the directory of public evaluation data")
TREES = sorted(Path(DATA or "/nowhere").glob("agent_trees/*.jsonl"))


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.stem)
def test_every_rule_file_of_a_real_repository_is_found_by_its_place(tree: Path, tmp_path: Path) -> None:
    for line in tree.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        path = tmp_path / row["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(row["text"], encoding="utf-8")
    rules = Rules(tmp_path)
    there = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("AGENTS.md")}
    assert there <= set(rules.paths())
    for path in there:
        found = rules.for_path(f"{path.rpartition('/')[0]}/new.py".lstrip("/"))
        assert found.files[-1].path == path
        assert found.files[-1].shown_bytes > 0
        assert len(found.text.encode()) < 40_000
    text = Registry(rules.tools()).call("search_rules", {"query": "how do I run the tests"}).text
    assert "Traceback" not in text
