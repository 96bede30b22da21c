"""A model is told everything that is wrong with its arguments, briefly, and what was expected."""

import json
from types import MappingProxyType
from typing import Any

import pytest

from onhand.errors import ToolError
from onhand.tools.arguments import ToolArguments, parse_arguments
from onhand.tools.tool import Tool
from requirements import requirement

SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20},
        "mode": {"enum": ["fast", "full"]},
        "filter": {
            "type": "object",
            "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["tags"],
            "additionalProperties": False,
        },
        "since": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["query"],
}
REMINDER = (
    'expected arguments: query: string, limit?: integer, mode?: "fast"|"full", filter?: object, since?: string|null'
)


def arguments(schema: dict[str, Any], *, strict: bool = True) -> ToolArguments:
    return ToolArguments(Tool("t", "d", {"type": "object", **schema}, str, strict_arguments=strict))


def refusal(schema: dict[str, Any], sent: Any, *, strict: bool = True) -> list[str]:
    with pytest.raises(ToolError) as caught:
        arguments(schema, strict=strict).read(sent)
    return str(caught.value).split("\n")


@requirement("tools.unknown-arguments-are-refused")
def test_an_unknown_argument_inside_of_another_is_refused_with_the_nearest() -> None:
    first, *_ = refusal(SEARCH, {"query": "a", "filter": {"tag": ["x"]}})
    assert first == "unknown argument 'tag' in filter: did you mean 'tags'?"
    inner = {"type": "object", "properties": {"path": {}}, "additionalProperties": False}
    schema = {"properties": {"edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}}}, "$defs": {"edit": inner}}
    assert refusal(schema, {"edits": [{"paht": 1}]})[0] == "unknown argument 'paht' in edits[0]: did you mean 'path'?"


@requirement("tools.arguments-are-checked")
def test_arguments_that_fit_come_back_as_a_copy() -> None:
    sent = {"query": "a", "limit": 3.0, "filter": {"tags": ["x"]}}
    read = arguments(SEARCH).read(sent)
    assert read == sent
    assert read["filter"] is not sent["filter"]


@requirement("tools.arguments-may-be-json-text")
@pytest.mark.parametrize("sent", ['{"query": "a"}', '\ufeff{"query": "a"}\r\n', {"query": "a"}])
def test_an_object_and_the_json_text_of_one_are_the_same(sent: Any) -> None:
    assert arguments(SEARCH).read(sent) == {"query": "a"}
    assert arguments(SEARCH).read(MappingProxyType({"query": "a"})) == {"query": "a"}


@pytest.mark.parametrize("sent", [None, "", "  ", "{}", {}])
def test_nothing_at_all_means_no_arguments(sent: Any) -> None:
    assert arguments({}).read(sent) == {}


@requirement("tools.missing-argument-is-named")
def test_a_missing_argument_is_named_and_the_expected_ones_are_listed() -> None:
    assert refusal(SEARCH, {}) == ["query is required", REMINDER]


@requirement("tools.all-problems-at-once")
def test_every_problem_is_reported_at_once() -> None:
    sent = {"qurey": "x", "limit": 0, "mode": "slow", "since": 5}
    assert refusal(SEARCH, sent) == [
        "unknown argument 'qurey': did you mean 'query'?",
        "query is required",
        "limit must be at least 1; given 0",
        'mode must be one of "fast", "full"; given the string "slow"',
        "since must be a string or must be null; given 5",
        REMINDER,
    ]


@requirement("tools.all-problems-at-once")
def test_no_more_than_five_problems_are_reported() -> None:
    sent = {f"x{i}": 1 for i in range(1000)}
    lines = refusal(SEARCH, sent)
    assert len(lines) == 7
    assert lines[5:] == ["and more", REMINDER]


@requirement("tools.arguments-are-checked")
@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"query": 5}, "query must be a string; given 5"),
        ({"query": None}, "query must be a string; given null"),
        ({"query": {"a": 1}}, "query must be a string; given an object with 1 entries"),
        ({"query": "a", "limit": "3"}, 'limit must be an integer; given the string "3"'),
        ({"query": "a", "limit": True}, "limit must be an integer; given true"),
        ({"query": "a", "limit": 21}, "limit must be at most 20; given 21"),
        ({"query": "a", "filter": {}}, "filter.tags is required"),
        ({"query": "a", "filter": {"tags": ["x", 2]}}, "filter.tags[1] must be a string; given 2"),
        ({"query": "a", "filter": {"tags": [], "u": 1}}, "unknown argument 'u' in filter"),
        ({"QUERY": "a", "query": "b"}, "unknown argument 'QUERY'"),
    ],
)
def test_a_problem_says_where_what_is_expected_and_what_was_given(sent: Any, problem: str) -> None:
    assert refusal(SEARCH, sent)[0] == problem


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"minLength": 2}, "a", "x must be at least 2 characters long; given"),
        ({"pattern": "^a+$"}, "b", "x must match the pattern ^a+$; given"),
        ({"uniqueItems": True}, [1, 1], "x must not have the same item twice; given an array of 2 items"),
        ({"const": 5}, 4, "x must be 5; given 4"),
        ({"multipleOf": 2}, 3, "x must be a multiple of 2; given 3"),
        ({"not": {"const": 1}}, 1, "x does not fit:"),
        (False, 1, "x is not allowed; given 1"),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3, "x must fit exactly one of the alternatives"),
        (
            {"anyOf": [{"type": "string"}, {"type": "object", "required": ["id"]}]},
            {},
            "x does not fit any of the alternatives; nearest: x.id is required",
        ),
        ({"enum": list(range(50))}, 99, "18, 19 and 30 more; given 99"),
    ],
)
def test_every_keyword_has_its_sentence(schema: Any, value: Any, problem: str) -> None:
    assert problem in refusal({"properties": {"x": schema}}, {"x": value})[0]


@requirement("tools.values-are-never-echoed-whole")
def test_a_bad_value_is_never_echoed_whole() -> None:
    huge = "x" * 10_000_000
    for sent in ({"query": "a", "limit": huge}, {huge: 1, "query": "a"}, {"query": "a", "filter": {huge: 1}}):
        lines = refusal(SEARCH, sent)
        assert all(len(line) < 500 for line in lines)
    many = {"properties": {f"name{i}": {"type": "string"} for i in range(1000)}, "required": ["name0"]}
    assert max(map(len, refusal(many, {}))) <= 400


@requirement("tools.unknown-arguments-are-refused")
def test_what_the_schema_allows_explicitly_is_allowed() -> None:
    schemas: list[dict[str, Any]] = [
        {"additionalProperties": True},
        {"additionalProperties": {"type": "integer"}},
        {"unevaluatedProperties": True},
        {"patternProperties": {"^x-": {}}},
        {"allOf": [{"properties": {"x-a": {}}}]},
        {"$ref": "#/$defs/base", "$defs": {"base": {"properties": {"x-a": {}}}}},
    ]
    for schema in schemas:
        assert arguments(schema).read({"x-a": 1}) == {"x-a": 1}
    assert refusal({"patternProperties": {"^x-": {}}}, {"y": 1})[0] == "unknown argument 'y'"
    assert refusal({"additionalProperties": {"type": "integer"}}, {"a": "b"})[0].startswith("a must be an integer")


@requirement("tools.unknown-arguments-are-refused")
def test_without_strict_arguments_only_the_schema_decides() -> None:
    assert arguments(SEARCH, strict=False).read({"query": "a", "more": 1}) == {"query": "a", "more": 1}
    closed = {"additionalProperties": False}
    assert refusal(closed, {"more": 1}, strict=False) == ["unknown argument 'more'", "expected no arguments"]
    assert refusal(closed, {"more": 1}) == ["unknown argument 'more'", "expected no arguments"]


@requirement("tools.bad-json-is-explained")
@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ('{"a":', "the arguments are not valid JSON: Expecting value at line 1, column 6"),
        ("{'a': 1}", "the arguments are not valid JSON"),
        ('{"a": 1}{"b": 2}', "the arguments are not valid JSON: Extra data"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": -Infinity}', "-Infinity is not a JSON number"),
        ('{"a": 01}', "the arguments are not valid JSON"),
        ('{"a": 1e999}', "a: inf is not a JSON number"),
        ('{"a": ' + "9" * 5000 + "}", "an integer of more than 4300 digits"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("[1]", "the arguments must be a JSON object, not an array of 1 items"),
        ("42", "must be a JSON object, not 42"),
        ('"x"', 'must be a JSON object, not the string "x"'),
        ([1], "must be a JSON object"),
        (b"{}", "must be a JSON object, not bytes"),
        ({"a": "\ud800"}, "a: contains a lone surrogate (U+D800)"),
        ('{"a": "\\ud800"}', "a: contains a lone surrogate (U+D800)"),
        ({"\udfff": 1}, "a key of the object: contains a lone surrogate (U+DFFF)"),
        ({"a": float("nan")}, "a: nan is not a JSON number"),
        ({"a": 10**5000}, "a: an integer may have at most 4200 digits"),
        ({"a": {1: 2}}, "a: keys of JSON objects must be strings, not int"),
        ({"a": b"x"}, "a: a bytes is not a JSON value"),
        ({"a": [0] * 200_000}, "more than 100000 values"),
    ],
)
def test_what_is_not_a_json_object_is_explained(sent: Any, problem: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_arguments(sent)
    assert problem in str(caught.value)


def test_nesting_of_arguments_is_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(70):
        deep = {"a": deep}
    with pytest.raises(ToolError, match="nested more than 64 levels"):
        parse_arguments(deep)


def test_odd_but_honest_text_passes_unchanged() -> None:
    for text in ("\0", "a\u2028b", "\ufeff", "👩‍👩‍👧‍👦", "é" * 1000, "$(id)", "x" * 10_000_000, ""):
        assert arguments(SEARCH).read(json.dumps({"query": text})) == {"query": text}
