"""Does `onhand plan` keep a plan in a file, for people and for programs?"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from onhand import config
from onhand.project import Project
from requirements import requirement

from .conftest import Run

pytestmark = requirement("relations.tools")


@pytest.fixture
def auth(run: Run) -> None:
    for words in (
        ("add", "auth", "Add", "login", "--type", "plan"),
        ("add", "model", "Create the User model", "--parent", "auth"),
        ("add", "form", "Build the form", "--parent", "auth", "--parent", "model"),
    ):
        assert run("plan", *words).code == 0


def as_json(run: Run, *words: str) -> Any:
    done = run("plan", *words, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.mark.usefixtures("auth")
def test_a_plan_is_shown_begun_and_finished(run: Run, project: Path) -> None:
    assert (project / ".onhand" / "plan.journal").is_file()
    assert run("plan", "show").out == (
        "0 of 2 steps done, 1 ready, 1 waiting\n"
        "- plan auth: Add login [pending]\n"
        "- step model: Create the User model [ready]\n"
        "- step form: Build the form [waits for model]\n"
    )
    assert run("plan", "ready", "--why").out == (
        "model  Create the User model\nauth is a plan, which is done when its steps are\nform waits for model\n"
    )
    assert run("plan", "update", "model", "--status", "done").out == "model is done; ready: form\n"
    assert run("plan", "show", "auth", "--parents").out == (
        "plan: Add login [pending]\n"
        "  step: Create the User model [done] (parents: auth)\n"
        "  step: Build the form [pending] (parents: auth, model)\n"
    )
    assert run("plan", "show", "--critical").out == "form  pending  Build the form\n"


@pytest.mark.usefixtures("auth")
def test_programs_get_json(run: Run) -> None:
    assert [node["id"] for node in as_json(run, "ready")["ready"]] == ["model"]
    assert as_json(run, "ready", "--why")["not_ready"][1]["waits_for"] == ["model"]
    assert [node["id"] for node in as_json(run, "show")] == ["auth", "model", "form"]
    assert as_json(run, "show", "model")[0]["parents"] == ["auth"]
    assert as_json(run, "update", "model", "--status", "done")["ready"] == ["form"]
    assert json.loads(run("plan", "show", "--acp").out)[0] == {
        "content": "Create the User model",
        "priority": "medium",
        "status": "completed",
    }
    assert as_json(run, "remove", "auth", "--descendants")["removed"] == ["auth", "model", "form"]
    assert as_json(run, "compact") == {"nodes": 0}


@pytest.mark.usefixtures("auth")
def test_what_cannot_be_is_refused_with_what_is_wrong(run: Run) -> None:
    done = run("plan", "update", "auth", "--parent", "form")
    assert (done.code, done.out) == (2, "")
    assert done.err == "onhand: Adding node 'auth' with parents [form] would create a cycle\n"
    assert run("plan", "add", "x", "y", "--parent", "nobody").err == "onhand: Parent node 'nobody' does not exist\n"
    assert run("plan", "update", "nobody", "--status", "done").err == "onhand: Node 'nobody' does not exist\n"
    assert run("plan", "show", "nobody").err == "onhand: Node 'nobody' does not exist\n"
    begun = run("plan", "update", "form", "--status", "in_progress")
    assert begun.err == "onhand: 'form' cannot begin: it waits for model\n"
    assert "unknown value 'finished'" in run("plan", "update", "form", "--status", "finished").err
    assert run("plan", "remove", "nobody") == (1, "step 'nobody' does not exist\n", "")
    assert run("plan", "ready", "--limit", "-1").code == 2


def test_a_plan_that_is_not_there_is_empty_and_looking_makes_no_file(run: Run, project: Path) -> None:
    assert run("plan", "ready").out == "No step can begin now.\n"
    assert run("plan", "show").out == "the plan has no steps yet\n"
    assert list(project.iterdir()) == []


def test_another_file_can_be_named_and_one_that_is_not_a_plan_stays_as_it_is(run: Run, project: Path) -> None:
    assert run("plan", "add", "a", "x", "--file", "my.plan").code == 0
    assert run("plan", "show", "--file", "my.plan").out.endswith("- step a: x [ready]\n")
    assert run("plan", "compact", "--file", "my.plan").out == "compacted the file to 1 node\n"
    (project / "README.md").write_text("# hello\n")
    done = run("plan", "add", "a", "x", "--file", "README.md")
    assert (done.code, (project / "README.md").read_text()) == (1, "# hello\n")
    assert "is not a plan file" in done.err


def test_what_a_step_says_cannot_move_the_cursor_nor_forge_a_line(run: Run) -> None:
    run("plan", "add", "a", "harmless\x1b[2J\n- step b: forged [ready]")
    for verb in ("show", "ready"):
        shown = run("plan", verb).out
        assert "\x1b" not in shown
        assert not any(line.startswith("- step b") for line in shown.splitlines())


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_link_that_came_with_the_project_is_not_written_through(run: Run, project: Path) -> None:
    (project / ".onhand").mkdir()
    (project / ".onhand" / "plan.journal").symlink_to(project.parent / "outside")
    done = run("plan", "add", "a", "x")
    assert done.code == 2
    assert "is a link out of the project" in done.err
    assert not (project.parent / "outside").exists()
    assert "plan_add" not in Project(config.load()).registry().names()


@pytest.mark.usefixtures("auth")
def test_a_project_with_a_plan_offers_the_tools_of_it_and_another_does_not(tmp_path: Path) -> None:
    assert Project(config.load()).registry().names()[-4:] == ["plan_add", "plan_update", "plan_ready", "plan_show"]
    assert "plan_add" not in Project(config.load(str(tmp_path))).registry().names()
