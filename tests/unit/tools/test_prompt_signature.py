from typing import Any

import pytest

from onhand.tools.prompt import signature
from requirements import requirement

ISSUE = {
    "type": "object",
    "properties": {
        "body": {"type": "string"},
        "repo": {"type": "string"},
        "title": {"type": "string"},
        "state": {"enum": ["open", "closed"]},
        "labels": {"type": "array", "items": {"type": "string"}},
        "milestone": {"type": ["integer", "null"]},
        "draft": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "ids": {"type": "array", "items": {"$ref": "#/$defs/id"}},
    },
    "required": ["repo", "title", "state"],
    "$defs": {"id": {"type": "integer"}},
}


@requirement("catalog.compact-signature")
def test_a_signature_has_what_is_needed_first_and_says_what_is_not_text() -> None:
    assert signature("create_issue", ISSUE) == (
        "create_issue(repo, title, state: open|closed, body?, labels?: list, milestone?: int, draft?: bool, "
        "ids?: [int])"
    )


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({}, "t()"),
        ({"properties": None, "required": "a"}, "t()"),
        ({"properties": {"a": None, "b": 7}, "required": [["a"], "b"]}, "t(b, a?)"),
        ({"properties": {"a": {"enum": list("123456789")}}}, "t(a?: 1|2|3|4|5|6|7|8|…)"),
        ({"properties": {"a": {"const": 7}}}, "t(a?: 7)"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "t(a?)"),
        ({"properties": {"a": {"$ref": "http://elsewhere"}}}, "t(a?)"),
        ({"properties": {"a\n\x1b[31m)": {"enum": ["x\ny"]}}}, "t(a[31m)?: xy)"),
        ({"properties": {"n" * 99: {}}}, f"t({'n' * 39}…?)"),
        ({"properties": {"a": {"oneOf": [{"type": "integer"}, {"type": "string"}]}}}, "t(a?)"),
    ],
)
def test_a_signature_of_any_schema_is_one_printable_line(schema: dict[str, Any], shown: str) -> None:
    assert signature("t", schema) == shown
    assert signature("t", schema).isprintable()


def test_many_arguments_are_cut() -> None:
    many: dict[str, Any] = {"properties": {f"a{number}": {} for number in range(10_000)}}
    assert signature("t", many).endswith("a23?, …)")


class Counted(dict[str, Any]):
    """A part of a schema that counts how often it is looked at."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.looks += 1
        return super().get(key, default)


@requirement("catalog.compact-signature")
def test_references_that_branch_into_themselves_cost_little() -> None:
    again = Counted({"anyOf": [Counted({"$ref": "#/$defs/a"})] * 8})
    properties = {f"p{number}": {"$ref": "#/$defs/a"} for number in range(1_000)}
    Counted.looks = 0
    shown = signature("t", {"$defs": Counted({"a": again}), "properties": properties})
    assert shown.startswith("t(p0?, p1?")
    assert 0 < Counted.looks < 50_000


def test_values_are_shown_as_json_has_them() -> None:
    schema = {"properties": {"a": {"enum": [True, None, 1.5, ["x"]]}}}
    assert signature("t", schema) == 't(a?: true|null|1.5|["x"])'
