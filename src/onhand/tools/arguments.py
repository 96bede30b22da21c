"""Check the arguments of a call against the schema of its tool.

What a model sent is read as JSON and validated; everything that is wrong is reported at once, in sentences about the
arguments, so that one more call can put it right. A schema may come from a stranger's server, so it is compiled once
and bounded in its cost: nothing is ever fetched for it, its patterns run in linear time, and the steps that a check
would take are counted first, because a few nested `$ref` can ask for 2^40 of them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote

from onhand.errors import InputError, ToolError
from onhand.tools.tool import Tool, copy_json

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

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


def error_sentences(error: "ValidationError", schema: dict[str, Any] | None = None) -> list[str]:
    """Return an error as one or more sentences, each naming the argument it is about; `schema` is the root schema."""
    kind: Any = error.kind
    place = render_path(error.instance_path)
    if kind.name == "required":
        return [f"{render_path([*error.instance_path, kind.property])} is required"]
    if kind.name in ("additionalProperties", "unevaluatedProperties"):
        given: Any = error.instance
        free = [name for name in _siblings(schema, error.schema_path) if name not in given]
        return [unknown_name(name, free, place) for name in kind.unexpected]
    if kind.name in ("anyOf", "oneOf"):
        return [_alternatives(error, place)]
    return [f"{place or 'the arguments'} {_requirement(error)}; given {describe_value(error.instance)}"]


def unknown_name(name: str, known: Iterable[str], place: str = "") -> str:
    """Return the sentence about an unknown argument, with the nearest name that exists."""
    within = f" in {place}" if place else ""
    nearest = close_names(name, known)
    hint = f": did you mean '{nearest[0]}'?" if nearest else ""
    return f"unknown argument '{shorten(name)}'{within}{hint}"


def _siblings(schema: Any, steps: Sequence[str | int]) -> list[str]:
    """Return the names of the properties beside the keyword at that path of a schema."""
    for step in steps[:-1]:
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            return []
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are most like a name, nearest first."""
    from difflib import get_close_matches

    by_folded = {candidate.casefold(): candidate for candidate in islice(known, MAX_CANDIDATES)}
    matches = get_close_matches(name[:MAX_SHOWN].casefold(), by_folded, n=3, cutoff=0.6)
    return [by_folded[match] for match in matches]


def expected_arguments(schema: dict[str, Any]) -> str:
    """Return the expected arguments on one short line; a question mark means optional."""
    properties = schema.get("properties") or {}
    if not properties:
        return "expected no arguments"
    required = frozenset(schema.get("required") or [])
    parts = [f"{name}{'' if name in required else '?'}: {_brief(part)}" for name, part in properties.items()]
    parts.sort(key=lambda part: part.partition(":")[0].endswith("?"))
    return shorten("expected arguments: " + ", ".join(parts), MAX_REMINDER)


def render_path(steps: Sequence[str | int]) -> str:
    """Return the path of a value, such as `filter.tags[0]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return shorten(text.removeprefix("."))


def describe_value(value: Any) -> str:
    """Describe a value in a few words."""
    if isinstance(value, str):
        return f"the string {shorten(json.dumps(value[: MAX_SHOWN + 1], ensure_ascii=False))}"
    if isinstance(value, dict):
        return f"an object with {len(value)} entries"
    if isinstance(value, list):
        return f"an array of {len(value)} items"
    return shorten(json.dumps(value))


def shorten(text: str, limit: int = MAX_SHOWN) -> str:
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
        return f"must be {shorten(json.dumps(kind.expected_value, ensure_ascii=False))}"
    if kind.name in SENTENCES:
        return shorten(SENTENCES[kind.name].format(**kind.as_dict()))
    return shorten(f"does not fit: {error.message}")


def _alternatives(error: "ValidationError", place: str) -> str:
    kind: Any = error.kind
    branches: list[list[ValidationError]] = kind.context
    given = describe_value(error.instance)
    subject = place or "the arguments"
    if any(not branch for branch in branches):
        return f"{subject} must fit exactly one of the alternatives, and fits several; given {given}"
    here = [branch[0] for branch in branches if branch[0].instance_path == error.instance_path]
    if len(here) == len(branches) and all(first.kind.name in ("type", "enum", "const") for first in here):
        return f"{subject} {' or '.join(dict.fromkeys(map(_requirement, here)))}; given {given}"
    # The nearest alternative is the one that has the right type and the fewest things wrong.
    nearest = min(branches, key=lambda branch: (branch[0].kind.name == "type" and branch[0] in here, len(branch)))
    return f"{subject} does not fit any of the alternatives; nearest: {'; '.join(error_sentences(nearest[0]))}"


def _types(names: Iterable[str]) -> str:
    names = sorted(names, key=lambda name: (name == "null", name))
    return " or ".join(TYPES.get(name, name) for name in names)


def _choices(options: Sequence[Any]) -> str:
    quoted = [shorten(json.dumps(option, ensure_ascii=False)) for option in options[:MAX_CHOICES]]
    more = len(options) - len(quoted)
    return ", ".join(quoted) + (f" and {more} more" if more > 0 else "")


def _brief(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return shorten("|".join(json.dumps(option, ensure_ascii=False) for option in schema["enum"][:MAX_CHOICES]))
    for several in ("anyOf", "oneOf"):
        if isinstance(schema.get(several), list):
            return "|".join(dict.fromkeys(_brief(part) for part in schema[several][:5]))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"array of {_brief(schema['items'])}" if isinstance(schema.get("items"), dict) else "array"
    return "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)


Schema = dict[str, Any]

# Applied to the same value as the schema that contains them.
IN_PLACE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
IN_CHILDREN = {"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "properties"} | {
    "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"
}  # fmt: skip
NAMED = {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
SUBSCHEMAS = IN_PLACE | IN_CHILDREN | {"$defs", "definitions"}
# Lists that are gone through for every value that the schema meets.
WIDE = ("enum", "required", "dependentRequired", "dependencies", "properties", "allOf", "anyOf", "oneOf")
MOVING = {"$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor"}

# A schema at these bounds takes under 0.1 s. The largest of 6,232 public tools has 68 subschemas.
MAX_SUBSCHEMAS = 2_000
MAX_PATTERNS = 64
MAX_PATTERN_BYTES = 4 * 1024 * 1024  # compiled; 64 letters of any script take 3 MiB
MAX_PATTERNS_BYTES = 16 * 1024 * 1024  # of all patterns of a schema together; 4 ms for each MiB
MAX_HOPS = 64  # references followed without going into the value: more is a loop
# Counting a step takes 0.5 µs; checking it 15 ns; explaining it in full 35 µs.
MAX_STEPS, MAX_STEPS_PER_VALUE, MAX_EXPLAINED_STEPS = 50_000, 20, 5_000
ENTRIES_PER_STEP = 100  # of a list such as an enum: its entries are compared much faster than a subschema is checked


class CompiledSchema:
    """A schema that is ready to check arguments with."""

    def __init__(self, schema: Schema) -> None:
        """Compile; InputError says why a schema cannot be used."""
        self._root = schema
        self._branches, patterns = _survey(schema)
        self._validator = _validator(schema, patterns)
        self.names, named, self.open = _top_names(schema)
        self._named = _validator({"anyOf": [{"pattern": name} for name in named]}, patterns) if named else None
        _count_steps(schema, {}, MAX_STEPS)  # finds a loop of references now and not in a call

    def unknown(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the arguments that the schema does not name."""
        matches = self._named.is_valid if self._named else lambda name: False
        return [name for name in arguments if name not in self.names and not matches(name)]

    def errors(self, arguments: dict[str, Any]) -> Iterator["ValidationError"]:
        """Return the errors of the arguments; ToolError when finding them would take too long."""
        steps = 0
        if self._branches:
            steps = _count_steps(self._root, arguments, MAX_STEPS + MAX_STEPS_PER_VALUE * _size(arguments))
        if self._validator.is_valid(arguments):
            return iter(())
        if steps > MAX_EXPLAINED_STEPS:
            raise ToolError("the arguments do not fit the schema; send simpler arguments to learn where")
        return self._validator.iter_errors(arguments)


def _validator(schema: Schema, patterns: int) -> "Validator":
    import jsonschema_rs

    share = min(MAX_PATTERN_BYTES, MAX_PATTERNS_BYTES // max(patterns, 1))
    linear = jsonschema_rs.RegexOptions(size_limit=share, dfa_size_limit=share)
    try:
        # The mask keeps values out of messages. Formats are notes to the model: the handler decides.
        return jsonschema_rs.validator_for(
            schema, offline=True, mask="the value", pattern_options=linear, validate_formats=False
        )
    except jsonschema_rs.ValidationError as error:
        where = "".join(f"[{part!r}]" for part in error.instance_path) or "input_schema"
        if error.instance_path[-1:] in (["pattern"], ["patternProperties"]):
            raise InputError(
                f"{where} is not a pattern that runs in linear time: no lookaround, no back-references, no huge counts"
            ) from None
        raise InputError(f"{where}: {error.message}"[:500]) from None
    except ValueError as error:
        raise InputError(f"input_schema cannot be compiled: {error}"[:500]) from None


def _survey(root: Schema) -> tuple[bool, int]:
    """Return whether the schema branches and its number of patterns; InputError when it is too large."""
    seen: set[int] = set()
    patterns, branches, stack = 0, False, [root]
    while stack:
        schema = stack.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        _refuse_moving(schema, schema is root)
        patterns += ("pattern" in schema) + len(_mapping(schema.get("patternProperties")))
        if len(seen) > MAX_SUBSCHEMAS or patterns > MAX_PATTERNS:
            raise InputError(
                f"input_schema is too large: at most {MAX_SUBSCHEMAS} subschemas and {MAX_PATTERNS} patterns"
            )
        branches = branches or "$ref" in schema or not IN_PLACE.isdisjoint(schema) or _width(schema) > 1
        stack.extend(child for keyword in SUBSCHEMAS for child in _parts(schema, keyword))
        stack.extend(_target(root, schema))
    return branches, patterns


def _refuse_moving(schema: Schema, is_root: bool) -> None:
    keyword = next((keyword for keyword in MOVING if keyword in schema), None)
    if "$id" in schema and not is_root:
        keyword = "$id"
    if keyword:
        raise InputError(f"input_schema uses {keyword}, which is not supported; use $defs and $ref '#/$defs/NAME'")


def _parts(schema: Schema, keyword: str) -> Iterator[Schema]:
    """Yield the subschemas under one keyword."""
    value = schema.get(keyword)
    if keyword in NAMED:
        value = list(_mapping(value).values())
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict):
            yield part


def _target(root: Schema, schema: Schema) -> list[Schema]:
    """Return the schema that a $ref points to, if there is one."""
    reference = schema.get("$ref")
    if reference is None:
        return []
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise InputError(
            f"$ref {str(reference)[:200]!r} leaves the schema, and nothing is fetched; "
            "put what it refers to under $defs and use '#/$defs/NAME'"
        )
    found: Any = root
    for step in unquote(reference[1:]).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and step.isdecimal() and len(step) < 10 and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, dict) and step in found:
            found = found[step]
        else:
            raise InputError(f"$ref {reference[:200]!r} points to nothing in the schema")
    return [found] if isinstance(found, dict) else []


def _count_steps(root: Schema, arguments: Mapping[str, Any], limit: int) -> int:
    """Count the subschemas that are applied to a value when these arguments are checked; ToolError when too many."""
    steps = 0
    stack: list[tuple[Schema, Any, int]] = [(root, arguments, 0)]
    while stack:
        schema, value, hops = stack.pop()
        steps += _width(schema)
        if steps > limit:
            raise ToolError("the arguments are too many or too deep to check against the schema; send simpler ones")
        for target in _target(root, schema):
            if hops == MAX_HOPS:
                raise InputError(
                    f"input_schema follows more than {MAX_HOPS} references, perhaps in a loop; "
                    "let a $ref stand under properties or items"
                )
            stack.append((target, value, hops + 1))
        for keyword in IN_PLACE.intersection(schema):
            stack.extend((part, value, hops) for part in _parts(schema, keyword))
        if isinstance(value, dict):
            stack.extend((part, item, 0) for part, item in _pairs(schema, value))
        elif isinstance(value, list):
            stack.extend((part, item, 0) for part, item in _item_pairs(schema, value))
    return steps


def _width(schema: Schema) -> int:
    """Return how many steps it takes to check one value against a schema, without its subschemas."""
    lists = (schema[keyword] for keyword in WIDE if keyword in schema)
    return 1 + sum(len(entries) for entries in lists if isinstance(entries, list | dict)) // ENTRIES_PER_STEP


def _pairs(schema: Schema, value: dict[str, Any]) -> Iterator[tuple[Schema, Any]]:
    properties = _mapping(schema.get("properties"))
    for name in properties.keys() & value.keys():
        if isinstance(properties[name], dict):
            yield properties[name], value[name]
    for keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"):
        for part in _parts(schema, keyword):
            for item in value.values():
                yield part, item


def _item_pairs(schema: Schema, value: list[Any]) -> Iterator[tuple[Schema, Any]]:
    prefix = schema.get("prefixItems")
    if isinstance(prefix, list):
        yield from ((part, item) for part, item in zip(prefix, value, strict=False) if isinstance(part, dict))
    for keyword in ("items", "additionalItems", "unevaluatedItems", "contains"):
        for part in _parts(schema, keyword):
            for item in value:
                yield part, item


def _size(value: Any) -> int:
    count, stack = 0, [value]
    while stack:
        part = stack.pop()
        count += 1
        if isinstance(part, dict):
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)
    return count


def _top_names(root: Schema) -> tuple[set[str], list[str], bool]:
    """Names and patterns of the arguments that the schema names, and whether it allows others explicitly."""
    names: set[str] = set()
    patterns: dict[str, None] = {}
    is_open = False
    seen: set[int] = set()
    stack = [root]
    while stack:
        schema = stack.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        names.update(_mapping(schema.get("properties")))
        patterns.update(dict.fromkeys(_mapping(schema.get("patternProperties"))))
        is_open = is_open or any(
            schema.get(rest, False) is not False for rest in ("additionalProperties", "unevaluatedProperties")
        )
        stack.extend(part for keyword in IN_PLACE - {"not"} for part in _parts(schema, keyword))
        stack.extend(_target(root, schema))
    return names, list(patterns), is_open


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


MAX_PROBLEMS = 5  # a model fixes five problems at once; more is noise


class ToolArguments:
    """The arguments of one tool: its schema, compiled once."""

    def __init__(self, tool: Tool) -> None:
        """Compile the schema; InputError names the tool whose schema cannot be used."""
        try:
            self._compiled = CompiledSchema(tool.input_schema)
        except InputError as error:
            raise InputError(f"tool {tool.name}: {error}") from None
        self._schema = tool.input_schema
        closed = tool.input_schema.get("additionalProperties") is False
        self._refuses_unknown = closed or (tool.strict_arguments and not self._compiled.open)
        self._reminder = expected_arguments(tool.input_schema)
        self._aliases = tool.aliases
        self._never_null = _never_null(tool.input_schema)

    def read(self, sent: object) -> dict[str, Any]:
        """Return a validated copy of the arguments; ToolError tells the model what to change."""
        renamed = self._resolve_aliases(parse_arguments(sent))
        arguments = {
            name: value for name, value in renamed.items() if value is not None or name not in self._never_null
        }
        problems = list(islice(dict.fromkeys(self._problems(arguments)), MAX_PROBLEMS + 1))
        if not problems:
            return arguments
        if len(problems) > MAX_PROBLEMS:
            problems[MAX_PROBLEMS:] = ["and more"]
        raise ToolError("\n".join([*problems, self._reminder]))

    def _resolve_aliases(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Replace aliases by the names of the schema, also in objects inside of lists."""
        renamed = self._resolve_names(arguments)
        for name, value in renamed.items() if self._aliases else ():
            if isinstance(value, list):
                renamed[name] = [self._resolve_names(one) if isinstance(one, dict) else one for one in value]
        return renamed

    def _resolve_names(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Replace the aliases in one object; of an argument given under two names, the second stays and is refused."""
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
            yield unknown_name(name, free)
        for error in islice(errors, 10 * MAX_PROBLEMS):
            if not (unknown_names and _is_about_unknown(error)):
                yield from error_sentences(error, self._schema)


def _never_null(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the optional arguments whose type is not null: models send null for what they mean to leave out."""
    properties = schema.get("properties")
    required = schema.get("required") or ()
    if not isinstance(properties, Mapping):
        return frozenset()
    return frozenset(
        name
        for name, part in properties.items()
        if isinstance(part, Mapping) and name not in required and "null" not in (part.get("type") or ("null",))
    )


def _in_units(value: Any, per: int) -> Any:
    """Convert a number from a smaller unit; any other value is left for the schema to judge."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return value / per
    except OverflowError:
        return value


def parse_arguments(sent: object) -> dict[str, Any]:
    """Return the arguments as a plain dictionary: models send an object, or the JSON text of one, or nothing."""
    if isinstance(sent, str):
        sent = _load_json(sent)
    if sent is None:
        return {}
    if not isinstance(sent, Mapping):
        given = describe_value(sent) if isinstance(sent, str | int | float | bool | list) else type(sent).__name__
        raise ToolError(f"the arguments must be a JSON object, not {given}")
    try:
        arguments: dict[str, Any] = copy_json(sent, "")
    except InputError as error:
        raise ToolError(str(error)) from None
    return arguments


def _load_json(text: str) -> Any:
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
