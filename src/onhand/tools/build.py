"""Does this JSON value fit? The steps that the builders of `schema` are made of; ToolError if it does not."""

from collections.abc import Callable
from typing import Any

from onhand.errors import ToolError


def expect(fits: bool, what: str) -> None:
    if not fits:
        raise ToolError(f"the value does not fit {what}")


def exactly(kind: type, value: Any) -> Any:
    expect(isinstance(value, kind), kind.__name__)
    return value


def integer(value: Any) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())  # JSON's 3.0 is an integer
    expect(whole and not isinstance(value, bool), "int")
    return int(value)


def number(value: Any) -> float:
    expect(isinstance(value, int | float) and not isinstance(value, bool), "float")
    try:
        return float(value)
    except OverflowError:
        raise ToolError("a number is too large; send one under 1e308") from None


def chosen(members: list[Any], values: list[Any], value: Any) -> Any:
    for member, candidate in zip(members, values, strict=True):
        if candidate == value and isinstance(candidate, bool) == isinstance(value, bool):
            return member
    raise ToolError("the value is none of the choices")


def first_that_fits(builds: list[Callable[[Any], Any]], value: Any) -> Any:
    for build in builds:
        try:
            return build(value)
        except ToolError as error:
            problem = error
    raise problem


def validated(model: Any, value: Any) -> Any:
    try:
        return model.model_validate(value)
    except ValueError as error:
        problems = error.errors(include_url=False, include_input=False)[:5] if hasattr(error, "errors") else []
        lines = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems]
        raise ToolError("\n".join(lines) or str(error)) from None
