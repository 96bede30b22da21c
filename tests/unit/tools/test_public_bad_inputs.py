"""The public collection of hostile inputs meets the tools and does no harm."""

from typing import Any

import pytest

from onhand.errors import InputError, ToolError
from onhand.tools.arguments import ToolArguments, parse_arguments
from onhand.tools.fitting import cap_text
from onhand.tools.registry import Registry
from onhand.tools.tool import Tool
from public_cases import cases, needs_cases

pytestmark = needs_cases
TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def inputs(*areas: str) -> list[Any]:
    """One parameter for each case of some areas that has its input written out."""
    found = [case for case in cases(*areas) if "input" in case]
    return [pytest.param(case["input"], id=f"{case['id']} {case['name']}") for case in found]


@pytest.mark.parametrize("message", inputs("jsonrpc"))
def test_a_message_is_read_as_arguments_or_refused_with_a_reason(message: Any) -> None:
    try:
        assert isinstance(parse_arguments(message), dict)
    except ToolError as error:
        assert str(error)


@pytest.mark.parametrize("part", inputs("toolmeta"))
def test_a_schema_is_registered_and_answers_or_is_refused_with_a_reason(part: Any) -> None:
    own = part if isinstance(part, dict) else {"description": part}
    for schema in ({"type": "object", **own}, {"type": "object", "properties": {"a": own}}):
        try:
            registry = Registry([Tool("t", "d", schema, lambda arguments: "fine")])
        except InputError as error:
            assert str(error)
        else:
            assert registry.call("t", {"a": "a" * 50_000}).text


@pytest.mark.parametrize("given", inputs("injection", "unicode"))
def test_a_text_goes_in_and_comes_out_whole_or_is_refused(given: Any) -> None:
    text = given["doc"] if isinstance(given, dict) else given
    if not isinstance(text, str):
        pytest.skip("is no text")
    cap_text(text, 7).text.encode()
    try:
        assert ToolArguments(Tool("t", "d", TEXT, str)).read({"text": text}) == {"text": text}
    except ToolError as error:
        assert "lone surrogate" in str(error)
