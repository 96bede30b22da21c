"""A GGUF model in this process calls tools, answers, stops, and explains what is wrong with its file."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tiny_chat
from onhand.agent.events import Answered, Outcome, Text
from onhand.agent.loop import Agent
from onhand.agent.models.gguf import GgufModel
from onhand.agent.toolbox import Toolbox
from onhand.errors import InputError, ModelError
from onhand.formats.message import Message
from onhand.tools import Tool
from requirements import requirement

CALL = "call:greet{name:<escape>Ada<escape>}"
GREETS = {
    "\n": "<start_function_call>",
    "<start_function_call>": CALL,
    CALL: "<end_function_call>",
    "<end_function_call>": "<start_function_response>",
    "<end_function_response>": "Hello, ",
    "Hello, ": "Ada.",
    "Ada.": "<end_of_turn>",
}


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip("xllamacpp", reason="the gguf extra is not installed")
    pytest.importorskip("gguf", reason="the package that writes the model is not installed")


def model(directory: Path, follows: dict[str, str], **options: Any) -> GgufModel:
    return GgufModel(str(tiny_chat.write(directory / "tiny.gguf", follows)), threads=1, **options)


@requirement("models.local")
def test_an_agent_runs_with_a_gguf_model(tmp_path: Path) -> None:
    greeted: list[str] = []
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    tool = Tool("greet", "Say hello.", schema, lambda given: greeted.append(given["name"]), read_only=True)
    agent = Agent(model(tmp_path, GREETS), Toolbox([tool]))
    outcome = asyncio.run(agent.run("Greet Ada."))
    assert (outcome.end, outcome.text, outcome.turns) == ("answer", "Hello, Ada.", 2)
    assert greeted == ["Ada"]
    assert outcome.usage.input > 100
    assert outcome.usage.output > 5


@requirement("models.local")
def test_generation_stops_when_cancelled_and_the_model_can_be_used_again(tmp_path: Path) -> None:
    endless = model(tmp_path, {"\n": "a", "a": "b", "b": "a"}, max_output_tokens=1_000_000_000)
    agent = Agent(endless, Toolbox([]))

    async def cancelled() -> Outcome:
        begun = asyncio.Event()
        agent.listeners.append(lambda event: begun.set() if isinstance(event, Text) else None)
        run = asyncio.create_task(agent.run("go"))
        await begun.wait()
        agent.cancel()
        return await run

    assert asyncio.run(cancelled()).end == "cancelled"
    assert asyncio.run(cancelled()).end == "cancelled"


@requirement("models.local")
def test_the_output_limit_is_reported(tmp_path: Path) -> None:
    endless = model(tmp_path, {"\n": "a", "a": "b", "b": "a"}, max_output_tokens=5)

    async def said(text: str) -> Answered:
        last = [event async for event in endless.stream([Message("user", text)], [])][-1]
        assert isinstance(last, Answered)
        return last

    answered = asyncio.run(said("go"))
    assert (answered.stop, answered.message.text) == ("max_tokens", "ababa")
    with pytest.raises(ModelError, match="exceeds the available context size"):
        asyncio.run(said("x" * 10_000))


@requirement("models.local")
@pytest.mark.parametrize("content", [None, b"", b"GGUF but not really"])
def test_an_invalid_model_file_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    if content is not None:
        path.write_bytes(content)
    outcome = asyncio.run(Agent(GgufModel(str(path)), Toolbox([])).run("go"))
    assert outcome.end == "error"
    assert str(path) in outcome.detail
    with pytest.raises(InputError):
        GgufModel("")
