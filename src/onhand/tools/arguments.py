"""Check the arguments of a call against the schema of its tool.

The arguments that a model sent are parsed as JSON and validated. All problems are reported at once, in sentences about
the arguments, so that the model can correct them in one more call. A schema may come from a stranger's server, so its
cost is bounded: it is compiled once, nothing is fetched for it, its patterns run in linear time, and the steps of a
check are counted first, because a few nested `$ref` can require 2^40 of them.
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

MAX_SHOWN = 120  # characters of a value or name that a message quotes
MAX_CHOICES = 20  # of an enum
MAX_REMINDER = 400
MAX_CANDIDATES = 5_000  # names that are compared with an unknown one, at 35 µs each

TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}

# keyword → sentence. The names in braces are the attributes of jsonschema_rs errors for that keyword.
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
    """Return an error as sentences that each name the argument in question; `schema` is the root schema."""
    kind: Any = error.kind
    place = render_path(error.instance_path)
    if kind.name == "required":
        return [f"{render_path([*error.instance_path, kind.property])} is required"]
    if kind.name in ("additionalProperties", "unevaluatedProperties"):
        value: Any = error.instance
        free = [name for name in _sibling_names(schema, error.schema_path) if name not in value]
        return [unknown_name(name, free, place) for name in kind.unexpected]
    if kind.name in ("anyOf", "oneOf"):
        return [_describe_alternatives(error, place)]
    return [f"{place or 'the arguments'} {_describe_requirement(error)}; given {describe_value(error.instance)}"]


def unknown_name(name: str, known: Iterable[str], place: str = "") -> str:
    """Return the sentence about an unknown argument, with the nearest known name."""
    within = f" in {place}" if place else ""
    nearest = close_names(name, known)
    hint = f": did you mean '{nearest[0]}'?" if nearest else ""
    return f"unknown argument '{shorten(name)}'{within}{hint}"


def _sibling_names(schema: Any, steps: Sequence[str | int]) -> list[str]:
    """Return the names of the properties next to the keyword at a path of a schema."""
    for step in steps[:-1]:
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            return []
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that resemble a name, nearest first."""
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
    parts = [f"{name}{'' if name in required else '?'}: {_describe_type(part)}" for name, part in properties.items()]
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
    """Return a text on one line, cut to `limit` characters."""
    line = " ".join(text[: limit + 1].split())
    return line if len(text) <= limit else line[: limit - 1] + "…"


def _describe_requirement(error: "ValidationError") -> str:
    kind: Any = error.kind
    if kind.name == "type":
        return f"must be {_join_types(kind.types)}"
    if kind.name == "enum":
        return f"must be one of {_join_choices(kind.options)}"
    if kind.name == "const":
        return f"must be {shorten(json.dumps(kind.expected_value, ensure_ascii=False))}"
    if kind.name in SENTENCES:
        return shorten(SENTENCES[kind.name].format(**kind.as_dict()))
    return shorten(f"does not fit: {error.message}")


def _describe_alternatives(error: "ValidationError", place: str) -> str:
    kind: Any = error.kind
    branches: list[list[ValidationError]] = kind.context
    given = describe_value(error.instance)
    subject = place or "the arguments"
    if any(not branch for branch in branches):
        return f"{subject} must fit exactly one of the alternatives, but fits several; given {given}"
    here = [branch[0] for branch in branches if branch[0].instance_path == error.instance_path]
    if len(here) == len(branches) and all(first.kind.name in ("type", "enum", "const") for first in here):
        return f"{subject} {' or '.join(dict.fromkeys(map(_describe_requirement, here)))}; given {given}"
    # The nearest alternative has the right type and the fewest problems.
    nearest = min(branches, key=lambda branch: (branch[0].kind.name == "type" and branch[0] in here, len(branch)))
    return f"{subject} does not fit any of the alternatives; nearest: {'; '.join(error_sentences(nearest[0]))}"


def _join_types(names: Iterable[str]) -> str:
    names = sorted(names, key=lambda name: (name == "null", name))
    return " or ".join(TYPES.get(name, name) for name in names)


def _join_choices(options: Sequence[Any]) -> str:
    quoted = [shorten(json.dumps(option, ensure_ascii=False)) for option in options[:MAX_CHOICES]]
    more = len(options) - len(quoted)
    return ", ".join(quoted) + (f" and {more} more" if more > 0 else "")


def _describe_type(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return shorten("|".join(json.dumps(option, ensure_ascii=False) for option in schema["enum"][:MAX_CHOICES]))
    for several in ("anyOf", "oneOf"):
        if isinstance(schema.get(several), list):
            return "|".join(dict.fromkeys(_describe_type(part) for part in schema[several][:5]))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"array of {_describe_type(schema['items'])}" if isinstance(schema.get("items"), dict) else "array"
    return "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)


Schema = dict[str, Any]

# Keywords whose subschemas apply to the same value as the schema itself.
IN_PLACE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
IN_CHILDREN = {"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "properties"} | {
    "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"
}  # fmt: skip
NAMED = {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
SUBSCHEMAS = IN_PLACE | IN_CHILDREN | {"$defs", "definitions"}
# Keywords with a list or object that is gone through for every value.
WIDE = ("enum", "required", "dependentRequired", "dependencies", "properties", "allOf", "anyOf", "oneOf")
DYNAMIC = {"$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor"}

# A schema at these limits compiles in less than 0.1 s. The largest of 6,232 public tools has 68 subschemas.
MAX_SUBSCHEMAS = 2_000
MAX_PATTERNS = 64
MAX_PATTERN_BYTES = 4 * 1024 * 1024  # of a compiled pattern; 64 letters of any script take 3 MiB
MAX_PATTERNS_BYTES = 16 * 1024 * 1024  # of all patterns of a schema; each MiB takes 4 ms
MAX_HOPS = 64  # references followed at one value; more of them are a loop
# Counting a step takes 0.5 µs, checking it 15 ns, and explaining it in full 35 µs.
MAX_STEPS, MAX_STEPS_PER_VALUE, MAX_EXPLAINED_STEPS = 50_000, 20, 5_000
ENTRIES_PER_STEP = 100  # of a list such as an enum; comparing an entry is much faster than checking a subschema


class DanglingReference(InputError):
    """A reference in a schema points to nothing in it."""


class CompiledSchema:
    """A schema that is compiled for checking arguments."""

    def __init__(self, schema: Schema) -> None:
        """Compile a schema; raise InputError if it cannot be used."""
        self._root = schema
        self._branches, patterns = _survey(schema)
        self._validator = _validator(schema, patterns)
        self.names, named, self.open = _top_names(schema)
        self._named = _validator({"anyOf": [{"pattern": name} for name in named]}, patterns) if named else None
        _count_steps(schema, {}, MAX_STEPS)  # detects a loop of references now instead of in a call

    def unknown(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the arguments that the schema does not name."""
        matches = self._named.is_valid if self._named else lambda name: False
        return [name for name in arguments if name not in self.names and not matches(name)]

    def errors(self, arguments: dict[str, Any]) -> Iterator["ValidationError"]:
        """Return the errors of the arguments; raise ToolError if finding them would take too long."""
        steps = 0
        if self._branches:
            steps = _count_steps(self._root, arguments, MAX_STEPS + MAX_STEPS_PER_VALUE * _count_values(arguments))
        if self._validator.is_valid(arguments):
            return iter(())
        if steps > MAX_EXPLAINED_STEPS:
            raise ToolError("the arguments do not fit the schema; send simpler arguments to find out why")
        return self._validator.iter_errors(arguments)


def _validator(schema: Schema, patterns: int) -> "Validator":
    import jsonschema_rs

    share = min(MAX_PATTERN_BYTES, MAX_PATTERNS_BYTES // max(patterns, 1))
    linear = jsonschema_rs.RegexOptions(size_limit=share, dfa_size_limit=share)
    try:
        # The mask keeps values out of messages. Formats are only notes for the model; the handler checks them.
        return jsonschema_rs.validator_for(
            schema, offline=True, mask="the value", pattern_options=linear, validate_formats=False
        )
    except jsonschema_rs.ValidationError as error:
        where = "".join(f"[{part!r}]" for part in error.instance_path) or "input_schema"
        if error.instance_path[-1:] in (["pattern"], ["patternProperties"]):
            raise InputError(
                f"{where} cannot run in linear time; use a pattern without look-around, back-references and huge counts"
            ) from None
        raise InputError(f"{where}: {error.message}"[:500]) from None
    except ValueError as error:
        raise InputError(f"input_schema cannot be compiled: {error}"[:500]) from None


def _survey(root: Schema) -> tuple[bool, int]:
    """Return whether the schema branches, and its number of patterns; raise InputError if it is too large."""
    seen: set[int] = set()
    patterns, branches, stack = 0, False, [root]
    while stack:
        schema = stack.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        _reject_dynamic_references(schema, schema is root)
        patterns += ("pattern" in schema) + len(_as_mapping(schema.get("patternProperties")))
        if len(seen) > MAX_SUBSCHEMAS or patterns > MAX_PATTERNS:
            raise InputError(
                f"input_schema is too large: at most {MAX_SUBSCHEMAS} subschemas and {MAX_PATTERNS} patterns"
            )
        branches = branches or "$ref" in schema or not IN_PLACE.isdisjoint(schema) or _width(schema) > 1
        stack.extend(child for keyword in SUBSCHEMAS for child in _subschemas(schema, keyword))
        stack.extend(_follow_reference(root, schema))
    return branches, patterns


def find_dangling_reference(schema: Schema) -> str | None:
    """Return what is wrong with a reference to a part that the schema does not have, or None."""
    try:
        _survey(schema)
    except DanglingReference as error:
        return str(error)
    except InputError:  # something else, which does not keep the server from checking the arguments itself
        pass
    return None


def _reject_dynamic_references(schema: Schema, is_root: bool) -> None:
    keyword = next((keyword for keyword in DYNAMIC if keyword in schema), None)
    if "$id" in schema and not is_root:
        keyword = "$id"
    if keyword:
        raise InputError(f"input_schema uses {keyword}, which is not supported; use $defs and $ref '#/$defs/NAME'")


def _subschemas(schema: Schema, keyword: str) -> Iterator[Schema]:
    """Yield the subschemas under one keyword."""
    value = schema.get(keyword)
    if keyword in NAMED:
        value = list(_as_mapping(value).values())
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict):
            yield part


def _follow_reference(root: Schema, schema: Schema) -> list[Schema]:
    """Return the schema that a $ref refers to, in a list, or an empty list."""
    reference = schema.get("$ref")
    if reference is None:
        return []
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise InputError(
            f"$ref {str(reference)[:200]!r} refers to something outside the schema; "
            "put that under $defs and use '#/$defs/NAME'"
        )
    found: Any = root
    for step in unquote(reference[1:]).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and step.isdecimal() and len(step) < 10 and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, dict) and step in found:
            found = found[step]
        else:
            raise DanglingReference(f"$ref {reference[:200]!r} points to nothing in the schema")
    return [found] if isinstance(found, dict) else []


def _count_steps(root: Schema, arguments: Mapping[str, Any], limit: int) -> int:
    """Count the subschemas that are applied when these arguments are checked; raise ToolError if there are too many."""
    steps = 0
    stack: list[tuple[Schema, Any, int]] = [(root, arguments, 0)]
    while stack:
        schema, value, hops = stack.pop()
        steps += _width(schema)
        if steps > limit:
            raise ToolError("the arguments are too many or too deep to check against the schema; send simpler ones")
        for target in _follow_reference(root, schema):
            if hops == MAX_HOPS:
                raise InputError(
                    f"input_schema follows more than {MAX_HOPS} references, perhaps in a loop; "
                    "put the $ref under properties or items"
                )
            stack.append((target, value, hops + 1))
        for keyword in IN_PLACE.intersection(schema):
            stack.extend((part, value, hops) for part in _subschemas(schema, keyword))
        if isinstance(value, dict):
            stack.extend((part, item, 0) for part, item in _property_pairs(schema, value))
        elif isinstance(value, list):
            stack.extend((part, item, 0) for part, item in _item_pairs(schema, value))
    return steps


def _width(schema: Schema) -> int:
    """Return the steps of checking one value against a schema without its subschemas."""
    lists = (schema[keyword] for keyword in WIDE if keyword in schema)
    return 1 + sum(len(entries) for entries in lists if isinstance(entries, list | dict)) // ENTRIES_PER_STEP


def _property_pairs(schema: Schema, value: dict[str, Any]) -> Iterator[tuple[Schema, Any]]:
    properties = _as_mapping(schema.get("properties"))
    for name in properties.keys() & value.keys():
        if isinstance(properties[name], dict):
            yield properties[name], value[name]
    for keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"):
        for part in _subschemas(schema, keyword):
            for item in value.values():
                yield part, item


def _item_pairs(schema: Schema, value: list[Any]) -> Iterator[tuple[Schema, Any]]:
    prefix = schema.get("prefixItems")
    if isinstance(prefix, list):
        yield from ((part, item) for part, item in zip(prefix, value, strict=False) if isinstance(part, dict))
    for keyword in ("items", "additionalItems", "unevaluatedItems", "contains"):
        for part in _subschemas(schema, keyword):
            for item in value:
                yield part, item


def _count_values(value: Any) -> int:
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
    """Return names and patterns of the arguments in a schema, and whether it explicitly allows others."""
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
        names.update(_as_mapping(schema.get("properties")))
        patterns.update(dict.fromkeys(_as_mapping(schema.get("patternProperties"))))
        is_open = is_open or any(
            schema.get(rest, False) is not False for rest in ("additionalProperties", "unevaluatedProperties")
        )
        stack.extend(part for keyword in IN_PLACE - {"not"} for part in _subschemas(schema, keyword))
        stack.extend(_follow_reference(root, schema))
    return names, list(patterns), is_open


def _as_mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


MAX_PROBLEMS = 5  # a model fixes five problems at once; more is noise


class ToolArguments:
    """Reads the arguments of one tool with its schema, which is compiled once."""

    def __init__(self, tool: Tool) -> None:
        """Compile the schema; raise InputError, with the name of the tool, if it cannot be used."""
        try:
            self._compiled = CompiledSchema(tool.input_schema)
        except InputError as error:
            raise InputError(f"tool {tool.name}: {error}") from None
        self._schema = tool.input_schema
        closed = tool.input_schema.get("additionalProperties") is False
        self._refuses_unknown = closed or (tool.strict_arguments and not self._compiled.open)
        self._reminder = expected_arguments(tool.input_schema)
        self._aliases = tool.aliases
        self._non_null_names = _non_null_names(tool.input_schema)

    def read(self, sent: object) -> dict[str, Any]:
        """Return a validated copy of the arguments; raise a ToolError that tells the model what to change."""
        renamed = self._resolve_aliases(parse_arguments(sent))
        arguments = {
            name: value for name, value in renamed.items() if value is not None or name not in self._non_null_names
        }
        problems = list(islice(dict.fromkeys(self._find_problems(arguments)), MAX_PROBLEMS + 1))
        if not problems:
            return arguments
        if len(problems) > MAX_PROBLEMS:
            problems[MAX_PROBLEMS:] = ["and more"]
        raise ToolError("\n".join([*problems, self._reminder]))

    def _resolve_aliases(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Replace aliases by the names in the schema, also in objects inside lists."""
        renamed = self._resolve_names(arguments)
        for name, value in renamed.items() if self._aliases else ():
            if isinstance(value, list):
                renamed[name] = [self._resolve_names(one) if isinstance(one, dict) else one for one in value]
        return renamed

    def _resolve_names(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Replace the aliases in one object. A second name of an argument stays, and is rejected later."""
        renamed: dict[str, Any] = {}
        for name, value in arguments.items():
            alias = self._aliases.get(name, name)
            target = alias if isinstance(alias, str) else alias.name
            if target in renamed or (target != name and target in arguments):
                renamed[name] = value
            else:
                renamed[target] = value if isinstance(alias, str) else _convert_unit(value, alias.per)
        return renamed

    def _find_problems(self, arguments: dict[str, Any]) -> Iterator[str]:
        errors = self._compiled.errors(arguments)
        unknown_names = self._compiled.unknown(arguments) if self._refuses_unknown else []
        free = [name for name in self._compiled.names if name not in arguments]
        for name in unknown_names[: MAX_PROBLEMS + 1]:
            yield unknown_name(name, free)
        for error in islice(errors, 10 * MAX_PROBLEMS):
            if not (unknown_names and _is_about_unknown(error)):
                yield from error_sentences(error, self._schema)


def _non_null_names(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the optional arguments that may not be null: models send null for those that they mean to leave out."""
    properties = schema.get("properties")
    required = schema.get("required") or ()
    if not isinstance(properties, Mapping):
        return frozenset()
    return frozenset(
        name
        for name, part in properties.items()
        if isinstance(part, Mapping) and name not in required and "null" not in (part.get("type") or ("null",))
    )


def _convert_unit(value: Any, per: int) -> Any:
    """Convert a number from a smaller unit. Any other value stays, and the schema decides."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return value / per
    except OverflowError:
        return value


def parse_arguments(sent: object) -> dict[str, Any]:
    """Return the arguments as a dictionary. Models send an object, the JSON text of one, or nothing."""
    if isinstance(sent, str):
        sent = _load_json(sent)
    if sent is None:
        return {}
    if not isinstance(sent, Mapping):
        actual = describe_value(sent) if isinstance(sent, str | int | float | bool | list) else type(sent).__name__
        raise ToolError(f"the arguments must be a JSON object, not {actual}")
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
