"""A tool says what a model may see, and keeps the rest to itself."""

import json
import subprocess
import sys
from typing import Any

import pytest

from onhand.errors import InputError
from onhand.tools.tool import LOCAL, Hints, Tool, copy_json
from requirements import requirement

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "what to find"}},
    "required": ["query"],
}


def nothing(arguments: dict[str, Any]) -> str:
    return ""


@requirement("tools.wire-leaks-nothing")
def test_the_wire_form_has_name_description_and_schema_and_nothing_else() -> None:
    tool = Tool("search", "Find pages.", SCHEMA, nothing, True, 123, 4.0, False)
    assert tool.wire() == {"name": "search", "description": "Find pages.", "input_schema": SCHEMA}
    assert list(tool.wire()) == ["name", "description", "input_schema"]


@requirement("tools.wire-is-byte-stable")
def test_changing_a_schema_after_the_fact_changes_no_tool() -> None:
    schema = json.loads(json.dumps(SCHEMA))
    tool = Tool("search", "Find pages.", schema, nothing)
    schema["properties"]["query"]["type"] = "integer"
    tool.wire()["input_schema"]["properties"].clear()
    assert tool.wire()["input_schema"] == SCHEMA


@requirement("tools.names-are-checked")
@pytest.mark.parametrize("name", ["a", "__proto__", "mcp.server-1.search", "n" * 128])
def test_names_that_mcp_allows_are_taken(name: str) -> None:
    assert Tool(name, "d", SCHEMA, nothing).name == name


@requirement("tools.names-are-checked")
@pytest.mark.parametrize("name", ["", "n" * 129, "a b", "a\nb", "a\n", "読む", "select:all", "a/b", "\ud800", 7, None])
def test_other_names_are_refused_with_the_rule(name: Any) -> None:
    with pytest.raises(InputError, match="1 to 128 of the characters"):
        Tool(name, "d", SCHEMA, nothing)


@pytest.mark.parametrize("description", ["", " \n", None])
def test_a_tool_without_a_description_is_refused(description: Any) -> None:
    with pytest.raises(InputError, match="say what the tool does"):
        Tool("t", description, SCHEMA, nothing)


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"type": ["object"]}, None, []])
def test_a_schema_that_is_not_of_an_object_is_refused(schema: Any) -> None:
    with pytest.raises(InputError, match='"type": "object"'):
        Tool("t", "d", schema, nothing)


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="max_output_bytes must be at least 1"):
        Tool("t", "d", SCHEMA, nothing, max_output_bytes=0)
    for timeout_s in (0, -1, float("nan")):
        with pytest.raises(InputError, match="timeout_s must be more than 0"):
            Tool("t", "d", SCHEMA, nothing, timeout_s=timeout_s)
    with pytest.raises(InputError, match="handler must be a function"):
        Tool("t", "d", SCHEMA, "not callable")  # type: ignore[arg-type]


@requirement("tools.hostile-schemas-are-bounded")
def test_a_schema_that_json_cannot_hold_is_refused_with_its_place() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"x": float("nan")}, "input_schema.x: nan is not a JSON number"),
        ({"x": b"raw"}, "input_schema.x: a bytes is not a JSON value"),
        ({"x": {"title": "\ud800"}}, "input_schema.x.title: contains a lone surrogate"),
        ({"x": {1: 2}}, "input_schema.x: keys of JSON objects must be strings, not int"),
    ]
    for bad, text in cases:
        with pytest.raises(InputError) as caught:
            Tool("t", "d", {"type": "object", **bad}, nothing)
        assert text in str(caught.value)


@requirement("tools.hostile-schemas-are-bounded")
def test_nesting_and_size_are_bounded_before_anything_recurses() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(100_000):
        deep = {"type": "object", "properties": deep}
    with pytest.raises(InputError, match="nested more than 64 levels"):
        Tool("t", "d", deep, nothing)
    with pytest.raises(InputError, match="more than 100000 values"):
        Tool("t", "d", {"type": "object", "enum": list(range(200_000))}, nothing)
    while deep:  # taken apart by hand: freeing 100,000 levels at once would recurse
        deep = deep.pop("properties", {})


def test_a_plain_copy_is_equal_and_shares_nothing() -> None:
    value: dict[str, Any] = {"a": [1, 2.5, None, True, "é\0"], "b": ({},)}
    copy = copy_json(value, "value")
    assert copy == {"a": [1, 2.5, None, True, "é\0"], "b": [{}]}
    assert copy["a"] is not value["a"]


@requirement("tools.fast-from-cold")
def test_importing_the_room_loads_nothing_heavy() -> None:
    heavy = ["asyncio", "inspect", "dataclasses", "jsonschema_rs", "json", "unicodedata", "pathlib", "copy"]
    code = f"print([name for name in {heavy} if name in sys.modules])"
    program = f"import sys; sys.path[:0] = {sys.path!r}; import onhand.tools; {code}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_room_gives_its_names_on_first_use_whatever_was_imported_before() -> None:
    names = "tool, Tool, Registry, Call, Result, schema_of, Output"
    code = f"import onhand.tools.tool; from onhand.tools import {names}"
    check = "assert callable(tool) and tool.__module__ == 'onhand.tools.schema'"
    for program in (f"{code}; {check}", f"import onhand.tools.schema; {code}; {check}"):
        subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"], check=True)
    import onhand.tools

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = onhand.tools.nonsense


def test_a_schema_of_the_output_is_kept_apart_from_what_a_model_is_shown() -> None:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tool = Tool("count", "Counts.", {"type": "object"}, str, output_schema=output)
    output["type"] = "array"
    assert tool.output_schema == {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert "output_schema" not in tool.wire()
    assert Tool("count", "Counts.", {"type": "object"}, str).output_schema is None
    with pytest.raises(InputError, match="output_schema"):
        Tool("count", "Counts.", {"type": "object"}, str, output_schema={"default": object()})


@requirement("tools.hints")
def test_hints_are_spelled_as_mcp_does_and_what_only_reads_destroys_nothing() -> None:
    def hints(**options: Any) -> list[bool]:
        return list(Tool("t", "d", {"type": "object"}, str, **options).annotations().values())

    names = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]
    assert list(Tool("t", "d", {"type": "object"}, str).annotations()) == names
    assert hints() == [False, True, False, True]  # which is what the protocol assumes where nothing is said
    assert hints(read_only=True) == [True, False, True, True]
    assert hints(hints=LOCAL) == [False, False, False, False]
    assert hints(hints=Hints(idempotent=True, open_world=False)) == [False, True, True, False]
