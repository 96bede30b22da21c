"""What is a tool? A name, a description, a schema of its arguments and the code behind it.

It knows nothing of validation, threads or event loops: the registry runs tools. So it is cheap to import.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from onhand.errors import InputError

Handler = Callable[[dict[str, Any]], Any]
"""Takes the arguments as one mapping; gives text, an Output or a JSON value, or an awaitable of one."""

NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")  # the names that MCP allows
MAX_DEPTH = 64  # no honest schema or argument comes near; recursion beyond it would meet Python's own limit
MAX_VALUES = 100_000  # keeps the copy of hostile input under about 0.1 s
_SMALL = 2**63
MAX_INTEGER_BITS = 14_000  # Python refuses to print integers of more than 4300 digits


class Alias(NamedTuple):
    """Another name of an argument, under which numbers count in a smaller unit."""

    name: str
    per: int  # how many of them make one


_NO_ALIASES: Mapping[str, str | Alias] = MappingProxyType({})


class Output(NamedTuple):
    """What a handler gives when it has both a text for the model and a JSON value for programs."""

    text: str
    structured: Any = None


class Hints(NamedTuple):
    """What a call may do to the world; unless said, what MCP assumes of a tool that says nothing of itself."""

    destructive: bool = True  # it may take away or write over; otherwise it only adds
    idempotent: bool = False  # the same call again changes nothing more
    open_world: bool = True  # it reaches beyond what is on this machine


ASSUMED = Hints()
LOCAL = Hints(destructive=False, open_world=False)
REPLACING = LOCAL._replace(destructive=True, idempotent=True)  # puts a thing of this machine into a state


def closed_schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """The schema of arguments by name, which takes no others."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": dict(properties), **needed, "additionalProperties": False}


class _Fields(NamedTuple):
    name: str
    description: str
    input_schema: dict[str, Any]
    handler: Handler
    read_only: bool
    max_output_bytes: int
    timeout_s: float | None
    strict_arguments: bool
    aliases: Mapping[str, str | Alias]
    output_schema: dict[str, Any] | None
    hints: Hints


class Tool(_Fields):
    """Something a model may call. Immutable: it keeps its own copy of the schema."""

    __slots__ = ()

    def __new__(
        cls,
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        handler: Handler,
        read_only: bool = False,
        max_output_bytes: int = 8192,
        timeout_s: float | None = 30.0,  # None: no limit
        strict_arguments: bool = True,  # refuse arguments that the schema does not name
        aliases: Mapping[str, str | Alias] = _NO_ALIASES,  # other names of arguments, understood and not shown
        output_schema: Mapping[str, Any] | None = None,  # of the structured output, where every answer has one
        hints: Hints = ASSUMED,
    ) -> Self:
        """Check every field; InputError says which one cannot be used and why."""
        _check(name, description, input_schema, handler, max_output_bytes, timeout_s)
        return super().__new__(
            cls,
            name,
            plain(description, f"tool {name}: description"),
            plain(input_schema, f"tool {name}: input_schema"),
            handler,
            read_only,
            max_output_bytes,
            timeout_s,
            strict_arguments,
            aliases,
            None if output_schema is None else plain(output_schema, f"tool {name}: output_schema"),
            hints,
        )

    def wire(self) -> dict[str, Any]:
        """What a model is shown: name, description and input_schema, in this order, and nothing else."""
        schema = plain(self.input_schema, self.name)
        return {"name": self.name, "description": self.description, "input_schema": schema}

    def annotations(self) -> dict[str, bool]:
        """What it claims of itself, as MCP spells it; what only reads destroys nothing and may be called again."""
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.hints.destructive and not self.read_only,
            "idempotentHint": self.hints.idempotent or self.read_only,
            "openWorldHint": self.hints.open_world,
        }


def _check(
    name: object,
    description: object,
    input_schema: object,
    handler: object,
    max_output_bytes: int,
    timeout_s: float | None,
) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(f"tool name {str(name)[:140]!r} cannot be used: 1 to 128 of the characters A-Z a-z 0-9 . _ -")
    if not isinstance(description, str) or not description.strip():
        raise InputError(f"tool {name}: description is empty; say what the tool does and when to use it")
    if not isinstance(input_schema, Mapping) or input_schema.get("type") != "object":
        raise InputError(f'tool {name}: input_schema must be a JSON Schema with "type": "object"')
    if not callable(handler):
        raise InputError(f"tool {name}: handler must be a function of one mapping, the arguments")
    if max_output_bytes < 1:
        raise InputError(f"tool {name}: max_output_bytes must be at least 1, not {max_output_bytes}")
    if timeout_s is not None and not timeout_s > 0:
        raise InputError(f"tool {name}: timeout_s must be more than 0, or None, not {timeout_s}")


def plain(value: object, where: str, text: Callable[[str, str], str] | None = None) -> Any:
    """A copy of a JSON value in Python's own types; InputError names the place of what JSON cannot hold.

    Every text goes through `text(value, where)`; unless given, that refuses what cannot be encoded.
    """
    try:
        return _copied(value, MAX_DEPTH, [MAX_VALUES])
    except _Uncommon:
        return _Copy(text or _encodable).of(value, where, MAX_DEPTH)


class _Uncommon(Exception):
    """A value that has to be looked at more closely."""


def _copied(value: Any, levels_left: int, values_left: list[int]) -> Any:
    """The same as below, only faster, of what nearly every value is: ASCII texts and small numbers in dicts and lists,
    none of which any `text` would change."""
    kind = type(value)
    if kind is str:
        if value.isascii():
            return value
    elif value is None or kind is bool:
        return value
    elif kind is int or kind is float:
        if -_SMALL < value < _SMALL:
            return value
    elif kind is dict and levels_left:
        values_left[0] -= len(value) + 1
        if values_left[0] >= 0:
            copy = {}
            for key, item in value.items():
                if type(key) is not str or not key.isascii():
                    raise _Uncommon
                is_text = type(item) is str and item.isascii()
                copy[key] = item if is_text else _copied(item, levels_left - 1, values_left)
            return copy
    elif kind is list and levels_left:
        values_left[0] -= len(value) + 1
        if values_left[0] >= 0:
            return [
                item if type(item) is str and item.isascii() else _copied(item, levels_left - 1, values_left)
                for item in value
            ]
    raise _Uncommon


class _Copy:
    def __init__(self, text: Callable[[str, str], str]) -> None:
        self.text = text
        self.values_left = MAX_VALUES

    def of(self, value: object, where: str, levels_left: int) -> Any:
        self.values_left -= 1
        if self.values_left < 0:
            raise InputError(f"{_short(where)}: more than {MAX_VALUES} values; send fewer")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(value, where)
        if isinstance(value, int | float):
            return _number(value, where)
        if levels_left == 0:
            raise InputError(f"{_short(where)}: nested more than {MAX_DEPTH} levels deep; flatten it")
        if isinstance(value, Mapping):
            return {
                self.key(key, where): self.of(item, f"{where}.{key[:200]}" if where else key[:200], levels_left - 1)
                for key, item in value.items()
            }
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            return [self.of(item, f"{where}[{i}]", levels_left - 1) for i, item in enumerate(value)]
        raise InputError(f"{_short(where)}: a {type(value).__name__} is not a JSON value")

    def key(self, key: object, where: str) -> str:
        if not isinstance(key, str):
            raise InputError(f"{_short(where)}: the keys of a JSON object are text, not {type(key).__name__}")
        return self.text(key, f"a key of {where or 'the object'}")


def _encodable(value: str, where: str) -> str:
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError as error:
        half = ord(value[error.start])
        raise InputError(
            f"{_short(where)}: contains half of a surrogate pair (U+{half:04X}); send whole characters"
        ) from None
    return value


def _number(value: float, where: str) -> float:
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise InputError(f"{_short(where)}: an integer of more than 4200 digits cannot be used")
    elif value != value or value in (float("inf"), float("-inf")):
        raise InputError(f"{_short(where)}: {value} is not a JSON number; send a finite number or null")
    return value


def _short(where: str) -> str:
    where = where.encode(errors="backslashreplace").decode()
    return (where if len(where) <= 200 else where[:200] + "…") or "the value"
