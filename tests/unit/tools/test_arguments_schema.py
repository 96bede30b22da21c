"""A hostile schema fetches nothing, hangs nothing and is refused with a reason."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from onhand.errors import InputError, ToolError
from onhand.tools.arguments import CompiledSchema, _validator
from onhand.tools.registry import Registry
from onhand.tools.tool import Tool
from requirements import requirement


def compiled(schema: dict[str, Any]) -> CompiledSchema:
    return CompiledSchema({"type": "object", **schema})


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@requirement("tools.schemas-fetch-nothing")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef", "$schema"])
def test_a_reference_to_the_network_is_refused_and_no_connection_is_made(listener: socket.socket, keyword: str) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
    for part in ({keyword: url}, {"properties": {"a": {keyword: url}}}, {"$id": url, keyword: "other.json"}):
        schema = {"type": "object", **part}
        if keyword != "$schema" or part.get("$schema"):  # below the root, $schema is only a note
            with pytest.raises(InputError):
                Registry().register(Tool("t", "d", schema, str))
        with pytest.raises(InputError) if keyword == "$ref" else suppress(InputError):
            _validator(schema, 0)  # the engine by itself refuses too
    with pytest.raises(BlockingIOError):
        listener.accept()


@requirement("tools.schemas-fetch-nothing")
@pytest.mark.parametrize("reference", ["file:///etc/passwd", "other.json", "//host/x", "#anchor", 5])
def test_a_reference_out_of_the_schema_is_refused_with_what_to_do(reference: Any) -> None:
    with pytest.raises(InputError, match=r"outside the schema.*\$defs"):
        compiled({"properties": {"a": {"$ref": reference}}})


def test_references_within_the_schema_work() -> None:
    schema = compiled(
        {
            "$id": "https://example.test/x",
            "properties": {"a": {"$ref": "#/$defs/an~1odd~0%20name"}, "self": {"$ref": "#"}},
            "$defs": {"an/odd~ name": {"type": "integer"}},
        }
    )
    assert not list(schema.errors({"a": 1, "self": {"a": 2}}))
    assert list(schema.errors({"self": {"a": "x"}}))


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"]
)
def test_older_drafts_are_known(draft: str) -> None:
    schema = compiled({"$schema": draft, "properties": {"a": {"exclusiveMinimum": 3}}})
    assert list(schema.errors({"a": 3}))


@requirement("tools.hostile-schemas-are-bounded")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
            "in a loop",
        ),
        ({"$ref": "#"}, "in a loop"),
        ({"allOf": [{"$ref": "#"}]}, "in a loop"),
        (
            {"properties": {f"p{i}": {"pattern": rf"^\p{{L}}{{60}}{i}$"} for i in range(64)}},
            "linear time",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "points to nothing"),
        ({"properties": {"a": {"$ref": "#/allOf/" + "9" * 5000}}, "allOf": [{}]}, "points to nothing"),
        ({"properties": {"a": {"pattern": "("}}}, "linear time"),
        ({"properties": {"a": {"pattern": "(?=a)b"}}}, "linear time"),
        ({"properties": {"a": {"pattern": r"(a)\1"}}}, "linear time"),
        ({"properties": {"a": {"pattern": "((a{999}){999}){999}"}}}, "linear time"),
        ({"properties": {f"p{i}": {"pattern": f"^{i}$"} for i in range(65)}}, "64 patterns"),
        ({"properties": {f"p{i}": {} for i in range(2001)}}, "2000 subschemas"),
        ({"properties": {"a": {"type": "text"}}}, "['properties']['a']['type']"),
        ({"properties": []}, "properties"),
        ({"required": "query"}, "required"),
        ({"properties": {"a": {"$id": "x"}}}, "uses $id"),
        ({"$anchor": "x"}, "uses $anchor"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_a_reason(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        Registry().register(Tool("hostile", "d", {"type": "object", **schema}, str))
    assert reason in str(caught.value)
    assert str(caught.value).startswith("tool hostile: ")


@requirement("tools.hostile-schemas-are-bounded")
def test_a_catastrophic_pattern_runs_in_linear_time() -> None:
    schema = compiled({"properties": {"a": {"pattern": "^(a+)+$"}}})
    assert list(schema.errors({"a": "a" * 1_000_000 + "!"}))


@requirement("tools.hostile-schemas-are-bounded")
@pytest.mark.parametrize(
    "each",
    [
        {"enum": [f"value {number}" for number in range(45_000)]},
        {"required": [f"p{number}" for number in range(45_000)]},
        {"dependentRequired": {f"p{number}": [] for number in range(45_000)}},
        {"properties": dict.fromkeys(map(str, range(45_000)), True)},
        {"anyOf": [False] * 45_000},
    ],
    ids=lambda each: next(iter(each)),
)
def test_a_long_list_is_not_gone_through_for_each_of_many_values(each: dict[str, Any]) -> None:
    schema = compiled({"properties": {"a": {"items": each}}})
    with pytest.raises(ToolError, match="send simpler ones"):
        schema.errors({"a": [{}] * 45_000})
    assert not list(compiled({"properties": {"a": {"items": {"enum": [*range(600)]}}}}).errors({"a": [599] * 10_000}))


@requirement("tools.hostile-schemas-are-bounded")
def test_very_many_names_are_registered_and_refused_in_bounded_time() -> None:
    """Comparing each name with each other would take minutes here and hit the suite's time limit."""
    names = [f"parameter_number_{number}" for number in range(49_000)]
    schema = {"type": "object", "properties": dict.fromkeys(names, True), "required": names}
    registry = Registry([Tool("t", "d", schema, str)])
    answer = registry.call("t", {f"paremeter_nomber_{number}": 1 for number in range(10)}).text
    assert "unknown argument 'paremeter_nomber_0': did you mean 'parameter_number_" in answer


@requirement("tools.hostile-schemas-are-bounded")
def test_references_that_double_are_counted_and_not_followed() -> None:
    definitions: dict[str, Any] = {"a0": {"type": "string"}}
    for i in range(1, 60):
        both = [{"$ref": f"#/$defs/a{i - 1}"}, {"$ref": f"#/$defs/a{i - 1}"}]
        definitions[f"a{i}"] = {"anyOf": both}
    schema = compiled({"properties": {"a": {"$ref": "#/$defs/a59"}}, "$defs": definitions})
    assert not list(schema.errors({}))
    with pytest.raises(ToolError, match="send simpler ones"):
        schema.errors({"a": 1})


@requirement("tools.hostile-schemas-are-bounded")
def test_recursion_that_doubles_with_each_level_is_bounded_too() -> None:
    twice = {"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}
    schema = compiled(twice)
    value: dict[str, Any] = {}
    for _ in range(9):
        value = {"a": value}
    assert not list(schema.errors(value))
    for _ in range(40):
        value = {"a": value}
    with pytest.raises(ToolError, match="send simpler ones"):
        schema.errors(value)


def test_arguments_that_are_dear_to_explain_are_refused_without_the_details() -> None:
    variants = [{"properties": {"a": {"$ref": "#"}, "kind": {"const": i}}, "required": ["kind"]} for i in range(10)]
    schema = compiled({"anyOf": variants})
    value: dict[str, Any] = {"kind": 99}
    for _ in range(3):
        value = {"kind": 1, "a": value}
    with pytest.raises(ToolError, match="do not fit the schema"):
        schema.errors(value)


def test_long_arrays_of_referenced_items_are_ordinary() -> None:
    schema = compiled(
        {"properties": {"a": {"items": {"$ref": "#/$defs/item"}}}, "$defs": {"item": {"type": "integer"}}}
    )
    assert not list(schema.errors({"a": list(range(90_000))}))
