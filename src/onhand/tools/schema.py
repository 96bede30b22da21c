"""Which JSON does a type take, and which value does that JSON stand for? One reading answers both.

pydantic is not imported: its models are known by what they can do.
"""

import inspect
import types
from collections import abc
from collections.abc import Callable
from datetime import date, datetime
from enum import Enum
from typing import (
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
)

from onhand.errors import InputError, ToolError
from onhand.tools.build import chosen, exactly, expect, first_that_fits, integer, number, validated
from onhand.tools.fields import MISSING, Fields, fields_of, is_record, parameters_of
from onhand.tools.tool import plain

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


class Form(NamedTuple):
    """The schema of a type, and what builds its value from JSON; ToolError when the JSON does not fit."""

    schema: Schema
    build: Build


def schema_of(thing: Any) -> Schema:
    """The JSON Schema of a function's parameters, a dataclass, TypedDict, NamedTuple, model or plain type."""
    return form_of(thing).schema


def answer_schema(shape: Any) -> Schema:
    """The JSON Schema of what a tool answers: names and types alone.

    Every list of tools carries it, so it has no descriptions; and a program must bear what it does not know.
    """
    return _form(shape, _Reader(is_terse=True)).schema


def form_of(thing: Any) -> Form:
    """Schema and builder; a function is called with what was built for its parameters."""
    return _form(thing, _Reader())


def _form(thing: Any, reader: "_Reader") -> Form:
    try:
        if inspect.isroutine(thing):
            form = reader.record(parameters_of(thing))
        else:
            form = reader.read(thing, getattr(thing, "__name__", str(thing)))
    except RecursionError:
        raise InputError(f"{thing}: the type refers to itself without a class between; use a dataclass") from None
    return Form(_rooted(form.schema, reader.definitions), form.build)


def is_model(thing: Any) -> bool:
    """Whether it is a pydantic model."""
    return isinstance(thing, type) and hasattr(thing, "model_json_schema") and hasattr(thing, "model_validate")


def _rooted(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    if not definitions:
        return schema
    if set(schema) == {"$ref"}:  # a tool's schema must say at its top that it is an object
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    return {**schema, "$defs": definitions}


class _Reader:
    """Reads one thing; remembers the classes it is inside of, to find the ones that contain themselves."""

    def __init__(self, is_terse: bool = False) -> None:
        self._is_terse = is_terse
        self.definitions: dict[str, Schema] = {}
        self._inside: dict[type, str] = {}  # class → its name in $defs
        self._builds: dict[str, Build] = {}
        self._recursive: set[str] = set()

    def read(self, annotation: Any, where: str) -> Form:
        origin = get_origin(annotation) or annotation
        for is_kind, make in _KINDS if isinstance(origin, abc.Hashable) else ():
            if is_kind(annotation, origin):
                return make(self, annotation, where)
        name = getattr(annotation, "__name__", str(annotation))
        raise InputError(f"{where}: the type {name} is not supported; use {SUPPORTED}")

    def record(self, fields: Fields) -> Form:
        """An object with named fields and, unless it is an answer of ours, no others."""
        forms = {field.name: self.read(field.annotation, f"{fields.label}: '{field.name}'") for field in fields.fields}
        required = [field.name for field in fields.fields if field.required]
        schema: Schema = {"type": "object"}
        if fields.description and not self._is_terse:
            schema["description"] = fields.description
        schema["properties"] = {
            field.name: forms[field.name].schema
            if self._is_terse
            else _annotated(forms[field.name].schema, field.description, field.default)
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

        return Form(schema, build)

    def class_record(self, cls: type, where: str) -> Form:
        if cls in self._inside:
            name = self._inside[cls]
            self._recursive.add(name)
            return Form({"$ref": f"#/$defs/{name}"}, lambda value: self._builds[name](value))
        name = self._free_name(cls.__name__)
        self._inside[cls] = name
        form = self.record(fields_of(cls))
        del self._inside[cls]
        self._builds[name] = form.build
        if name not in self._recursive:
            return form
        self.definitions[name] = form.schema
        return Form({"$ref": f"#/$defs/{name}"}, form.build)

    def model(self, cls: Any, where: str) -> Form:
        prefix = self._free_name(cls.__name__)
        schema = cls.model_json_schema(ref_template=f"#/$defs/{prefix}.{{model}}")
        for name, definition in schema.pop("$defs", {}).items():
            self.definitions[f"{prefix}.{name}"] = definition
        return Form(schema, lambda value: validated(cls, value))

    def _free_name(self, name: str) -> str:
        taken = {known.partition(".")[0] for known in [*self.definitions, *self._inside.values(), *self._builds]}
        return next(free for n in range(1, len(taken) + 2) if (free := name if n == 1 else f"{name}{n}") not in taken)

    def unwrapped(self, annotation: Any, where: str) -> Form:
        if isinstance(annotation, NewType):
            return self.read(annotation.__supertype__, where)
        return self.read(getattr(annotation, "__value__", None) or get_args(annotation)[0], where)

    def annotated(self, annotation: Any, where: str) -> Form:
        form = self.read(annotation.__origin__, where)
        schema = form.schema
        for note in annotation.__metadata__:
            if isinstance(note, abc.Mapping):
                schema = {**schema, **plain(note, where)}
            else:
                text = note if isinstance(note, str) else getattr(note, "description", None)
                schema = _annotated(schema, text if isinstance(text, str) else "", MISSING)
        return Form(schema, form.build)

    def scalar(self, annotation: Any, where: str) -> Form:
        kind = type(None) if annotation is None else annotation
        builds: dict[Any, Build] = {int: integer, float: number}
        return Form({"type": JSON_TYPES[kind]}, builds.get(kind, lambda value: exactly(kind, value)))

    def anything(self, annotation: Any, where: str) -> Form:
        return Form({}, lambda value: value)

    def choice(self, annotation: Any, where: str) -> Form:
        is_enum = isinstance(annotation, type)
        members = list[Any](annotation if is_enum else get_args(annotation))
        values = [member.value if isinstance(member, Enum) else member for member in members]
        odd = next((value for value in values if type(value) not in JSON_TYPES), None)
        if odd is not None or not values:
            raise InputError(f"{where}: {odd!r} is not a choice that JSON can name; use text or numbers as values")
        kinds = list(dict.fromkeys(JSON_TYPES[type(value)] for value in values))
        schema = {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}
        return Form(schema, lambda value: chosen(members, values, value))

    def union(self, annotation: Any, where: str) -> Form:
        forms = [self.read(part, where) for part in get_args(annotation)]
        if all(set(form.schema) == {"type"} for form in forms):
            kinds = list(dict.fromkeys(form.schema["type"] for form in forms))
            schema: Schema = {"type": kinds[0] if len(kinds) == 1 else kinds}
        else:
            schema = {"anyOf": [form.schema for form in forms]}
        return Form(schema, lambda value: first_that_fits([form.build for form in forms], value))

    def array(self, annotation: Any, where: str) -> Form:
        collect = COLLECTIONS[get_origin(annotation) or annotation]
        item = self.read((get_args(annotation) or (Any,))[0], where)
        schema: Schema = {"type": "array", **({"items": item.schema} if item.schema else {})}
        if collect is not list:
            schema["uniqueItems"] = True
        return Form(schema, lambda value: collect(map(item.build, exactly(list, value))))

    def tuple(self, annotation: Any, where: str) -> Form:
        parts = get_args(annotation)
        if not parts or parts[-1] is Ellipsis:
            form = self.array(list[parts[0]] if parts else list, where)  # type: ignore[valid-type]
            return Form(form.schema, lambda value: tuple(form.build(value)))
        forms = [self.read(part, where) for part in parts]
        schema: Schema = {"type": "array", "prefixItems": [form.schema for form in forms]}
        schema |= {"minItems": len(forms), "maxItems": len(forms)}

        def build(value: Any) -> Any:
            expect(isinstance(value, list) and len(value) == len(forms), where)
            return tuple(form.build(item) for form, item in zip(forms, value, strict=True))

        return Form(schema, build)

    def mapping(self, annotation: Any, where: str) -> Form:
        key, item_type = get_args(annotation) or (str, Any)
        if key is not str:
            raise InputError(f"{where}: the keys of a JSON object are text; use dict[str, …]")
        item = self.read(item_type, where)
        # Explicit, because an object that says nothing of other entries is taken to allow none of them.
        rest: Schema = {} if self._is_terse and not item.schema else {"additionalProperties": item.schema or True}
        schema = {"type": "object", **rest}
        return Form(schema, lambda value: {k: item.build(v) for k, v in exactly(dict, value).items()})

    def moment(self, annotation: Any, where: str) -> Form:
        name, example = ("date-time", "2026-01-31T12:00:00") if annotation is datetime else ("date", "2026-01-31")

        def build(value: Any) -> Any:
            try:
                return annotation.fromisoformat(exactly(str, value))
            except ValueError:
                place = where.rpartition(": ")[2].strip("'")
                raise ToolError(f"{place} must be a {name} such as {example}") from None

        return Form({"type": "string", "format": name}, build)


Kind = Callable[[Any, Any], bool]
_KINDS: list[tuple[Kind, Callable[[_Reader, Any, str], Form]]] = [
    (lambda a, origin: hasattr(a, "__metadata__"), _Reader.annotated),
    (lambda a, origin: origin in (Required, NotRequired), _Reader.unwrapped),
    (lambda a, origin: isinstance(a, NewType) or type(a).__name__ == "TypeAliasType", _Reader.unwrapped),
    (lambda a, origin: a is None or (isinstance(a, type) and a in JSON_TYPES), _Reader.scalar),
    (lambda a, origin: a is Any or a is object, _Reader.anything),
    (lambda a, origin: origin is Literal or (isinstance(a, type) and issubclass(a, Enum)), _Reader.choice),
    (lambda a, origin: origin in (Union, types.UnionType), _Reader.union),
    (lambda a, origin: is_model(a), _Reader.model),
    (lambda a, origin: is_record(a), _Reader.class_record),
    (lambda a, origin: origin in COLLECTIONS, _Reader.array),
    (lambda a, origin: origin is tuple, _Reader.tuple),
    (lambda a, origin: origin in OBJECTS, _Reader.mapping),
    (lambda a, origin: a is date or a is datetime, _Reader.moment),
]


def _annotated(schema: Schema, description: str, default: Any) -> Schema:
    """The schema with a description, unless it has one, and with a default that JSON can hold."""
    if description and "description" not in schema:
        schema = {**schema, "description": description}
    if default is MISSING:
        return schema
    try:
        return {
            **schema,
            "default": plain(default.value if isinstance(default, Enum) else default, "default"),
        }
    except InputError:
        return schema
