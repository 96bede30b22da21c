"""Which servers stand behind us? What a configuration says of each, read from the JSON that MCP clients share.

A configuration may have come from anywhere: an entry that cannot be used is a problem in words, and the others are
read. Secrets stay names of variables (`${TOKEN}`) until a connection is made. Nothing here starts a program.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from onhand.errors import ConfigError, InputError
from onhand.fsio import open_regular
from onhand.text import digest

MAX_FILE_BYTES = 16 * 1024 * 1024  # ~/.claude.json keeps whole histories
MAX_KEY_CHARS = 48  # leaves 78 characters of a name to the tool
KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)(?=.)){0,47}")
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_PIECES = re.compile(
    r"""(?P<kept>"(?:[^"\\]|\\.)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])""",
    re.DOTALL,
)
_LEFT_OPEN = re.compile(r"\$\{[^}]*\}")


class ServerConfig(NamedTuple):
    """One server behind us: a program that is started, or an address."""

    key: str  # what the configuration calls it, and what the names of its tools begin with
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}  # of one server; nobody writes to it
    cwd: str = ""
    url: str = ""
    transport: str = "stdio"  # or http, or sse
    headers: Mapping[str, str] = {}
    oauth: bool = False
    client_id: str = ""  # what the log-in knows us as, where it lets nobody register; or an address that describes us
    client_secret: str = ""  # the name of a variable, such as ${SECRET}
    timeout_s: float = 300.0  # of a call
    connect_timeout_s: float = 30.0  # of a connection, and of each request while it is made
    max_concurrent: int = 16
    max_output_bytes: int = 100_000  # of a tool's answer; the rest is read with a handle
    always: tuple[str, ...] = ()  # tools that are in every list, by the server's own names
    disabled: bool = False

    @property
    def identity(self) -> str:
        """The same as long as the same program or address is meant: what an approval is for."""
        if self.url:
            return digest(_canonical(["url", self.transport, self.url]))
        return digest(_canonical(["command", self.command, self.args, self.cwd, sorted(self.env.items())]))

    @property
    def shown(self) -> str:
        """The program or address in a line, without secrets: values of variables and headers are not in it."""
        from shlex import join

        return self.url.partition("?")[0] if self.url else join([self.command, *self.args])


class ServerConfigs(NamedTuple):
    """The servers of a configuration, and what in it is none."""

    servers: tuple[ServerConfig, ...]
    problems: tuple[str, ...] = ()


def read_servers(path: str) -> ServerConfigs:
    """The servers of a file; ConfigError when it cannot be read at all."""
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} has more than {MAX_FILE_BYTES:,} bytes: name a file of servers")
    try:
        text = raw.decode("utf-8-sig")
        return parse_servers(_toml(text) if path.endswith(".toml") else json.loads(without_comments(text)), path)
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8: save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not what its name says ({error}): repair it") from None


def parse_servers(value: object, where: str) -> ServerConfigs:
    """The servers that a JSON value describes, in any form that clients use; of equal names the first counts."""
    entries = list(_entries(value))
    if not entries and not _has_place(value):
        raise ConfigError(f'{where} has no servers: write {{"mcpServers": {{"name": {{"command": "…"}}}}}}')
    servers: dict[str, ServerConfig] = {}
    problems: list[str] = []
    for name, entry in entries:
        try:
            server = _server(name, entry)
        except InputError as error:
            problems.append(f"{where}: {error}")
            continue
        if servers.setdefault(server.key, server) is not server and servers[server.key] != server:
            problems.append(f"{where}: two servers are called {server.key!r}: the first counts")
    return ServerConfigs(tuple(servers.values()), tuple(problems))


def as_json(servers: Iterable[ServerConfig]) -> dict[str, Any]:
    """The servers in the form that clients share; what is as usual is left out."""
    return {"mcpServers": {server.key: _entry_of(server) for server in servers}}


def expanded(text: str, environ: Mapping[str, str], where: str) -> str:
    """The text with its variables filled in; ConfigError names one that is not set, and never shows a value."""

    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        if environ.get(name):
            return environ[name]
        if default is not None:
            return str(default)
        raise ConfigError(f"{where}: the variable {name} is not set: set it before onhand starts")

    filled = _VARIABLE.sub(value, text)
    if _LEFT_OPEN.search(_VARIABLE.sub("", text)):
        raise ConfigError(f"{where}: only variables can be filled in, as ${{NAME}}: write what is meant instead")
    return filled


def usable_key(name: str) -> str:
    """A name as a key: the same for the same name, and never that of another one that had to be changed too."""
    if KEY.fullmatch(name):
        return name
    plain = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", name)).strip("-_")[: MAX_KEY_CHARS - 7].strip("-_")
    return f"{plain or 'server'}-{digest(name.encode(errors='surrogatepass'))[:6]}"


def without_comments(text: str) -> str:
    """JSON without // and /* */ comments and without commas before a closing bracket, as VS Code and Zed allow."""
    return _PIECES.sub(lambda found: found.group("kept") or "", text)


def write_servers(path: str, servers: Iterable[ServerConfig]) -> None:
    """Put servers into a file of ours, in place of those that were there."""
    from onhand.fsio import write_atomic

    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_atomic(path, (json.dumps(as_json(servers), indent=2) + "\n").encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): make its directory writable") from None


def is_ourselves(server: ServerConfig) -> bool:
    """Whether an entry starts onhand: behind itself it would start itself for ever."""
    words = [os.path.basename(part) for part in (server.command, *server.args)]
    return "serve" in words and any(word.split("[")[0] in ("onhand", "onhand.exe") for word in words)


def _toml(text: str) -> object:
    import tomllib

    return tomllib.loads(text)


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


_PLACES = ("mcpServers", "servers", "context_servers", "mcp_servers")


def _has_place(value: object) -> bool:
    return isinstance(value, Mapping) and any(place in value for place in (*_PLACES, "mcp", "projects"))


def _entries(value: object) -> Iterable[tuple[str, object]]:
    """Every entry with its name, wherever a client keeps them."""
    if not isinstance(value, Mapping):
        return
    for place in _PLACES:
        listed = value.get(place)
        if isinstance(listed, Mapping):
            yield from ((str(name), entry) for name, entry in listed.items())
    yield from _entries(value.get("mcp"))  # settings of VS Code
    projects = value.get("projects")  # Claude Code's own file
    for project in projects.values() if isinstance(projects, Mapping) else ():
        yield from _entries(project)


def _server(name: str, entry: object) -> ServerConfig:
    if not isinstance(entry, Mapping):
        raise InputError(f"{name[:100]!r} is no server: an object with a command or a url is expected")
    given: Mapping[str, Any] = entry
    if isinstance(given.get("command"), Mapping):  # Zed's older form
        given = {**given, **given["command"], "command": given["command"].get("path", "")}
    where = f"server {name[:100]!r}"
    command, arguments = given.get("command", ""), _texts(given.get("args", ()), f"{where}: args")
    if isinstance(command, list) and command:
        command, arguments = command[0], (*_texts(command[1:], f"{where}: command"), *arguments)
    url = given.get("url") or given.get("httpUrl") or given.get("serverUrl") or ""
    if not isinstance(command, str) or not isinstance(url, str) or bool(command) == bool(url):
        raise InputError(f"{where} needs either a command or a url")
    return ServerConfig(
        usable_key(name),
        _clean(command, f"{where}: command"),
        arguments,
        _table(given.get("env", {}), f"{where}: env"),
        _clean(given.get("cwd") or "", f"{where}: cwd"),
        _address(url, where),
        _transport(given, url),
        _headers(given, where),
        *_login(given, where),
        _number(given, "timeout_s", ServerConfig._field_defaults["timeout_s"], where),
        _number(given, "connect_timeout_s", ServerConfig._field_defaults["connect_timeout_s"], where),
        int(_number(given, "max_concurrent", ServerConfig._field_defaults["max_concurrent"], where)),
        int(_number(given, "max_output_bytes", ServerConfig._field_defaults["max_output_bytes"], where)),
        _texts(given.get("always", ()), f"{where}: always"),
        bool(given.get("disabled", False)) or given.get("enabled") is False,
    )


def _transport(given: Mapping[str, Any], url: str) -> str:
    said = str(given.get("type") or given.get("transport") or "")
    return "stdio" if not url else "sse" if said == "sse" else "http"


def _address(url: str, where: str) -> str:
    from urllib.parse import urlsplit

    if not url:
        return ""
    try:
        parts = urlsplit(_clean(url, f"{where}: url"))
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_web = False
    if not is_web:
        raise InputError(
            f"{where}: the url {url[:100]!r} cannot be used: it begins with http:// or https:// and a host"
        )
    return url


def _headers(given: Mapping[str, Any], where: str) -> Mapping[str, str]:
    headers = dict(_table(given.get("headers", {}), f"{where}: headers"))
    variable = given.get("bearer_env") or given.get("bearerTokenEnv") or given.get("bearer_token_env_var")
    if variable:
        if not isinstance(variable, str) or not variable.isidentifier():
            raise InputError(f"{where}: bearer_env is the name of a variable, not a token")
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    if any(not name.isascii() or not name.isprintable() or ":" in name or " " in name for name in headers):
        raise InputError(f"{where}: headers has a name that no header can have")
    return headers


def _login(given: Mapping[str, Any], where: str) -> tuple[bool, str, str]:
    """Whether to log in by OAuth, and as whom; clients spell that in several ways."""
    said = given.get("oauth") or given.get("auth")
    parts = said if isinstance(said, Mapping) else given
    name = parts.get("client_id") or parts.get("clientId") or parts.get("CLIENT_ID") or ""
    secret = parts.get("client_secret") or parts.get("clientSecret") or parts.get("CLIENT_SECRET") or ""
    is_wanted = parts.get("enabled") is not False if isinstance(said, Mapping) else bool(given.get("oauth", False))
    return is_wanted, _clean(name, f"{where}: client_id"), _clean(secret, f"{where}: client_secret")


def _table(value: object, where: str) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and isinstance(text, str | int | float) for name, text in value.items()
    ):
        raise InputError(f"{where} is an object of texts")
    return {_clean(name, where): _clean(str(text), where) for name, text in value.items()}


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise InputError(f"{where} is a list of texts")
    return tuple(_clean(text, where) for text in value)


def _clean(text: object, where: str) -> str:
    """A text that a system call or a header can take."""
    if not isinstance(text, str) or any(char in text for char in "\0\r\n"):
        raise InputError(f"{where} is a text on one line")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{where} has half of a character in it") from None
    return text


def _number(given: Mapping[str, Any], name: str, default: float, where: str) -> float:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10**9:
        raise InputError(f"{where}: {name} is a number above 0")
    return value


def _entry_of(server: ServerConfig) -> dict[str, Any]:
    usual = ServerConfig._field_defaults
    entry: dict[str, Any] = {"type": server.transport} if server.url else {}
    for name, value in server._asdict().items():
        if name not in ("key", "transport") and value != usual.get(name):
            entry[name] = (
                dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
            )
    return entry


def environment(server: ServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """What a server's program gets of ours: what every program needs, and what its entry names; no more."""
    from mcp.client.stdio import get_default_environment

    own = {name: expanded(text, environ, f"server {server.key}: env {name}") for name, text in server.env.items()}
    return {**get_default_environment(), **own}


def working_directory(server: ServerConfig) -> str | None:
    """Where a server's program is started; None is where we are."""
    return os.path.expanduser(server.cwd) if server.cwd else None
