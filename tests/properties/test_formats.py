"""Whatever a call has in it: spelled in any form, it is read back as the same call."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onhand.formats.anthropic import AnthropicFormat
from onhand.formats.functiongemma import GEMMA4_MARK, FunctionGemmaFormat
from onhand.formats.message import Message
from onhand.formats.openai import ChatFormat, ResponsesFormat
from onhand.tools import Call
from requirements import requirement

# Pieces of the grammars themselves, so that hostile texts are no rare luck.
PIECES = ["<escape>", '<|"|>', "<end_function_call>", "<start_function_call>", "call:x{", "&lt;", "&amp;", "amp;lt;",
          "escape>", "<", ">", "{", "}", "[", "]", ",", ":", "null", "-1", "<think>", "</think>"]  # fmt: skip
TEXTS = st.text(max_size=8) | st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True)
CALLS = st.lists(st.builds(Call, NAMES, st.dictionaries(TEXTS, VALUES, max_size=4)), max_size=3)


def as_objects(message: Message) -> list[tuple[str, Any]]:
    return [
        (call.name, json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments)
        for call in message.calls
    ]


@requirement("formats.round-trip")
@given(CALLS)
def test_calls_survive_every_form(calls: list[Call]) -> None:
    message = Message("assistant", "", tuple(calls))
    for form in (
        ChatFormat(),
        ResponsesFormat(),
        AnthropicFormat(),
        FunctionGemmaFormat(),
        FunctionGemmaFormat(GEMMA4_MARK),
    ):
        back = form.read(json.loads(json.dumps(form.serialize(message))))
        assert as_objects(back) == [(call.name, call.arguments) for call in calls]


@requirement("formats.functiongemma-parse")
@given(CALLS, st.integers(0, 400), TEXTS)
def test_a_text_that_is_cut_anywhere_is_read_without_a_failure(calls: list[Call], length: int, odd: str) -> None:
    form = FunctionGemmaFormat()
    spelled = form.serialize(Message("assistant", "", tuple(calls)))
    for said in (spelled[:length], spelled[length:], odd + spelled, spelled + odd, odd):
        for call in form.read(said).calls:
            assert isinstance(call.arguments, str | dict)


@requirement("formats.functiongemma-parse")
@given(CALLS)
def test_a_call_that_is_cut_inside_its_arguments_keeps_them_as_text(calls: list[Call]) -> None:
    form = FunctionGemmaFormat()
    for call in calls:
        spelled = form.serialize(Message("assistant", "", (call,))).removesuffix("}<end_function_call>")
        (read,) = form.read(spelled).calls
        assert read.name == call.name
        assert isinstance(read.arguments, str)
