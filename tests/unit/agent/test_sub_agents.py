"""Sub-agents work with fewer tools, their own limits, and the same policy."""

import asyncio
from collections.abc import Sequence
from typing import Any

from onhand.agent.approval import DEFAULT_RULES, Approval, ApprovalRule
from onhand.agent.events import Answered, Ended, Event, Limits, Nested, PromptPart, Stream
from onhand.agent.loop import MAX_SUB_AGENTS, Agent, make_delegate_tool
from onhand.agent.toolbox import Toolbox
from onhand.formats.message import Message
from onhand.tools import Tool
from onhand.tools.loading import parse_policy
from requirements import requirement
from scripted_agent import Bench, calls

HAND_ON = calls("delegate", name="eye", task="Look at the sea.")


def family(lines: list[Any], tools: list[Tool], *, only: list[str] | None = None, **more: Any) -> Bench:
    toolbox = Toolbox(tools, policy=more.pop("policy", parse_policy("eager")))
    bench = Bench(lines, toolbox=toolbox, **more)
    limits = Limits(max_turns=2)
    toolbox.add(make_delegate_tool(bench.agent, toolbox, only, limits))
    return bench


@requirement("agent.sub-agents")
def test_a_sub_agent_starts_fresh_and_its_answer_is_the_result(look: Tool, change: Tool) -> None:
    bench = family(
        [HAND_ON, calls("look"), "Waves.", "There are waves."], [look, change], parts=[PromptPart("core", "C", 1)]
    )
    assert bench.run("How is the sea?").text == "There are waves."
    assert bench.results == [(True, "Waves.")]
    said, tools = bench.model.requests[1]
    assert [message.text for message in said] == ["C", "Look at the sea."]
    assert [wired["name"] for wired in tools] == ["look"]  # nothing that writes, and no child of its own


@requirement("agent.sub-agents")
def test_a_sub_agent_has_its_own_limits_and_its_failure_is_a_result(look: Tool) -> None:
    bench = family([HAND_ON, calls("look", at="1"), calls("look", at="2"), "Sorry."], [look])
    assert bench.run().text == "Sorry."
    ((ok, text),) = bench.results
    assert not ok
    assert "stopped without an answer (turn limit (2) reached)" in text


@requirement("agent.sub-agents")
def test_events_of_a_sub_agent_carry_its_name(look: Tool) -> None:
    bench = family([HAND_ON, "Waves.", "Done."], [look])
    bench.run()
    nested = bench.of(Nested)
    assert {event.agent for event in nested} == {"eye"}
    assert isinstance(nested[-1].event, Ended)


@requirement("agent.sub-agents")
def test_a_sub_agent_needs_the_same_approval(look: Tool, change: Tool, noted: list[str]) -> None:
    async def no(*_: object) -> str:
        return "reject_once"

    bench = family(
        [HAND_ON, calls("change", path="x"), "I may not.", "Done."],
        [look, change],
        only=["change"],
        approval=Approval([ApprovalRule("allow", "delegate"), *DEFAULT_RULES], no),
    )
    bench.run()
    assert noted == []
    assert bench.results == [(True, "I may not.")]


@requirement("agent.sub-agents")
def test_a_sub_agent_inherits_the_loading_policy(look: Tool) -> None:
    more = [Tool(f"t{n}", "Do something.", {"type": "object"}, lambda _: "", read_only=True) for n in range(5)]
    bench = family(
        [calls("search_tools", query="select:delegate"), HAND_ON, "Waves.", "Done."],
        [look, *more],
        policy=parse_policy("lazy"),
    )
    bench.run()
    assert [wired["name"] for wired in bench.model.requests[2][1]] == ["describe_tool", "search_tools"]


@requirement("agent.sub-agents")
def test_sub_agents_that_only_read_run_in_parallel(look: Tool) -> None:
    """Both are asked before either is answered."""
    both = asyncio.Barrier(2)

    class Model:
        name = "two at once"

        async def stream(self, messages: Sequence[Message], tools: Sequence[Any]) -> Stream:
            if messages[-1].role == "tool":
                yield Answered(Message("assistant", "Both."))
            elif messages[-1].text == "go":
                yield Answered(calls("delegate", "delegate", name="n", task="Look."), "calls")
            else:
                await both.wait()
                yield Answered(Message("assistant", "Seen."))

    events: list[Event] = []
    toolbox = Toolbox([look])
    agent = Agent(Model(), toolbox, listeners=[events.append])
    toolbox.add(make_delegate_tool(agent, toolbox))
    assert asyncio.run(agent.run("go")).text == "Both."


@requirement("agent.sub-agents")
def test_no_more_sub_agents_than_the_limit_work_at_once_and_the_model_learns_why(look: Tool) -> None:
    all_began = asyncio.Barrier(MAX_SUB_AGENTS)

    class Model:
        name = "one too many"

        async def stream(self, messages: Sequence[Message], tools: Sequence[Any]) -> Stream:
            if messages[-1].role == "tool":
                yield Answered(Message("assistant", messages[-1].results[-1].text))
            elif messages[-1].text == "go":
                yield Answered(calls(*["delegate"] * (MAX_SUB_AGENTS + 1), name="n", task="Look."), "calls")
            else:
                await all_began.wait()
                yield Answered(Message("assistant", "Seen."))

    toolbox = Toolbox([look])
    agent = Agent(Model(), toolbox)
    toolbox.add(make_delegate_tool(agent, toolbox))
    told = asyncio.run(agent.run("go")).text
    assert told == f"not run: {MAX_SUB_AGENTS} helpers are already working; call it again when one has answered"


@requirement("agent.sub-agents")
def test_cancelling_a_parent_stops_its_sub_agents(look: Tool) -> None:
    began = asyncio.Event()
    stopped: list[bool] = []

    class Model:
        name = "slow child"

        async def stream(self, messages: Sequence[Message], tools: Sequence[Any]) -> Stream:
            if messages[-1].text == "go":
                yield Answered(HAND_ON, "calls")
                return
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(True)

    toolbox = Toolbox([look])
    agent = Agent(Model(), toolbox)
    toolbox.add(make_delegate_tool(agent, toolbox))

    async def cancel() -> str:
        run = asyncio.create_task(agent.run("go"))
        await began.wait()
        agent.cancel()
        return (await run).end

    assert asyncio.run(cancel()) == "cancelled"
    assert stopped == [True]
