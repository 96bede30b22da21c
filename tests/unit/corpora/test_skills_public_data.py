"""Skills of real repositories are loaded and judged."""

import json
import os
from pathlib import Path

import pytest

from onhand.corpora.skills import Skills

DATA = os.environ.get("ONHAND_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="set ONHAND_DATA to the directory of public evaluation data")


def test_the_skills_of_every_real_repository_are_listed_judged_and_found_by_their_names(tmp_path: Path) -> None:
    total = refused = 0
    for tree in sorted((Path(DATA or "") / "agent_trees").glob("*.jsonl")):
        homes = {}
        for line in tree.read_text("utf-8").splitlines():
            page = json.loads(line)
            target = tmp_path / tree.stem / page["path"].replace("/.", "/").removeprefix(".")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(page["text"], encoding="utf-8")
            if target.name == "SKILL.md":
                homes[target.parent] = page["path"]
        skills = Skills(tmp_path / tree.stem, roots=["."], usual=False)
        total += len(skills.all())
        refused += len(homes) - len(skills.all())
        assert len(skills.validate()) == len(homes)
        for skill in skills.all()[:20]:
            hits = skills.search(skill.name.replace("-", " ")).hits
            assert skill.name in [hit.name for hit in hits], skill.path
            assert skills.read(skill.name).text
    assert total > 200
    assert refused == 0
