"""Do these arguments fit? What a model sent, read as JSON and held against the schema of its tool.

Everything that is wrong is told at once, so that one more call can put it right.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NoReturn

from onhand.errors import InputError, ToolError
from onhand.tools.compiled import Compiled
from onhand.tools.problems import reminder, sentences, shown, unknown
from onhand.tools.tool import Tool, plain

MAX_PROBLEMS = 5  # a model that reads five problems mends them all; more is noise


class Arguments:
    """The arguments of one tool: its schema, compiled once."""

    def __init__(self, tool: Tool) -> None:
        """Compile the schema; InputError names the tool whose schema cannot be used."""
        try:
            self._compiled = Compiled(tool.input_schema)
        except InputError as error:
            raise InputError(f"tool {tool.name}: {error}") from None
        self._schema = tool.input_schema
        closed = tool.input_schema.get("additionalProperties") is False
        self._refuses_unknown = closed or (tool.strict_arguments and not self._compiled.open)
        self._reminder = reminder(tool.input_schema)
        self._aliases = tool.aliases

    def read(self, sent: object) -> dict[str, Any]:
        """A fresh copy of the arguments, checked; ToolError tells the model what to change."""
        arguments = self._renamed(parsed(sent))
        problems = list(islice(dict.fromkeys(self._problems(arguments)), MAX_PROBLEMS + 1))
        if not problems:
            return arguments
        if len(problems) > MAX_PROBLEMS:
            problems[MAX_PROBLEMS:] = ["and more"]
        raise ToolError("\n".join([*problems, self._reminder]))

    def _renamed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments by the names of the schema, also in what they list."""
        renamed = self._by_known_names(arguments)
        for name, value in renamed.items() if self._aliases else ():
            if isinstance(value, list):
                renamed[name] = [self._by_known_names(one) if isinstance(one, dict) else one for one in value]
        return renamed

    def _by_known_names(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Of one that is given by two names, the second is refused."""
        renamed: dict[str, Any] = {}
        for name, value in arguments.items():
            alias = self._aliases.get(name, name)
            known = alias if isinstance(alias, str) else alias.name
            if known in renamed or (known != name and known in arguments):
                renamed[name] = value
            else:
                renamed[known] = value if isinstance(alias, str) else _in_units(value, alias.per)
        return renamed

    def _problems(self, arguments: dict[str, Any]) -> Iterator[str]:
        errors = self._compiled.errors(arguments)
        unknown_names = self._compiled.unknown(arguments) if self._refuses_unknown else []
        free = [name for name in self._compiled.names if name not in arguments]
        for name in unknown_names[: MAX_PROBLEMS + 1]:
            yield unknown(name, free)
        for error in islice(errors, 10 * MAX_PROBLEMS):
            if not (unknown_names and _is_about_unknown(error)):
                yield from sentences(error, self._schema)


def _in_units(value: Any, per: int) -> Any:
    """A number of smaller units in whole ones; whatever else it is, the schema judges it as it came."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return value / per
    except OverflowError:
        return value


def parsed(sent: object) -> dict[str, Any]:
    """The arguments as a plain dictionary: models send an object, or the JSON text of one, or nothing."""
    if isinstance(sent, str):
        sent = _loaded(sent)
    if sent is None:
        return {}
    if not isinstance(sent, Mapping):
        given = shown(sent) if isinstance(sent, str | int | float | bool | list) else type(sent).__name__
        raise ToolError(f"the arguments must be a JSON object, not {given}")
    try:
        arguments: dict[str, Any] = plain(sent, "")
    except InputError as error:
        raise ToolError(str(error)) from None
    return arguments


def _loaded(text: str) -> Any:
    text = text.removeprefix("\ufeff").strip()
    if not text:
        return {}
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ToolError(
            f"the arguments are not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise ToolError("the arguments are nested too deeply; flatten them") from None
    except ValueError:  # Python refuses to read integers of more than 4300 digits
        raise ToolError("the arguments contain an integer of more than 4300 digits; send a smaller one") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ToolError(f"the arguments are not valid JSON: {name} is not a JSON number; send a finite number or null")


def _is_about_unknown(error: Any) -> bool:
    kinds = ("additionalProperties", "unevaluatedProperties", "falseSchema")
    return not error.instance_path and error.kind.name in kinds
