"""A typed function is a tool."""

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel, field_validator

from onhand.errors import InputError
from onhand.tools import Registry, Tool, tool
from onhand.tools.docstring import parameters, summary
from requirements import requirement


class Mode(Enum):
    FAST = "fast"
    FULL = "full"


@requirement("tools.from-typed-function", "tools.schema-descriptions")
def test_a_function_becomes_a_tool_with_its_signature_as_schema() -> None:
    @tool
    def search_pages(query: Annotated[str, "what to find"], mode: Mode = Mode.FAST, limit: int = 3) -> str:
        """Find pages that match a query.

        Returns the best first.

        Args:
            query: not used, the annotation is nearer
            limit (int): how many at most,
                counted in pages
        """
        return f"{query} {mode!r} {limit}"

    assert isinstance(search_pages, Tool)
    assert search_pages.wire() == {
        "name": "search_pages",
        "description": "Find pages that match a query.",
        "input_schema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "what to find"},
                "mode": {"type": "string", "enum": ["fast", "full"], "default": "fast"},
                "limit": {
                    "type": "integer",
                    "description": "how many at most, counted in pages",
                    "default": 3,
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    }
    registry = Registry([search_pages])
    assert registry.call("search_pages", {"query": "a", "mode": "full"}).text == "a <Mode.FULL: 'full'> 3"
    assert registry.call("search_pages", {}).text.startswith("query is required\n")


@requirement("tools.from-typed-function", "tools.tool-parts")
def test_name_description_and_limits_can_be_given() -> None:
    @tool(name="pages.get", description="Get one.", read_only=True, max_output_bytes=10, timeout_s=None)
    async def anything(number: int) -> dict[str, int]:
        return {"got": number}

    assert anything[:2] == ("pages.get", "Get one.")
    assert (anything.read_only, anything.max_output_bytes, anything.timeout_s) == (True, 10, None)
    assert Registry([anything]).call("pages.get", {"number": 7}).structured == {"got": 7}


class Record(NamedTuple):
    number: int


class Entry(TypedDict):
    number: int


@dataclass
class Data:
    number: int


class Model(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_odd(cls, number: int) -> int:
        if number % 2 == 0:
            raise ValueError("send an odd number")
        return number


@requirement("tools.from-typed-function", "tools.from-model")
@pytest.mark.parametrize("kind", [Record, Entry, Data, Model])
def test_a_function_of_one_record_has_its_fields_as_arguments(kind: Any) -> None:
    def show(record: Any) -> str:
        """Show it."""
        return repr(record)

    show.__annotations__["record"] = kind
    made = tool(show)
    assert list(made.input_schema["properties"]) == ["number"]
    assert Registry([made]).call("show", {"number": 7}).text == repr(kind(number=7))


@requirement("tools.from-model")
def test_what_a_model_refuses_beyond_its_schema_is_text_for_the_model() -> None:
    @tool
    def show(record: Model) -> str:
        """Show it."""
        return repr(record)

    result = Registry([show]).call("show", {"number": 8})
    assert (result.ok, result.text) == (False, "number: Value error, send an odd number")


def test_a_method_of_an_object_can_be_a_tool() -> None:
    class Shelf:
        def count(self, kind: str) -> int:
            """Count."""
            return len(kind)

    assert Registry([tool(Shelf().count)]).call("count", {"kind": "abc"}).text == "3"


def test_a_function_that_says_nothing_about_itself_is_refused() -> None:
    def silent(a: int) -> None: ...

    with pytest.raises(InputError, match="tool silent: give the function a docstring"):
        tool(silent)
    with pytest.raises(InputError, match="is not a function"):
        tool(name="n", description="d")(partial(print, "a"))


@pytest.mark.parametrize(
    ("doc", "first", "described"),
    [
        (None, "", {}),
        ("One\n    line more.\n\n    Rest.", "One line more.", {}),
        (
            "Do.\n:param a: the a\n:param int b: the b,\n    and more\n:returns: x",
            "Do.",
            {"a": "the a", "b": "the b, and more"},
        ),
        (":param a: the a", "", {"a": "the a"}),
        (
            "Do.\n\nArgs:\n    a: the a\n        b: not a parameter\n    c (int, optional): the c\n\n"
            "Returns:\n    d: no",
            "Do.",
            {"a": "the a b: not a parameter", "c": "the c"},
        ),
        ("Do.\r\n\r\nArgs:\r\n    a: the a\r\n", "Do.", {"a": "the a"}),
        ("Note: this is not a section\n\n  x: nor this", "Note: this is not a section", {}),
    ],
)
def test_a_docstring_is_read_in_both_styles(doc: str | None, first: str, described: dict[str, str]) -> None:
    assert summary(doc) == first
    assert parameters(doc) == described


class Sum(TypedDict):
    total: int


@requirement("tools.schema-of-answers")
def test_a_function_that_gives_a_typed_dict_has_the_schema_of_its_answer() -> None:
    @tool(read_only=True)
    def add(numbers: list[int]) -> Sum:
        """Add numbers."""
        return {"total": sum(numbers)}

    assert add.output_schema == {
        "type": "object",
        "properties": {"total": {"type": "integer"}},
        "required": ["total"],
    }
    result = Registry([add]).call("add", {"numbers": [1, 2]})
    assert (result.text, result.structured) == ('{"total": 3}', {"total": 3})

    @tool
    def say() -> str:
        """Say it."""
        return "it"

    assert say.output_schema is None
