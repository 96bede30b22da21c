"""What every model promises to the loop, shown for each of them: over real HTTP, and in this process."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import provider
import tiny_chat
from loopback import Asked, Reply, serving
from onhand.agent.events import Answered, ModelEvent, Text
from onhand.agent.models.anthropic import AnthropicModel
from onhand.agent.models.gguf import GgufModel
from onhand.agent.models.http import RequestPolicy
from onhand.agent.models.model import Model
from onhand.agent.models.openai import OpenAiModel
from onhand.agent.models.scripted import ScriptedModel
from onhand.errors import ModelError
from onhand.formats.message import Message
from onhand.tools import Call, Result, Tool
from requirements import requirement

GREET = Tool("greet", "Say hello.", {"type": "object", "properties": {"name": {"type": "string"}}}, lambda _: "").wire()
CALL = Call("greet", {"name": "Ada"}, "call_1")
ASKED = [Message("system", "Be kind."), Message("user", "Greet Ada.")]
RETURNED = [
    *ASKED,
    Message("assistant", "", (CALL,)),
    Message("tool", results=(Result("call_1", "greet", True, "greeted"),)),
]


async def no_wait(_: float) -> None:
    """Do not wait."""


POLICY = RequestPolicy(timeout_s=20, retries=2, wait=no_wait)


def over_http(make: Callable[[str], Model], spell: Callable[..., list[Any]], named: bool) -> Iterator[Model]:
    def reply(asked: Asked) -> Reply:
        has_result = b"greeted" in asked.body
        events = spell("Hello, Ada.") if has_result else spell(calls=[CALL])
        return provider.answer(events, named)

    with serving(reply) as server:
        yield make(server.url)


@contextmanager
def scripted(_: Path) -> Iterator[Model]:
    yield ScriptedModel([Message("assistant", "", (CALL,)), "Hello, Ada."])


@contextmanager
def anthropic(_: Path) -> Iterator[Model]:
    yield from over_http(lambda url: AnthropicModel("m", url, None, policy=POLICY), provider.anthropic, True)


@contextmanager
def openai(_: Path) -> Iterator[Model]:
    yield from over_http(lambda url: OpenAiModel("m", url, None, policy=POLICY), provider.openai, False)


@contextmanager
def gguf(directory: Path) -> Iterator[Model]:
    pytest.importorskip("xllamacpp", reason="the gguf extra is not installed")
    pytest.importorskip("gguf", reason="the package that writes the model is not installed")
    call = "call:greet{name:<escape>Ada<escape>}"
    follows = {
        "\n": "<start_function_call>",
        "<start_function_call>": call,
        call: "<end_function_call>",
        "<end_function_call>": "<start_function_response>",
        "<end_function_response>": "Hello, ",
        "Hello, ": "Ada.",
        "Ada.": "<end_of_turn>",
    }
    yield GgufModel(str(tiny_chat.write(directory / "tiny.gguf", follows)), threads=1)


@pytest.fixture(params=[scripted, anthropic, openai, gguf], ids=lambda make: make.__name__)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Model]:
    with request.param(tmp_path) as made:
        yield made


def said(model: Model, messages: list[Message]) -> list[ModelEvent]:
    async def ask() -> list[ModelEvent]:
        return [event async for event in model.stream(messages, [GREET])]

    return asyncio.run(ask())


@requirement("models.contract", "models.local")
def test_a_call_and_then_an_answer_are_streamed(model: Model) -> None:
    *_, called = said(model, ASKED)
    assert isinstance(called, Answered)
    assert (called.stop, called.message.text) == ("calls", "")
    (call,) = called.message.calls
    assert (call.name, call.id) == ("greet", "call_1")
    assert call.arguments in ({"name": "Ada"}, '{"name": "Ada"}')
    *texts, answered = said(model, RETURNED)
    assert isinstance(answered, Answered)
    assert "".join(event.text for event in texts if isinstance(event, Text)) == "Hello, Ada."
    assert (answered.stop, answered.message) == ("end", Message("assistant", "Hello, Ada."))


@requirement("models.contract")
def test_the_last_event_is_the_only_one_that_tells_all(model: Model) -> None:
    events = said(model, ASKED)
    assert [isinstance(event, Answered) for event in events] == [False] * (len(events) - 1) + [True]


@requirement("models.contract")
def test_who_stops_listening_is_free_at_once_and_may_ask_again(model: Model) -> None:
    async def ask() -> ModelEvent:
        stream = model.stream(RETURNED if not isinstance(model, ScriptedModel) else ASKED, [GREET])
        async for _ in stream:
            break
        await stream.aclose()
        return [event async for event in model.stream(RETURNED, [GREET])][-1]

    answered = asyncio.run(ask())
    assert isinstance(answered, Answered)
    assert answered.message.text == "Hello, Ada."


@requirement("models.contract")
def test_a_script_that_has_no_further_line_fails_as_a_model_does() -> None:
    with pytest.raises(ModelError, match="add another one"):
        said(ScriptedModel([]), ASKED)
