"""What should the model change? Errors of a schema as sentences about its arguments."""

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

MAX_SHOWN = 120  # characters of a value or a name that are quoted back
MAX_CHOICES = 20  # of an enum
MAX_REMINDER = 400
MAX_CANDIDATES = 5_000  # names to compare with one that is unknown; each takes 35 µs

TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}

# keyword → sentence; the names in braces are what jsonschema_rs gives with an error of that keyword.
SENTENCES = {
    "minimum": "must be at least {limit}",
    "maximum": "must be at most {limit}",
    "exclusiveMinimum": "must be more than {limit}",
    "exclusiveMaximum": "must be less than {limit}",
    "multipleOf": "must be a multiple of {multiple_of}",
    "minLength": "must be at least {limit} characters long",
    "maxLength": "must be at most {limit} characters long",
    "minItems": "must have at least {limit} items",
    "maxItems": "must have at most {limit} items",
    "minProperties": "must have at least {limit} entries",
    "maxProperties": "must have at most {limit} entries",
    "pattern": "must match the pattern {pattern}",
    "uniqueItems": "must not have the same item twice",
    "contains": "must have an item that fits the schema",
    "falseSchema": "is not allowed",
}


def sentences(error: "ValidationError", schema: dict[str, Any] | None = None) -> list[str]:
    """One error as one or more sentences, each naming the argument it is about; `schema` is the whole one."""
    kind: Any = error.kind
    place = path(error.instance_path)
    if kind.name == "required":
        return [f"{path([*error.instance_path, kind.property])} is required"]
    if kind.name in ("additionalProperties", "unevaluatedProperties"):
        given: Any = error.instance
        free = [name for name in _siblings(schema, error.schema_path) if name not in given]
        return [unknown(name, free, place) for name in kind.unexpected]
    if kind.name in ("anyOf", "oneOf"):
        return [_alternatives(error, place)]
    return [f"{place or 'the arguments'} {_requirement(error)}; given {shown(error.instance)}"]


def unknown(name: str, known: Iterable[str], place: str = "") -> str:
    """The sentence about an argument that nothing names, with the nearest name that exists."""
    within = f" in {place}" if place else ""
    nearest = near(name, known)
    hint = f": did you mean '{nearest[0]}'?" if nearest else ""
    return f"unknown argument '{short(name)}'{within}{hint}"


def _siblings(schema: Any, steps: Sequence[str | int]) -> list[str]:
    """The names that the object has whose keyword stands at that place of a schema."""
    for step in steps[:-1]:
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            return []
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def near(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are most like a name, nearest first."""
    from difflib import get_close_matches

    by_folded = {candidate.casefold(): candidate for candidate in islice(known, MAX_CANDIDATES)}
    matches = get_close_matches(name[:MAX_SHOWN].casefold(), by_folded, n=3, cutoff=0.6)
    return [by_folded[match] for match in matches]


def reminder(schema: dict[str, Any]) -> str:
    """The expected arguments on one short line; a question mark means optional."""
    properties = schema.get("properties") or {}
    if not properties:
        return "expected no arguments"
    required = frozenset(schema.get("required") or [])
    parts = [f"{name}{'' if name in required else '?'}: {_brief(part)}" for name, part in properties.items()]
    parts.sort(key=lambda part: part.partition(":")[0].endswith("?"))
    return short("expected arguments: " + ", ".join(parts), MAX_REMINDER)


def path(steps: Sequence[str | int]) -> str:
    """Where a value stands: `filter.tags[0]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return short(text.removeprefix("."))


def shown(value: Any) -> str:
    """What was given, in at most a few words."""
    if isinstance(value, str):
        return f"the string {short(json.dumps(value[: MAX_SHOWN + 1], ensure_ascii=False))}"
    if isinstance(value, dict):
        return f"an object with {len(value)} entries"
    if isinstance(value, list):
        return f"an array of {len(value)} items"
    return short(json.dumps(value))


def short(text: str, limit: int = MAX_SHOWN) -> str:
    """At most `limit` characters on one line."""
    line = " ".join(text[: limit + 1].split())
    return line if len(text) <= limit else line[: limit - 1] + "…"


def _requirement(error: "ValidationError") -> str:
    kind: Any = error.kind
    if kind.name == "type":
        return f"must be {_types(kind.types)}"
    if kind.name == "enum":
        return f"must be one of {_choices(kind.options)}"
    if kind.name == "const":
        return f"must be {short(json.dumps(kind.expected_value, ensure_ascii=False))}"
    if kind.name in SENTENCES:
        return short(SENTENCES[kind.name].format(**kind.as_dict()))
    return short(f"does not fit: {error.message}")


def _alternatives(error: "ValidationError", place: str) -> str:
    kind: Any = error.kind
    branches: list[list[ValidationError]] = kind.context
    given = shown(error.instance)
    subject = place or "the arguments"
    if any(not branch for branch in branches):
        return f"{subject} must fit exactly one of the alternatives, and fits several; given {given}"
    here = [branch[0] for branch in branches if branch[0].instance_path == error.instance_path]
    if len(here) == len(branches) and all(first.kind.name in ("type", "enum", "const") for first in here):
        return f"{subject} {' or '.join(dict.fromkeys(map(_requirement, here)))}; given {given}"
    # The nearest alternative is the one that has the right type and the fewest things wrong.
    nearest = min(branches, key=lambda branch: (branch[0].kind.name == "type" and branch[0] in here, len(branch)))
    return f"{subject} fits none of the alternatives; nearest: {'; '.join(sentences(nearest[0]))}"


def _types(names: Iterable[str]) -> str:
    names = sorted(names, key=lambda name: (name == "null", name))
    return " or ".join(TYPES.get(name, name) for name in names)


def _choices(options: Sequence[Any]) -> str:
    quoted = [short(json.dumps(option, ensure_ascii=False)) for option in options[:MAX_CHOICES]]
    more = len(options) - len(quoted)
    return ", ".join(quoted) + (f" and {more} more" if more > 0 else "")


def _brief(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return short("|".join(json.dumps(option, ensure_ascii=False) for option in schema["enum"][:MAX_CHOICES]))
    for several in ("anyOf", "oneOf"):
        if isinstance(schema.get(several), list):
            return "|".join(dict.fromkeys(_brief(part) for part in schema[several][:5]))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"array of {_brief(schema['items'])}" if isinstance(schema.get("items"), dict) else "array"
    return "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)
