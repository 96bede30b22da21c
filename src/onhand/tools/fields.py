"""Which fields does it take? A function's parameters and a class's fields, read as one kind of list."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, NotRequired, Required, get_origin, get_type_hints, is_typeddict

from onhand.errors import InputError
from onhand.tools.docstring import parameters, summary

MISSING = inspect.Parameter.empty


class Field(NamedTuple):
    """One named value that must or may be given."""

    name: str
    annotation: Any
    required: bool
    default: Any = MISSING
    description: str = ""


class Fields(NamedTuple):
    """All that a function or class takes, and how it is made from the values."""

    label: str
    description: str
    fields: list[Field]
    make: Callable[[dict[str, Any]], Any]


def is_record(thing: Any) -> bool:
    """Whether it is a dataclass, TypedDict or NamedTuple."""
    return isinstance(thing, type) and (
        dataclasses.is_dataclass(thing) or is_typeddict(thing) or _is_named_tuple(thing)
    )


def fields_of(thing: Any) -> Fields:
    """The fields of a dataclass, TypedDict or NamedTuple."""
    if dataclasses.is_dataclass(thing):
        read: Callable[[type, dict[str, Any]], list[Field]] = _dataclass_fields
    else:
        read = _typed_dict_fields if is_typeddict(thing) else _named_tuple_fields
    doc = _own_doc(thing)
    described = parameters(doc)
    fields = [
        field._replace(description=field.description or described.get(field.name, ""))
        for field in read(thing, _hints(thing))
    ]
    return Fields(thing.__name__, summary(doc), fields, lambda values: thing(**values))


def parameters_of(function: Callable[..., Any]) -> Fields:
    """The parameters of a function."""
    if not inspect.isroutine(function):
        raise InputError(f"{function!r} is not a function; write a typed function that calls it")
    label = function.__name__
    described = parameters(inspect.getdoc(function))
    hints = _hints(function)
    fields = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InputError(f"{label}: parameter '{parameter}' cannot be given by name; use named parameters only")
        if name not in hints:
            raise InputError(f"{label}: parameter '{name}' has no type; annotate it, such as {name}: str")
        required = parameter.default is MISSING
        fields.append(Field(name, hints[name], required, parameter.default, described.get(name, "")))
    return Fields(label, "", fields, lambda values: function(**values))


def returned_by(function: Callable[..., Any]) -> Any:
    """What a function says that it returns; None where it says nothing."""
    return _hints(function).get("return")


def _dataclass_fields(cls: Any, hints: dict[str, Any]) -> list[Field]:
    fields = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        default = MISSING if field.default is dataclasses.MISSING else field.default
        required = default is MISSING and field.default_factory is dataclasses.MISSING
        description = str(field.metadata.get("description", ""))
        fields.append(Field(field.name, hints[field.name], required, default, description))
    return fields


def _typed_dict_fields(cls: Any, hints: dict[str, Any]) -> list[Field]:
    # Under `from __future__ import annotations` __required_keys__ has not seen Required and NotRequired.
    marks = {Required: True, NotRequired: False}
    return [
        Field(name, hint, marks.get(get_origin(hint), name in cls.__required_keys__)) for name, hint in hints.items()
    ]


def _named_tuple_fields(cls: Any, hints: dict[str, Any]) -> list[Field]:
    defaults = cls._field_defaults
    return [
        Field(name, hints.get(name, Any), name not in defaults, defaults.get(name, MISSING)) for name in cls._fields
    ]


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return get_type_hints(thing, include_extras=True)
    except Exception as error:  # evaluating an annotation can raise anything
        raise InputError(
            f"{getattr(thing, '__name__', thing)}: a type cannot be read ({error}); "
            "use types that are defined at the top level of the module"
        ) from None


def _own_doc(cls: type) -> str:
    doc = cls.__dict__.get("__doc__") or ""
    return "" if doc.startswith(f"{cls.__name__}(") else doc  # Python writes the signature where nobody wrote a text
