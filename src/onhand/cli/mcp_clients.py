"""Move servers from the settings of other MCP clients behind onhand, and add onhand to those settings or remove it."""

from __future__ import annotations

import os
import sys

from onhand.cli import terminal
from onhand.cli.trust import keep_trust
from onhand.config import looks_secret
from onhand.config.files import home
from onhand.corpora.files import is_inside
from onhand.errors import ConfigError, InputError, MissingExtra, NotFound
from onhand.project import secrets_file, servers_file
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from typing import Any

    from onhand.mcp.client_servers import ClientServer, Input, SettingsFile
    from onhand.mcp.servers import ServerConfig
    from onhand.project import Project

SECRET_HEADERS = ("authorization", "proxy-authorization", "cookie")


def import_servers(project: Project, arguments: argparse.Namespace) -> int:
    """Copy servers to the user's own list, or move them there."""
    from onhand.mcp.client_servers import identify_file, known_files
    from onhand.mcp.servers import write_servers

    places = home(os.environ), project.directory, os.environ
    if arguments.files:
        files = [identify_file(path, *places) for path in arguments.files]
    else:
        files = [file for file in known_files(*places) if os.path.isfile(file.path)]
    importing = _Import(project, arguments)
    found = importing.find(files)
    importing.take(server for server in found if not importing.needs_consent(server))
    for group in _by_project(server for server in found if importing.needs_consent(server)):
        if importing.may_take(group):
            importing.take(group)
    if importing.added:
        write_servers(servers_file(), importing.servers)
        for added in importing.added:
            project.approvals.approve_server(added.server)
    moved = _remove_taken(importing, arguments) if arguments.move else []
    if arguments.json:
        terminal.print_json(
            {
                "added": [_to_json(one) for one in importing.added],
                "skipped": [_to_json(one) for one in importing.skipped],
                "moved": moved,
                "files": [file.path for file in files],
            }
        )
    else:
        _print_result(importing, files, moved)
    return 0


class _Import:
    """Servers of other clients on their way to the user's own list."""

    def __init__(self, project: Project, arguments: argparse.Namespace) -> None:
        self.servers = list(own_servers())  # with those that were added
        self.added: list[ClientServer] = []
        self.skipped: list[ClientServer] = []  # because nobody could be asked
        self.taken: list[ClientServer] = []  # those added, and those that were there before
        self._project, self._arguments = project, arguments
        self._is_interactive = not arguments.json and sys.stdin is not None and sys.stdin.isatty()
        self._answers: dict[tuple[str, str], str] = {}

    def find(self, files: Iterable[SettingsFile]) -> list[ClientServer]:
        """Return the servers in files, except onhand itself; a file that was named has to be readable."""
        from onhand.mcp.client_servers import find_servers
        from onhand.mcp.servers import is_onhand

        found: list[ClientServer] = []
        for file in files:
            if os.path.realpath(file.path) == os.path.realpath(servers_file()):
                raise InputError(f"{file.path} is your own list of servers: name a file of another client")
            try:
                in_file, problems = find_servers(file, home(os.environ))
            except ConfigError as error:
                if self._arguments.files:
                    raise
                terminal.warn([str(error)])
                continue
            terminal.warn(problems)
            others = [one for one in in_file if not is_onhand(one.server)]
            if self._arguments.files and not others and not problems:
                reason = "only onhand itself" if in_file else "no servers in a known form"
                terminal.warn([f"{file.path} contains {reason}"])
            found += others
        return found

    def needs_consent(self, one: ClientServer) -> bool:
        """Return whether a server came with a project, or is of another project than this one, and is new."""
        here = os.path.realpath(self._project.directory)
        return (one.is_foreign or one.server.project not in ("", here)) and self._find_known(one.server) is None

    def may_take(self, group: Sequence[ClientServer]) -> bool:
        """Show servers of a project and ask; without a terminal, only --yes allows it."""
        if not self._arguments.yes and not self._is_interactive:
            self.skipped += group
            return False
        if self._arguments.yes:
            return True
        directory = group[0].server.project
        terminal.say(f"These servers belong to {directory} and would be used only there:", heading=True)
        for one in group:
            terminal.say(f"  {one.server.key}: {one.server.summary}")
            terminal.say(f"    {_describe_origin(one)}")
            if names := [*one.server.env, *one.server.headers]:
                terminal.say(f"    with {', '.join(names)}")
        return _ask_yes(f"Use {'it' if len(group) == 1 else 'them'}? [y/N] ")

    def take(self, found: Iterable[ClientServer]) -> None:
        """Add servers that are not there yet, under free names, with the values that they need."""
        for one in found:
            known = self._find_known(one.server)
            if known is not None:
                self.taken.append(one)
                if known.tools != one.server.tools:
                    terminal.warn([f"{known.key} is there already, with other tool settings than in {one.file.path}"])
                continue
            if any(server.key == one.server.key for server in self.servers):
                if not one.server.project:
                    terminal.warn([f"{one.file.path}: skipped {one.server.key}, because another server has that name"])
                    continue
                one = one._replace(server=one.server._replace(key=self._free_key(one.server)))
            one = one._replace(server=keep_secrets_apart(self._resolve_inputs(one)))
            self.servers.append(one.server)
            self.added.append(one)
            self.taken.append(one)

    def _find_known(self, server: ServerConfig) -> ServerConfig | None:
        """Return the same program or address in the user's list, whose entry may have been edited since."""
        from onhand.mcp.client_servers import is_same_program

        named = (one for one in self.servers if one.project == server.project and one.key.startswith(server.key))
        return next((one for one in named if is_same_program(server, one)), None)

    def _free_key(self, server: ServerConfig) -> str:
        """Return a name that tells the project, and that no other server has."""
        from onhand.mcp.servers import usable_key

        taken = {one.key for one in self.servers}
        name = f"{server.key}-{os.path.basename(server.project)}"
        names = (usable_key(name if number == 1 else f"{name}-{number}") for number in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def _resolve_inputs(self, one: ClientServer) -> ServerConfig:
        """Ask for what VS Code would ask for; without a terminal, a variable takes its place."""
        from onhand.mcp.client_servers import resolve_inputs

        values = {}
        for needed in one.inputs:
            place = one.file.path, needed.id
            if place not in self._answers:
                self._answers[place] = self._ask_for(needed, one.server.key)
            values[needed.id] = self._answers[place]
        return resolve_inputs(one.server, values)

    def _ask_for(self, needed: Input, key: str) -> str:
        from onhand.mcp.secrets import store_secret

        variable = _variable_for(needed.id)
        if not self._is_interactive and needed.default and not needed.is_secret:
            return needed.default
        if not self._is_interactive:
            terminal.warn([f"{key} needs {needed.description}: set the variable {variable} before onhand starts"])
            return f"${{{variable}}}"
        answer = _ask_value(f"{key} needs {terminal.join_lines(needed.description)} (or $NAME of a variable): ", needed)
        if answer.startswith("$"):
            return f"${{{answer[1:].strip('{}')}}}"
        if not answer:
            terminal.say(f"Set the variable {variable} before onhand starts.")
            return f"${{{variable}}}"
        if not needed.is_secret:
            return answer
        return store_secret(secrets_file(), f"{key}-{needed.id}", answer)


def _variable_for(id: str) -> str:
    from re import sub

    name = sub(r"[^A-Za-z0-9]+", "_", id).strip("_").upper()
    return name if name and not name[0].isdigit() else f"INPUT_{name}"


def _ask_yes(question: str) -> bool:
    print(question, end="", file=sys.stderr, flush=True)
    try:
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _ask_value(question: str, needed: Input) -> str:
    """Ask for a value; what VS Code would hide is not echoed."""
    from getpass import getpass

    try:
        if needed.is_secret:
            return getpass(question)
        print(question + (f"[{needed.default}] " if needed.default else ""), end="", file=sys.stderr, flush=True)
        return input() or needed.default
    except EOFError:
        return ""


def _by_project(found: Iterable[ClientServer]) -> list[list[ClientServer]]:
    groups: dict[str, list[ClientServer]] = {}
    for one in found:
        groups.setdefault(one.server.project, []).append(one)
    return list(groups.values())


def _describe_origin(one: ClientServer) -> str:
    if one.is_foreign:
        return f"came with the project, in {one.file.path}"
    return f"from {one.file.path}"


def _describe_tools(server: ServerConfig) -> str:
    """Describe which tools of a server its client enables, disables or asks about."""
    enabled, disabled, policy, by_name = server.tools
    parts = [f"only {', '.join(enabled) or 'none'}"] if enabled is not None else []
    parts += [f"not {', '.join(disabled)}"] if disabled else []
    parts += [f"{said} {kind}" for kind, said in policy.items()] if len(set(policy.values())) > 1 else []
    parts += [f"{said} all" for said in set(policy.values())] if len(set(policy.values())) == 1 else []
    return "; ".join([*parts, *(f"{one.policy} {name}" for name, one in by_name.items() if one.policy)])


def _to_json(one: ClientServer) -> dict[str, Any]:
    return {
        "name": one.server.key,
        "runs": one.server.summary,
        "file": one.file.path,
        "project": one.server.project or None,
        "came_with_project": one.is_foreign,
        "not_carried_over": list(one.left_out),
    }


def _print_result(importing: _Import, files: Sequence[SettingsFile], moved: Sequence[dict[str, Any]]) -> None:
    if not files:
        terminal.say("No client settings found. Pass a file, or use `onhand mcp add NAME -- COMMAND…`.")
        return
    for one in importing.added:
        terminal.say(f"{one.server.key}: {one.server.summary}")
        terminal.say(f"  {_describe_origin(one)}" + (f", only for {one.server.project}" if one.server.project else ""))
        if limits := _describe_tools(one.server):
            terminal.say(f"  tools: {limits}")
        if secrets := name_secrets(one.server):
            terminal.say(f"  {secrets}: now in {secrets_file()}, which only you can read")
        if one.left_out:
            terminal.say(f"  not carried over: {', '.join(one.left_out)}")
    for group in _by_project(importing.skipped):
        names = ", ".join(one.server.key for one in group)
        terminal.warn(
            [f"skipped {names} of {group[0].server.project}; to use them only there, run: onhand mcp import --yes"]
        )
    added = len(importing.added)
    advice = "; test them with: onhand mcp test" if added else ""
    terminal.say(f"{quantity(added, 'server')} added from {quantity(len(files), 'file')}{advice}")
    for edit in moved:
        terminal.say(f"removed {', '.join(edit['removed'])} from {edit['file']}; a backup is in {edit['backup']}")
    if added and not moved:
        terminal.say("Clients that also start onhand now load these twice: remove them there, or import with --move.")


def _remove_taken(importing: _Import, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Remove servers from the files that they were taken from; a project's file only if the user named it."""
    from onhand.mcp.client_settings import remove_entries, write_settings

    by_file: dict[str, list[ClientServer]] = {}
    kept = set()
    for one in importing.taken:
        if one.is_foreign and not arguments.files:
            kept.add(one.file.path)
        else:
            by_file.setdefault(one.file.path, []).append(one)
    terminal.warn(
        f"{path} was not changed, because others may share it; to change it, pass its path" for path in sorted(kept)
    )
    moved = []
    for path, found in by_file.items():
        try:
            edit = remove_entries(path, {one.entry.place: one.entry.value for one in found})
            if not edit.changes:
                continue
            backup = write_settings(edit)
        except InputError as error:
            terminal.warn([str(error)])
            continue
        moved.append({"file": path, "removed": [one.entry.place[-1] for one in found], "backup": backup})
    return moved


def keep_secrets_apart(server: ServerConfig) -> ServerConfig:
    """Return a server whose entry only refers to its secrets; they are stored where the list of servers is not."""
    from onhand.mcp.secrets import store_secret

    def refer(name: str, value: str) -> str:
        is_secret = looks_secret(name) or name.lower() in SECRET_HEADERS
        return store_secret(secrets_file(), f"{server.key}-{name}", value) if is_secret and "${" not in value else value

    return server._replace(
        env={name: refer(name, value) for name, value in server.env.items()},
        headers={name: refer(name, value) for name, value in server.headers.items()},
    )


def name_secrets(server: ServerConfig) -> str:
    """Return the variables and headers of a server whose values are stored apart from its entry."""
    from onhand.mcp.secrets import find_references

    return ", ".join(name for name, value in {**server.env, **server.headers}.items() if find_references(value))


def own_servers() -> tuple[ServerConfig, ...]:
    """Return the servers in the user's own list; raise ConfigError if rewriting it would lose an entry."""
    from onhand.mcp.servers import read_servers

    path = servers_file()
    if not os.path.lexists(path):
        return ()
    servers, problems, _ = read_servers(path)
    if problems:
        raise ConfigError(f"{problems[0]}: fix the file first, because rewriting it would lose that entry")
    return servers


def install(project: Project, arguments: argparse.Namespace) -> int:
    """Add onhand to a client unless it has it already; a backup of its settings is written next to the file."""
    from onhand.mcp import client_settings

    path = _settings_path(project, arguments)
    if arguments.profile:
        project.profile(arguments.profile)  # raises NotFound if there is none
    entry = client_settings.make_entry(arguments.client, own_command(arguments.project), arguments.profile or "")
    warn_if_missing("MCP", "mcp")
    with keep_trust(project.directory):  # the file may be one of the project's server files
        return write_entry(arguments, arguments.client, path, arguments.name, entry)


def uninstall(project: Project, arguments: argparse.Namespace) -> int:
    """Remove onhand from a client; everything else in its settings stays."""
    from onhand.mcp.client_settings import CLIENTS, remove_entries, write_settings
    from onhand.mcp.servers import find_entries, is_onhand, parse_entry, read_settings

    path, key = _settings_path(project, arguments), CLIENTS[arguments.client].key
    place = key, arguments.name
    entry = None
    if os.path.lexists(path):
        entry = next((one for one in find_entries(read_settings(path)) if one.place == place), None)
    if entry is None:
        raise NotFound(f"{path} has no entry {arguments.name!r}; --name names another entry, --project another file")
    if not is_onhand(parse_entry(entry)):
        raise InputError(f"the entry {arguments.name!r} in {path} does not start onhand, so it was not removed")
    with keep_trust(project.directory):
        backup = write_settings(remove_entries(path, {place: entry.value}))
    if arguments.json:
        terminal.print_json({"path": path, "name": arguments.name, "backup": backup})
    else:
        terminal.say(f"removed {arguments.name!r} from {path}; restart {arguments.client}")
        terminal.say(f"a backup of the previous settings is in {backup}")
    return 0


def _settings_path(project: Project, arguments: argparse.Namespace) -> str:
    from onhand.mcp.client_settings import settings_path

    directory = project.directory if arguments.project else None
    path = settings_path(arguments.client, directory, os.path.expanduser("~"), os.environ)
    if directory is not None and not is_inside(path, directory):  # by a link that may have come with the project
        where = os.path.realpath(path)
        raise InputError(f"{path} leads out of the project, to {where}: delete the link, or leave out --project")
    return path


def warn_if_missing(what: str, extra: str) -> None:
    """Warn that an extra is missing before a client tries to start onhand with it."""
    from importlib.util import find_spec

    if find_spec(extra) is None:  # each of these extras has the name of its package
        terminal.warn([str(MissingExtra(what, extra))])


def write_entry(
    arguments: argparse.Namespace, client: str, path: str, name: str, entry: dict[str, Any], key: str = ""
) -> int:
    """Add an entry to the settings of a client or, with --print, only print it."""
    from onhand.mcp import client_settings

    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum() or len(name) > 64:
        raise InputError(f"{name[:100]!r} is not a valid name for an entry: use letters, digits, - and _")
    if arguments.print:
        terminal.complain(f"onhand: this belongs in {path}")
        terminal.say(client_settings.render_entry(client, name, entry, key).rstrip("\n"))
        return 0
    edit = client_settings.edit_settings(client, path, name, entry, key)
    backup = client_settings.write_settings(edit) if edit.changes else None
    if arguments.json:
        terminal.print_json({"path": path, "name": name, "changed": bool(edit.changes), "backup": backup})
        return 0
    if not edit.changes:
        terminal.say(f"{path} already has this entry")
        return 0
    terminal.say(f"added {name!r} to {path}; restart {client} to use it")
    if backup:
        terminal.say(f"a backup of the previous settings is in {backup}")
    return 0


def own_command(shared: bool = False) -> list[str]:
    """Return the command that starts onhand: by name in a shared file, otherwise by path, as PATH may differ.

    With -P, Python imports no module of the project in which a client starts us.
    """
    from shutil import which

    if shared:
        return ["onhand"]
    found = which("onhand")
    return [found] if found else [sys.executable, "-P", "-m", "onhand"]
