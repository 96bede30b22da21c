"""What is an immutable value with named fields? To a type checker, `typing.NamedTuple` itself.

At run time it is a class that does the same. It costs a sixth to define and does not import `typing`: together that is
half of what Python needs to start (docs/adr/0007-fast-from-cold.md). For what is on the way to a search; elsewhere,
use NamedTuple.
"""

from _operator import itemgetter  # what `operator` has, without its Python part

__all__ = ["Record"]

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:

    class Record(tuple):
        """A tuple whose items have names: those that a subclass annotates, with the defaults it gives them."""

        _fields = ()
        _field_defaults = {}  # noqa: RUF012  # of the class; nobody writes to it

        def __init_subclass__(cls):
            fields = cls._fields = cls.__match_args__ = tuple(cls.__annotations__)
            cls._field_defaults = {name: cls.__dict__[name] for name in fields if name in cls.__dict__}
            for place, name in enumerate(fields):
                setattr(cls, name, property(itemgetter(place)))

        def __new__(cls, *values, **named):
            if named or len(values) != len(cls._fields):
                values = cls._completed(values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _completed(cls, values, named):
            rest = cls._fields[len(values) :]
            known = {**cls._field_defaults, **named}
            wrong = [name for name in named if name not in rest] or [name for name in rest if name not in known]
            if wrong or len(values) > len(cls._fields):
                raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}; look at {', '.join(wrong) or 'them'}")
            return (*values, *(known[name] for name in rest))

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **named):
            return type(self)(**{**self._asdict(), **named})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __setattr__(self, name, value):
            raise AttributeError(f"{type(self).__name__} is immutable; use _replace({name}=...)")

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"
