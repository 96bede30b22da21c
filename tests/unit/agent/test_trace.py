"""A trace records everything, and a replay of it happens the same way."""

import asyncio
import os
from pathlib import Path

import pytest

from onhand.agent.approval import Approval
from onhand.agent.events import Answered, Limits, PromptPart, Usage
from onhand.agent.loop import make_delegate_tool
from onhand.agent.models.scripted import Line
from onhand.agent.toolbox import Toolbox
from onhand.agent.trace import Trace, read_trace, replay, serialize_event
from onhand.errors import InputError
from onhand.formats.message import Message
from onhand.tools import Call, Tool
from requirements import requirement
from scripted_agent import Bench, calls

GOALS = ("How is the sea?", "And the sky? \ud800 \x1b[2J")


def traced(path: Path, bench: Bench, goals: tuple[str, ...] = GOALS) -> Bench:
    trace = Trace(str(path))
    bench.agent.listeners.append(trace)
    for goal in goals:
        bench.run(goal)
    trace.close()
    return bench


def replayed(path: Path, noted: list[str]) -> bytes:
    """What a replay would write as a trace; no tool may have run for it."""
    before = list(noted)
    again: list[str] = []
    asyncio.run(replay(read_trace(str(path)), [lambda event: again.append(serialize_event(event))]))
    assert noted == before
    return "".join(again).encode("utf-8", "backslashreplace")


@requirement("agent.traces")
def test_a_replay_writes_the_same_bytes_and_runs_nothing(
    tmp_path: Path, look: Tool, change: Tool, noted: list[str]
) -> None:
    async def no(*_: object) -> str:
        return "reject_once"

    lines: list[Line] = [
        calls("look", "change", "look", at="x"),
        Answered(Message("assistant", "é", (Call("look", '{"at": '), Call("nobody", {})), kept=({"a": 1},)), "calls"),
        Answered(Message("assistant", "Calm."), "end", Usage(3, 4, 1, 1)),
        calls("change", path="y"),
        "Blue.",
    ]
    parts = [PromptPart("core", "Be brief.", 3)]
    path = tmp_path / "trace.jsonl"
    traced(path, Bench(lines, [look, change], approval=Approval(ask=no), parts=parts))
    assert replayed(path, noted) == path.read_bytes()
    assert len(read_trace(str(path))) > 10


@requirement("agent.traces")
@pytest.mark.parametrize("limits", [Limits(max_turns=2), Limits(max_repeats=2), Limits(max_tokens=5), Limits()])
def test_a_run_without_an_answer_is_replayed_without_one(
    limits: Limits, tmp_path: Path, look: Tool, noted: list[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    traced(path, Bench([Answered(calls("look"), "calls", Usage(2, 1))] * 3, [look], limits), ("go",))
    assert replayed(path, noted) == path.read_bytes()


@requirement("agent.traces")
def test_a_replay_stops_at_the_same_repetition(tmp_path: Path, look: Tool, change: Tool, noted: list[str]) -> None:
    path = tmp_path / "trace.jsonl"
    turns = [calls("change", path="x"), *[calls("look", at="left"), calls("look", at="right")] * 5]
    bench = traced(path, Bench(turns, [look, change]), ("go",))
    assert b'"end": "repeated"' in path.read_bytes()
    assert len(bench.agent.messages) < 2 * len(turns)
    assert replayed(path, noted) == path.read_bytes()


@requirement("agent.traces")
def test_a_cancelled_run_is_replayed_up_to_the_cancellation(tmp_path: Path, look: Tool, noted: list[str]) -> None:
    began = asyncio.Event()

    async def wait(_: dict[str, object]) -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    path = tmp_path / "trace.jsonl"
    bench = Bench([calls("wait", "look")], [Tool("wait", "Wait.", {"type": "object"}, wait), look])
    trace = Trace(str(path))
    bench.agent.listeners.append(trace)

    async def cancelled() -> None:
        run = asyncio.create_task(bench.agent.run("go"))
        await began.wait()
        bench.agent.cancel()
        assert (await run).end == "cancelled"

    asyncio.run(cancelled())
    trace.close()
    assert replayed(path, noted) == path.read_bytes()


@requirement("agent.traces", "agent.sub-agents")
def test_events_of_sub_agents_are_traced_and_replayed(tmp_path: Path, look: Tool, noted: list[str]) -> None:
    toolbox = Toolbox([look])
    bench = Bench([calls("delegate", name="eye", task="Look."), calls("look"), "I saw.", "It saw."], toolbox=toolbox)
    toolbox.add(make_delegate_tool(bench.agent, toolbox))
    path = tmp_path / "trace.jsonl"
    traced(path, bench, ("go",))
    assert b'"kind": "nested", "agent": "eye"' in path.read_bytes()
    assert replayed(path, noted) == path.read_bytes()


@requirement("agent.traces")
@pytest.mark.skipif(os.name == "nt", reason="needs permissions and links as POSIX has them")
def test_a_trace_is_private_and_is_not_written_through_a_link(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    Trace(str(path)).close()
    assert path.stat().st_mode & 0o777 == 0o600
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="cannot be written"):
        Trace(str(link))
    assert not (tmp_path / "elsewhere").exists()


@requirement("agent.traces")
@pytest.mark.parametrize(
    "line", ["{", "3", "[]", '{"kind": "odd"}', '{"kind": "text"}', '{"kind": "began", "goal": "x", "y": 1}']
)
def test_an_invalid_line_is_reported_with_its_number(line: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(f'{{"kind": "text", "text": "x"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 2: this is not an event"):
        read_trace(str(path))


@requirement("agent.traces")
def test_an_edited_trace_or_one_without_a_run_is_rejected(tmp_path: Path, look: Tool) -> None:
    path = tmp_path / "trace.jsonl"
    traced(path, Bench([calls("look"), "Calm."], [look]), ("go",))
    changed = path.read_text(encoding="utf-8").replace('"end": "answer"', '"end": "refusal"')
    path.write_text(changed, encoding="utf-8")
    with pytest.raises(InputError, match="ended differently"):
        asyncio.run(replay(read_trace(str(path))))
    with pytest.raises(InputError, match="no run"):
        asyncio.run(replay([]))
