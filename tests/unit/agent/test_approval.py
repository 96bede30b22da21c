"""Rules and the answers of a person decide which calls run."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from onhand.agent.approval import DEFAULT_RULES, Approval, ApprovalRule, Ask
from onhand.agent.events import Asked, Calling, Returned
from onhand.agent.models.scripted import Line
from onhand.agent.toolbox import Toolbox
from onhand.errors import InputError
from onhand.formats.message import Message
from onhand.tools import Call, Tool
from onhand.tools.loading import parse_policy
from requirements import requirement
from scripted_agent import Bench, calls


class Person:
    """Answers in turn, and remembers what was asked."""

    def __init__(self, answers: Iterable[str]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, object]] = []

    async def __call__(self, call: Call, tool: Tool, reason: str) -> str:
        self.asked.append((tool.name, call.arguments))
        return self.answers.pop(0)


def bench(
    tools: list[Tool],
    turns: int,
    rules: Iterable[ApprovalRule] = DEFAULT_RULES,
    ask: Ask | None = None,
    root: str = ".",
) -> Bench:
    script = [calls("change", path=f"src/{turn}") for turn in range(turns)]
    return Bench([*script, "Done."], tools, approval=Approval(rules, ask, root))


@requirement("agent.approval")
def test_reading_calls_run_and_writing_calls_need_approval(look: Tool, change: Tool, noted: list[str]) -> None:
    person = Person(["allow_once"])
    run = Bench([calls("look", "change", path="x"), "Done."], [look, change], approval=Approval(ask=person))
    run.run()
    assert person.asked == [("change", {"path": "x"})]
    assert sorted(noted) == ["change x", "look"]
    (asked,) = run.of(Asked)
    assert (asked.reason, asked.answer) == ("change may change something", "allow_once")


@requirement("agent.approval")
def test_a_rejected_call_does_not_run_and_the_model_learns_why(change: Tool, noted: list[str]) -> None:
    run = bench([change], 1, ask=Person(["reject_once"]))
    run.run()
    assert noted == []
    assert run.results == [(False, "the user rejected this call of change: ask what to do instead")]
    assert run.of(Calling) == []
    assert len(run.of(Returned)) == 1


@requirement("agent.approval")
@pytest.mark.parametrize(("answer", "ran"), [("allow_always", 3), ("reject_always", 0)])
def test_an_always_answer_is_asked_for_once(answer: str, ran: int, change: Tool, noted: list[str]) -> None:
    person = Person([answer])
    bench([change], 3, ask=person).run()
    assert (len(person.asked), len(noted)) == (1, ran)


@requirement("agent.approval")
@pytest.mark.parametrize("answer", ["yes", "", "ALLOW_ONCE"])
def test_an_unknown_answer_counts_as_a_rejection(answer: str, change: Tool, noted: list[str]) -> None:
    bench([change], 1, ask=Person([answer])).run()
    assert noted == []


@requirement("agent.approval")
def test_an_always_answer_does_not_apply_to_another_tool_of_that_name(change: Tool) -> None:
    person = Person(["allow_always", "reject_once"])
    approval = Approval(ask=person)
    other = Tool("change", "Delete everything.", change.input_schema, change.handler)
    for tool in (change, other):
        Bench([calls("change", path="x"), "Done."], [tool], approval=approval).run()
    assert len(person.asked) == 2


@requirement("agent.approval", "agent.tool-search-live")
def test_a_tool_found_in_the_turn_of_its_call_still_needs_approval(change: Tool, noted: list[str]) -> None:
    both = Message("assistant", "", (Call("search_tools", {"query": "select:change"}), Call("change", {"path": "x"})))
    run = Bench([both, "Done."], toolbox=Toolbox([change], policy=parse_policy("lazy")), approval=Approval())
    run.run()
    assert noted == []
    assert "there is no one to ask" in run.results[1][1]


@requirement("agent.approval")
def test_without_a_person_calls_that_need_approval_are_refused(change: Tool, noted: list[str]) -> None:
    run = bench([change], 1)
    run.run()
    assert noted == []
    assert "there is no one to ask" in run.results[0][1]


@requirement("agent.approval")
def test_the_first_rule_that_matches_name_and_path_decides(change: Tool, noted: list[str], tmp_path: Path) -> None:
    rules = [ApprovalRule("deny", path="src/1"), ApprovalRule("allow", "ch*", path="src/*"), ApprovalRule("ask")]
    run = bench([change], 3, rules, root=str(tmp_path))
    run.run()
    assert noted == ["change src/0", "change src/2"]
    assert run.results[1] == (False, "change is denied by a rule (deny * in src/1): do it another way")


@requirement("agent.approval")
@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_links_and_dots_cannot_bypass_a_path_rule(change: Tool, noted: list[str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "src" / "link").symlink_to(tmp_path / "secret")
    rules = [ApprovalRule("deny", path="secret/*"), ApprovalRule("allow", path="src/*"), ApprovalRule("deny")]
    paths = ["src/link/key", "src/../secret/key", str(tmp_path / "secret" / "key"), "/etc/passwd", "src/fine"]
    run = Bench(
        [*(calls("change", path=path) for path in paths), "Done."],
        [change],
        approval=Approval(rules, root=str(tmp_path)),
    )
    run.run()
    assert noted == ["change src/fine"]


@requirement("agent.approval")
def test_all_paths_of_a_call_must_be_allowed(noted: list[str], tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"paths": {"type": "array", "items": {"type": "string"}}}}
    tool = Tool("change", "Change files.", schema, lambda arguments: noted.extend(arguments["paths"]))
    rules = [ApprovalRule("allow", path="src/*"), ApprovalRule("deny")]
    turns: list[Line] = [calls("change", paths=["src/a", "etc/b"]), calls("change", paths=["src/a", "src/b"]), "Done."]
    Bench(turns, [tool], approval=Approval(rules, root=str(tmp_path))).run()
    assert noted == ["src/a", "src/b"]


@requirement("agent.approval")
def test_a_rule_with_an_unknown_action_is_rejected() -> None:
    with pytest.raises(InputError, match="allow, ask, deny"):
        Approval([ApprovalRule("maybe")])
