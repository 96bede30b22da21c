"""A typed function is a tool."""

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel, field_validator

from onhand.agent.toolbox import Toolbox
from onhand.errors import InputError, NotFound, OnhandError, ToolError
from onhand.record import Record as LightRecord
from onhand.tools import Output, Registry, Tool, tool
from onhand.tools.catalog import Catalog
from onhand.tools.schema import parameter_descriptions, summary
from onhand.tools.session import Session
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

    with pytest.raises(InputError, match="tool silent: there is no description"):
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
    assert parameter_descriptions(doc) == described


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


class Hit(LightRecord):
    path: str
    lines: tuple[int, int]


class Answer(LightRecord):
    """What a search found."""

    hits: tuple[Hit, ...]
    reason: str | None = None
    left_out: int = 0

    def to_text(self) -> str:
        more = [f"[{self.left_out} more]"] if self.left_out else []
        return "\n".join([hit.path for hit in self.hits] + more)


ANSWER_SCHEMA = {
    "type": "object",
    "properties": {
        "hits": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "lines": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
                },
                "required": ["path", "lines"],
            },
        },
        "reason": {"type": ["string", "null"]},
        "left_out": {"type": "integer"},
    },
    "required": ["hits", "reason", "left_out"],
}


@requirement("tools.schema-of-answers")
def test_a_function_that_returns_a_record_has_its_schema_its_json_and_its_text() -> None:
    @tool(read_only=True)
    def find(count: int) -> Answer:
        """Find."""
        return Answer(tuple(Hit(f"page-{number}.md", (1, number)) for number in range(count)))

    assert find.output_schema == ANSWER_SCHEMA
    result = Registry([find]).call("find", {"count": 2})
    assert result.text == "page-0.md\npage-1.md"
    assert result.structured == {
        "hits": [{"path": "page-0.md", "lines": [1, 0]}, {"path": "page-1.md", "lines": [1, 1]}],
        "reason": None,
        "left_out": 0,
    }


@requirement("tools.structured-answers-fit")
def test_a_record_that_is_too_large_loses_the_same_items_in_text_and_json() -> None:
    @tool(max_output_bytes=1000)
    def find() -> Answer:
        """Find."""
        return Answer(tuple(Hit(f"page-{number}.md", (1, number)) for number in range(200)))

    result = Registry([find]).call("find", {})
    shown = len(result.structured["hits"])
    assert 10 < shown < 30
    assert result.structured["left_out"] == 200 - shown
    assert result.text.splitlines()[-2:] == [f"page-{shown - 1}.md", f"[{200 - shown} more]"]
    assert result.truncated_bytes == 0


def test_an_output_has_a_text_that_is_not_in_its_json() -> None:
    @tool
    def fetch() -> Output[Hit]:
        """Fetch."""
        return Output("only the model reads this", Hit("a.md", (1, 2)))

    assert fetch.output_schema == ANSWER_SCHEMA["properties"]["hits"]["items"]  # type: ignore[index]
    result = Registry([fetch]).call("fetch", {})
    assert (result.text, result.structured) == ("only the model reads this", {"path": "a.md", "lines": [1, 2]})


@requirement("tools.from-typed-function")
def test_a_decorated_function_can_still_be_called() -> None:
    @tool
    def add(a: int, b: int = 0) -> int:
        """Add two numbers."""
        return a + b

    assert isinstance(add, Tool)
    assert (add(1, 2), add(a=1), Registry([add]).call("add", {"a": 1, "b": 2}).text) == (3, 1, "3")


def test_keywords_can_be_added_to_the_schema_of_a_parameter() -> None:
    @tool(parameters={"limit": {"maximum": 7, "description": "At most 7."}})
    def find(query: str, limit: int = 3) -> str:
        """Find."""
        return query * limit

    limit = {"type": "integer", "default": 3, "maximum": 7, "description": "At most 7."}
    assert find.input_schema["properties"]["limit"] == limit
    with pytest.raises(InputError, match="tool add: the function has no parameter 'c'"):
        tool(lambda: 1, name="add", description="d", parameters={"c": {}})


@requirement("tools.schema-required")
def test_an_optional_parameter_is_one_that_may_be_left_out_or_null() -> None:
    @tool
    def read(path: str, start: Annotated[int | None, "The first line."] = None) -> str:
        """Read."""
        return f"{path}:{start}"

    assert read.input_schema["properties"]["start"] == {"type": "integer", "description": "The first line."}
    registry = Registry([read])
    for start in ({}, {"start": None}):
        assert registry.call("read", {"path": "a", **start}).text == "a:None"
    assert not registry.call("read", {"path": None}).ok


def test_a_policy_decides_what_is_told_of_our_errors() -> None:
    def with_path(error: OnhandError, arguments: dict[str, Any]) -> ToolError:
        return ToolError(f"sorry: {error}", {"success": False, "path": arguments["path"]})

    def read(path: str) -> str:
        """Read."""
        raise NotFound(f"there is no\n{path}")

    async def read_later(path: str) -> str:
        """Read."""
        return read(path)

    for function in (read, read_later):
        result = Registry([tool(function, name="read", on_error=with_path)]).call("read", {"path": "a"})
        assert (result.ok, result.text) == (False, "sorry: there is no\na")
        assert result.structured == {"success": False, "path": "a"}
    plain = Registry([read]).call("read", {"path": "a"})
    assert (plain.text, plain.structured) == ("there is no a", None)


def test_a_registry_takes_typed_functions_and_says_what_else_to_pass() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    assert Registry([add]).call("add", {"a": 2}).text == "2"
    with pytest.raises(InputError, match="is not a tool; pass a Tool, or a typed function with a docstring"):
        Registry([{"name": "add"}])  # type: ignore[list-item]
    with pytest.raises(InputError, match="this is already a Tool"):
        tool(tool(add))  # type: ignore[arg-type]


@pytest.mark.parametrize("take", [Registry, Session, Catalog().add, Toolbox])
@pytest.mark.parametrize("tools", [3, None, "read_file"])
def test_what_is_not_a_list_of_tools_is_refused_with_what_to_pass(take: Any, tools: Any) -> None:
    with pytest.raises(InputError, match="is not a list of tools; pass Tools, or typed functions"):
        take(tools)
