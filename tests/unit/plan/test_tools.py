"""The four tools with which a model maintains a plan."""

import json
from pathlib import Path
from typing import Any

import pytest

from onhand.plan.plan import Plan
from onhand.plan.tools import MAX_NODES
from onhand.tools import Registry
from requirements import requirement

pytestmark = requirement("relations.tools")

AUTH = [
    {"id": "form", "parents": ["auth", "model"], "description": "Build the login form"},
    {"id": "model", "parents": ["auth"], "description": "Create the User model", "context": {"files": ["user.py"]}},
    {"id": "auth", "edge_type": "plan", "description": "Add login"},
]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(tmp_path / "plan")


@pytest.fixture
def registry(plan: Plan) -> Registry:
    return Registry(plan.tools())


def text(registry: Registry, name: str, **arguments: Any) -> str:
    result = registry.call(name, arguments)
    assert result.ok, result.text
    return result.text


def refused(registry: Registry, name: str, **arguments: Any) -> str:
    result = registry.call(name, arguments)
    assert not result.ok
    return result.text


def test_a_plan_is_created_started_and_finished(registry: Registry) -> None:
    assert text(registry, "plan_show") == "the plan has no steps yet"
    assert text(registry, "plan_ready") == "nothing can begin now"
    assert text(registry, "plan_add", nodes=AUTH) == "added form, model, auth; ready: model"
    assert text(registry, "plan_ready") == "- model: Create the User model\nform waits for model"
    assert text(registry, "plan_update", id="model", status="in_progress") == (
        "updated model [in_progress]; ready: nothing"
    )
    assert text(registry, "plan_update", id="model", status="done") == "updated model [done]; ready: form"
    assert text(registry, "plan_show") == (
        "1 of 2 steps done, 1 ready\n"
        "- plan auth: Add login [pending]\n"
        "- step model: Create the User model [done]\n"
        "- step form: Build the login form [ready]"
    )
    assert text(registry, "plan_show", ids=["auth"]) == (
        "plan: Add login [pending]\n"
        "  step: Create the User model [done] (parents: auth)\n"
        "  step: Build the login form [pending] (parents: auth, model)"
    )


def test_programs_get_the_ready_steps_as_json(registry: Registry) -> None:
    registry.call("plan_add", {"nodes": AUTH})
    structured = registry.call("plan_ready", {}).structured
    assert [node["id"] for node in structured["ready"]] == ["model"]
    assert structured["ready"][0]["context"]["files"] == ["user.py"]
    assert structured["not_ready"] == [{"id": "form", "text": "waits for model", "waits_for": ["model"]}]


def test_agents_cannot_begin_a_started_or_waiting_step(registry: Registry, plan: Plan) -> None:
    registry.call("plan_add", {"nodes": AUTH})
    other = Registry(Plan(plan.path).tools())
    text(other, "plan_update", id="model", status="in_progress")
    assert "'model' cannot begin: it is in progress" in refused(
        registry, "plan_update", id="model", status="in_progress"
    )
    assert "'form' cannot begin: it waits for model" in refused(
        registry, "plan_update", id="form", status="in_progress"
    )
    text(registry, "plan_update", id="auth", status="in_progress")


def test_all_nodes_of_a_call_are_added_or_none(registry: Registry, plan: Plan) -> None:
    nodes = [{"id": "a", "description": "x"}, {"id": "b", "description": "y", "parents": ["nobody"]}]
    assert "Parent node 'nobody' does not exist" in refused(registry, "plan_add", nodes=nodes)
    circle = [{"id": "a", "description": "", "parents": ["b"]}, {"id": "b", "description": "", "parents": ["a"]}]
    assert "would create a cycle" in refused(registry, "plan_add", nodes=circle)
    own = [{"id": "a", "description": "", "parents": ["a"]}]
    assert "Adding node 'a' with parents [a] would create a cycle" in refused(registry, "plan_add", nodes=own)
    twice = [{"id": "a", "description": ""}, {"id": "a", "description": ""}]
    assert "two nodes have the same id" in refused(registry, "plan_add", nodes=twice)
    many = [{"id": str(number), "description": ""} for number in range(MAX_NODES + 1)]
    assert "add at most 500 at a time" in refused(registry, "plan_add", nodes=many)
    assert plan.read(lambda relations: relations.size) == 0


def test_a_long_chain_may_be_added_last_step_first(registry: Registry) -> None:
    chain = [{"id": str(n), "description": "", "parents": [str(n - 1)] if n else []} for n in range(MAX_NODES)]
    assert text(registry, "plan_add", nodes=chain[::-1]).endswith("ready: 0")


def test_errors_say_what_to_do_next(registry: Registry) -> None:
    registry.call("plan_add", {"nodes": AUTH})
    assert "did you mean 'model'?" in refused(registry, "plan_update", id="modle", status="done")
    assert "plan_show lists the existing nodes" in refused(registry, "plan_show", ids=["zzzzzz"])
    assert "already exists" in refused(registry, "plan_add", nodes=AUTH[-1:])
    assert "status must be one of" in refused(registry, "plan_update", id="model", status="finished")
    assert "unknown argument 'state'" in refused(registry, "plan_update", id="model", state="done")


def test_a_step_gets_a_new_description_and_new_parents(registry: Registry, plan: Plan) -> None:
    registry.call("plan_add", {"nodes": AUTH})
    told = text(registry, "plan_update", id="form", description="Build it", parents=["auth"], context={"x": 1})
    assert told == "updated form [pending]; ready: model, form"
    node = plan.read(lambda relations: relations.get("form"))
    assert node is not None
    assert node.context == {"description": "Build it", "status": "pending", "x": 1}
    assert "would create a cycle" in refused(registry, "plan_update", id="auth", parents=["form"])


def test_a_large_plan_fits_the_output_limit(registry: Registry) -> None:
    nodes = [{"id": f"step-{number}", "description": "word " * 100} for number in range(MAX_NODES)]
    registry.call("plan_add", {"nodes": nodes})
    for name, arguments in (("plan_ready", {"limit": 20}), ("plan_show", {}), ("plan_show", {"max_tokens": 100})):
        result = registry.call(name, arguments)
        assert result.truncated_bytes == 0
    assert "(480 more can begin)" in text(registry, "plan_ready")


def test_the_model_learns_that_a_plan_is_damaged(registry: Registry, plan: Plan) -> None:
    Path(plan.path).write_text("not a journal")
    assert "is not a plan file" in refused(registry, "plan_show")


def test_descriptions_are_short_and_their_examples_match_the_schema(registry: Registry) -> None:
    from onhand.tools.loading import estimated_tokens

    assert [tool.read_only for tool in registry] == [False, False, True, True]
    assert estimated_tokens(json.dumps(registry.wire())) < 1500


def test_a_started_or_waiting_step_cannot_be_begun_in_any_way(registry: Registry) -> None:
    text(registry, "plan_add", nodes=[{"id": id, "description": id} for id in ("a", "b", "c")])
    text(registry, "plan_update", id="a", status="in_progress")
    begun = refused(registry, "plan_update", id="a", context={"status": "in_progress"})
    assert begun == "'a' cannot begin: it is in progress"
    waits = refused(registry, "plan_update", id="b", status="in_progress", parents=["c"])
    assert waits == "'b' cannot begin: it waits for c"
    assert text(registry, "plan_ready") == "- b: b\n- c: c"  # nothing of it was done
