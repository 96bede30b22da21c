"""Immutable records with named fields, and their JSON.

To a type checker a Record is a `typing.NamedTuple`; at run time it is an equivalent class that takes a sixth of the
time to define and does not import `typing`, which together saves half a start of Python
(docs/adr/0007-fast-from-cold.md). Use it on the way to a search, and NamedTuple elsewhere.
"""

from _operator import itemgetter  # the C part of `operator`, without its Python part

__all__ = ["Record", "to_json"]

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any
    from typing import NamedTuple as Record
else:

    class _Signature:
        """The signature of a record for `help` and editors, built only when one of them asks."""

        def __get__(self, record, cls):
            from inspect import Parameter, Signature

            defaults = cls._field_defaults
            return Signature(
                [
                    Parameter(
                        name,
                        Parameter.POSITIONAL_OR_KEYWORD,
                        default=defaults.get(name, Parameter.empty),
                        annotation=cls.__annotations__[name],
                    )
                    for name in cls._fields
                ]
            )

    class Record(tuple):
        """A tuple with named items: the annotations of the subclass, with their defaults."""

        _fields = ()
        _field_defaults = {}  # noqa: RUF012  # never modified
        __signature__ = _Signature()

        def __init_subclass__(cls):
            fields = cls._fields = cls.__match_args__ = tuple(cls.__annotations__)
            cls._field_defaults = {name: cls.__dict__[name] for name in fields if name in cls.__dict__}
            for place, name in enumerate(fields):
                kind = cls.__annotations__[name]  # shown by help()
                setattr(cls, name, property(itemgetter(place), None, None, kind if isinstance(kind, str) else None))

        def __new__(cls, *values, **named):
            if named or len(values) != len(cls._fields):
                values = cls._complete_values(values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _complete_values(cls, values, named):
            rest = cls._fields[len(values) :]
            known = {**cls._field_defaults, **named}
            try:
                complete = (*values, *[known[name] for name in rest])
            except KeyError:
                complete = ()
            wrong = [name for name in named if name not in rest]
            if wrong or len(complete) != len(cls._fields):
                wrong = wrong or [name for name in rest if name not in known]
                raise TypeError(
                    f"{cls.__name__} takes {', '.join(cls._fields)}; check {', '.join(wrong) or 'the number of values'}"
                )
            return complete

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **named):
            values = [named.pop(name, value) for name, value in zip(self._fields, tuple.__iter__(self), strict=True)]
            return type(self)(*values, **named)  # what is left of the names makes it fail

        def _asdict(self):
            return dict(zip(self._fields, tuple.__iter__(self), strict=True))  # a subclass may iterate over its hits

        def __setattr__(self, name, value):
            raise AttributeError(f"{type(self).__name__} is immutable; use _replace({name}=...)")

        def __getnewargs__(self):
            return tuple(tuple.__iter__(self))

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"


def to_json(value: "Any") -> "Any":
    """Return a value as JSON: a record as an object of all its fields, any other tuple as a list.

    Dataclasses become objects, dates ISO 8601 texts, enum members their values. Anything else is left as it is.
    """
    kind = type(value)
    if kind is str or kind is int or kind is float or kind is bool or value is None:
        return value
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return [to_json(item) for item in value]
    fields = _fields_of(value)
    if fields is not None:
        return {name: to_json(item) for name, item in fields}
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value.value if hasattr(kind, "__members__") else value


def _fields_of(value: "Any") -> "Any":
    if hasattr(value, "_fields"):
        return zip(value._fields, tuple.__iter__(value), strict=True)
    if hasattr(value, "items") and hasattr(value, "keys"):
        return value.items()
    if hasattr(value, "__dataclass_fields__"):
        return ((name, getattr(value, name)) for name in value.__dataclass_fields__)
    return None
