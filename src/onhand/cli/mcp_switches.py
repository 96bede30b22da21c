"""Switch servers and tools on and off, and set policies, in the user's own list of servers.

Only the members that say it are written; comments, order and everything else in the file stay.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from onhand.cli import terminal
from onhand.errors import ConfigError, InputError, NotFound
from onhand.fsio import describe_fault, write_atomic
from onhand.project import servers_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onhand.mcp.servers import ServerConfig
    from onhand.project import Project

Place = tuple[str, ...]


def add_switches(verbs: Any) -> None:
    """Declare the verbs."""
    for switch in ("enable", "disable"):
        verb = verbs.add_parser(switch, help=f"{switch} a server in your own list, or some of its tools")
        verb.add_argument("name", metavar="NAME", help="the server")
        verb.add_argument("tools", metavar="TOOL", nargs="*", help="tools or patterns (default: the server itself)")
    rule = verbs.add_parser("policy", help="show or set which calls of a server are allowed, asked about or denied")
    rule.add_argument("name", metavar="NAME", help="the server")
    rule.add_argument(
        "policy", metavar="POLICY", nargs="?", choices=("allow", "ask", "deny"), help="allow, ask or deny"
    )
    rule.add_argument(
        "--kind",
        metavar="KIND",
        action="append",
        choices=("read", "write", "destructive"),
        help="only for read, write or destructive tools (repeatable)",
    )
    rule.add_argument("--tool", metavar="TOOL", action="append", help="only for this tool or pattern (repeatable)")


def enable(project: Project, arguments: argparse.Namespace) -> int:
    """Enable a server, or some of its tools."""
    entry = _OwnEntry(arguments.name)
    if not arguments.tools:
        entry.set("disabled", False if "disabled" in entry.value else None)
        return entry.write(arguments, f"enabled {arguments.name}")
    names = _tool_names(project, entry.server, arguments.tools)
    settings = entry.server.tools
    disabled = [name for name in settings.disabled if name not in names]
    covering = {name: pattern for name in names for pattern in disabled if _fits(name, pattern)}
    for name, pattern in covering.items():
        raise InputError(
            f"{name} stays disabled by the pattern {pattern!r} of disabled_tools: change that in {servers_file()}"
        )
    if settings.disabled:
        entry.set(entry.spelling("disabled_tools"), disabled or None)
    if settings.enabled is not None:
        added = [name for name in names if not any(_fits(name, pattern) for pattern in settings.enabled)]
        entry.set(entry.spelling("enabled_tools"), [*settings.enabled, *added])
    return entry.write(arguments, f"enabled {', '.join(names)} of {arguments.name}")


def disable(project: Project, arguments: argparse.Namespace) -> int:
    """Disable a server, or some of its tools."""
    entry = _OwnEntry(arguments.name)
    if not arguments.tools:
        entry.set("disabled", True)
        return entry.write(arguments, f"disabled {arguments.name}")
    names = _tool_names(project, entry.server, arguments.tools)
    settings = entry.server.tools
    enabled = settings.enabled
    if enabled is not None and set(enabled) & set(names):
        entry.set(entry.spelling("enabled_tools"), [name for name in enabled if name not in names])
        enabled = tuple(name for name in enabled if name not in names)
    left = [name for name in names if enabled is None or any(_fits(name, pattern) for pattern in enabled)]
    entry.set(entry.spelling("disabled_tools"), list(dict.fromkeys((*settings.disabled, *left))) or None)
    return entry.write(arguments, f"disabled {', '.join(names)} of {arguments.name}")


def policy(project: Project, arguments: argparse.Namespace) -> int:
    """Show or set what becomes of calls of a server's tools."""
    from onhand.mcp.tool_settings import KINDS

    entry = _OwnEntry(arguments.name)
    settings = entry.server.tools
    if arguments.policy is None:
        return _show_policies(project, entry.server, arguments)
    if arguments.tool:
        for name in _tool_names(project, entry.server, arguments.tool):
            entry.set_tool(name, {"policy": arguments.policy})
    else:
        kinds = arguments.kind or KINDS
        policies = {**settings.policy, **dict.fromkeys(kinds, arguments.policy)}
        is_same = len(set(policies.values())) == 1 and len(policies) == len(KINDS)
        entry.set("policy", arguments.policy if is_same else policies)
    what = ", ".join(arguments.tool or arguments.kind or ["all tools"])
    return entry.write(arguments, f"the policy of {arguments.name} for {what} is now {arguments.policy}")


def _show_policies(project: Project, server: ServerConfig, arguments: argparse.Namespace) -> int:
    from onhand.mcp.tool_settings import KINDS

    defaults = project.config.mcp._asdict()
    policies = {kind: server.tools.policy.get(kind) or defaults[f"policy_{kind}"] for kind in KINDS}
    tools = {name: tool.policy for name, tool in server.tools.by_name.items() if tool.policy}
    if arguments.json:
        terminal.print_json({"name": server.key, "policies": policies, "tools": tools})
        return 0
    rows = [*((f"{kind} tools", policies[kind]) for kind in KINDS), *tools.items()]
    terminal.print_table(rows, header=("TOOLS", "POLICY"))
    terminal.say(f"To change one: onhand mcp policy {server.key} allow, ask or deny, with --kind KIND or --tool TOOL")
    return 0


class _OwnEntry:
    """The entry of a server in the user's own file, and the text of that file while it is edited."""

    def __init__(self, key: str) -> None:
        from onhand.mcp.servers import find_entries, parse_entry, read_settings, usable_key

        self._path = servers_file()
        settings = read_settings(self._path) if os.path.lexists(self._path) else {}
        found = [one for one in find_entries(settings) if usable_key(one.place[-1]) == key]
        if not found:
            raise NotFound(
                f"{self._path} has no server {key[:100]!r}: `onhand mcp list` lists the servers, and one from another "
                "file is changed in that file"
            )
        self.server = parse_entry(found[0])
        value: Any = found[0].value  # an object, or it could not be parsed
        self.place, self.value = found[0].place, dict(value)
        with open(self._path, encoding="utf-8-sig", newline="") as file:
            self._before = self._text = file.read()

    def spelling(self, member: str) -> str:
        """Return the spelling of a list of tools that the entry uses."""
        from onhand.mcp.tool_settings import spellings_of

        return next((one for one in spellings_of(member) if one in self.value), member)

    def set(self, member: str, value: Any) -> None:
        """Set a member, or remove it if the value is None."""
        self._edit((*self.place, member), value)

    def set_tool(self, name: str, members: Mapping[str, Any]) -> None:
        """Set members of the settings of one tool."""
        tools = self.value.get("tools") or {}
        if name in tools:
            for member, value in members.items():
                self._edit((*self.place, "tools", name, member), value)
        elif tools:
            self._edit((*self.place, "tools", name), dict(members))
        else:
            self._edit((*self.place, "tools"), {name: dict(members)})
        self.value["tools"] = {**tools, name: {**tools.get(name, {}), **members}}

    def _edit(self, place: Place, value: Any) -> None:
        from onhand.mcp.settings_formats import JSON, set_in_json

        try:
            if value is not None:
                self._text = set_in_json(self._text, place, value)
            elif place[-1] in self.value:
                self._text = JSON.remove(self._text, place)
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"{self._path} was not changed, because {error}. Change it by hand.") from None

    def write(self, arguments: argparse.Namespace, done: str) -> int:
        """Write the file, if anything changed, and say so."""
        is_changed = self._text != self._before
        try:
            if is_changed:
                write_atomic(os.path.realpath(self._path), self._text.encode())
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written: {describe_fault(error)}") from None
        if arguments.json:
            terminal.print_json({"name": arguments.name, "file": self._path, "changed": is_changed})
        else:
            terminal.say(f"{done}; restart onhand in your clients" if is_changed else "nothing to change")
        return 0


def _tool_names(project: Project, server: ServerConfig, given: Sequence[str]) -> list[str]:
    """Return the server's own names of tools; raise NotFound for one that it does not have, if its list is known."""
    from onhand.tools.arguments import close_names

    lists = project.known_lists().get(server.key)
    known = [str(tool["name"]) for tool in lists.tools] if lists else []
    renamed = {tool.name: name for name, tool in server.tools.by_name.items() if tool.name}
    names = []
    for one in given:
        short = one.removeprefix(f"{server.key}__")
        name = renamed.get(short, short)
        if known and not any(_fits(each, name) for each in known):
            near = close_names(name, known)
            hint = f"did you mean {near[0]!r}?" if near else f"`onhand mcp list --tools` lists its {len(known):,} tools"
            raise NotFound(f"{server.key} has no tool {name[:100]!r}: {hint}")
        names.append(name)
    return list(dict.fromkeys(names))


def _fits(name: str, pattern: str) -> bool:
    from onhand.mcp.tool_settings import matches_any

    return matches_any(name, (pattern,))
