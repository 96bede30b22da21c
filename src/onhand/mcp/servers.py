"""Read the MCP servers of a configuration, in the JSON formats that MCP clients share.

A configuration may come from anywhere: an entry that cannot be used is reported as a problem, and the others are used.
Secrets stay names (`${TOKEN}`, `${secret:token}`) until a connection is made. Nothing here starts a program.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from shlex import join
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from onhand.errors import ConfigError, InputError
from onhand.fsio import describe_fault, make_directories, open_regular, write_atomic
from onhand.mcp.tool_settings import SPELLINGS, ServerTools, parse_server_tools, server_tools_to_json
from onhand.text import digest

MAX_FILE_BYTES = 16 * 1024 * 1024  # ~/.claude.json contains whole histories
MAX_KEY_CHARS = 48  # leaves 78 characters of a public name for the tool
KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)(?=.)){0,47}")
_VARIABLE = re.compile(r"\$\{(?:env:)?(secret:[A-Za-z0-9_-]+|[A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_NOT_JSON = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])""",
    re.DOTALL,
)
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")


class ServerConfig(NamedTuple):
    """The configuration of one upstream server: a program that is started, or an address."""

    key: str  # its name in the configuration, with which the public names of its tools begin
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}  # never modified
    cwd: str = ""
    url: str = ""
    transport: str = "stdio"  # or http, or sse
    headers: Mapping[str, str] = {}
    oauth: bool = False
    client_id: str = ""  # of OAuth, if we cannot register ourselves; or the URL of a document that describes us
    client_secret: str = ""  # a variable, such as ${SECRET}
    timeout_s: float = 300.0  # of a call
    connect_timeout_s: float = 30.0  # of connecting, and of each request while doing so
    max_concurrent: int = 16
    max_output_bytes: int = 100_000  # of a tool's result; the rest can be read with a handle
    always: tuple[str, ...] = ()  # tools that are always listed, by the server's own names
    disabled: bool = False
    tools: ServerTools = ServerTools()  # what the user sets for them
    project: str = ""  # the directory whose project alone may use it; "" for all

    @property
    def identity(self) -> str:
        """A digest of the program or address, which is what a person approves."""
        if self.url:
            return digest(_canonical(["url", self.transport, self.url]))
        return digest(_canonical(["command", self.command, self.args, self.cwd, sorted(self.env.items())]))

    @property
    def summary(self) -> str:
        """The program or address on one line, without the values of variables and headers, which may be secret."""
        return self.url.partition("?")[0] if self.url else join([self.command, *self.args])


class ServerEntry(NamedTuple):
    """The entry of a server as a file has it."""

    place: tuple[str, ...]  # the names that lead to it; the last one is its own
    value: object
    project: str = ""  # the directory whose section it is in


class ServerConfigs(NamedTuple):
    """The servers of a configuration, and the problems with entries that cannot be used."""

    servers: tuple[ServerConfig, ...]
    problems: tuple[str, ...] = ()
    ignored: Mapping[str, tuple[str, ...]] = {}  # key → the members of its entry that have no meaning here


def read_servers(path: str) -> ServerConfigs:
    """Return the servers of a JSON or TOML file; raise ConfigError if it cannot be read at all."""
    return parse_servers(read_settings(path), path)


def read_settings(path: str) -> object:
    """Return the content of a JSON or TOML file; raise ConfigError if it cannot be read."""
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} has more than {MAX_FILE_BYTES:,} bytes. Name a file that contains only servers.")
    try:
        text = raw.decode("utf-8-sig")
        content: object = tomllib.loads(text) if path.endswith(".toml") else json.loads(strip_comments(text))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8. Save it as UTF-8.") from None
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.endswith(".toml") else "JSON"
        raise ConfigError(f"{path} is not valid {kind} ({error}). Repair it.") from None
    return content


def parse_servers(value: object, where: str) -> ServerConfigs:
    """Return the servers of a JSON value in any form that clients use; the first one wins a name."""
    entries = find_entries(value)
    if not entries and not _has_section(value):
        raise ConfigError(f'{where} contains no servers. Write {{"mcpServers": {{"name": {{"command": "…"}}}}}}.')
    servers: dict[tuple[str, str], ServerConfig] = {}
    problems: list[str] = []
    ignored: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        try:
            server = parse_entry(entry)
        except InputError as error:
            problems.append(f"{where}: {error}")
            continue
        first = servers.setdefault((server.project, server.key), server)
        if first is not server and first != server:
            problems.append(f"{where}: two servers are called {server.key!r}; only the first is used")
        elif unknown := find_unknown_members(entry.value):
            ignored.setdefault(server.key, unknown)
    return ServerConfigs(tuple(servers.values()), tuple(problems), ignored)


def servers_to_json(servers: Iterable[ServerConfig]) -> dict[str, Any]:
    """Return servers in the form that clients share, without defaults; those of a project have a section of their own.

    The sections are those of Claude Code's file.
    """
    content: dict[str, Any] = {"mcpServers": {}}
    for server in servers:
        section = content.setdefault("projects", {}).setdefault(server.project, {}) if server.project else content
        section.setdefault("mcpServers", {})[server.key] = _entry_to_json(server)
    return content


def expand_variables(text: str, environ: Mapping[str, str], where: str) -> str:
    """Return the text with its variables expanded; raise ConfigError, without any value, if one is not set."""

    def expand(match: re.Match[str]) -> str:
        name, default = match.groups()
        if environ.get(name):
            return environ[name]
        if default is not None:
            return str(default)
        if name.startswith("secret:"):
            raise ConfigError(f"{where}: the {name} is not stored. Remove the server and import it again.")
        raise ConfigError(f"{where}: the variable {name} is not set. Set it before onhand starts.")

    expanded = _VARIABLE.sub(expand, text)
    if _PLACEHOLDER.search(_VARIABLE.sub("", text)):
        raise ConfigError(
            f"{where}: only variables such as ${{NAME}} are expanded. Replace the other placeholders by their values."
        )
    return expanded


def usable_key(name: str) -> str:
    """Return a key for a name: always the same one, and different ones for different names."""
    if KEY.fullmatch(name):
        return name
    plain = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", name)).strip("-_")[: MAX_KEY_CHARS - 7].strip("-_")
    return f"{plain or 'server'}-{digest(name.encode(errors='surrogatepass'))[:6]}"


def strip_comments(text: str) -> str:
    """Return JSON without comments and trailing commas, which VS Code and Zed allow."""
    return _NOT_JSON.sub(lambda match: match.group("string") or "", text)


def write_servers(path: str, servers: Iterable[ServerConfig]) -> None:
    """Write our own file of servers, replacing its contents."""
    try:
        make_directories(os.path.dirname(path), 0o700)
        write_atomic(path, (json.dumps(servers_to_json(servers), indent=2) + "\n").encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {describe_fault(error)}") from None


def is_onhand(server: ServerConfig) -> bool:
    """Return whether an entry starts onhand, which as its own upstream server would start itself forever."""
    words = [os.path.basename(part) for part in (server.command, *server.args)]
    return "serve" in words and any(word.split("[")[0] in ("onhand", "onhand.exe") for word in words)


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


_SECTIONS = ("mcpServers", "servers", "context_servers", "mcp_servers")


def _has_section(value: object) -> bool:
    return isinstance(value, Mapping) and any(section in value for section in (*_SECTIONS, "mcp", "projects"))


def find_entries(value: object, place: tuple[str, ...] = (), project: str = "") -> tuple[ServerEntry, ...]:
    """Return the entries of servers in a settings file, wherever clients put them."""
    if not isinstance(value, Mapping):
        return ()
    found = []
    for section in _SECTIONS:
        servers = value.get(section)
        if isinstance(servers, Mapping):
            found += [ServerEntry((*place, section, str(name)), entry, project) for name, entry in servers.items()]
    nested = value.get("mcp")
    found += find_entries(nested, (*place, "mcp"), project)  # settings of VS Code
    for name, entry in nested.items() if isinstance(nested, Mapping) else ():  # settings of opencode
        if isinstance(entry, Mapping) and ("command" in entry or "url" in entry):
            found.append(ServerEntry((*place, "mcp", str(name)), entry, project))
    projects = value.get("projects")  # of Claude Code's own file, and of ours
    for directory, section in projects.items() if isinstance(projects, Mapping) else ():
        found += find_entries(section, (*place, "projects", str(directory)), str(directory))
    return tuple(found)


def parse_entry(entry: ServerEntry) -> ServerConfig:
    """Return the server of an entry; raise InputError with its name if it cannot be used."""
    name, value = entry.place[-1], entry.value
    if not isinstance(value, Mapping):
        raise InputError(f"{name[:100]!r} is not a server: use an object with a command or a url")
    fields: Mapping[str, Any] = value
    if isinstance(fields.get("command"), Mapping):  # Zed's older form
        fields = {**fields, **fields["command"], "command": fields["command"].get("path", "")}
    where = f"server {name[:100]!r}"
    command, arguments = fields.get("command", ""), _texts(fields.get("args", ()), f"{where}: args")
    if isinstance(command, list) and command:
        command, arguments = command[0], (*_texts(command[1:], f"{where}: command"), *arguments)
    url = fields.get("url") or fields.get("httpUrl") or fields.get("serverUrl") or ""
    if not isinstance(command, str) or not isinstance(url, str) or bool(command) == bool(url):
        raise InputError(f"{where} needs either a command or a url")
    return ServerConfig(
        usable_key(name),
        _one_line(command, f"{where}: command"),
        arguments,
        _environment(fields, where),
        _one_line(fields.get("cwd") or "", f"{where}: cwd"),
        _web_address(url, where),
        _transport(fields, url),
        _headers(fields, where),
        *_oauth(fields, where),
        _number(fields, "timeout_s", where),
        _number(fields, "connect_timeout_s", where),
        int(_number(fields, "max_concurrent", where)),
        int(_number(fields, "max_output_bytes", where)),
        _texts(fields.get("always", ()), f"{where}: always"),
        bool(fields.get("disabled", False)) or fields.get("enabled") is False,
        parse_server_tools(fields, where),
        entry.project,
    )


_SECONDS = {"timeout_s": "tool_timeout_sec", "connect_timeout_s": "startup_timeout_sec"}  # as Codex spells them
_KNOWN = frozenset((
    *ServerConfig._fields,
    *("type", "transport", "httpUrl", "serverUrl", "enabled", "auth", "policy", *SPELLINGS),
    *("bearer_env", "bearerTokenEnv", "bearer_token_env_var"),
    *("environment", "env_vars", "http_headers", "env_http_headers", *_SECONDS.values()),
    *("clientId", "CLIENT_ID", "clientSecret", "CLIENT_SECRET"),
    *("name", "title", "description", "icon", "$schema"),  # for people, who see the key here
))  # fmt: skip


def find_unknown_members(entry: object) -> tuple[str, ...]:
    """Return the members of an entry that say something which we do not understand."""
    members = entry.items() if isinstance(entry, Mapping) else ()
    return tuple(str(name)[:100] for name, value in members if name not in _KNOWN and value not in (None, "", [], {}))


def _transport(fields: Mapping[str, Any], url: str) -> str:
    kind = str(fields.get("type") or fields.get("transport") or "")
    return "stdio" if not url else "sse" if kind == "sse" else "http"


def _web_address(url: str, where: str) -> str:
    if not url:
        return ""
    try:
        parts = urlsplit(_one_line(url, f"{where}: url"))
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_web = False
    if not is_web:
        raise InputError(
            f"{where}: the url {url[:100]!r} cannot be used: it must begin with http:// or https:// and a host"
        )
    return url


def _environment(fields: Mapping[str, Any], where: str) -> Mapping[str, str]:
    """Return the variables of a server; those that Codex passes on keep their names."""
    passed = fields.get("env_vars") or ()
    names = [one for one in passed if isinstance(one, str)] if isinstance(passed, list | tuple) else []
    own = _table(fields.get("env") or fields.get("environment") or {}, f"{where}: env")
    return {**{name: f"${{{name}}}" for name in _texts(names, f"{where}: env_vars")}, **own}


def _headers(fields: Mapping[str, Any], where: str) -> Mapping[str, str]:
    headers = dict(_table(fields.get("headers") or fields.get("http_headers") or {}, f"{where}: headers"))
    for name, named in _table(fields.get("env_http_headers") or {}, f"{where}: env_http_headers").items():
        headers[name] = f"${{{named}}}"
    variable = fields.get("bearer_env") or fields.get("bearerTokenEnv") or fields.get("bearer_token_env_var")
    if variable:
        if not isinstance(variable, str) or not variable.isidentifier():
            raise InputError(f"{where}: bearer_env must be the name of a variable, not a token")
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    if any(not name.isascii() or not name.isprintable() or ":" in name or " " in name for name in headers):
        raise InputError(f"{where}: headers contains an invalid header name")
    return headers


def _oauth(fields: Mapping[str, Any], where: str) -> tuple[bool, str, str]:
    """Return whether to log in by OAuth, the client id and the client secret; clients spell them in several ways."""
    section = fields.get("oauth") or fields.get("auth")
    parts = section if isinstance(section, Mapping) else fields
    client_id = parts.get("client_id") or parts.get("clientId") or parts.get("CLIENT_ID") or ""
    secret = parts.get("client_secret") or parts.get("clientSecret") or parts.get("CLIENT_SECRET") or ""
    is_on = parts.get("enabled") is not False if isinstance(section, Mapping) else bool(fields.get("oauth", False))
    return is_on, _one_line(client_id, f"{where}: client_id"), _one_line(secret, f"{where}: client_secret")


def _table(value: object, where: str) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and isinstance(text, str | int | float) for name, text in value.items()
    ):
        raise InputError(f"{where} must be an object of strings")
    return {_one_line(name, where): _one_line(str(text), where) for name, text in value.items()}


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise InputError(f"{where} must be a list of strings")
    return tuple(_one_line(text, where) for text in value)


def _one_line(text: object, where: str) -> str:
    """Return a text that a system call or a header can use; raise InputError if it is not one."""
    if not isinstance(text, str) or any(char in text for char in "\0\r\n"):
        raise InputError(f"{where} must be a string on one line")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{where} contains a lone surrogate") from None
    return text


def _number(fields: Mapping[str, Any], name: str, where: str) -> float:
    value = fields.get(name, fields.get(_SECONDS.get(name, ""), ServerConfig._field_defaults[name]))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10**9:
        raise InputError(f"{where}: {name} must be a number above 0")
    return value


def _entry_to_json(server: ServerConfig) -> dict[str, Any]:
    defaults = ServerConfig._field_defaults
    entry: dict[str, Any] = {"type": server.transport} if server.url else {}
    for name, value in server._asdict().items():
        if name not in ("key", "transport", "tools", "project") and value != defaults.get(name):
            entry[name] = (
                dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
            )
    return entry | server_tools_to_json(server.tools)
