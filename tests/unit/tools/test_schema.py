"""A type says which JSON it takes, and gets the value that the JSON stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum, IntEnum
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    Union,
)

import pytest
from pydantic import BaseModel, Field

from onhand.errors import InputError, ToolError
from onhand.tools.schema import answer_schema, read_type, schema_of
from requirements import requirement

UserId = NewType("UserId", int)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Filter:
    """Which documents.

    Attributes:
        tags: all of them must be there
    """

    tags: list[str]
    author: str = field(default="", metadata={"description": "who wrote it"})
    colors: set[Color] = field(default_factory=set)
    seen: int = field(default=0, init=False)


@dataclass
class Node:
    name: str
    children: list["Node"] = field(default_factory=list)


class Page(TypedDict):
    title: str
    body: NotRequired[str]


class Loose(TypedDict, total=False):
    title: Required[str]
    body: str


class Point(NamedTuple):
    x: int
    y: int = 0


class Model(BaseModel):
    """A model."""

    text: str = Field(min_length=1, description="what to say")
    child: Optional["Model"] = None


@requirement("tools.schema-nested")
@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (frozenset[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (dict, {"type": "object", "additionalProperties": True}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Optional[str], {"type": ["string", "null"]}),  # noqa: UP045
        (int | str | None, {"type": ["integer", "string", "null"]}),
        (
            Union[list[int], None],  # noqa: UP007
            {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        ),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (UserId, {"type": "integer"}),
        (date, {"type": "string", "format": "date"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (
            Annotated[int, "how many", {"minimum": 1}],
            {"type": "integer", "description": "how many", "minimum": 1},
        ),
    ],
)
def test_a_type_has_its_schema(kind: Any, schema: dict[str, Any]) -> None:
    assert schema_of(kind) == schema


@requirement("tools.schema-nested", "tools.schema-required")
def test_a_field_with_a_default_is_not_required_and_the_default_is_shown() -> None:
    assert schema_of(Filter) == {
        "type": "object",
        "description": "Which documents.",
        "properties": {
            "tags": {
                "type": "array",
                "items": {"type": "string"},
                "description": "all of them must be there",
            },
            "author": {"type": "string", "description": "who wrote it", "default": ""},
            "colors": {"type": "array", "items": schema_of(Color), "uniqueItems": True},
        },
        "required": ["tags"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("kind", [Page, Loose])
def test_a_typed_dict_says_which_keys_are_required(kind: Any) -> None:
    schema = schema_of(kind)
    assert schema["required"] == ["title"]
    assert schema["properties"] == {"title": {"type": "string"}, "body": {"type": "string"}}


def test_when_nothing_is_required_nothing_is_said_about_it() -> None:
    def every(a: int = 1, b: Color = Color.RED, c: object = object) -> None: ...

    assert schema_of(every) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "default": 1},
            "b": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "c": {},
        },
        "additionalProperties": False,
    }


@requirement("tools.schema-of-recursive-types")
def test_a_class_that_contains_itself_is_referred_to_within_the_schema() -> None:
    node = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert schema_of(Node) == {**node, "$defs": {"Node": node}}
    assert schema_of(list[Node]) == {
        "type": "array",
        "items": {"$ref": "#/$defs/Node"},
        "$defs": {"Node": node},
    }
    built = read_type(Node).build({"name": "a", "children": [{"name": "b"}]})
    assert built == Node("a", [Node("b")])


@requirement("tools.from-model")
def test_a_pydantic_model_speaks_for_itself() -> None:
    schema = schema_of(Model)
    assert schema["type"] == "object"
    assert schema["properties"]["text"] == {
        "type": "string",
        "minLength": 1,
        "description": "what to say",
        "title": "Text",
    }
    assert schema["required"] == ["text"]

    def both(one: Model, other: list[Model]) -> None: ...

    nested = schema_of(both)
    reference = nested["properties"]["one"]["$ref"].removeprefix("#/$defs/")
    assert nested["$defs"][reference]["required"] == ["text"]
    assert read_type(Model).build({"text": "a", "child": {"text": "b"}}) == Model(text="a", child=Model(text="b"))
    with pytest.raises(ToolError, match="text: String should have at least 1 character"):
        read_type(Model).build({"text": ""})


@requirement("tools.handlers-get-built-values")
@pytest.mark.parametrize(
    ("kind", "value", "built"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[int], [1, 2], {1, 2}),
        (Color, "red", Color.RED),
        (Literal[1, True], True, True),
        (date, "2026-01-31", date(2026, 1, 31)),
        (datetime, "2026-01-31T12:00:00+00:00", datetime.fromisoformat("2026-01-31T12:00:00+00:00")),
        (Point, {"x": 1}, Point(1, 0)),
        (Page, {"title": "a"}, {"title": "a"}),
        (Filter, {"tags": [], "colors": ["blue"]}, Filter([], colors={Color.BLUE})),
        (Filter | Point, {"x": 1}, Point(1)),
        (int | float, 3.5, 3.5),
        (Color | None, None, None),
        (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
        (list[Any], [1, {"a": None}], [1, {"a": None}]),
    ],
)
def test_json_becomes_the_value_it_stands_for(kind: Any, value: Any, built: Any) -> None:
    found = read_type(kind).build(value)
    assert found == built
    assert type(found) is type(built)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (date, "soon", "must be a date such as 2026-01-31"),
        (float, 10**400, "too large"),
        (int, True, "does not fit int"),
        (str | int, [], "does not fit int"),
        (Filter | Point, {"z": 1}, "does not fit Point"),
        (Color, "green", "not one of the choices"),
    ],
)
def test_json_that_does_not_fit_is_refused(kind: Any, value: Any, text: str) -> None:
    with pytest.raises(ToolError) as caught:
        read_type(kind).build(value)
    assert text in str(caught.value)


@requirement("tools.schema-unknown-type-is-refused")
def test_a_type_that_json_cannot_hold_is_named_with_what_to_use() -> None:
    def raw(data: bytes) -> None: ...
    def bare(data) -> None: ...  # type: ignore[no-untyped-def]
    def several(*data: int) -> None: ...
    def named(**data: int) -> None: ...
    def first(data: int, /) -> None: ...
    def keys(data: dict[int, str]) -> None: ...
    def odd(data: Literal[b"x"]) -> None: ...
    def nested(data: list[complex]) -> None: ...
    def unhashable(data: [int]) -> None: ...  # type: ignore[misc, valid-type]
    def unknown(data: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function, text in [
        (raw, "raw: 'data': the type bytes is not supported; use str, int,"),
        (bare, "bare: parameter 'data' has no type; annotate it, such as data: str"),
        (several, "parameter '*data: int' cannot be passed by name"),
        (named, "parameter '**data: int' cannot be passed by name"),
        (first, "cannot be passed by name"),
        (keys, "keys: 'data': the keys of a JSON object are strings; use dict[str, …]"),
        (odd, "b'x' cannot be a choice in JSON"),
        (nested, "nested: 'data': the type complex is not supported"),
        (unhashable, "unhashable"),
        (unknown, "unknown: a type cannot be read (name 'Nowhere' is not defined)"),
    ]:
        with pytest.raises(InputError) as caught:
            schema_of(function)
        assert text in str(caught.value)


def test_two_classes_of_one_name_do_not_mix() -> None:
    class Outer:
        class Model(BaseModel):
            child: "Outer.Model | None" = None
            other: int = 1

    Outer.Model.model_rebuild(_types_namespace={"Outer": Outer})

    def both(one: Model, other: Any) -> None: ...

    both.__annotations__["other"] = Outer.Model
    schema = schema_of(both)
    first, second = (
        schema["$defs"][schema["properties"][name]["$ref"].removeprefix("#/$defs/")] for name in ("one", "other")
    )
    assert set(first["properties"]) == {"text", "child"}
    assert set(second["properties"]) == {"child", "other"}


class Found(TypedDict):
    """What was found."""

    pages: list[Page]
    scores: dict[str, float]
    metadata: dict[str, Any]
    span: Annotated[list[int], {"minItems": 2}]
    reason: str | None
    notes: NotRequired[list[str]]


@requirement("tools.schema-of-answers")
def test_an_answer_is_described_by_names_and_types_alone_and_may_have_more() -> None:
    page = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "body": {"type": "string"}},
        "required": ["title"],
    }
    assert answer_schema(Found) == {
        "type": "object",
        "properties": {
            "pages": {"type": "array", "items": page},
            "scores": {"type": "object", "additionalProperties": {"type": "number"}},
            "metadata": {"type": "object"},
            "span": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
            "reason": {"type": ["string", "null"]},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["pages", "scores", "metadata", "span", "reason"],
    }
    assert answer_schema(Filter)["properties"]["tags"] == {"type": "array", "items": {"type": "string"}}
    assert "default" not in str(answer_schema(Point))
    assert list(answer_schema(Node)) == ["type", "properties", "required", "$defs"]
