"""Make a Tool of a typed function: its signature is the input schema, its docstring the description, the record that it
returns the output schema."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin, overload

from onhand.errors import InputError, OnhandError, ToolError
from onhand.tools.schema import answer_schema, is_model, is_record, parameters_of, read_type, return_type, summary
from onhand.tools.tool import ASSUMED, ArgumentAlias, Handler, Hints, Output, Tool

ErrorPolicy = Callable[[OnhandError, dict[str, Any]], ToolError]
"""Turns an OnhandError that these arguments caused into the ToolError to raise."""


@overload
def tool(
    function: Callable[..., Any],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    read_only: bool = False,
    max_output_bytes: int = 8192,
    timeout_s: float | None = 30.0,
    aliases: Mapping[str, str | ArgumentAlias] | None = None,
    hints: Hints = ASSUMED,
    on_error: ErrorPolicy | None = None,
) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    read_only: bool = False,
    max_output_bytes: int = 8192,
    timeout_s: float | None = 30.0,
    aliases: Mapping[str, str | ArgumentAlias] | None = None,
    hints: Hints = ASSUMED,
    on_error: ErrorPolicy | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a typed function, sync or async: `@tool`, or `@tool(read_only=True, …)`.

    The Tool can still be called as the function. A function with a single parameter that is a pydantic model,
    dataclass, TypedDict or NamedTuple takes the fields of that class as its arguments. A function that returns a
    NamedTuple, dataclass, TypedDict or `Output` of one has its schema as output schema; a NamedTuple too large for
    max_output_bytes is cut to fit.

    Args:
        name: the name of the tool; the function's unless given
        description: what the model reads; the first paragraph of the docstring unless given
        parameters: for each parameter, keywords to add to its schema, such as {"limit": {"maximum": 50}}
        read_only: whether it changes nothing, so that calls may run side by side
        max_output_bytes: how long its text and its JSON may become
        timeout_s: after how many seconds it is abandoned; None for never
        aliases: other names of parameters that models tend to use
        hints: what a call may do to the world
        on_error: turns an OnhandError into a ToolError; unless given, the model reads its message on one line
    """
    return _make_tool(function, **options) if function else lambda decorated: _make_tool(decorated, **options)


def as_tool(tool: object) -> Tool:
    """Return a Tool, or make one of a typed function; InputError for anything else."""
    if isinstance(tool, Tool):
        return Tool(*tool)  # again, because _replace() does not check what it replaces
    if inspect.isroutine(tool):
        return _make_tool(tool)
    raise InputError(f"{repr(tool)[:80]} is not a tool; pass a Tool, or a typed function with a docstring")


def _make_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    on_error: ErrorPolicy | None = None,
    aliases: Mapping[str, str | ArgumentAlias] | None = None,
    **limits: Any,
) -> Tool:
    if isinstance(function, Tool):
        raise InputError(f"tool {function.name}: this is a Tool already; use it directly, or _replace() its fields")
    schema, handler = _read_signature(function)
    name = name or function.__name__
    description = description or summary(inspect.getdoc(function))
    if not description:
        raise InputError(f"tool {name}: give the function a docstring, or pass description=…")
    return Tool(
        name,
        description,
        _with_keywords(schema, parameters or {}, name),
        _with_policy(handler, on_error) if on_error else handler,
        output_schema=_output_schema(return_type(function)),
        aliases=aliases or {},
        function=function,
        **limits,
    )


def _read_signature(function: Callable[..., Any]) -> tuple[dict[str, Any], Handler]:
    fields = parameters_of(function).fields
    takes_one = len(fields) == 1 and (is_record(fields[0].annotation) or is_model(fields[0].annotation))
    form = read_type(fields[0].annotation if takes_one else function)
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


def _with_keywords(schema: dict[str, Any], parameters: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    properties = schema.get("properties", {})
    unknown = [parameter for parameter in parameters if parameter not in properties]
    if unknown:
        raise InputError(f"tool {name}: parameters names {unknown[0]!r}, which the function does not take")
    described = {key: {**value, **parameters.get(key, {})} for key, value in properties.items()}
    return {**schema, "properties": described}


def _output_schema(returned: Any) -> dict[str, Any] | None:
    if get_origin(returned) is Output:
        (returned,) = get_args(returned)
    return answer_schema(returned) if is_record(returned) and returned is not Output else None


def _with_policy(handler: Handler, on_error: ErrorPolicy) -> Handler:
    """Wrap a handler so that its OnhandErrors go through a policy."""
    if inspect.iscoroutinefunction(handler):

        async def answer(arguments: dict[str, Any]) -> Any:
            try:
                return await handler(arguments)
            except OnhandError as error:
                raise on_error(error, arguments) from None

        return answer

    def answer_sync(arguments: dict[str, Any]) -> Any:
        try:
            return handler(arguments)
        except OnhandError as error:
            raise on_error(error, arguments) from None

    return answer_sync
