"""Derive JSON Schemas from Python types, build Python values from JSON, and make Tools from typed functions.

Functions, dataclasses, TypedDicts, NamedTuples and pydantic models are read as lists of fields. Descriptions come from
annotations and from docstrings in Google or reST style. pydantic is not imported: its models are recognised by their
methods.
"""

import dataclasses
import inspect
import re
import types
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from enum import Enum
from inspect import cleandoc
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)

from onhand.errors import Cancelled, InputError, OnhandError, ToolError
from onhand.tools.tool import ArgumentAlias, Handler, Hints, Output, Tool, copy_json

_SECTION = re.compile(r"(?:Args|Arguments|Parameters|Attributes):\s*$")
_ITEM = re.compile(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s+(.*)")
_FIELD = re.compile(r":param\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)")


def summary(doc: str | None) -> str:
    """Return the first paragraph of a docstring on one line; empty if it has only fields or sections."""
    first = cleandoc(doc or "").split("\n\n", 1)[0]
    lines = first.split("\n")
    if lines and (_SECTION.match(lines[0]) or lines[0].startswith(":")):
        return ""
    end = next((i for i, line in enumerate(lines) if _SECTION.match(line) or line.startswith(":")), len(lines))
    return " ".join(" ".join(lines[:end]).split())


def parameter_descriptions(doc: str | None) -> dict[str, str]:
    """Return the description of each parameter in a docstring. Indented lines continue the one before."""
    found: dict[str, str] = {}
    name, item_indent, in_section = "", 0, False
    for line in cleandoc(doc or "").split("\n"):
        text, indent = line.strip(), len(line) - len(line.lstrip())
        field, item = _FIELD.match(text), _ITEM.match(text)
        if field:
            name, item_indent, in_section = field[1], indent, False
            found[name] = field[2]
        elif indent == 0:
            name, in_section = "", bool(_SECTION.match(text))
        elif in_section and item and (not name or indent <= item_indent):
            name, item_indent = item[1], indent
            found[name] = item[2]
        elif name and text and indent > item_indent:
            found[name] += " " + text
    return {name: " ".join(text.split()) for name, text in found.items() if text.strip()}


NO_DEFAULT = inspect.Parameter.empty
# Modules on the cold path import typing only for type checkers, so their annotations need these names.
_TYPING_NAMES = {"Annotated": Annotated, "Any": Any, "Literal": Literal}


class SchemaField(NamedTuple):
    """A named value that is required or optional."""

    name: str
    annotation: Any
    required: bool
    default: Any = NO_DEFAULT
    description: str = ""


class SchemaFields(NamedTuple):
    """The fields of a function or class, and a function that calls or constructs it with their values."""

    label: str
    description: str
    fields: list[SchemaField]
    make: Callable[[dict[str, Any]], Any]
    is_partial: bool = False  # whether fields may be missing from a value, as in a TypedDict


def is_record(thing: Any) -> bool:
    """Return whether a type is a dataclass, TypedDict or NamedTuple."""
    return isinstance(thing, type) and (
        dataclasses.is_dataclass(thing) or is_typeddict(thing) or _is_named_tuple(thing)
    )


def fields_of(thing: Any) -> SchemaFields:
    """Return the fields of a dataclass, TypedDict or NamedTuple."""
    if dataclasses.is_dataclass(thing):
        read: Callable[[type, dict[str, Any]], list[SchemaField]] = _dataclass_fields
    else:
        read = _typed_dict_fields if is_typeddict(thing) else _named_tuple_fields
    doc = _own_docstring(thing)
    described = parameter_descriptions(doc)
    fields = [
        field._replace(description=field.description or described.get(field.name, ""))
        for field in read(thing, _type_hints(thing))
    ]
    return SchemaFields(thing.__name__, summary(doc), fields, lambda values: thing(**values), is_typeddict(thing))


def parameters_of(function: Callable[..., Any]) -> SchemaFields:
    """Return the parameters of a function."""
    if not inspect.isroutine(function):
        raise InputError(f"{function!r} is not a function; write a typed function that calls it")
    label = function.__name__
    described = parameter_descriptions(inspect.getdoc(function))
    hints = _type_hints(function)
    fields = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InputError(f"{label}: parameter '{parameter}' cannot be passed by name; use named parameters only")
        if name not in hints:
            raise InputError(f"{label}: parameter '{name}' has no type; annotate it, such as {name}: str")
        fields.append(_parameter_field(name, hints[name], parameter.default, described.get(name, "")))
    return SchemaFields(label, "", fields, lambda values: function(**values))


def _parameter_field(name: str, annotation: Any, default: Any, description: str) -> SchemaField:
    """Read one parameter. `X | None = None` becomes an optional X.

    That is shorter for the model and means the same, since a null counts as left out unless the schema allows it.
    """
    if default is None and (stripped := _without_none(annotation)) is not None:
        return SchemaField(name, stripped, False, NO_DEFAULT, description)
    return SchemaField(name, annotation, default is NO_DEFAULT, default, description)


def _without_none(annotation: Any) -> Any:
    """Return `X` for `X | None`, also inside Annotated; None for any other type."""
    if get_origin(annotation) is Annotated:
        stripped = _without_none(annotation.__origin__)
        return None if stripped is None else Annotated[(stripped, *annotation.__metadata__)]
    if get_origin(annotation) not in (Union, UnionType):
        return None
    others = tuple(part for part in get_args(annotation) if part is not type(None))
    return Union[others] if len(others) < len(get_args(annotation)) else None  # noqa: UP007  # of a tuple


def return_type(function: Callable[..., Any]) -> Any:
    """Return the return annotation of a function, or None."""
    return _type_hints(function).get("return")


def _dataclass_fields(cls: Any, hints: dict[str, Any]) -> list[SchemaField]:
    fields = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        default = NO_DEFAULT if field.default is dataclasses.MISSING else field.default
        required = default is NO_DEFAULT and field.default_factory is dataclasses.MISSING
        description = str(field.metadata.get("description", ""))
        fields.append(SchemaField(field.name, hints[field.name], required, default, description))
    return fields


def _typed_dict_fields(cls: Any, hints: dict[str, Any]) -> list[SchemaField]:
    # With `from __future__ import annotations`, __required_keys__ ignores Required and NotRequired.
    marks = {Required: True, NotRequired: False}
    return [
        SchemaField(name, hint, marks.get(get_origin(hint), name in cls.__required_keys__))
        for name, hint in hints.items()
    ]


def _named_tuple_fields(cls: Any, hints: dict[str, Any]) -> list[SchemaField]:
    defaults = cls._field_defaults
    return [
        SchemaField(name, hints.get(name, Any), name not in defaults, defaults.get(name, NO_DEFAULT))
        for name in cls._fields
    ]


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _type_hints(thing: Any) -> dict[str, Any]:
    try:
        return get_type_hints(thing, localns=_TYPING_NAMES, include_extras=True)
    except Exception as error:  # evaluating an annotation can raise anything
        raise InputError(
            f"{getattr(thing, '__name__', thing)}: a type cannot be read ({error}); "
            "use types that are defined at the top level of the module"
        ) from None


def _own_docstring(cls: type) -> str:
    doc = cls.__dict__.get("__doc__") or ""
    return "" if doc.startswith(f"{cls.__name__}(") else doc  # Python puts the signature there if there is no docstring


def expect(fits: bool, what: str) -> None:
    """Raise ToolError unless a value fits."""
    if not fits:
        raise ToolError(f"the value does not fit {what}")


def expect_type(kind: type, value: Any) -> Any:
    expect(isinstance(value, kind), kind.__name__)
    return value


MAX_EXACT_FLOAT = 2**53  # a larger float stands for many integers


def build_integer(value: Any) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())  # JSON considers 3.0 an integer
    expect(whole and not isinstance(value, bool), "int")
    if isinstance(value, float) and abs(value) > MAX_EXACT_FLOAT:
        raise ToolError(f"{value} is too large for an integer: send one up to {MAX_EXACT_FLOAT}")
    return int(value)


def build_number(value: Any) -> float:
    expect(isinstance(value, int | float) and not isinstance(value, bool), "float")
    try:
        return float(value)
    except OverflowError:
        raise ToolError("a number is too large; send one under 1e308") from None


def pick_choice(members: list[Any], values: list[Any], value: Any) -> Any:
    for member, candidate in zip(members, values, strict=True):
        if candidate == value and isinstance(candidate, bool) == isinstance(value, bool):
            return member
    raise ToolError("the value is not one of the choices")


def build_first(builds: list[Callable[[Any], Any]], value: Any) -> Any:
    for build in builds:
        try:
            return build(value)
        except ToolError as error:
            problem = error
    raise problem


def validate_model(model: Any, value: Any) -> Any:
    try:
        return model.model_validate(value)
    except ValueError as error:
        problems = error.errors(include_url=False, include_input=False)[:5] if hasattr(error, "errors") else []
        lines = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems]
        raise ToolError("\n".join(lines) or str(error)) from None


Schema = dict[str, Any]
Build = Callable[[Any], Any]

SUPPORTED = (
    "str, int, float, bool, None, list, tuple, set, dict with str keys, date, datetime, Literal, Enum, "
    "Optional, Union, Annotated, a dataclass, TypedDict, NamedTuple or pydantic model"
)
JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
COLLECTIONS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
}
OBJECTS = {dict, abc.Mapping, abc.MutableMapping}


class TypeSchema(NamedTuple):
    """The schema of a type, and a function that builds a value from JSON or raises ToolError."""

    schema: Schema
    build: Build


def schema_of(thing: Any) -> Schema:
    """Return the JSON Schema of a function's parameters, a dataclass, TypedDict, NamedTuple, model or other type."""
    return read_type(thing).schema


def answer_schema(shape: Any) -> Schema:
    """Return the JSON Schema of a tool's answer, with names and types only.

    It has no descriptions, because every list of tools contains it, and it allows further fields, because answers may
    gain some.
    """
    return _read_root(shape, _TypeReader(is_terse=True)).schema


def read_type(thing: Any) -> TypeSchema:
    """Return schema and builder of a type; the builder of a function calls it with the values of its parameters."""
    return _read_root(thing, _TypeReader())


def _read_root(thing: Any, reader: "_TypeReader") -> TypeSchema:
    try:
        if inspect.isroutine(thing):
            form = reader.record(parameters_of(thing))
        else:
            form = reader.read(thing, getattr(thing, "__name__", str(thing)))
    except RecursionError:
        raise InputError(f"{thing}: the type refers to itself directly; use a dataclass") from None
    return TypeSchema(_add_definitions(form.schema, reader.definitions), form.build)


def is_model(thing: Any) -> bool:
    """Return whether a type is a pydantic model."""
    return isinstance(thing, type) and hasattr(thing, "model_json_schema") and hasattr(thing, "model_validate")


def _add_definitions(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    if not definitions:
        return schema
    if set(schema) == {"$ref"}:  # the top level of a tool's schema must say that it is an object
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    return {**schema, "$defs": definitions}


class _TypeReader:
    """Reads one type. It keeps track of the enclosing classes, to recognise those that contain themselves."""

    def __init__(self, is_terse: bool = False) -> None:
        self._is_terse = is_terse
        self.definitions: dict[str, Schema] = {}
        self._inside: dict[type, str] = {}  # class → its name in $defs
        self._builds: dict[str, Build] = {}
        self._recursive: set[str] = set()

    def read(self, annotation: Any, where: str) -> TypeSchema:
        origin = get_origin(annotation) or annotation
        for is_kind, make in _KINDS if isinstance(origin, abc.Hashable) else ():
            if is_kind(annotation, origin):
                return make(self, annotation, where)
        name = getattr(annotation, "__name__", str(annotation))
        raise InputError(f"{where}: the type {name} is not supported; use {SUPPORTED}")

    def record(self, fields: SchemaFields) -> TypeSchema:
        """Read an object with named fields. Only a terse schema allows others."""
        forms = {field.name: self.read(field.annotation, f"{fields.label}: '{field.name}'") for field in fields.fields}
        required = [field.name for field in fields.fields if field.required]
        schema: Schema = {"type": "object"}
        if fields.description and not self._is_terse:
            schema["description"] = fields.description
        schema["properties"] = {
            field.name: forms[field.name].schema
            if self._is_terse
            else _annotate(forms[field.name].schema, field.description, field.default)
            for field in fields.fields
        }
        if required:
            schema["required"] = required
        if not self._is_terse:
            schema["additionalProperties"] = False

        def build(value: Any) -> Any:
            expect(isinstance(value, dict) and value.keys() <= forms.keys(), fields.label)
            expect(value.keys() >= set(required), fields.label)
            return fields.make({name: forms[name].build(item) for name, item in value.items()})

        return TypeSchema(schema, build)

    def class_record(self, cls: type, where: str) -> TypeSchema:
        if cls in self._inside:
            name = self._inside[cls]
            self._recursive.add(name)
            return TypeSchema({"$ref": f"#/$defs/{name}"}, lambda value: self._builds[name](value))
        name = self._free_name(cls.__name__)
        self._inside[cls] = name
        form = self.record(_always_present(fields_of(cls)) if self._is_terse else fields_of(cls))
        del self._inside[cls]
        self._builds[name] = form.build
        if name not in self._recursive:
            return form
        self.definitions[name] = form.schema
        return TypeSchema({"$ref": f"#/$defs/{name}"}, form.build)

    def model(self, cls: Any, where: str) -> TypeSchema:
        prefix = self._free_name(cls.__name__)
        schema = cls.model_json_schema(ref_template=f"#/$defs/{prefix}.{{model}}")
        for name, definition in schema.pop("$defs", {}).items():
            self.definitions[f"{prefix}.{name}"] = definition
        return TypeSchema(schema, lambda value: validate_model(cls, value))

    def _free_name(self, name: str) -> str:
        taken = {known.partition(".")[0] for known in [*self.definitions, *self._inside.values(), *self._builds]}
        return next(free for n in range(1, len(taken) + 2) if (free := name if n == 1 else f"{name}{n}") not in taken)

    def unwrap(self, annotation: Any, where: str) -> TypeSchema:
        if isinstance(annotation, NewType):
            return self.read(annotation.__supertype__, where)
        return self.read(getattr(annotation, "__value__", None) or get_args(annotation)[0], where)

    def annotation(self, annotation: Any, where: str) -> TypeSchema:
        form = self.read(annotation.__origin__, where)
        schema = form.schema
        for note in annotation.__metadata__:
            if isinstance(note, abc.Mapping):
                schema = {**schema, **copy_json(note, where)}
            else:
                text = note if isinstance(note, str) else getattr(note, "description", None)
                schema = _annotate(schema, text if isinstance(text, str) else "", NO_DEFAULT)
        return TypeSchema(schema, form.build)

    def scalar(self, annotation: Any, where: str) -> TypeSchema:
        kind = type(None) if annotation is None else annotation
        builds: dict[Any, Build] = {int: build_integer, float: build_number}
        return TypeSchema({"type": JSON_TYPES[kind]}, builds.get(kind, lambda value: expect_type(kind, value)))

    def anything(self, annotation: Any, where: str) -> TypeSchema:
        return TypeSchema({}, lambda value: value)

    def choice(self, annotation: Any, where: str) -> TypeSchema:
        is_enum = isinstance(annotation, type)
        members = list[Any](annotation if is_enum else get_args(annotation))
        values = [member.value if isinstance(member, Enum) else member for member in members]
        odd = next((value for value in values if type(value) not in JSON_TYPES), None)
        if odd is not None or not values:
            raise InputError(f"{where}: {odd!r} cannot be a choice in JSON; use strings or numbers as values")
        kinds = list(dict.fromkeys(JSON_TYPES[type(value)] for value in values))
        schema = {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}
        return TypeSchema(schema, lambda value: pick_choice(members, values, value))

    def union(self, annotation: Any, where: str) -> TypeSchema:
        forms = [self.read(part, where) for part in get_args(annotation)]
        if all(set(form.schema) == {"type"} for form in forms):
            kinds = list(dict.fromkeys(form.schema["type"] for form in forms))
            schema: Schema = {"type": kinds[0] if len(kinds) == 1 else kinds}
        else:
            schema = {"anyOf": [form.schema for form in forms]}
        return TypeSchema(schema, lambda value: build_first([form.build for form in forms], value))

    def array(self, annotation: Any, where: str) -> TypeSchema:
        collect = COLLECTIONS[get_origin(annotation) or annotation]
        item = self.read((get_args(annotation) or (Any,))[0], where)
        schema: Schema = {"type": "array", **({"items": item.schema} if item.schema else {})}
        if collect is not list:
            schema["uniqueItems"] = True
        return TypeSchema(schema, lambda value: collect(map(item.build, expect_type(list, value))))

    def tuple(self, annotation: Any, where: str) -> TypeSchema:
        parts = get_args(annotation)
        if not parts or parts[-1] is Ellipsis:
            form = self.array(list[parts[0]] if parts else list, where)  # type: ignore[valid-type]
            return TypeSchema(form.schema, lambda value: tuple(form.build(value)))
        forms = [self.read(part, where) for part in parts]
        schemas = [form.schema for form in forms]
        items = {"items": schemas[0]} if schemas.count(schemas[0]) == len(schemas) else {"prefixItems": schemas}
        schema: Schema = {"type": "array", **items, "minItems": len(forms), "maxItems": len(forms)}

        def build(value: Any) -> Any:
            expect(isinstance(value, list) and len(value) == len(forms), where)
            return tuple(form.build(item) for form, item in zip(forms, value, strict=True))

        return TypeSchema(schema, build)

    def mapping(self, annotation: Any, where: str) -> TypeSchema:
        key, item_type = get_args(annotation) or (str, Any)
        if key is not str:
            raise InputError(f"{where}: the keys of a JSON object are strings; use dict[str, …]")
        item = self.read(item_type, where)
        # This is explicit because an object schema without it is taken to allow no other entries.
        rest: Schema = {} if self._is_terse and not item.schema else {"additionalProperties": item.schema or True}
        schema = {"type": "object", **rest}
        return TypeSchema(schema, lambda value: {k: item.build(v) for k, v in expect_type(dict, value).items()})

    def date_or_time(self, annotation: Any, where: str) -> TypeSchema:
        name, example = ("date-time", "2026-01-31T12:00:00") if annotation is datetime else ("date", "2026-01-31")

        def build(value: Any) -> Any:
            try:
                return annotation.fromisoformat(expect_type(str, value))
            except ValueError:
                place = where.rpartition(": ")[2].strip("'")
                raise ToolError(f"{place} must be a {name} such as {example}") from None

        return TypeSchema({"type": "string", "format": name}, build)


def _always_present(fields: SchemaFields) -> SchemaFields:
    """Mark every field as required, because the JSON of a record has all of them. Only a TypedDict may lack some."""
    if fields.is_partial:
        return fields
    return fields._replace(fields=[field._replace(required=True) for field in fields.fields])


Kind = Callable[[Any, Any], bool]
_KINDS: list[tuple[Kind, Callable[[_TypeReader, Any, str], TypeSchema]]] = [
    (lambda a, origin: hasattr(a, "__metadata__"), _TypeReader.annotation),
    (lambda a, origin: origin in (Required, NotRequired), _TypeReader.unwrap),
    (lambda a, origin: isinstance(a, NewType) or type(a).__name__ == "TypeAliasType", _TypeReader.unwrap),
    (lambda a, origin: a is None or (isinstance(a, type) and a in JSON_TYPES), _TypeReader.scalar),
    (lambda a, origin: a is Any or a is object, _TypeReader.anything),
    (lambda a, origin: origin is Literal or (isinstance(a, type) and issubclass(a, Enum)), _TypeReader.choice),
    (lambda a, origin: origin in (Union, types.UnionType), _TypeReader.union),
    (lambda a, origin: is_model(a), _TypeReader.model),
    (lambda a, origin: is_record(a), _TypeReader.class_record),
    (lambda a, origin: origin in COLLECTIONS, _TypeReader.array),
    (lambda a, origin: origin is tuple, _TypeReader.tuple),
    (lambda a, origin: origin in OBJECTS, _TypeReader.mapping),
    (lambda a, origin: a is date or a is datetime, _TypeReader.date_or_time),
]


def _annotate(schema: Schema, description: str, default: Any) -> Schema:
    """Return the schema with a description, unless it has one, and with a default that JSON can represent."""
    if description and "description" not in schema:
        schema = {**schema, "description": description}
    if default is NO_DEFAULT:
        return schema
    try:
        return {
            **schema,
            "default": copy_json(default.value if isinstance(default, Enum) else default, "default"),
        }
    except InputError:
        return schema


ErrorPolicy = Callable[[OnhandError, dict[str, Any]], ToolError]
"""Turns an OnhandError that these arguments caused into the ToolError to raise."""


class ToolOptions(TypedDict, total=False):
    """The options of `tool`, which its docstring explains."""

    name: str | None
    description: str | None
    parameters: Mapping[str, Mapping[str, Any]] | None
    read_only: bool
    max_output_bytes: int
    timeout_s: float | None
    aliases: Mapping[str, str | ArgumentAlias] | None
    hints: Hints
    on_error: ErrorPolicy | None
    reads: Iterable[str] | None
    writes: Iterable[str] | None
    long_running: bool


@overload
def tool(function: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool from a typed function, sync or async: `@tool`, or `@tool(read_only=True, …)`.

    The Tool can still be called like the function. If the only parameter is a pydantic model, dataclass, TypedDict or
    NamedTuple, its fields are the arguments of the tool. If the function returns a dataclass, TypedDict or NamedTuple,
    or an `Output` of one, that gives the output schema; a NamedTuple that is too large for max_output_bytes is cut.

    Args:
        name: the name of the tool; by default that of the function
        description: what the model reads; by default the first paragraph of the docstring
        parameters: for each parameter, keywords to add to its schema, such as {"limit": {"maximum": 50}}
        read_only: whether it changes nothing
        max_output_bytes: the maximum size of its text and of its JSON
        timeout_s: the seconds after which a call is abandoned; None for no limit
        aliases: other names of parameters that models tend to use
        hints: the possible effects of a call
        on_error: turns an OnhandError into a ToolError; by default the model reads its message on one line
        reads: the resources that it reads, such as ["workspace"]; a call waits while another one writes them
        writes: the resources that it writes; a call waits while another one reads or writes them. A tool that declares
            neither uses everything, so its calls wait for every write or, unless it is read-only, for every other call
        long_running: whether calls may take long, as commands and requests to servers do: then others may read what
            a call writes while it runs
    """
    return _make_tool(function, **options) if function else lambda decorated: _make_tool(decorated, **options)


def as_tool(tool: object) -> Tool:
    """Return a Tool, or make one from a typed function; raise InputError for anything else."""
    if isinstance(tool, Tool):
        return Tool(*tool)  # construct it again, because _replace() does not check fields
    if inspect.isroutine(tool):
        return _make_tool(tool)
    raise InputError(f"{repr(tool)[:80]} is not a tool; pass a Tool, or a typed function with a docstring")


def each_tool(tools: object) -> Iterable[Any]:
    """Return one or several tools as an iterable; raise InputError if they are neither."""
    if isinstance(tools, Tool) or callable(tools):
        return [tools]
    if isinstance(tools, Iterable) and not isinstance(tools, str | bytes):
        return tools
    raise InputError(f"{repr(tools)[:80]} is not a list of tools; pass Tools, or typed functions with a docstring")


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
        raise InputError(f"tool {function.name}: this is already a Tool; use it directly, or _replace() its fields")
    schema, handler = _read_signature(function)
    name = name or function.__name__
    description = description or summary(inspect.getdoc(function))
    if not description:
        raise InputError(f"tool {name}: there is no description; write a docstring or pass description=…")
    return Tool(
        name,
        description,
        _add_keywords(schema, parameters or {}, name),
        _apply_policy(handler, on_error) if on_error else handler,
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


def _add_keywords(schema: dict[str, Any], parameters: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    properties = schema.get("properties", {})
    unknown = [parameter for parameter in parameters if parameter not in properties]
    if unknown:
        raise InputError(f"tool {name}: the function has no parameter {unknown[0]!r}; remove it from `parameters`")
    described = {key: {**value, **parameters.get(key, {})} for key, value in properties.items()}
    return {**schema, "properties": described}


def _output_schema(returned: Any) -> dict[str, Any] | None:
    if get_origin(returned) is Output:
        (returned,) = get_args(returned)
    return answer_schema(returned) if is_record(returned) and returned is not Output else None


def _apply_policy(handler: Handler, on_error: ErrorPolicy) -> Handler:
    """Return a handler that converts OnhandErrors, except a cancellation, with a policy."""
    if inspect.iscoroutinefunction(handler):

        async def answer(arguments: dict[str, Any]) -> Any:
            try:
                return await handler(arguments)
            except Cancelled:
                raise
            except OnhandError as error:
                raise on_error(error, arguments) from None

        return answer

    def answer_sync(arguments: dict[str, Any]) -> Any:
        try:
            return handler(arguments)
        except Cancelled:
            raise
        except OnhandError as error:
            raise on_error(error, arguments) from None

    return answer_sync
