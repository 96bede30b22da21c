"""Write our entry into the settings of MCP clients.

How is one entry put into a text of settings so that every other byte stays? In JSON with comments, and in TOML.

An entry that is there keeps the members that we do not name, such as variables that somebody added. The result is read
again before it is given: where it does not say exactly what it should, a ValueError tells that it was not edited. It
knows no files and no clients.
Where does a client keep its MCP servers, and how is ours written there without harm to what else the file says?

What was there before is kept beside the file. A file that cannot be edited is refused, with what to put there by hand.
Nothing here asks a client or starts anything, and how a text is edited `entry_text` alone knows.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from onhand.errors import InputError

Entry = Mapping[str, Any]

INDENT = "  "
UNEDITED = "it is written in a way that is not edited here"
COMMENTED = "what it says of us has comments, which would be lost"


class Form(NamedTuple):
    """A form of settings: how an entry is spelled alone, and how it is put into a text."""

    alone: Callable[[str, str, Entry], str]  # key, name, entry
    put: Callable[[str, str, str, Entry], str]  # text, key, name, entry


class _Member(NamedTuple):
    name: str
    start: int  # of its value
    end: int
    value: Any


# A text is taken whole, so that nothing in it looks like a comment; the rest is what JSON does not have.
_NOT_JSON = re.compile(r'"(?:[^"\\\n]|\\.)*+"|//[^\n]*+|/\*.*?\*/|,(?=(?:\s|//[^\n]*+|/\*.*?\*/)*+[}\]])', re.DOTALL)


def _json_alone(key: str, name: str, entry: Entry) -> str:
    return json.dumps({key: {name: entry}}, indent=INDENT, ensure_ascii=False) + "\n"


def _put_into_json(text: str, key: str, name: str, entry: Entry) -> str:
    plain = _plain(text)
    start = _past_space(plain, 0)
    top = _members(plain, start)
    servers = _only(top, key)
    known = _members(plain, servers.start) if servers else []
    ours = _only(known, name)
    wanted = {**(ours.value if ours and isinstance(ours.value, dict) else {}), **entry}
    if servers is None:
        after = _inserted(text, plain, start, key, {name: wanted}, 1)
    elif ours is None:
        after = _inserted(text, plain, servers.start, name, wanted, 2)
    elif ours.value == wanted:
        return text
    elif text[ours.start : ours.end] != plain[ours.start : ours.end]:
        raise ValueError(COMMENTED)
    else:
        after = text[: ours.start] + _spelled(wanted, 2, text) + text[ours.end :]
    expected = {member.name: member.value for member in top}
    expected[key] = {**{member.name: member.value for member in known}, name: wanted}
    if {member.name: member.value for member in _members(_plain(after), start)} != expected:
        raise ValueError(UNEDITED)
    return after


def _plain(text: str) -> str:
    """The text with spaces in the place of what JSON does not have: everything else is where it was."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])

    plain = _NOT_JSON.sub(blank, text)
    return " " + plain[1:] if plain.startswith("\ufeff") else plain


def _members(plain: str, start: int) -> list[_Member]:
    """The members of the object that begins there."""
    decode = json.JSONDecoder().raw_decode
    if plain[start : start + 1] != "{":
        raise ValueError("it is no JSON object where one is expected")
    members: list[_Member] = []
    at = _past_space(plain, start + 1)
    while plain[at : at + 1] != "}":
        name, end = decode(plain, at)
        at = _past_space(plain, end)
        if not isinstance(name, str) or plain[at : at + 1] != ":":
            raise ValueError("it is not valid JSON")
        at = _past_space(plain, at + 1)
        value, end = decode(plain, at)
        members.append(_Member(name, at, end, value))
        at = _past_space(plain, end)
        if plain[at : at + 1] == ",":
            at = _past_space(plain, at + 1)
        elif plain[at : at + 1] != "}":
            raise ValueError("it is not valid JSON")
    return members


def _past_space(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _only(members: list[_Member], name: str) -> _Member | None:
    found = [member for member in members if member.name == name]
    if len(found) > 1:
        raise ValueError(f"it has {name!r} more than once")
    return found[0] if found else None


def _inserted(text: str, plain: str, start: int, name: str, value: Entry, level: int) -> str:
    """The text with a member put first into the object that begins there."""
    line = _line_end(text) + INDENT * level
    member = f"{line}{json.dumps(name)}: {_spelled(value, level, text)}"
    end = _past_space(plain, start + 1)
    if plain[end : end + 1] != "}":
        return text[: start + 1] + member + "," + text[start + 1 :]
    between = text[start + 1 : end].rstrip()  # comments, if anything
    return text[: start + 1] + between + member + _line_end(text) + INDENT * (level - 1) + text[end:]


def _spelled(value: Entry, level: int, text: str) -> str:
    first, *others = json.dumps(value, indent=INDENT, ensure_ascii=False).split("\n")
    return _line_end(text).join([first, *(INDENT * level + line for line in others)])


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _toml_alone(key: str, name: str, entry: Entry) -> str:
    lines = [f"{member} = {json.dumps(value, ensure_ascii=False)}" for member, value in entry.items()]
    return "\n".join([f"[{key}.{name}]", *lines, ""])


def _put_into_toml(text: str, key: str, name: str, entry: Entry) -> str:
    import tomllib

    said = tomllib.loads(text.removeprefix("\ufeff"))
    known = said.get(key, {})
    if not isinstance(known, dict) or not isinstance(known.get(name, {}), dict):
        raise ValueError(f"its {key} is no table of tables")
    wanted = {**known.get(name, {}), **entry}
    if known.get(name) == wanted:
        return text
    # A table inside of it has a heading of its own, further down.
    table = _toml_alone(key, name, {member: value for member, value in wanted.items() if not isinstance(value, dict)})
    lines = table.replace("\n", _line_end(text))
    after = _replaced(text, key, name, lines) if name in known else text.rstrip() + 2 * _line_end(text) + lines
    if tomllib.loads(after.removeprefix("\ufeff")) != {**said, key: {**known, name: wanted}}:
        raise ValueError(UNEDITED)
    return after


def _replaced(text: str, key: str, name: str, table: str) -> str:
    """The text with our table in the place of the one of that name, which ends where the next begins."""
    heading = rf"^\[\s*{re.escape(key)}\s*\.\s*\"?{re.escape(name)}\"?\s*\][^\n]*$"
    found = re.search(heading, text, re.MULTILINE)
    if found is None:
        raise ValueError(UNEDITED)
    following = re.compile(r"^\s*\[", re.MULTILINE).search(text, found.end())
    if "#" in text[found.start() : following.start() if following else len(text)]:
        raise ValueError(COMMENTED)
    rest = text[following.start() :].lstrip() if following else ""
    return text[: found.start()] + table + (_line_end(text) + rest if rest else "")


JSON = Form(_json_alone, _put_into_json)
TOML = Form(_toml_alone, _put_into_toml)


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
    from onhand.fsio import write_atomic

    target = os.path.realpath(edit.path)  # a link to where somebody keeps such files stays a link
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        backup = None if edit.before is None else _kept(target)
        write_atomic(target, edit.after.encode(), 0o600)
    except OSError as error:
        raise InputError(f"{edit.path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    return backup


def _form(client: str) -> Form:
    return TOML if CLIENTS[client].user.endswith(".toml") else JSON


def _settings_place(client: str, home: str, environ: Mapping[str, str]) -> str:
    if sys.platform == "win32":
        return environ.get("APPDATA") or os.path.join(home, "AppData", "Roaming")
    if sys.platform == "darwin" and client != "zed":
        return os.path.join(home, "Library", "Application Support")
    return environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")


def _read(path: str) -> str | None:
    from onhand.fsio import open_regular

    try:
        with open_regular(path) as file:
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
