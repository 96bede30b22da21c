"""Where does a client keep its MCP servers, and how is ours written there without harm to what else the file says?

What was there before is kept beside the file. A file that cannot be edited is refused, with what to put there by hand.
Nothing here asks a client or starts anything, and how a text is edited `entry_text` alone knows.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from onhand.errors import InputError
from onhand.mcp import entry_text

MAX_FILE_BYTES = 16 * 1024 * 1024  # no settings are longer
MAX_BACKUPS = 1_000


class ClientFile(NamedTuple):
    """Where a client looks for servers and under which key."""

    user: str  # below the home directory, or below where the system keeps settings
    project: str  # below the project
    key: str
    extra: Mapping[str, Any] = {}  # that an entry has besides; nobody writes to it
    workspace: str = ""  # what the client puts the project's directory in the place of, where it starts us elsewhere


CLIENTS = {
    "claude": ClientFile(".claude.json", ".mcp.json", "mcpServers", {"type": "stdio"}),
    "codex": ClientFile(".codex/config.toml", ".codex/config.toml", "mcp_servers"),
    "cursor": ClientFile(".cursor/mcp.json", ".cursor/mcp.json", "mcpServers", workspace="${workspaceFolder}"),
    "gemini": ClientFile(".gemini/settings.json", ".gemini/settings.json", "mcpServers"),
    "vscode": ClientFile(
        "Code/User/mcp.json", ".vscode/mcp.json", "servers", {"type": "stdio"}, workspace="${workspaceFolder}"
    ),
    "zed": ClientFile("zed/settings.json", ".zed/settings.json", "context_servers"),
}


class Edit(NamedTuple):
    """What a file is to say; `before` is None where there is no file."""

    path: str
    before: str | None
    after: str

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after


def path_of(client: str, project: str | None, home: str, environ: Mapping[str, str]) -> str:
    """The file of a client: the project's, or without one the user's."""
    file = CLIENTS[client]
    if project is not None:
        return os.path.join(project, file.project)
    if client in ("vscode", "zed"):
        return os.path.join(_settings_place(client, home, environ), file.user)
    if client == "codex" and environ.get("CODEX_HOME"):
        return os.path.join(environ["CODEX_HOME"], "config.toml")
    return os.path.join(home, file.user)


def places(home: str, project: str, environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Client → the files that it may keep servers in, whether they are there or not, the user's first."""
    files = {
        client: (path_of(client, None, home, environ), path_of(client, project, home, environ)) for client in CLIENTS
    }
    desktop = os.path.join(_settings_place("claude-desktop", home, environ), "Claude", "claude_desktop_config.json")
    return {
        **files,
        "claude-desktop": (desktop,),
        "windsurf": (os.path.join(home, ".codeium", "windsurf", "mcp_config.json"),),
    }


def entry_of(client: str, command: list[str]) -> dict[str, Any]:
    """Our entry: how the client starts us."""
    file = CLIENTS[client]
    root = ["--root", file.workspace] if file.workspace else []
    return {**file.extra, "command": command[0], "args": [*command[1:], "serve", *root]}


def shown(client: str, name: str, entry: Mapping[str, Any], key: str = "") -> str:
    """The entry as it stands in the client's file, among its servers or under another key."""
    return _form(client).alone(key or CLIENTS[client].key, name, entry)


def edited(client: str, path: str, name: str, entry: Mapping[str, Any], key: str = "") -> Edit:
    """The file with our entry in it; InputError where it cannot be put there without touching anything else."""
    before = _read(path)
    if before is None or not before.strip():
        return Edit(path, before, shown(client, name, entry, key))
    try:
        after = _form(client).put(before, key or CLIENTS[client].key, name, entry)
    except (ValueError, TypeError, RecursionError) as error:
        by_hand = f"put this there by hand:\n{shown(client, name, entry, key)}"
        raise InputError(f"{path} is left as it is, because {error}; {by_hand}") from None
    return Edit(path, before, after)


def write(edit: Edit) -> str | None:
    """Write the file whole; where there was one, the path of the copy of what it said."""
    from onhand.replace import replace_file

    target = os.path.realpath(edit.path)  # a link to where somebody keeps such files stays a link
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        backup = None if edit.before is None else _kept(target)
        replace_file(target, edit.after.encode(), 0o600)
    except OSError as error:
        raise InputError(f"{edit.path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    return backup


def _form(client: str) -> entry_text.Form:
    return entry_text.TOML if CLIENTS[client].user.endswith(".toml") else entry_text.JSON


def _settings_place(client: str, home: str, environ: Mapping[str, str]) -> str:
    if sys.platform == "win32":
        return environ.get("APPDATA") or os.path.join(home, "AppData", "Roaming")
    if sys.platform == "darwin" and client != "zed":
        return os.path.join(home, "Library", "Application Support")
    return environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")


def _read(path: str) -> str | None:
    from onhand.regular import open_file

    try:
        with open_file(path) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise InputError(f"{path} has more than {MAX_FILE_BYTES:,} bytes: that is no file of settings")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8: save it as UTF-8 first") from None


def _kept(path: str) -> str:
    """A copy of a file under a name that was free."""
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
        return backup
    raise InputError(f"there are {MAX_BACKUPS:,} copies of {path} already: delete some")
