"""Find the servers in the settings of other clients: whose they are, which tools they may use, and what has no
meaning here.

A settings file belongs to the user or came with a project. What comes with a project can only restrict: its permissions
to call tools without a question are not carried over.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from onhand.errors import ConfigError, InputError
from onhand.mcp.client_settings import CLIENTS, settings_paths
from onhand.mcp.secrets import find_references
from onhand.mcp.servers import ServerConfig, ServerEntry, find_entries, find_unknown_members, parse_entry, read_settings
from onhand.mcp.tool_settings import ALLOW, ASK, DENY, KINDS, ServerTools, ToolSettings, matches_any

EVERY = "*"  # the pattern that fits every tool
INPUT = re.compile(r"\$\{input:([^}]+)\}")
_EFFECTS = {"approve": ALLOW, "prompt": ASK, "allow": ALLOW, "ask": ASK, "deny": DENY}
_MS_CLIENTS = ("gemini", "qwen", "opencode", "copilot")  # whose `timeout` is in milliseconds


class SettingsFile(NamedTuple):
    """A settings file of a client."""

    path: str
    client: str = ""  # "" if it is not known
    project: str = ""  # the directory that it came with; "" if it is the user's own


class Input(NamedTuple):
    """A value that VS Code asks for: `${input:id}` in an entry."""

    id: str
    description: str
    is_secret: bool
    default: str = ""


class ClientServer(NamedTuple):
    """A server in the settings of a client."""

    server: ServerConfig
    file: SettingsFile
    entry: ServerEntry
    left_out: tuple[str, ...] = ()  # what of its settings has no meaning here
    inputs: tuple[Input, ...] = ()  # that its entry needs

    @property
    def is_foreign(self) -> bool:
        """Whether it came with the file of a project, and not from the user."""
        return bool(self.file.project)


class _Rule(NamedTuple):
    """What a client's settings say about some tools of a server."""

    effect: str  # allow, ask, deny, or "only": no others are enabled
    tool: str  # a name or a pattern


def known_files(home: str, project: str, environ: Mapping[str, str]) -> list[SettingsFile]:
    """Return the files in which clients may keep servers, whether or not they exist."""
    files: list[SettingsFile] = []
    for client, (user, *of_project) in settings_paths(home, project, environ).items():
        files.append(SettingsFile(user, client))
        files += [SettingsFile(path, client, os.path.realpath(project)) for path in of_project if path != user]
    return files


def identify_file(path: str, home: str, project: str, environ: Mapping[str, str]) -> SettingsFile:
    """Return whose settings a file has: a client's, of the user or of a project, by where it is."""
    real = os.path.realpath(path)
    for known in known_files(home, project, environ):
        if os.path.realpath(known.path) == real:
            return known._replace(path=path)
    for client, file in CLIENTS.items():
        if file.project and real.endswith(os.path.join(os.sep, file.project)):
            return SettingsFile(path, client, real[: -len(file.project) - 1] or os.sep)
    return SettingsFile(path)


def find_servers(file: SettingsFile, home: str) -> tuple[list[ClientServer], list[str]]:
    """Return the servers in a file, and what cannot be used; raise ConfigError if the file cannot be read."""
    content = read_settings(file.path)
    entries = find_entries(content)
    if not entries and not isinstance(content, Mapping):
        raise ConfigError(f"{file.path} contains no servers: it is not a JSON object.")
    companions = [content, *_companions(file, home)]
    found, problems = [], []
    for entry in entries:
        try:
            found.append(_translate(file, entry, companions, _inputs_in(content)))
        except InputError as error:
            problems.append(f"{file.path}: {error}")
    return found, problems


def resolve_inputs(server: ServerConfig, values: Mapping[str, str]) -> ServerConfig:
    """Return a server with these values in place of `${input:…}`."""

    def resolve(text: str) -> str:
        return INPUT.sub(lambda match: values.get(match[1], match[0]), text)

    return _change_texts(server, resolve)


def is_same_program(found: ServerConfig, own: ServerConfig) -> bool:
    """Return whether both have the same program or address; what was asked for or stored apart may be anything."""

    def parts(server: ServerConfig) -> list[str]:
        variables = [text for pair in sorted(server.env.items()) for text in pair]
        return [server.command, *server.args, server.cwd, server.url, server.transport, *variables]

    pairs = list(zip(parts(found), parts(own), strict=False))
    return len(parts(found)) == len(parts(own)) and all(
        one == other or INPUT.search(one) or find_references(other) for one, other in pairs
    )


def _translate(
    file: SettingsFile, entry: ServerEntry, contents: list[object], inputs: Mapping[str, Input]
) -> ClientServer:
    """Return the server of an entry as we would write it."""
    name, value = entry.place[-1], entry.value
    fields = dict(value) if isinstance(value, Mapping) else {}
    rules = list(_rules_in_entry(fields))
    if isinstance(fields.get("tools"), Mapping):  # Codex keeps an approval for each tool there
        fields["tools"] = {
            tool: {member: said for member, said in one.items() if member != "approval_mode"}
            for tool, one in fields["tools"].items()
            if isinstance(one, Mapping)
        }
    if file.client in _MS_CLIENTS and isinstance(fields.get("timeout"), int | float):
        fields["timeout_s"] = fields.pop("timeout") / 1000
    for member in ("trust", "autoApprove", "alwaysAllow", "default_tools_approval_mode", "source"):
        fields.pop(member, None)
    server = parse_entry(entry._replace(value=fields if isinstance(value, Mapping) else value))
    project = file.project or entry.project
    server = server._replace(project=os.path.realpath(project) if project else "")
    for content in contents:
        rules += _rules_in_settings(name, content, server.project)
    left_out = [*find_unknown_members(fields), *_find_other_switches(name, contents, server.project)]
    if file.project:
        server, rules = _without_permissions(server), [rule for rule in rules if not _is_permission(rule, left_out)]
    server = _fill_in(server._replace(tools=_apply(rules, server.tools)), project)
    is_denied = _Rule(DENY, EVERY) in rules and not any(rule.effect == "only" for rule in rules)
    texts = (server.command, *server.args, *server.env.values(), server.cwd, server.url, *server.headers.values())
    needed = dict.fromkeys(match[1] for text in texts for match in INPUT.finditer(text))
    return ClientServer(
        server._replace(disabled=server.disabled or is_denied),
        file,
        entry,
        tuple(dict.fromkeys(left_out)),
        tuple(inputs.get(id, Input(id, id, True)) for id in needed),
    )


def _fill_in(server: ServerConfig, project: str) -> ServerConfig:
    """Return a server with the variables of other clients replaced: opencode's form, and the directory of a project."""

    def fill_in(text: str) -> str:
        text = re.sub(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}", r"${\1}", text.replace("${env:", "{env:"))
        return text.replace("${workspaceFolder}", project) if project else text

    return _change_texts(server, fill_in)


def _change_texts(server: ServerConfig, change: Callable[[str], str]) -> ServerConfig:
    """Return a server with each text that may have variables in it changed."""
    return server._replace(
        command=change(server.command),
        args=tuple(map(change, server.args)),
        env={name: change(value) for name, value in server.env.items()},
        cwd=change(server.cwd),
        url=change(server.url),
        headers={name: change(value) for name, value in server.headers.items()},
    )


def _without_permissions(server: ServerConfig) -> ServerConfig:
    """Return a server that may call fewer tools without a question than its entry says, because others wrote it."""
    tools = server.tools
    policy = {kind: policy for kind, policy in tools.policy.items() if policy != ALLOW}
    by_name = {
        name: one._replace(kind="", policy="" if one.policy == ALLOW else one.policy)
        for name, one in tools.by_name.items()
    }
    return server._replace(tools=tools._replace(policy=policy, by_name=by_name))


def _is_permission(rule: _Rule, left_out: list[str]) -> bool:
    if rule.effect == ALLOW:
        left_out.append(f"permission to call {'its tools' if rule.tool == EVERY else rule.tool} without asking")
    return rule.effect == ALLOW


def _apply(rules: Iterable[_Rule], tools: ServerTools) -> ServerTools:
    """Return the settings of tools with a client's rules added."""
    only = [rule.tool for rule in rules if rule.effect == "only"]
    denied = [rule.tool for rule in rules if rule.effect == DENY and rule.tool != EVERY]
    by_name, policy = dict(tools.by_name), dict(tools.policy)
    for rule in rules:
        if rule.effect in (ALLOW, ASK) and rule.tool == EVERY:
            policy = dict.fromkeys(KINDS, rule.effect)
        elif rule.effect in (ALLOW, ASK) and not matches_any(rule.tool, denied):
            by_name[rule.tool] = by_name.get(rule.tool, ToolSettings())._replace(policy=rule.effect)
    enabled = tools.enabled if not only else tuple(dict.fromkeys((*(tools.enabled or ()), *only)))
    return ServerTools(enabled, tuple(dict.fromkeys((*tools.disabled, *denied))), policy, by_name)


def _rules_in_entry(entry: Mapping[str, Any]) -> Iterator[_Rule]:
    """Yield what an entry itself says about tools in the words of Gemini, Cline, Roo and Codex."""
    if entry.get("trust") is True:
        yield _Rule(ALLOW, EVERY)
    if effect := _EFFECTS.get(str(entry.get("default_tools_approval_mode"))):
        yield _Rule(effect, EVERY)
    for member in ("autoApprove", "alwaysAllow"):
        yield from (_Rule(ALLOW, tool) for tool in _texts(entry.get(member)))
    tools = entry.get("tools")
    for tool, one in tools.items() if isinstance(tools, Mapping) else ():
        if isinstance(one, Mapping) and (effect := _EFFECTS.get(str(one.get("approval_mode")))):
            yield _Rule(effect, str(tool))


def _rules_in_settings(name: str, settings: object, project: str) -> Iterator[_Rule]:
    """Yield what a settings file says about the tools of a server elsewhere than in its entry."""
    if not isinstance(settings, Mapping):
        return
    yield from _claude_rules(name, _mapping(settings.get("permissions")))
    yield from _opencode_rules(name, settings)
    servers = _mapping(settings.get("mcp"))  # of Gemini and Qwen
    allowed = servers.get("allowed")
    if name in _texts(servers.get("excluded")) or (isinstance(allowed, list) and name not in allowed):
        yield _Rule(DENY, EVERY)
    for text in (*_texts(settings.get("excludeTools")), *_texts(_mapping(settings.get("tools")).get("exclude"))):
        for prefix in (f"mcp__{name}__", f"mcp_{name}_", f"{name}__"):
            if text.startswith(prefix):
                yield _Rule(DENY, text.removeprefix(prefix))
    of_project = _mapping(_mapping(settings.get("projects")).get(project))  # Claude's decisions
    for section in (settings, of_project) if project else ():
        disabled = (section.get(member) for member in ("disabledMcpjsonServers", "disabledMcpServers"))
        if any(name in _texts(names) for names in disabled):
            yield _Rule(DENY, EVERY)


def _find_other_switches(name: str, contents: Iterable[object], project: str) -> Iterator[str]:
    """Yield the switches of a server that has no project which depend on where the client or its agent works."""
    for content in contents if not project else ():
        for directory, section in _mapping(_mapping(content).get("projects")).items():
            if name in _texts(_mapping(section).get("disabledMcpServers")):
                yield f"disabled in {directory}"
        for agent, section in _mapping(_mapping(content).get("agent")).items():
            if next(_opencode_rules(name, _mapping(section)), None):
                yield f"the tools of agent {agent}"


def _claude_rules(name: str, permissions: Mapping[str, Any]) -> Iterator[_Rule]:
    """Yield the rules that name a server as Claude Code and Qwen do: `mcp__server` or `mcp__server__tool`."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    for effect in (ALLOW, ASK, DENY):
        for text in _texts(permissions.get(effect)):
            if text == f"mcp__{plain}":
                yield _Rule(effect, EVERY)
            elif text.startswith(f"mcp__{plain}__"):
                yield _Rule(effect, text.removeprefix(f"mcp__{plain}__"))


def _opencode_rules(name: str, settings: Mapping[str, Any]) -> Iterator[_Rule]:
    """Yield the rules of opencode, which calls a tool `server_tool`; the last one that fits a tool counts."""
    prefix = re.sub(r"[^A-Za-z0-9_-]", "_", name) + "_"
    is_denied = False
    for member in ("tools", "permission"):
        for pattern, said in _mapping(settings.get(member)).items():
            effect = {True: ALLOW, False: DENY}.get(said) if isinstance(said, bool) else _EFFECTS.get(str(said))
            if pattern.startswith(prefix):
                tool = pattern.removeprefix(prefix)
            elif pattern.endswith("*") and prefix.startswith(pattern[:-1]):
                tool = EVERY
            else:
                continue
            is_denied = effect == DENY if tool == EVERY else is_denied
            if effect in (ALLOW, ASK) and is_denied:
                yield _Rule("only", tool)
            if effect and (effect != ALLOW or member == "permission"):
                yield _Rule(effect, tool)


def _companions(file: SettingsFile, home: str) -> list[object]:
    """Return the content of the other files that say something about the servers of a client."""
    if file.client != "claude":
        return []
    paths = [os.path.join(home, ".claude", "settings.json"), os.path.join(home, ".claude.json")]
    if file.project:
        paths += [os.path.join(file.project, ".claude", name) for name in ("settings.json", "settings.local.json")]
    contents = []
    for path in paths:
        if os.path.isfile(path) and os.path.realpath(path) != os.path.realpath(file.path):
            contents.append(read_settings(path))
    return contents


def _inputs_in(content: object) -> dict[str, Input]:
    """Return what VS Code asks a person for."""
    inputs = _mapping(content).get("inputs")
    found = {}
    for one in inputs if isinstance(inputs, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("id"), str):
            described = str(one.get("description") or one["id"])
            default = one.get("default")
            is_secret = bool(one.get("password"))
            found[one["id"]] = Input(one["id"], described, is_secret, default if isinstance(default, str) else "")
    return found


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()
