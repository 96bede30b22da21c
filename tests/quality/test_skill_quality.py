"""How often is the right skill found, on tasks that the authors of real skills wrote? They are read from $ONHAND_DATA
and are no part of this repository."""

import os
from pathlib import Path

import pytest
from benchmarks.skills import Task, names_found, of_documents, selection, write_without_tasks

from onhand.corpora.skills import Skills
from requirements import requirement

EVERY = 8  # of the tasks: benchmarks/skills.py takes all of them
FLOOR = 0.78  # recall@5; all of them have .844, and a sample of this size may be four points off


@requirement("skills.quality")
def test_the_right_skill_is_found_more_often_than_by_names_and_descriptions_alone(tmp_path: Path) -> None:
    if "ONHAND_DATA" not in os.environ:
        pytest.skip("ONHAND_DATA names no directory with agent_trees")
    found = write_without_tasks(Path(os.environ["ONHAND_DATA"]) / "agent_trees", tmp_path)
    skills = Skills(tmp_path, roots=sorted(path.name for path in tmp_path.iterdir()), usual=False)
    names = {skill.path: skill.name for skill in skills.all()}
    tasks = sorted({Task(query, names[path]) for query, path in found if path in names})[::EVERY]
    ours = selection(names_found(skills), tasks)
    heads = selection(of_documents(skills, whole=False), tasks)
    assert len(tasks) > 100
    assert ours.five >= FLOOR
    assert ours.five > heads.five
