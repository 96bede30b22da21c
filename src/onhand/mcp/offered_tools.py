"""The tools of a server as its user's settings present them: which are offered, under which names and arguments.

What is approved is always what the server says, never what the user makes of it, so that a setting hides no change.
A tool whose settings cannot be used is not offered, because guessing could give models more than the user meant.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from onhand.errors import InputError, ToolError
from onhand.mcp.permissions import HINTS, kind_of
from onhand.mcp.tool_settings import DENY, ServerTools, ToolSettings, is_pattern, matches_any
from onhand.text import one_line
from onhand.tools.arguments import CompiledSchema, close_names

NO_POLICIES: Mapping[str, str] = {}
MAX_SHOWN_CHARS = 100  # of a name in a problem
_UNUSABLE = "the user's settings for it cannot be used"
# Keywords that apply to the same object as `properties`; one that mentions an argument may depend on its value.
_IN_PLACE = (
    *("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    *("dependentRequired", "dependentSchemas", "dependencies", "patternProperties", "propertyNames"),
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ASIDE = ("properties", "$defs", "definitions", "$schema", "$id")  # what the schema of one argument may refer to


class OfferedTool(NamedTuple):
    """A tool as the settings present it."""

    name: str  # the server's, or the user's
    changes: Mapping[str, Any] = {}  # the members of its definition that the user's settings replace
    preset: Mapping[str, Any] = {}  # arguments that are added to every call
    hidden: frozenset[str] = frozenset()  # arguments that a caller may not set
    disabled: str = ""  # why it is not offered
    policy: str = ""  # "allow" or "ask"; "" if nothing is set
    kind: str = ""  # if the user has set it, and not the server


class OfferedTools(NamedTuple):
    """The tools of a server by its own names for them, and the problems with the settings."""

    tools: Mapping[str, OfferedTool]
    problems: tuple[str, ...]


def offer_tools(
    key: str, settings: ServerTools, listed: Iterable[Mapping[str, Any]], policies: Mapping[str, str] = NO_POLICIES
) -> OfferedTools:
    """Return the listed tools of a server as its settings present them; `policies` are the defaults for each kind."""
    definitions = {str(tool["name"]): tool for tool in listed}
    settings = settings._replace(policy={**policies, **settings.policy})
    if settings == ServerTools():
        return OfferedTools({name: OfferedTool(name) for name in definitions}, ())
    problems = _find_unknown(settings, definitions)
    for name in sorted(set(settings.enabled or ()) & set(settings.disabled)):
        problems.append(f"{_quote(name)} is in enabled_tools and in disabled_tools, so it stays disabled")
    offered = {name: _offer_tool(key, settings, tool, problems) for name, tool in definitions.items()}
    _resolve_collisions(offered, problems)
    return OfferedTools(offered, tuple(problems))


def settings_of(name: str, settings: ServerTools) -> ToolSettings:
    """Return what is set for a tool: by its name first, then by the patterns that it fits, in their order."""
    exact = [settings.by_name[name]] if name in settings.by_name else []
    fitting = [one for known, one in settings.by_name.items() if known != name and matches_any(name, (known,))]
    merged = ToolSettings()
    for one in reversed([*exact, *fitting]):
        merged = merged._replace(**{member: value for member, value in one._asdict().items() if value})
    return merged


def _offer_tool(key: str, settings: ServerTools, definition: Mapping[str, Any], problems: list[str]) -> OfferedTool:
    name = str(definition["name"])
    own = settings_of(name, settings)
    disabled = _why_disabled(key, name, settings)
    changes: dict[str, Any] = {"description": own.description} if own.description else {}
    annotations = definition.get("annotations") or {}
    kind = own.kind or kind_of(annotations)
    policy = own.policy or settings.policy.get(kind, "")
    if policy == DENY:
        disabled = disabled or f"the user's policy for {'it' if own.policy else f'{kind} tools'} is deny"
    if own.kind:
        changes["annotations"] = {**annotations, **HINTS[kind]}
    hidden = frozenset((*own.preset, *own.hide))
    if hidden and not disabled:
        schema = definition.get("inputSchema") or {}
        if problem := _find_argument_problem(schema, own):
            problems.append(_not_offered(name, problem))
            disabled = _UNUSABLE
        else:
            changes["inputSchema"] = _without_arguments(schema, hidden)
    return OfferedTool(own.name or name, changes, own.preset, hidden, disabled, policy, own.kind)


def _why_disabled(key: str, name: str, settings: ServerTools) -> str:
    if matches_any(name, settings.disabled):
        return f"the user's disabled_tools for {key} name it"
    if settings.enabled is not None and not matches_any(name, settings.enabled):
        return f"the user's enabled_tools for {key} do not name it"
    return ""


def _find_unknown(settings: ServerTools, definitions: Mapping[str, Any]) -> list[str]:
    """Return a problem for each name and pattern that no listed tool fits."""
    problems = []
    places = {
        "enabled_tools": settings.enabled or (),
        "disabled_tools": settings.disabled,
        "tools": tuple(settings.by_name),
    }
    for place, names in places.items():
        for name in names:
            if name == "*" or any(matches_any(one, (name,)) for one in definitions):
                continue
            near = [] if is_pattern(name) else close_names(name, definitions)
            hint = f"; did you mean {_quote(near[0])}?" if near else ""
            problems.append(f"{place}: {_quote(name)} matches none of its {len(definitions):,} tools{hint}")
    return problems


def _resolve_collisions(offered: dict[str, OfferedTool], problems: list[str]) -> None:
    """Disable renamed tools whose name another tool of the server has."""
    names = Counter(tool.name for tool in offered.values())
    for own, tool in list(offered.items()):
        if tool.name != own and names[tool.name] > 1:
            problems.append(_not_offered(own, f"another tool is called {_quote(tool.name)}, too"))
            offered[own] = tool._replace(name=own, disabled=tool.disabled or _UNUSABLE)


def _not_offered(name: str, reason: str) -> str:
    return f"tools: {_quote(name)} is not offered, because {reason}"


def _find_argument_problem(schema: Mapping[str, Any], own: ToolSettings) -> str:
    """Return why arguments cannot be preset or hidden; empty if they can."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    for name in (*own.preset, *own.hide):
        if name not in known:
            near = close_names(name, known)
            return f"it has no argument {_quote(name)}" + (f"; did you mean {_quote(near[0])}?" if near else "")
        for keyword in _IN_PLACE:
            if keyword in schema and (keyword in _REFERENCES or _mentions(schema[keyword], name)):
                return f"its schema makes {_quote(name)} depend on others ({keyword})"
    if needed := [name for name in own.hide if name in _required_names(schema)]:
        return f"{_quote(needed[0])} is required: give it a value with preset instead of hiding it"
    return _find_preset_problem(schema, own.preset)


def _find_preset_problem(schema: Mapping[str, Any], preset: Mapping[str, Any]) -> str:
    if not preset:
        return ""
    aside = {member: schema[member] for member in _ASIDE if member in schema}
    try:
        error = next(CompiledSchema({"type": "object", **aside}).errors(dict(preset)), None)
    except (InputError, ToolError, ValueError) as failure:
        return f"its preset cannot be checked: {one_line(str(failure), 200)}"
    if error is None:
        return ""
    return (
        f"the preset of {_quote(str(error.instance_path[0]))} does not fit its schema: {one_line(error.message, 200)}"
    )


def _without_arguments(schema: Mapping[str, Any], hidden: frozenset[str]) -> dict[str, Any]:
    shown = {name: part for name, part in schema["properties"].items() if name not in hidden}
    rest = {**schema, "properties": shown}
    if "required" in schema:
        rest["required"] = [name for name in _required_names(schema) if name not in hidden]
    return rest


def _required_names(schema: Mapping[str, Any]) -> Sequence[str]:
    required = schema.get("required")
    return required if isinstance(required, list) else []


def _mentions(value: Any, name: str) -> bool:
    """Return whether a part of a schema has a name as a key or as a text."""
    pending = [value]
    while pending:
        part = pending.pop()
        if part == name or (isinstance(part, Mapping) and name in part):
            return True
        pending += part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
    return False


def _quote(name: str) -> str:
    return repr(one_line(name, MAX_SHOWN_CHARS))
