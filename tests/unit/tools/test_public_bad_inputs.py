"""The public collection of hostile inputs meets the tools and does no harm."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from onhand.errors import InputError, ToolError
from onhand.tools.arguments import Arguments, parsed
from onhand.tools.output import cap
from onhand.tools.registry import Registry
from onhand.tools.tool import Tool

DATA = os.environ.get("ONHAND_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="set ONHAND_DATA to the directory that has bad_inputs.jsonl")
TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def inputs(*areas: str) -> list[Any]:
    lines = (Path(DATA or "") / "bad_inputs.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines]
    return [case["input"] for case in cases if case["area"] in areas and "input" in case]


def test_every_message_is_read_as_arguments_or_refused_with_a_reason() -> None:
    for message in inputs("jsonrpc"):
        try:
            assert isinstance(parsed(message), dict)
        except ToolError as error:
            assert str(error)


def test_every_schema_is_registered_and_answers_or_is_refused_with_a_reason() -> None:
    for part in inputs("toolmeta"):
        if not isinstance(part, dict):
            continue
        for schema in ({"type": "object", **part}, {"type": "object", "properties": {"a": part}}):
            try:
                registry = Registry([Tool("t", "d", schema, lambda arguments: "fine")])
            except InputError as error:
                assert str(error)
            else:
                assert registry.call("t", {"a": "a" * 50_000}).text


def test_every_text_goes_in_and_comes_out_whole_or_is_refused() -> None:
    reader = Arguments(Tool("t", "d", TEXT, str))
    texts = [*inputs("injection"), *(case["doc"] for case in inputs("unicode"))]
    for text in texts:
        if isinstance(text, str):
            cap(text, 7).text.encode()
            try:
                assert reader.read({"text": text}) == {"text": text}
            except ToolError as error:
                assert "half of a surrogate pair" in str(error)
