"""A project that has everything we can look up: the sample's pages, rules and skills, some mail, notes and a plan."""

import shutil
from pathlib import Path

from mail import mails
from onhand.plan.plan import Plan
from onhand.plan.relations import Relations
from onhand.project import PLAN_PATH, Project, load_config, open_index

SAMPLE = Path(__file__).parents[1] / "examples" / "sample-project"
NOTES = [
    ("test database", "How to reset the test database", "Run `make reset-db`; it takes a minute."),
    ("prefers tabs", "The user prefers tabs", "Said so twice, about the dock firmware."),
]


def whole_project(path: Path) -> Path:
    """Make it in a directory that is not there yet."""
    shutil.copytree(SAMPLE, path)
    (path / ".onhand").mkdir()
    with open_index(path / ".onhand/documents.db", None) as index:
        index.put(mails())
    notes = Project(load_config(str(path))).notes
    for name, description, body in NOTES:
        notes.write(name, description, body)
    plan = Plan(path / PLAN_PATH)
    plan.change(_planned)
    return path


def _planned(relations: Relations) -> None:
    relations.add("login", edge_type="plan", context={"description": "Add login"})
    for id, parents in (("model", ["login"]), ("form", ["login", "model"])):
        context = {"description": f"Make the {id}", "status": "pending", "files": [f"{id}.py"]}
        relations.add(id, parents=parents, context=context)
