"""The agent loop: requests, calls, and every reason to stop."""

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from onhand.agent.approval import Approval
from onhand.agent.events import (
    Answered,
    Began,
    Calling,
    Ended,
    Event,
    Limits,
    Outcome,
    PromptPart,
    Returned,
    Stream,
    Text,
    Usage,
)
from onhand.agent.loop import MAX_CALLS, Agent
from onhand.agent.models.scripted import ScriptedModel
from onhand.agent.toolbox import Toolbox
from onhand.agent.trace import serialize_event
from onhand.errors import InputError
from onhand.formats.anthropic import AnthropicFormat
from onhand.formats.message import Message
from onhand.tools import Call, Tool
from requirements import requirement
from scripted_agent import EMPTY, Bench, calls


@requirement("agent.loop")
def test_the_loop_asks_runs_calls_and_stops_on_an_answer(look: Tool, noted: list[str]) -> None:
    bench = Bench([calls("look", at="sea"), "The sea is calm."], [look])
    outcome = bench.run("How is the sea?")
    assert outcome == Outcome("answer", "The sea is calm.", turns=2)
    assert noted == ["look sea"]
    first, second = (messages for messages, _ in bench.model.requests)
    assert [message.role for message in first] == ["user"]
    assert [message.role for message in second] == ["user", "assistant", "tool"]
    assert second[2].results[0].text == "seen"
    assert [type(event) for event in bench.events] == [
        *(Began, Answered, Calling, Returned, Text, Answered, Ended),
    ]


@requirement("agent.loop")
def test_a_second_run_continues_the_conversation(look: Tool) -> None:
    bench = Bench(["Hello.", calls("look"), "Calm."], [look])
    bench.run("Hi")
    bench.run("How is the sea?")
    assert [message.text for message in bench.model.requests[1][0]] == ["Hi", "Hello.", "How is the sea?"]


@requirement("agent.loop")
def test_seven_calls_of_one_turn_run_in_parallel() -> None:
    """All seven meet at a barrier, which none would pass if one had to wait for another to end."""
    barrier = threading.Barrier(7)

    def meet(arguments: dict[str, Any]) -> str:
        barrier.wait(60)
        return f"met {arguments['n']}"

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tool = Tool("meet", "Meet.", schema, meet, read_only=True, timeout_s=90)
    turn = Message("assistant", "", tuple(Call("meet", {"n": n}) for n in range(7)))
    bench = Bench([turn, "Done."], [tool])
    assert bench.run().end == "answer"
    assert bench.results == [(True, f"met {n}") for n in range(7)]


@requirement("agent.sibling-isolation")
def test_tools_that_raise_hang_or_flood_do_not_affect_others(look: Tool) -> None:
    over = threading.Event()

    def burst(_: dict[str, Any]) -> str:
        raise ZeroDivisionError("oops")

    def hang(_: dict[str, Any]) -> str:
        over.wait(60)
        return "too late"

    tools = [
        Tool("burst", "Raise.", EMPTY, burst, read_only=True),
        Tool("hang", "Hang.", EMPTY, hang, read_only=True, timeout_s=0.05),
        Tool("flood", "Flood.", EMPTY, lambda _: "x" * 1_000_000, read_only=True, max_output_bytes=100),
        look,
    ]
    bench = Bench([calls("burst", "hang", "flood", "look"), "Done."], tools)
    outcome = bench.run()
    over.set()
    assert outcome.end == "answer"
    (burst_ok, burst_text), (hang_ok, hang_text), (flood_ok, flood_text), looked = bench.results
    assert (burst_ok, hang_ok, flood_ok) == (False, False, True)
    assert "ZeroDivisionError: oops" in burst_text
    assert "timed out after 0.05 s" in hang_text
    assert flood_text.startswith("x" * 100 + "\n\n[truncated: 999900 more bytes]")
    assert looked == (True, "seen")


@requirement("agent.loop")
def test_results_are_reported_when_ready_and_returned_in_call_order() -> None:
    second_is_done = threading.Event()

    def first(_: dict[str, Any]) -> str:
        second_is_done.wait(60)
        return "one"

    tools = [
        Tool("first", "Wait.", EMPTY, first, read_only=True, timeout_s=90),
        Tool("second", "Go.", EMPTY, lambda _: "two", read_only=True),
    ]
    bench = Bench([calls("first", "second"), "Done."], tools)

    def release(event: Event) -> None:
        if isinstance(event, Returned) and event.call.name == "second":
            second_is_done.set()

    bench.agent.listeners.append(release)
    bench.run()
    assert [event.call.name for event in bench.of(Returned)] == ["second", "first"]
    assert bench.results == [(True, "one"), (True, "two")]


@requirement("agent.knows-no-tool")
def test_an_added_tool_can_be_called(look: Tool) -> None:
    added = Tool("brand_new", "New.", EMPTY, lambda _: "new")
    bench = Bench([calls("brand_new"), "Done."], [look, added])
    assert bench.run().end == "answer"
    assert [wired["name"] for wired in bench.model.requests[0][1]] == ["brand_new", "look"]
    assert bench.results == [(True, "new")]


@requirement("agent.loop")
def test_unknown_tools_and_invalid_arguments_are_answered_with_advice(look: Tool) -> None:
    turn = Message("assistant", "", (Call("lok"), Call("look", '{"at": '), Call("look", {"pth": "x"})))
    bench = Bench([turn, "Sorry."], [look])
    assert bench.run().end == "answer"
    unknown, broken, wrong = (text for _, text in bench.results)
    assert "did you mean look" in unknown
    assert "not valid JSON" in broken
    assert "did you mean 'path'" in wrong


@requirement("agent.iteration-budget")
def test_the_loop_stops_at_its_turn_limit(look: Tool) -> None:
    bench = Bench([calls("look", at=str(n)) for n in range(9)], [look], Limits(max_turns=3))
    outcome = bench.run()
    assert (outcome.end, outcome.detail, outcome.turns) == ("max_turns", "turn limit (3) reached", 3)


@requirement("agent.stop-reasons")
@pytest.mark.parametrize(
    ("stop", "end"),
    [("end", "answer"), ("max_tokens", "max_tokens"), ("context_full", "context_full"), ("refusal", "refusal")],
)
def test_every_stop_reason_of_a_model_is_an_outcome(stop: str, end: str) -> None:
    outcome = Bench([Answered(Message("assistant", "so far"), stop)]).run()
    assert (outcome.end, outcome.text) == (end, "so far")
    assert bool(outcome.detail) is (end != "answer")


@requirement("agent.stop-reasons")
def test_a_model_that_pauses_is_asked_again() -> None:
    bench = Bench([Answered(Message("assistant", "wait"), "pause"), "Now."])
    assert bench.run() == Outcome("answer", "Now.", turns=2)


@requirement("agent.stop-reasons")
def test_a_truncated_call_is_answered_and_a_refusal_runs_no_calls(look: Tool, noted: list[str]) -> None:
    cut = Answered(Message("assistant", "", (Call("look", '{"at": "s'),)), "max_tokens")
    bench = Bench([cut, "Sorry."], [look])
    assert bench.run().end == "answer"
    assert "not valid JSON" in bench.results[0][1]
    bench = Bench([Answered(calls("look"), "refusal")], [look])
    assert bench.run().end == "refusal"
    assert noted == []
    assert bench.agent.messages[-1].role == "tool"


@requirement("agent.stop-reasons")
def test_the_loop_stops_at_its_token_budget(look: Tool) -> None:
    dear = [Answered(calls("look", at=str(n)), "calls", Usage(40, 10)) for n in range(9)]
    outcome = Bench(dear, [look], Limits(max_tokens=100)).run()
    assert (outcome.end, outcome.turns, outcome.usage) == ("token_budget", 2, Usage(80, 20))


@requirement("agent.stop-reasons")
def test_a_repeated_call_stops_the_loop(look: Tool, noted: list[str]) -> None:
    bench = Bench([calls("look", at="sea")] * 9, [look], Limits(max_repeats=3))
    outcome = bench.run()
    assert (outcome.end, len(noted)) == ("repeated", 3)
    assert "look was called repeatedly" in outcome.detail
    assert bench.agent.messages[-1].results[0].text.startswith("not run")


@requirement("agent.stop-reasons")
def test_two_alternating_calls_count_as_repetition(look: Tool) -> None:
    turns = [calls("look", at="left"), calls("look", at="right")] * 9
    assert Bench(turns, [look]).run().end == "repeated"


@requirement("agent.stop-reasons")
def test_reading_again_after_a_change_is_not_a_repetition(look: Tool, change: Tool) -> None:
    turns = [turn for n in range(6) for turn in (calls("look", at="sea"), calls("change", path=str(n)))]
    assert Bench([*turns, "Done."], [look, change]).run().end == "answer"


@requirement("agent.stop-reasons")
def test_equal_calls_of_one_turn_are_not_repetitions(look: Tool, noted: list[str]) -> None:
    assert Bench([calls(*["look"] * 50), "Done."], [look]).run().end == "answer"
    assert len(noted) == 50


@requirement("agent.stop-reasons")
def test_rejected_calls_do_not_count_as_repetitions(change: Tool) -> None:
    async def no(*_: object) -> str:
        return "reject_once"

    bench = Bench([*[calls("change", path="x")] * 8, "I give up."], [change], approval=Approval(ask=no))
    assert bench.run() == Outcome("answer", "I give up.", turns=9)


@requirement("agent.stop-reasons")
def test_after_a_model_error_the_conversation_can_continue(look: Tool) -> None:
    bench = Bench([calls("look")], [look])
    outcome = bench.run()
    assert outcome.end == "error"
    assert "add another one" in outcome.detail

    class Broken:
        name = "broken"

        async def stream(self, messages: Sequence[Message], tools: Sequence[Any]) -> Stream:
            yield Text("I am")
            raise ZeroDivisionError("a bug")

    class Silent:
        name = "silent"

        async def stream(self, messages: Sequence[Message], tools: Sequence[Any]) -> Stream:
            yield Text("I am")

    agent = Agent(Silent(), Toolbox([]))
    assert "ended without an answer" in asyncio.run(agent.run("go")).detail
    agent = Agent(Broken(), Toolbox([]))
    assert asyncio.run(agent.run("go")).detail == "ZeroDivisionError: a bug"
    agent.model = ScriptedModel(["Better."])
    assert asyncio.run(agent.run("go")).text == "Better."


@requirement("agent.stop-reasons")
def test_cancelling_stops_a_tool_and_answers_its_call() -> None:
    began = asyncio.Event()
    stopped: list[str] = []

    async def wait(_: dict[str, Any]) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("wait")
        return "never"

    bench = Bench(
        [calls("quick", "wait"), "Later."],
        [
            Tool("wait", "Wait.", EMPTY, wait, read_only=True),
            Tool("quick", "Go.", EMPTY, lambda _: "done", read_only=True),
        ],
    )

    async def cancel_in_the_middle() -> Outcome:
        run = asyncio.create_task(bench.agent.run("go"))
        await began.wait()
        while not bench.of(Returned):
            await asyncio.sleep(0)
        bench.agent.cancel()
        return await run

    outcome = asyncio.run(cancel_in_the_middle())
    assert outcome.end == "cancelled"
    assert stopped == ["wait"]
    assert bench.results[0] == (True, "done")
    assert bench.results[1][0] is False
    assert bench.events[-1] == Ended(outcome)
    assert bench.run("And now?").text == "Later."


@requirement("agent.stop-reasons")
def test_cancelling_before_the_first_request_is_an_outcome() -> None:
    bench = Bench(["Hello."])

    async def at_once() -> Outcome:
        run = asyncio.create_task(bench.agent.run("go"))
        while not bench.events:
            await asyncio.sleep(0)
        bench.agent.cancel()
        return await run

    assert asyncio.run(at_once()).end == "cancelled"


@requirement("agent.stop-reasons")
def test_cancelling_the_callers_task_leaves_a_complete_conversation() -> None:
    began = asyncio.Event()

    async def wait(_: dict[str, Any]) -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    bench = Bench([calls("wait"), "Later."], [Tool("wait", "Wait.", EMPTY, wait)])

    async def cancel_the_task() -> None:
        run = asyncio.create_task(bench.agent.run("go"))
        await began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cancel_the_task())
    assert [message.role for message in bench.agent.messages] == ["user", "assistant", "tool"]
    assert bench.run().text == "Later."


@requirement("agent.loop")
def test_a_conversation_refuses_a_second_run_at_the_same_time(look: Tool) -> None:
    bench = Bench(["Hello."], [look])

    async def both() -> None:
        run = asyncio.create_task(bench.agent.run("one"))
        await asyncio.sleep(0)
        with pytest.raises(InputError, match="is already running"):
            await bench.agent.run("two")
        await run

    asyncio.run(both())


@requirement("agent.loop")
def test_a_failing_listener_does_not_stop_the_run(look: Tool) -> None:
    def broken(event: Event) -> None:
        raise OSError("the disk is full")

    bench = Bench([calls("look"), "Done."], [look])
    bench.agent.listeners.insert(0, broken)
    assert bench.run().end == "answer"
    assert [str(failure) for failure in bench.agent.listener_failures] == ["the disk is full"]
    assert bench.of(Ended)


@requirement("agent.loop")
def test_calls_with_missing_or_duplicate_ids_get_new_ones(look: Tool) -> None:
    twice = Answered(Message("assistant", "", (Call("look", {}, "x"), Call("look", {}, "x"))), "calls")
    bench = Bench([twice, "Done."], [look])
    bench.run()
    (message,) = (message for message in bench.agent.messages if message.results)
    ids = [result.id for result in message.results]
    assert len(set(ids)) == 2
    spelled = AnthropicFormat().request(bench.agent.messages, [])
    assert [block["tool_use_id"] for block in spelled["messages"][2]["content"]] == ids


@requirement("agent.loop")
def test_ids_of_an_earlier_turn_are_replaced(look: Tool) -> None:
    made = [Message("assistant", "", (Call("look", {"at": at}, "call_1"),)) for at in ("x", "y")]
    bench = Bench([*made, "Done."], [look])
    bench.run()
    ids = [call.id for message in bench.agent.messages for call in message.calls]
    assert ids[0] == "call_1"
    assert len(set(ids)) == 2
    assert [message.results[0].id for message in bench.agent.messages if message.results] == ids


@requirement("agent.loop", "agent.traces")
@pytest.mark.parametrize("levels", [200, 600, 5000])
def test_too_deeply_nested_arguments_are_rejected_and_listeners_survive(look: Tool, levels: int) -> None:
    deep: list[Any] = []
    for _ in range(levels):
        deep = [deep]
    traced: list[str] = []
    bench = Bench([Message("assistant", "", (Call("look", {"at": deep}),)), "Done."], [look])
    bench.agent.listeners.append(lambda event: traced.append(serialize_event(event)))
    assert bench.run().end == "answer"
    assert bench.agent.listener_failures == []
    assert json.loads(traced[-1])["kind"] == "ended"


@requirement("agent.stop-reasons")
def test_calls_beyond_the_limit_of_a_turn_are_answered_but_not_run(look: Tool, noted: list[str]) -> None:
    bench = Bench([calls(*["look"] * (MAX_CALLS + 5)), "Done."], [look])
    assert bench.run().end == "answer"
    assert (len(noted), len(bench.results)) == (MAX_CALLS, MAX_CALLS + 5)
    assert bench.results[-1][0] is False


@requirement("agent.prompt-order")
def test_the_system_prompt_comes_first_and_stays_the_same(look: Tool) -> None:
    bench = Bench(
        [calls("look"), "Done.", "Again."], [look], parts=[PromptPart("core", "A", 1), PromptPart("rules", "B", 1)]
    )
    bench.run()
    bench.run()
    assert [messages[0] for messages, _ in bench.model.requests] == [Message("system", "A\n\nB")] * 3
    assert len({str(tools) for _, tools in bench.model.requests}) == 1


@requirement("agent.loop")
def test_an_agent_accepts_a_model_name_and_a_list_of_tools(look: Tool, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["The sea is calm."]), encoding="utf-8")
    agent = Agent(f"scripted:{script}", [look])
    assert [tool["name"] for tool in agent.tools.wire()] == ["look"]
    assert asyncio.run(agent.run("How is the sea?")).text == "The sea is calm."


@requirement("agent.loop")
@pytest.mark.parametrize(
    ("model", "tools"), [("gpt", []), (None, []), (ScriptedModel([]), "look"), (ScriptedModel([]), None)]
)
def test_an_agent_rejects_an_invalid_model_or_tools_at_once(model: Any, tools: Any) -> None:
    with pytest.raises(InputError, match=r"openai:NAME|is not a list of tools"):
        Agent(model, tools)
