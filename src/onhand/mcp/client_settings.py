"""Add the entry of onhand to the settings of MCP clients.

An entry is put into JSON with comments or into TOML so that every other byte stays. An existing entry keeps the members
that we do not set, such as variables that somebody added. The edited text is parsed again before it is used; if it does
not say exactly what it should, the file is left alone, and the error says what to add by hand. The previous settings
are backed up next to the file.
"""

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from onhand.errors import InputError
from onhand.fsio import describe_fault, make_directories, open_regular, write_atomic

Entry = Mapping[str, Any]

INDENT = "  "
UNSUPPORTED = "it is written in a way that cannot be edited safely"
COMMENTED = "its entry for onhand has comments, which would be lost"
MAX_FILE_BYTES = 16 * 1024 * 1024  # no settings are longer
MAX_BACKUPS = 1_000


class SettingsFormat(NamedTuple):
    """A format of settings: how an entry is rendered alone, and how it is inserted into a text."""

    render: Callable[[str, str, Entry], str]  # key, name, entry
    insert: Callable[[str, str, str, Entry], str]  # text, key, name, entry


class _Member(NamedTuple):
    name: str
    start: int  # of the value
    end: int
    value: Any


# Strings match as a whole, so that nothing in them looks like a comment; the other alternatives are not JSON.
_NOT_JSON = re.compile(r'"(?:[^"\\\n]|\\.)*+"|//[^\n]*+|/\*.*?\*/|,(?=(?:\s|//[^\n]*+|/\*.*?\*/)*+[}\]])', re.DOTALL)


def _render_json(key: str, name: str, entry: Entry) -> str:
    return json.dumps({key: {name: entry}}, indent=INDENT, ensure_ascii=False) + "\n"


def _insert_into_json(text: str, key: str, name: str, entry: Entry) -> str:
    plain = _blank_comments(text)
    start = _skip_space(plain, 0)
    top = _members(plain, start)
    servers = _find_member(top, key)
    others = _members(plain, servers.start) if servers else []
    existing = _find_member(others, name)
    wanted = {**(existing.value if existing and isinstance(existing.value, dict) else {}), **entry}
    if servers is None:
        after = _insert_member(text, plain, start, key, {name: wanted}, 1)
    elif existing is None:
        after = _insert_member(text, plain, servers.start, name, wanted, 2)
    elif existing.value == wanted:
        return text
    elif text[existing.start : existing.end] != plain[existing.start : existing.end]:
        raise ValueError(COMMENTED)
    else:
        after = text[: existing.start] + _render_value(wanted, 2, text) + text[existing.end :]
    expected = {member.name: member.value for member in top}
    expected[key] = {**{member.name: member.value for member in others}, name: wanted}
    if {member.name: member.value for member in _members(_blank_comments(after), start)} != expected:
        raise ValueError(UNSUPPORTED)
    return after


def _blank_comments(text: str) -> str:
    """Replace comments and trailing commas by spaces, so that everything else keeps its position."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    plain = _NOT_JSON.sub(blank, text)
    return " " + plain[1:] if plain.startswith("\ufeff") else plain


def _members(plain: str, start: int) -> list[_Member]:
    """Return the members of the object that starts there."""
    decode = json.JSONDecoder().raw_decode
    if plain[start : start + 1] != "{":
        raise ValueError("it has something other than a JSON object where one is expected")
    members: list[_Member] = []
    at = _skip_space(plain, start + 1)
    while plain[at : at + 1] != "}":
        name, end = decode(plain, at)
        at = _skip_space(plain, end)
        if not isinstance(name, str) or plain[at : at + 1] != ":":
            raise ValueError("it is not valid JSON")
        at = _skip_space(plain, at + 1)
        value, end = decode(plain, at)
        members.append(_Member(name, at, end, value))
        at = _skip_space(plain, end)
        if plain[at : at + 1] == ",":
            at = _skip_space(plain, at + 1)
        elif plain[at : at + 1] != "}":
            raise ValueError("it is not valid JSON")
    return members


def _skip_space(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _find_member(members: list[_Member], name: str) -> _Member | None:
    found = [member for member in members if member.name == name]
    if len(found) > 1:
        raise ValueError(f"it has {name!r} more than once")
    return found[0] if found else None


def _insert_member(text: str, plain: str, start: int, name: str, value: Entry, level: int) -> str:
    """Insert a member as the first one of the object that starts there."""
    line = _line_end(text) + INDENT * level
    member = f"{line}{json.dumps(name)}: {_render_value(value, level, text)}"
    end = _skip_space(plain, start + 1)
    if plain[end : end + 1] != "}":
        return text[: start + 1] + member + "," + text[start + 1 :]
    between = text[start + 1 : end].rstrip()  # may have comments
    return text[: start + 1] + between + member + _line_end(text) + INDENT * (level - 1) + text[end:]


def _render_value(value: Entry, level: int, text: str) -> str:
    first, *others = json.dumps(value, indent=INDENT, ensure_ascii=False).split("\n")
    return _line_end(text).join([first, *(INDENT * level + line for line in others)])


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _render_toml(key: str, name: str, entry: Entry) -> str:
    lines = [f"{member} = {json.dumps(value, ensure_ascii=False)}" for member, value in entry.items()]
    return "\n".join([f"[{key}.{name}]", *lines, ""])


def _insert_into_toml(text: str, key: str, name: str, entry: Entry) -> str:
    settings = tomllib.loads(text.removeprefix("\ufeff"))
    servers = settings.get(key, {})
    if not isinstance(servers, dict) or not isinstance(servers.get(name, {}), dict):
        raise ValueError(f"its {key} is not a table of tables")
    wanted = {**servers.get(name, {}), **entry}
    if servers.get(name) == wanted:
        return text
    # A nested table has its own heading further down.
    table = _render_toml(key, name, {member: value for member, value in wanted.items() if not isinstance(value, dict)})
    lines = table.replace("\n", _line_end(text))
    after = _replace_table(text, key, name, lines) if name in servers else text.rstrip() + 2 * _line_end(text) + lines
    if tomllib.loads(after.removeprefix("\ufeff")) != {**settings, key: {**servers, name: wanted}}:
        raise ValueError(UNSUPPORTED)
    return after


def _replace_table(text: str, key: str, name: str, table: str) -> str:
    """Replace the table of that name, which ends where the next one starts."""
    heading = rf"^\[\s*{re.escape(key)}\s*\.\s*\"?{re.escape(name)}\"?\s*\][^\n]*$"
    match = re.search(heading, text, re.MULTILINE)
    if match is None:
        raise ValueError(UNSUPPORTED)
    following = re.compile(r"^\s*\[", re.MULTILINE).search(text, match.end())
    if "#" in text[match.start() : following.start() if following else len(text)]:
        raise ValueError(COMMENTED)
    rest = text[following.start() :].lstrip() if following else ""
    return text[: match.start()] + table + (_line_end(text) + rest if rest else "")


JSON = SettingsFormat(_render_json, _insert_into_json)
TOML = SettingsFormat(_render_toml, _insert_into_toml)


class ClientFile(NamedTuple):
    """Where a client keeps its servers, and under which key."""

    user: str  # relative to the home directory, or to the system's directory for settings
    project: str  # relative to the project
    key: str
    extra: Mapping[str, Any] = {}  # further members of an entry
    workspace: str = ""  # the client's variable for the project, if it starts us in another directory


CLIENTS = {
    # Without alwaysLoad, Claude Code hides the tools of a server behind a search of its own.
    "claude": ClientFile(".claude.json", ".mcp.json", "mcpServers", {"type": "stdio", "alwaysLoad": True}),
    "codex": ClientFile(".codex/config.toml", ".codex/config.toml", "mcp_servers"),
    "cursor": ClientFile(".cursor/mcp.json", ".cursor/mcp.json", "mcpServers", workspace="${workspaceFolder}"),
    "gemini": ClientFile(".gemini/settings.json", ".gemini/settings.json", "mcpServers"),
    "vscode": ClientFile(
        "Code/User/mcp.json", ".vscode/mcp.json", "servers", {"type": "stdio"}, workspace="${workspaceFolder}"
    ),
    "zed": ClientFile("zed/settings.json", ".zed/settings.json", "context_servers"),
}


class Edit(NamedTuple):
    """The new content of a file; `before` is None if the file does not exist."""

    path: str
    before: str | None
    after: str

    @property
    def changes(self) -> bool:
        """Whether the file has to be written."""
        return self.before != self.after


def settings_path(client: str, project: str | None, home: str, environ: Mapping[str, str]) -> str:
    """Return the settings file of a client: the project's or, without a project, the user's."""
    file = CLIENTS[client]
    if project is not None:
        return os.path.join(project, file.project)
    if client in ("vscode", "zed"):
        return os.path.join(_settings_directory(client, home, environ), file.user)
    if client == "codex" and environ.get("CODEX_HOME"):
        return os.path.join(environ["CODEX_HOME"], "config.toml")
    return os.path.join(home, file.user)


def settings_paths(home: str, project: str, environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the files in which each client may keep servers, the user's first, whether or not they exist."""
    files = {
        client: (settings_path(client, None, home, environ), settings_path(client, project, home, environ))
        for client in CLIENTS
    }
    desktop = os.path.join(_settings_directory("claude-desktop", home, environ), "Claude", "claude_desktop_config.json")
    return {
        **files,
        "claude-desktop": (desktop,),
        "windsurf": (os.path.join(home, ".codeium", "windsurf", "mcp_config.json"),),
    }


def make_entry(client: str, command: list[str]) -> dict[str, Any]:
    """Return the entry with which a client starts onhand."""
    file = CLIENTS[client]
    root = ["--root", file.workspace] if file.workspace else []
    return {**file.extra, "command": command[0], "args": [*command[1:], "serve", *root]}


def render_entry(client: str, name: str, entry: Mapping[str, Any], key: str = "") -> str:
    """Return the entry as it would be in the client's file, among its servers or under another key."""
    return _format_of(client).render(key or CLIENTS[client].key, name, entry)


def edit_settings(client: str, path: str, name: str, entry: Mapping[str, Any], key: str = "") -> Edit:
    """Add an entry to a settings file; raise InputError if that would touch anything else. Nothing is written yet."""
    before = _read(path)
    if before is None or not before.strip():
        return Edit(path, before, render_entry(client, name, entry, key))
    try:
        after = _format_of(client).insert(before, key or CLIENTS[client].key, name, entry)
    except (ValueError, TypeError, RecursionError) as error:
        by_hand = render_entry(client, name, entry, key)
        raise InputError(f"{path} was not changed, because {error}. Add this by hand:\n{by_hand}") from None
    return Edit(path, before, after)


def write_settings(edit: Edit) -> str | None:
    """Write the file; return the path of the backup if the file existed."""
    target = os.path.realpath(edit.path)  # a symbolic link stays one
    try:
        make_directories(os.path.dirname(target))
        backup = None if edit.before is None else _back_up(target)
        write_atomic(target, edit.after.encode(), 0o600)
    except OSError as error:
        raise InputError(f"{edit.path} cannot be written: {describe_fault(error)}") from None
    return backup


def _format_of(client: str) -> SettingsFormat:
    return TOML if CLIENTS[client].user.endswith(".toml") else JSON


def _settings_directory(client: str, home: str, environ: Mapping[str, str]) -> str:
    if sys.platform == "win32":
        return environ.get("APPDATA") or os.path.join(home, "AppData", "Roaming")
    if sys.platform == "darwin" and client != "zed":
        return os.path.join(home, "Library", "Application Support")
    return environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")


def _read(path: str) -> str | None:
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise InputError(f"{path} has more than {MAX_FILE_BYTES:,} bytes, which is too long for a settings file")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8: save it as UTF-8 first") from None


def _back_up(path: str) -> str:
    """Copy a file to a free name next to it."""
    with open(path, "rb") as file:
        content = file.read()
    for number in range(MAX_BACKUPS):
        backup = f"{path}.before-onhand{f'-{number}' if number else ''}"
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, os.stat(path).st_mode & 0o777)
        except FileExistsError:
            continue
        with open(descriptor, "wb") as copy:
            copy.write(content)
            copy.flush()
            os.fsync(copy.fileno())
        return backup
    raise InputError(f"{path} has {MAX_BACKUPS:,} backups already: delete some")
