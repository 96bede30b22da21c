"""What every form of messages promises, shown for each of them."""

import json
import re
from copy import deepcopy

import pytest

from onhand.formats.anthropic import AnthropicFormat
from onhand.formats.functiongemma import GEMMA4_MARK, FunctionGemmaFormat
from onhand.formats.message import Format, Message
from onhand.formats.openai import ChatFormat, ResponsesFormat
from onhand.tools import Call, Result, Tool
from requirements import requirement

FORMATS: list[Format] = [
    ChatFormat(),
    ResponsesFormat(),
    AnthropicFormat(),
    FunctionGemmaFormat(),
    FunctionGemmaFormat(GEMMA4_MARK, "litert"),
]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "description": "Which"}}, "required": ["city"]}
TOOLS = [Tool(name, f"About {name}.", SCHEMA, lambda _: "").wire() for name in ("weather", "tides")]
CALLS = (Call("weather", {"city": "Aarhus"}, "a"), Call("tides", {"city": "Ærø"}, "b"))
CONVERSATION = [
    Message("system", "Be brief."),
    Message("user", "How is it?"),
    Message("assistant", "I look.", CALLS),
    Message("tool", results=(Result("a", "weather", True, "rain"), Result("b", "tides", False, "no such place"))),
    Message("assistant", "Rain."),
    Message("user", "And now?"),
]


@pytest.fixture(params=FORMATS, ids=lambda one: f"{one.name}-{getattr(one, 'template', 'only')}")
def form(request: pytest.FixtureRequest) -> Format:
    found: Format = request.param
    return found


def without_ids(message: Message) -> Message:
    """FunctionGemma has no ids: results follow their calls in order."""
    return message._replace(calls=tuple(call._replace(id="") for call in message.calls))


@requirement("formats.round-trip")
def test_what_an_assistant_says_is_read_back_as_it_was(form: Format) -> None:
    for message in (Message("assistant", "Rain."), CONVERSATION[2], Message("assistant", "", CALLS[:1])):
        back = form.read(form.serialize(message))
        arguments = [json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
                     for call in back.calls]  # fmt: skip
        assert arguments == [call.arguments for call in message.calls]
        assert [call.name for call in back.calls] == [call.name for call in message.calls]
        assert back.text == message.text
        assert [call.id for call in back.calls] in ([call.id for call in message.calls], [""] * len(back.calls))


@requirement("formats.round-trip")
def test_a_request_has_everything_in_order_and_is_equal_byte_for_byte(form: Format) -> None:
    before = deepcopy(CONVERSATION)
    spelled = json.dumps(form.request(CONVERSATION, TOOLS), ensure_ascii=False)
    assert spelled == json.dumps(form.request(CONVERSATION, TOOLS), ensure_ascii=False)
    assert before == CONVERSATION
    places = [spelled.index(text) for text in ("How is it?", "I look.", "rain", "no such place", "Rain.", "And now?")]
    assert places == sorted(places)
    assert spelled.index("About weather.") < spelled.index("About tides.")
    assert "Be brief." in spelled


@requirement("formats.round-trip")
def test_without_tools_or_a_system_text_nothing_is_said_of_them(form: Format) -> None:
    spelled = form.request([Message("user", "hello")], [])
    assert not {"tools", "system", "instructions"} & set(spelled)
    assert "developer" not in json.dumps(spelled)


@pytest.mark.parametrize("said", [None, 7, [], {}, "", [None], {"content": [None, 3]}, {"tool_calls": [{}]}])
@requirement("formats.round-trip")
def test_whatever_is_not_a_message_is_read_as_one_without_calls(form: Format, said: object) -> None:
    assert form.read(said) == Message("assistant")


@requirement("formats.round-trip")
def test_a_later_request_begins_as_the_one_before_it(form: Format) -> None:
    """Up to marks for caches, which move: what was said stays as it was said."""

    def plain(messages: list[Message]) -> str:
        spelled = json.dumps(form.request(messages, TOOLS), ensure_ascii=False)
        return spelled.replace(', "cache_control": {"type": "ephemeral"}', "")

    short, long = plain(CONVERSATION[:5]), plain(CONVERSATION)
    shared = next(place for place, (one, other) in enumerate(zip(short, long, strict=False)) if one != other)
    assert shared > long.index("Rain.")


@requirement("formats.openai", "formats.anthropic")
@pytest.mark.parametrize("form", FORMATS[:3], ids=lambda form: form.name)
def test_a_name_that_a_provider_refuses_does_not_cost_the_request(form: Format) -> None:
    """One such name, and the API refuses all of it."""
    tools = [*TOOLS, {**TOOLS[0], "name": "a.b"}, {**TOOLS[0], "name": "x" * 129}]
    odd = Message("assistant", "", (Call("no such.tool/é", {}, "a"), Call("", {}, "b")))
    spelled = json.dumps(form.request([Message("user", "go"), odd], tools))
    assert set(re.findall(r'"name": "([^"]*)"', spelled)) == {"weather", "tides", "no_such_tool_", "unnamed"}
