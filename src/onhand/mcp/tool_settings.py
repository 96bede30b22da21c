"""What a user sets for the tools of a server: which are enabled, what they are called, and what they may do.

An entry of a server file has these members; tools are named as their server names them, and `*` stands for any text:

    "enabled_tools": ["list_*", "reset"]   only these tools
    "disabled_tools": ["delete_*"]         none of these, even if they are enabled
    "policy": "ask"                        allow, ask or deny; or one for each kind: {"write": "ask"}
    "tools": {"reset": {
        "name": "reset_branch",            another name
        "description": "…",                another description
        "preset": {"repo": "ours"},        arguments with a fixed value, which models neither see nor set
        "hide": ["verbose"],               optional arguments that models neither see nor set
        "kind": "read",                    read, write or destructive, whatever the server says
        "policy": "allow"}}
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from onhand.errors import InputError
from onhand.text import one_line
from onhand.tools.tool import NAME

READ, WRITE, DESTRUCTIVE = KINDS = ("read", "write", "destructive")
ALLOW, ASK, DENY = POLICIES = ("allow", "ask", "deny")
MAX_DESCRIPTION_CHARS = 10_000
_WILDCARDS = frozenset("*?[")
_SPELLINGS = {  # ours, then those of other clients
    "enabled_tools": ("enabled_tools", "enabledTools", "includeTools"),
    "disabled_tools": ("disabled_tools", "disabledTools", "excludeTools"),
}
SPELLINGS = tuple(spelling for spellings in _SPELLINGS.values() for spelling in spellings)


class ToolSettings(NamedTuple):
    """What a user sets for one tool or, by a pattern, for several."""

    name: str = ""
    description: str = ""
    preset: Mapping[str, Any] = {}  # never modified
    hide: tuple[str, ...] = ()
    kind: str = ""  # one of KINDS; "" is what the server says
    policy: str = ""  # one of POLICIES; "" is that of the server


class ServerTools(NamedTuple):
    """What a user sets for all tools of a server."""

    enabled: tuple[str, ...] | None = None  # names and patterns; None means all
    disabled: tuple[str, ...] = ()
    policy: Mapping[str, str] = {}  # kind → policy
    by_name: Mapping[str, ToolSettings] = {}  # name or pattern → settings


def spellings_of(member: str) -> tuple[str, ...]:
    """Return how clients spell a list of tools, ours first."""
    return _SPELLINGS[member]


def is_pattern(name: str) -> bool:
    """Return whether a name stands for several tools."""
    return not _WILDCARDS.isdisjoint(name)


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name is one of these or fits one of the patterns; upper and lower case differ."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def parse_server_tools(entry: Mapping[str, Any], where: str) -> ServerTools:
    """Return the tool settings in the entry of a server; raise InputError if they cannot be understood.

    A switch that is misunderstood would give models more than the user meant, so that nothing is guessed here.
    """
    tools = entry.get("tools")
    enabled = _tool_names(entry, "enabled_tools", where)
    if isinstance(tools, list):  # Copilot's spelling
        enabled, tools = enabled if enabled is not None else _names(tools, f"{where}: tools"), None
    if tools is not None and not isinstance(tools, Mapping):
        raise InputError(f"{where}: tools must be an object of tools by name")
    return ServerTools(
        enabled,
        _tool_names(entry, "disabled_tools", where) or (),
        _policies(entry.get("policy"), f"{where}: policy"),
        {str(name): _parse_tool(str(name), one, where) for name, one in (tools or {}).items()},
    )


def server_tools_to_json(tools: ServerTools) -> dict[str, Any]:
    """Return tool settings as members of a server's entry, without defaults."""
    members: dict[str, Any] = {} if tools.enabled is None else {"enabled_tools": list(tools.enabled)}
    if tools.disabled:
        members["disabled_tools"] = list(tools.disabled)
    if tools.policy:
        policies = set(tools.policy.values())
        is_same = len(policies) == 1 and len(tools.policy) == len(KINDS)
        members["policy"] = policies.pop() if is_same else dict(tools.policy)
    if tools.by_name:
        members["tools"] = {name: _tool_to_json(one) for name, one in tools.by_name.items()}
    return members


def _tool_to_json(tool: ToolSettings) -> dict[str, Any]:
    defaults = ToolSettings._field_defaults
    fields = {name: value for name, value in tool._asdict().items() if value != defaults[name]}
    return {**fields, **({"hide": list(tool.hide)} if tool.hide else {})}


def _parse_tool(name: str, value: object, where: str) -> ToolSettings:
    where = f"{where}: tools: {one_line(name, 100)}"
    if not isinstance(value, Mapping):
        raise InputError(f'{where} must be an object, such as {{"policy": "ask"}}')
    unknown = [str(member) for member in value if member not in ToolSettings._fields]
    if unknown:
        known = ", ".join(ToolSettings._fields)
        raise InputError(f"{where} has {one_line(unknown[0], 100)!r}, which is not a setting of a tool: use {known}")
    preset = value.get("preset", {})
    if not isinstance(preset, Mapping):
        raise InputError(f"{where}: preset must be an object of values by the names of arguments")
    tool = ToolSettings(
        _text(value.get("name", ""), f"{where}: name"),
        _text(value.get("description", ""), f"{where}: description"),
        dict(preset),
        _names(value.get("hide", []), f"{where}: hide"),
        _choice(value.get("kind", ""), ("", *KINDS), f"{where}: kind"),
        _choice(value.get("policy", ""), ("", *POLICIES), f"{where}: policy"),
    )
    if tool.name and not NAME.fullmatch(tool.name):
        raise InputError(f"{where}: {one_line(tool.name, 100)!r} is not a valid name: use letters, digits, . _ and -")
    if is_pattern(name) and (tool.name or tool.description):
        raise InputError(f"{where}: name and description need the name of one tool, not a pattern")
    if twice := sorted(set(tool.preset) & set(tool.hide)):
        raise InputError(f"{where}: {one_line(twice[0], 100)!r} is both in preset and in hide: leave it out of hide")
    return tool


def _tool_names(entry: Mapping[str, Any], member: str, where: str) -> tuple[str, ...] | None:
    """Return a list of tools, which clients spell in several ways."""
    for spelling in _SPELLINGS[member]:
        if entry.get(spelling) is not None:
            return _names(entry[spelling], f"{where}: {spelling}")
    return None


def _policies(value: object, where: str) -> Mapping[str, str]:
    if value is None or value == "":
        return {}
    if isinstance(value, Mapping):
        return {_choice(kind, KINDS, where): _choice(policy, POLICIES, where) for kind, policy in value.items()}
    return dict.fromkeys(KINDS, _choice(value, POLICIES, where))


def _choice(value: object, choices: tuple[str, ...], where: str) -> str:
    if value not in choices:
        listed = ", ".join(filter(None, choices))
        raise InputError(f"{where}: {one_line(str(value), 100)!r} is not one of {listed}")
    return str(value)


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        raise InputError(f"{where} must be a list of names")
    return tuple(value)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_DESCRIPTION_CHARS:
        raise InputError(f"{where} must be a string of at most {MAX_DESCRIPTION_CHARS:,} characters")
    return value
