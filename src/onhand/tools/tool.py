"""Define a tool: a name, a description, a schema of its arguments and the function that runs it.

The registry validates and runs it, so this module needs neither schemas nor event loops and is cheap to import.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

from onhand.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

Handler = Callable[[dict[str, Any]], Any]
"""Takes the arguments as one mapping, and returns text, a record, an Output, a JSON value, or an awaitable of these."""

NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")  # the names that MCP allows
MAX_DEPTH = 64  # far more than real schemas and arguments have, and well below Python's recursion limit
MAX_VALUES = 100_000  # so that copying hostile input takes at most about 0.1 s
_SMALL = 2**63  # numbers below it need no check
EVERYTHING = "*"  # the name of all resources together
WORKSPACE = "workspace"  # the name of the files of a project
MAX_INTEGER_BITS = 14_000  # Python refuses to print integers of more than 4300 digits


class ArgumentAlias(NamedTuple):
    """An alias of an argument under which numbers are given in a smaller unit."""

    name: str
    per: int  # smaller units in one unit of the argument


_NO_ALIASES: Mapping[str, str | ArgumentAlias] = MappingProxyType({})


class Output(NamedTuple, Generic[T]):
    """A text for the model and a record or JSON value for programs, if the text is not derived from the record."""

    text: str
    structured: T | None = None


class Hints(NamedTuple):
    """The possible effects of a call. The defaults are what MCP assumes about a tool without annotations."""

    destructive: bool = True  # it may delete or overwrite; otherwise it only adds something
    idempotent: bool = False  # repeating a call has no further effect
    open_world: bool = True  # it reaches beyond this machine


ASSUMED = Hints()
LOCAL = Hints(destructive=False, open_world=False)
REPLACING = LOCAL._replace(destructive=True, idempotent=True)  # sets the state of something on this machine


class _Fields(NamedTuple):
    name: str
    description: str
    input_schema: dict[str, Any]
    handler: Handler
    read_only: bool
    max_output_bytes: int
    timeout_s: float | None
    strict_arguments: bool
    aliases: Mapping[str, str | ArgumentAlias]
    output_schema: dict[str, Any] | None
    hints: Hints
    function: Callable[..., Any]
    reads: tuple[str, ...] | None
    writes: tuple[str, ...] | None
    long_running: bool
    policy: str


class Tool(_Fields):
    """Something that a model may call. It is immutable and has its own copy of the schema.

    `reads` and `writes` name the resources that its calls use, such as "workspace" or "notes". A call that writes one
    does not run at the same time as another that reads or writes it. A tool that declares neither uses everything; one
    that declares only what it reads but may write, writes everything.
    """

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
        strict_arguments: bool = True,  # reject arguments that the schema does not name
        aliases: Mapping[
            str, str | ArgumentAlias
        ] = _NO_ALIASES,  # accepted in place of argument names, but not shown to the model
        output_schema: Mapping[str, Any] | None = None,  # if every result has structured output
        hints: Hints = ASSUMED,
        function: Callable[..., Any] | None = None,  # what `Tool.__call__` calls; by default the handler
        reads: Iterable[str] | None = None,
        writes: Iterable[str] | None = None,
        long_running: bool = False,  # others may read what it writes while it runs, and it takes no place from them
        policy: str = "",  # "allow" or "ask", if the user has set one for its calls
    ) -> Self:
        """Check every field; raise InputError if one cannot be used."""
        _check(name, description, input_schema, handler, max_output_bytes, timeout_s)
        writes = _check_resources(name, "writes", writes)
        if read_only and writes:
            raise InputError(f"tool {name}: it is read-only and writes {', '.join(writes)}; declare only one of these")
        return super().__new__(
            cls,
            name,
            copy_json(description, f"tool {name}: description"),
            copy_json(input_schema, f"tool {name}: input_schema"),
            handler,
            read_only,
            max_output_bytes,
            timeout_s,
            strict_arguments,
            aliases,
            None if output_schema is None else copy_json(output_schema, f"tool {name}: output_schema"),
            hints,
            function or handler,
            _check_resources(name, "reads", reads),
            writes,
            long_running,
            policy,
        )

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function that the tool was made from, without the checks, limits and conversions of a registry."""
        return self.function(*arguments, **named)

    def wire(self) -> dict[str, Any]:
        """Return what the model sees: name, description and input_schema, in this order, and nothing else."""
        schema = copy_json(self.input_schema, self.name)
        return {"name": self.name, "description": self.description, "input_schema": schema}

    def annotations(self) -> dict[str, bool]:
        """Return the MCP annotations. A read-only tool is never destructive and always idempotent."""
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
        raise InputError(
            f"tool name {str(name)[:140]!r} is not valid: use 1 to 128 of the characters A-Z a-z 0-9 . _ -"
        )
    if not isinstance(description, str) or not description.strip():
        raise InputError(f"tool {name}: description is empty; say what the tool does and when to use it")
    if not isinstance(input_schema, Mapping) or input_schema.get("type") != "object":
        raise InputError(f'tool {name}: input_schema must be a JSON Schema with "type": "object"')
    if not callable(handler):
        raise InputError(f"tool {name}: handler must be a function that takes the arguments as one mapping")
    if max_output_bytes < 1:
        raise InputError(f"tool {name}: max_output_bytes must be at least 1, not {max_output_bytes}")
    if timeout_s is not None and not timeout_s > 0:
        raise InputError(f"tool {name}: timeout_s must be more than 0 or None, not {timeout_s}")


def _check_resources(tool: str, field: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    listed: tuple[Any, ...] = tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in listed):
        raise InputError(f"tool {tool}: {field} must be a list of names of resources, such as ['workspace']")
    return listed


def copy_json(value: object, where: str, text: Callable[[str, str], str] | None = None) -> Any:
    """Copy a JSON value into plain Python types; raise InputError, with the path, for what JSON cannot represent.

    Every string goes through `text(value, where)`, which by default rejects strings that cannot be encoded.
    """
    try:
        return _copy_common(value, MAX_DEPTH, [MAX_VALUES])
    except _Uncommon:
        return _Copy(text or _check_encodable).of(value, where, MAX_DEPTH)


class _Uncommon(Exception):
    """The value needs the slower, thorough copy."""


def _copy_common(value: Any, levels_left: int, values_left: list[int]) -> Any:
    """Quickly copy ASCII strings and small numbers in dicts and lists, which no `text` function changes."""
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
                copy[key] = item if is_text else _copy_common(item, levels_left - 1, values_left)
            return copy
    elif kind is list and levels_left:
        values_left[0] -= len(value) + 1
        if values_left[0] >= 0:
            return [
                item if type(item) is str and item.isascii() else _copy_common(item, levels_left - 1, values_left)
                for item in value
            ]
    raise _Uncommon


class _Copy:
    """A thorough copy of one JSON value."""

    def __init__(self, text: Callable[[str, str], str]) -> None:
        self.text = text
        self.values_left = MAX_VALUES

    def of(self, value: object, where: str, levels_left: int) -> Any:
        self.values_left -= 1
        if self.values_left < 0:
            raise InputError(f"{_shorten(where)}: more than {MAX_VALUES} values; send fewer")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(value, where)
        if isinstance(value, int | float):
            return _check_number(value, where)
        if levels_left == 0:
            raise InputError(f"{_shorten(where)}: nested more than {MAX_DEPTH} levels deep; flatten it")
        if isinstance(value, Mapping):
            return {
                self.key(key, where): self.of(item, f"{where}.{key[:200]}" if where else key[:200], levels_left - 1)
                for key, item in value.items()
            }
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            return [self.of(item, f"{where}[{i}]", levels_left - 1) for i, item in enumerate(value)]
        raise InputError(f"{_shorten(where)}: a {type(value).__name__} is not a JSON value")

    def key(self, key: object, where: str) -> str:
        if not isinstance(key, str):
            raise InputError(f"{_shorten(where)}: keys of JSON objects must be strings, not {type(key).__name__}")
        return self.text(key, f"a key of {where or 'the object'}")


def _check_encodable(value: str, where: str) -> str:
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError as error:
        surrogate = ord(value[error.start])
        raise InputError(
            f"{_shorten(where)}: contains a lone surrogate (U+{surrogate:04X}), which UTF-8 cannot encode; remove it"
        ) from None
    return value


def _check_number(value: float, where: str) -> float:
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise InputError(f"{_shorten(where)}: an integer may have at most 4200 digits; send a smaller one")
    elif value != value or value in (float("inf"), float("-inf")):
        raise InputError(f"{_shorten(where)}: {value} is not a JSON number; send a finite number or null")
    return value


def _shorten(where: str) -> str:
    where = where.encode(errors="backslashreplace").decode()
    return (where if len(where) <= 200 else where[:200] + "…") or "the value"
