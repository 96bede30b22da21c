"""Whatever a model calls and tools do: every run ends, every call has its result, and a trace can be replayed."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onhand.agent.approval import Approval, ApprovalRule
from onhand.agent.events import ENDS, STOPS, Answered, Calling, Ended, Event, Limits, Returned, Usage
from onhand.agent.loop import Agent
from onhand.agent.models.scripted import Line, ScriptedModel
from onhand.agent.toolbox import Toolbox
from onhand.agent.trace import replay, serialize_event
from onhand.formats.message import Message
from onhand.tools import Call, Tool
from onhand.tools.loading import parse_policy
from requirements import requirement

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
NAMES = st.sampled_from(["reads", "writes", "fails", "denied", "search_tools", "nobody", ""])
ODD: list[Any] = [{}, {"n": 1}, {"n": "x"}, '{"n": 2}', '{"n": ', None, {"query": "reads"}, {"odd": {}}]
CALLS = st.tuples(NAMES, st.sampled_from(ODD), st.sampled_from(["", "a", "b"])).map(lambda parts: Call(*parts))
TURNS = st.tuples(st.sampled_from(["", "words"]), st.lists(CALLS, max_size=4), st.sampled_from([*STOPS, "odd"]))
ANSWERS = TURNS.map(lambda turn: Answered(Message("assistant", turn[0], tuple(turn[1])), turn[2], Usage(10, 1)))
LIMITS = st.builds(Limits, st.integers(1, 8), st.sampled_from([None, 25]), st.integers(1, 4))


def tools() -> list[Tool]:
    def fail(_: dict[str, Any]) -> str:
        raise LookupError("no")

    async def reads(_: dict[str, Any]) -> str:
        return "read"

    return [
        Tool("reads", "Read.", SCHEMA, reads, read_only=True),
        Tool("writes", "Write.", SCHEMA, reads),
        Tool("fails", "Fail.", SCHEMA, fail),
        Tool("denied", "Never.", SCHEMA, reads),
    ]


@requirement("agent.stop-reasons", "agent.traces")
@given(st.lists(ANSWERS, max_size=8), LIMITS, st.sampled_from(["eager", "lazy"]))
def test_a_run_ends_with_every_call_answered_and_can_be_replayed(
    lines: list[Line], limits: Limits, loading: str
) -> None:
    events: list[Event] = []
    rules = [ApprovalRule("deny", "denied"), ApprovalRule("allow")]
    toolbox = Toolbox(tools(), policy=parse_policy(loading))
    agent = Agent(ScriptedModel(lines), toolbox, approval=Approval(rules), limits=limits, listeners=[events.append])
    outcome = asyncio.run(agent.run("go"))
    assert outcome.end in ENDS
    assert outcome.turns <= limits.max_turns
    assert events[-1] == Ended(outcome)
    for message, after in zip(agent.messages, [*agent.messages[1:], None], strict=True):
        if message.calls:
            assert after is not None
            assert [result.id for result in after.results] == [call.id for call in message.calls]
            assert len({call.id for call in message.calls}) == len(message.calls)
    ran = [event.call.name for event in events if isinstance(event, Calling)]
    assert "denied" not in ran
    assert len([event for event in events if isinstance(event, Returned)]) >= len(ran)

    again: list[Event] = []
    assert asyncio.run(replay(events, [again.append])) == outcome
    assert list(map(serialize_event, again)) == list(map(serialize_event, events))
