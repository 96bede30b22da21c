"""Can this schema be used, and what does it allow? A JSON Schema, compiled once and bounded in its cost.

A schema may come from a stranger's server. Nothing is ever fetched for it, its patterns run in linear time,
and the steps that arguments would take are counted before they are checked: a few nested `$ref` can ask for
2^40 of them.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from onhand.errors import InputError, ToolError

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

Schema = dict[str, Any]

# Applied to the same value as the schema they stand in.
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


class Compiled:
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
        """The arguments that the schema does not name."""
        matches = self._named.is_valid if self._named else lambda name: False
        return [name for name in arguments if name not in self.names and not matches(name)]

    def errors(self, arguments: dict[str, Any]) -> Iterator["ValidationError"]:
        """What is wrong with the arguments; ToolError when that would take too long to find out."""
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
    """Whether the schema branches, and its number of patterns, after every part was found to be bounded."""
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
    """The subschemas that stand under one keyword."""
    value = schema.get(keyword)
    if keyword in NAMED:
        value = list(_mapping(value).values())
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict):
            yield part


def _target(root: Schema, schema: Schema) -> list[Schema]:
    """The schema that a $ref points to, if there is one."""
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
    """How many subschemas meet a value when these arguments are checked; ToolError when they are too many."""
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
    """How many steps it takes to hold one value against a schema, without its subschemas."""
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
