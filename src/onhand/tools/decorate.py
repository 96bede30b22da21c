"""How does a function become a tool? Its signature is the schema, its docstring the description."""

import inspect
from collections.abc import Callable
from typing import Any, is_typeddict, overload

from onhand.errors import InputError
from onhand.tools.docstring import summary
from onhand.tools.fields import is_record, parameters_of, returned_by
from onhand.tools.schema import answer_schema, form_of, is_model
from onhand.tools.tool import ASSUMED, Handler, Hints, Tool


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    max_output_bytes: int = 8192,
    timeout_s: float | None = 30.0,
    hints: Hints = ASSUMED,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a typed function, sync or async: `@tool`, or `@tool(read_only=True, …)`.

    A function of one pydantic model, dataclass, TypedDict or NamedTuple has that one's fields as arguments. What
    gives a TypedDict has that as the schema of its structured output.
    """
    return _tool(function, **options) if function else lambda decorated: _tool(decorated, **options)


def _tool(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None, **limits: Any
) -> Tool:
    name = name or function.__name__
    description = description or summary(inspect.getdoc(function))
    if not description:
        raise InputError(f"tool {name}: give the function a docstring, or pass description=…")
    schema, handler = _arguments(function)
    returned = returned_by(function)
    answer = answer_schema(returned) if is_typeddict(returned) else None
    return Tool(name, description, schema, handler, output_schema=answer, **limits)


def _arguments(function: Callable[..., Any]) -> tuple[dict[str, Any], Handler]:
    fields = parameters_of(function).fields
    takes_one = len(fields) == 1 and (is_record(fields[0].annotation) or is_model(fields[0].annotation))
    form = form_of(fields[0].annotation if takes_one else function)
    if not takes_one:
        call = form.build
    else:

        def call(arguments: Any) -> Any:
            return function(form.build(arguments))

    if not inspect.iscoroutinefunction(function):
        return form.schema, call

    async def handler(arguments: dict[str, Any]) -> Any:
        return await call(arguments)

    return form.schema, handler
