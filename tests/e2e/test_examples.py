"""Do the examples run, and do they show what they say?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from onhand import Context, Rules, Skills
from requirements import requirement

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, where: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


@requirement("context.python-api", "context.registered-like-any-tool")
def test_context_reaches_a_prompt_and_a_registry_in_a_few_lines(tmp_path: Path) -> None:
    lines = run("agent_context.py", tmp_path).splitlines()
    prompt = Context(EXAMPLES / "sample-project").prompt()
    assert lines[0] == f"system prompt: {len(prompt):,} characters, beginning '<context path=\".AGENTS/overview.md\">'"
    assert lines[1].startswith("tools: context_search, read_skill, ")
    assert lines[2] == "ok: True"
    assert lines[3].startswith('<context path=".AGENTS/deploy.md" section="Rolling back"')
    assert lines[-1] == "</context>"


@requirement("tools.from-typed-function", "tools.results-stand-in-call-order")
def test_a_typed_function_becomes_a_tool_that_answers_good_and_wrong_calls(tmp_path: Path) -> None:
    wire, *answers = run("own_tool.py", tmp_path).split("\n\n")
    (tool,) = json.loads(wire)
    assert tool["input_schema"]["required"] == ["minutes"]
    assert tool["input_schema"]["properties"]["minutes"]["minimum"] == 0
    assert [answer.splitlines()[1] for answer in answers] == [
        "ok: 3.60 €",
        "ok: 7.50 €",
        "error: unknown argument 'minuts': did you mean 'minutes'?",
        "error: no ride is longer than a day: ask for each day by itself",
        "error: unknown tool: rideprice; did you mean ride_price?",
    ]


@requirement("documents.dialogue")
def test_the_mail_about_the_forecast_is_found_by_structure_then_meaning_then_reading(tmp_path: Path) -> None:
    lines = run("find_the_mail.py", tmp_path).splitlines()
    assert "  → 23 hits: Sarah has sent so many emails in this corpus" in lines
    steps = [line.split("] ")[0] for line in lines if line.startswith("[agent")]
    without_embedder = "[agent → fused_search" in steps
    assert steps[:2] == ["[agent → filter_documents", "[agent → semantic_search"]
    assert any(line.startswith("  note: ") for line in lines) is without_embedder
    assert any(line.startswith("  → Q3 revenue model - draft for review, 2026-06-28, ") for line in lines)


@requirement("catalog.activation-same-turn", "catalog.ledger")
def test_a_tool_of_a_hundred_is_found_loaded_and_called_in_one_turn(tmp_path: Path) -> None:
    lines = run("find_a_tool.py", tmp_path).splitlines()
    had = [line for line in lines if line.startswith("the model has: ")]
    assert had == [
        "the model has: describe_tool, search_tools",
        "the model has: describe_tool, search_tools, mcp__kubernetes__scale_deployment",
    ]
    answers = [line.partition(":")[0] for line in lines if line.startswith(("ok:", "error:"))]
    assert answers == ["error", "ok", "error", "ok"]
    assert any(line.startswith("the full definition: ") for line in lines)
    assert lines[-2].startswith("all tools: 13,")


@requirement("rules.root-always", "rules.on-touch", "skills.tools")
def test_rules_and_skills_reach_a_prompt_and_one_search_finds_them(tmp_path: Path) -> None:
    project = EXAMPLES / "sample-project"
    prompt = f"{Rules(project).prompt()}\n\n{Skills(project, home=None).catalog().text}\n"
    shown = run("rules_and_skills.py", tmp_path)
    assert shown.startswith('<rules path="AGENTS.md">\n')
    assert shown.startswith(prompt)
    lines = shown.removeprefix(prompt).splitlines()
    of_the_ledger = (project / "services" / "ledger" / "AGENTS.md").read_text(encoding="utf-8")
    sizes = [int(line.split()[-2].replace(",", "")) for line in lines if line.startswith("rules that come with ")]
    assert sizes[0] > len(of_the_ledger)
    assert sizes[1] == 0
    assert [line.partition(" score=")[0] for line in lines if line.startswith("<")] == [
        '<skill name="close-receipt-gaps"',
        '<skill_reference skill="close-receipt-gaps" path="references/answers.md" lines="1-21">',
    ]
    assert any(line.startswith("script: close-receipt-gaps:gaps: Prints a resend command") for line in lines)
    assert {line.split()[1] for line in lines[-4:]} >= {"skills:", "context:"}


@requirement("relations.tools", "cache.get-or-compute", "cache.persistence", "cache.scope-never-crosses")
def test_a_plan_is_shared_and_an_answer_is_found_again_after_a_restart(tmp_path: Path) -> None:
    plan, cache = (part.splitlines() for part in run("plan_and_cache.py", tmp_path).split("\n\n"))
    assert [line.partition(":")[0] for line in plan[:6]] == ["ok", "ok", "refused", "ok", "ok", "after a restart"]
    assert plan[2] == "refused: 'rule' cannot begin: it is in progress"
    assert plan[6] == "1 of 3 steps done, 1 in progress, 1 ready"
    assert [line.partition(":")[0] for line in cache] == [
        "computed",
        "cached",
        "computed",
        "kept",
        "for another model",
    ]
    assert cache[2].endswith("(the most similar question differs: one is negated)")
    assert cache[3] == "kept: the same question"
    assert cache[4] == "for another model: no cached question is similar enough"
    assert list(tmp_path.iterdir()) == []


@requirement("mcp.in-tool-search", "catalog.signatures")
def test_one_server_stands_for_a_hundred_tools_and_explains_what_another_refuses(tmp_path: Path) -> None:
    names, found, called, refused = run("one_server_for_all.py", tmp_path).split("\n\n")
    assert names.startswith("the client has 13 tools: ")
    assert "\noffice__stripe_create_refund(charge, amount?: int, " in found
    assert called.endswith('\ndone: {"charge": "ch_3PqT", "amount": 4000}')
    assert "\nmissing: charge\ncharge is required\n" in refused
    assert '\nFull definition: {"name":"office__stripe_create_refund",' in refused


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_says_how_to_run_it(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert f"python examples/{example.name}" in text or "make demo" in text


@requirement("agent.loop", "agent.approval")
def test_an_agent_of_ones_own_looks_asks_and_orders(tmp_path: Path) -> None:
    looked, also, asked, answered, ordered, ended = run("own_agent.py", tmp_path).splitlines()
    assert sorted((looked, also)) == ['> in_stock {"part":"bell"} -> ok', '> in_stock {"part":"saddle"} -> ok']
    assert asked.startswith("? order may change something: ")
    assert answered == "? order: allow once"
    assert ordered == '> order {"part":"saddle","number":5} -> ok'
    assert ended.startswith("answer after 3 turns: There were three bells")
