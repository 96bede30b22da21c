"""The settings files of MCP clients: where they are, and how an entry gets into one or out of it.

The previous settings are backed up next to the file. If an entry cannot be added or removed without touching anything
else, the file is left alone, and the error says what to do by hand.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onhand.errors import InputError
from onhand.fsio import describe_fault, make_directories, open_regular, write_atomic
from onhand.mcp.settings_formats import JSON, TOML, SettingsFormat

MAX_FILE_BYTES = 16 * 1024 * 1024  # no settings are longer
MAX_BACKUPS = 1_000


class ClientFile(NamedTuple):
    """Where a client keeps its servers, and under which key."""

    user: str  # relative to the home directory, or to the system's directory for settings
    project: str  # relative to the project; "" if it has no settings of projects
    key: str
    extra: Mapping[str, Any] = {}  # further members of an entry
    workspace: str = ""  # the client's variable for the project, if it starts us in another directory
    is_one_list: bool = False  # whether the program and its arguments are one list


CLIENTS = {
    # Without alwaysLoad, Claude Code hides the tools of a server behind a search of its own.
    "claude": ClientFile(".claude.json", ".mcp.json", "mcpServers", {"type": "stdio", "alwaysLoad": True}),
    "claude-desktop": ClientFile("Claude/claude_desktop_config.json", "", "mcpServers"),
    # Codex gives other servers a second to start, and then asks its model without their tools.
    "codex": ClientFile(".codex/config.toml", ".codex/config.toml", "mcp_servers", {"required": True}),
    "copilot": ClientFile(".copilot/mcp-config.json", "", "mcpServers", {"type": "local", "tools": ["*"]}),
    "cursor": ClientFile(".cursor/mcp.json", ".cursor/mcp.json", "mcpServers", workspace="${workspaceFolder}"),
    "gemini": ClientFile(".gemini/settings.json", ".gemini/settings.json", "mcpServers"),
    "opencode": ClientFile(
        ".config/opencode/opencode.json", "opencode.json", "mcp", {"type": "local", "enabled": True}, is_one_list=True
    ),
    "qwen": ClientFile(".qwen/settings.json", ".qwen/settings.json", "mcpServers"),
    "vscode": ClientFile(
        "Code/User/mcp.json", ".vscode/mcp.json", "servers", {"type": "stdio"}, workspace="${workspaceFolder}"
    ),
    "windsurf": ClientFile(".codeium/windsurf/mcp_config.json", "", "mcpServers"),
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
        if not file.project:
            raise InputError(f"{client} has no settings of a project: leave out --project")
        return _with_comments(os.path.join(project, file.project))
    if client in ("vscode", "zed", "claude-desktop"):
        return os.path.join(_settings_directory(client, home, environ), file.user)
    if client == "codex" and environ.get("CODEX_HOME"):
        return os.path.join(environ["CODEX_HOME"], "config.toml")
    if client == "opencode" and environ.get("XDG_CONFIG_HOME"):
        return _with_comments(os.path.join(environ["XDG_CONFIG_HOME"], "opencode", "opencode.json"))
    return _with_comments(os.path.join(home, file.user))


def _with_comments(path: str) -> str:
    """Return the .jsonc file in place of a .json file, if only that exists."""
    return f"{path}c" if path.endswith("opencode.json") and os.path.exists(f"{path}c") else path


def settings_paths(home: str, project: str, environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the files in which each client may keep servers, the user's first, whether or not they exist."""
    return {
        client: tuple(
            settings_path(client, directory, home, environ)
            for directory in ((None, project) if file.project else (None,))
        )
        for client, file in CLIENTS.items()
    }


def make_entry(client: str, command: list[str], profile: str = "") -> dict[str, Any]:
    """Return the entry with which a client starts onhand, for a profile or for everything."""
    file = CLIENTS[client]
    words = [*command, "serve", *(["--root", file.workspace] if file.workspace else [])]
    words += ["--profile", profile] if profile else []
    return {**file.extra, **({"command": words} if file.is_one_list else {"command": words[0], "args": words[1:]})}


def render_entry(client: str, name: str, entry: Mapping[str, Any], key: str = "") -> str:
    """Return the entry as it would be in the client's file, among its servers or under another key."""
    return _format_of(CLIENTS[client].user).render(key or CLIENTS[client].key, name, entry)


def edit_settings(client: str, path: str, name: str, entry: Mapping[str, Any], key: str = "") -> Edit:
    """Add an entry to a settings file; raise InputError if that would touch anything else. Nothing is written yet."""
    before = _read(path)
    if before is None or not before.strip():
        return Edit(path, before, render_entry(client, name, entry, key))
    try:
        after = _format_of(path).insert(before, key or CLIENTS[client].key, name, entry)
    except (ValueError, TypeError, RecursionError) as error:
        by_hand = render_entry(client, name, entry, key)
        raise InputError(f"{path} was not changed, because {error}. Add this by hand:\n{by_hand}") from None
    return Edit(path, before, after)


def remove_entries(path: str, entries: Mapping[tuple[str, ...], object]) -> Edit:
    """Remove entries from a settings file, each at its place; raise InputError if that would touch anything else.

    An entry that is no longer the one given here has been changed meanwhile, so it stays. Nothing is written yet.
    """
    before = _read(path)
    after, edits = before or "", _format_of(path)
    try:
        for place, entry in entries.items():
            if _entry_at(edits.parse(after), place) == entry:
                after = edits.remove(after, place)
            if _entry_at(edits.parse(after), place[:-1]) == {} and edits is JSON:
                after = _remove_empty(after, place[:-1])
    except (ValueError, TypeError, RecursionError) as error:
        names = ", ".join(".".join(place) for place in entries)
        raise InputError(f"{path} was not changed, because {error}. Remove this by hand: {names}") from None
    return Edit(path, before, after)


def _remove_empty(text: str, place: tuple[str, ...]) -> str:
    """Remove an empty section, unless it has comments."""
    try:
        after = JSON.remove(text, place)
    except ValueError:
        return text
    return text if len(re.findall(r"//|/\*", after)) < len(re.findall(r"//|/\*", text)) else after


def _entry_at(settings: Any, place: Sequence[str]) -> object:
    for name in place:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings


def write_settings(edit: Edit) -> str | None:
    """Write the file; return the path of the backup if the file existed.

    Raise InputError if another program, such as the client itself, has changed it since it was read.
    """
    target = os.path.realpath(edit.path)  # a symbolic link stays one

    def check_unchanged() -> None:
        if _read(target) != edit.before:
            raise InputError(f"another program has just changed {edit.path}, so it was left alone: try again")

    try:
        make_directories(os.path.dirname(target))
        backup = None if edit.before is None else _back_up(target)
        write_atomic(target, edit.after.encode(), 0o600, check=check_unchanged)
    except OSError as error:
        raise InputError(f"{edit.path} cannot be written: {describe_fault(error)}") from None
    return backup


def _format_of(path: str) -> SettingsFormat:
    return TOML if path.endswith(".toml") else JSON


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
