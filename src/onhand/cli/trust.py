"""Trust the configuration of a project as it is now, so that it may start programs, reach outside and give models more.

Changes to its settings and server files take effect only when you have seen and trusted them with this command.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from onhand import config, trust
from onhand.cli import terminal
from onhand.cli.config import to_toml
from onhand.config import looks_secret
from onhand.config.files import trust_store
from onhand.errors import ConfigError
from onhand.fsio import find_exposed
from onhand.project import server_files_to_trust
from onhand.trust import TrustRecord

if TYPE_CHECKING:
    from argparse import Namespace

    from onhand.cli.parser import Parser
    from onhand.config import TrustRequest

HIDDEN = "…"  # in place of a secret


class ValueLine(NamedTuple):
    """A line that shows a value, and the value itself, which the line hides if it is a secret."""

    text: str
    value: object


class Proposal(NamedTuple):
    """What a project asks for now, and what the user trusts of it."""

    now: TrustRecord
    trusted: TrustRecord | None
    requests: "tuple[TrustRequest, ...]"

    @property
    def has_content(self) -> bool:
        return bool(self.now.file or self.now.places or self.now.servers)

    @property
    def is_current(self) -> bool:
        return self.now == self.trusted

    @property
    def changes(self) -> list[tuple[str, list[str]]]:
        """Return the removed and added lines of each part; all lines are added if nothing was trusted."""
        before = _render_record(self.trusted) if self.trusted else {}
        after = _render_record(self.now)
        changes = []
        for part in dict.fromkeys((*before, *after)):
            old, new = before.get(part, []), after.get(part, [])
            lines = [f"- {line.text}" for line in old if line not in new]
            lines += [f"+ {line.text}" for line in new if line not in old]
            if lines or (part in before) != (part in after):
                changes.append((part, lines))
        return changes


def add_arguments(parser: "Parser") -> None:
    parser.add_argument("directory", metavar="DIR", nargs="?", help="the project (default: the current one)")
    parser.add_argument("--show", action="store_true", help="show what has changed and what needs trust, and end")
    parser.add_argument("--yes", action="store_true", help="do not ask, which is needed without a terminal")
    parser.add_argument("--list", action="store_true", help="list the trusted directories")
    parser.add_argument("--remove", metavar="DIR", help="stop trusting a directory")
    parser.add_argument("--json", action="store_true", help="print JSON, and change nothing without --yes")


def run(arguments: "Namespace") -> int:
    store = trust_store(os.environ)
    if arguments.list:
        return _list(store, arguments.json)
    if arguments.remove is not None:
        return _remove(store, os.path.realpath(arguments.remove), arguments.json)
    proposal = _propose(store, arguments.directory)
    return _trust_as_json(store, proposal, arguments) if arguments.json else _trust(store, proposal, arguments)


def _trust(store: str, proposal: Proposal, arguments: "Namespace") -> int:
    directory = proposal.now.directory
    if proposal.is_current:
        terminal.say(f"{directory} is trusted, and nothing has changed since")
        return 0
    if not proposal.has_content and not proposal.trusted:
        terminal.say(f"{directory} has no settings; nothing was recorded")
        return 0
    _print_proposal(proposal)
    if arguments.show:
        return 0
    if not arguments.yes and not _ask():
        terminal.say("Nothing was changed.")
        return 1
    _record(store, proposal)
    if proposal.has_content:
        terminal.say(f"{directory} is now trusted as it is. Later changes take effect when you trust them.")
        terminal.say(f"To undo: onhand trust --remove {quote(directory)}")
    else:
        terminal.say(f"{directory} is no longer trusted, because it has no settings any more")
    return 0


def _trust_as_json(store: str, proposal: Proposal, arguments: "Namespace") -> int:
    is_recorded = arguments.yes and not arguments.show
    if is_recorded:
        _record(store, proposal)
    is_trusted = proposal.is_current or is_recorded
    terminal.print_json(
        {
            "directory": proposal.now.directory,
            "trusted": proposal.has_content and is_trusted,
            "settings": [request._asdict() for request in proposal.requests],
            "changes": [{"in": part, "lines": lines} for part, lines in proposal.changes],
        }
    )
    return 0 if arguments.show or is_trusted else 1


def _record(store: str, proposal: Proposal) -> None:
    if proposal.has_content:
        trust.write_record(store, proposal.now)
    else:
        trust.remove_record(store, proposal.now.directory)


@contextmanager
def keep_trust(directory: str) -> Iterator[None]:
    """Trust what a command of the user writes meanwhile, if the project was trusted exactly as it was before."""
    store = trust_store(os.environ)
    was_current = False
    with suppress(ConfigError):  # not usable, so not trusted either
        if trust.read_record(store, directory):
            was_current = _propose(store, directory).is_current
    yield
    if was_current:
        with suppress(ConfigError):
            trust.write_record(store, _propose(store, directory).now)


def _list(store: str, as_json: bool) -> int:
    directories = trust.trusted_directories(store)
    if as_json:
        terminal.print_json({"trusted": list(directories)})
    for directory in [] if as_json else directories:
        terminal.say(directory)
    return 0


def _remove(store: str, directory: str, as_json: bool) -> int:
    removed = trust.remove_record(store, directory)
    if as_json:
        terminal.print_json({"removed": [directory] if removed else []})
    elif removed:
        terminal.say(f"{directory} is no longer trusted")
    else:
        terminal.complain(f"onhand: {directory} was not trusted")
    return 0 if removed else 1


def _propose(store: str, directory: str | None) -> Proposal:
    """Return what a project asks for now; raise ConfigError if that cannot be determined or must not be trusted."""
    # Without settings from the environment, which would hide those of the file.
    variables = {name for setting in config.SETTINGS for name in setting.variables}
    environ = {name: value for name, value in os.environ.items() if name not in variables}
    project = config.project_around(directory, environ=environ)
    found = config.resolve(config.SETTINGS, project, environ=environ, trusting=True)
    if directory is not None and os.path.realpath(project) != os.path.realpath(directory):
        raise ConfigError(f"{directory} has no configuration file; the nearest one is in {project}: trust that")
    if found.project != project:
        remove = f"onhand trust --remove {quote(project)}"
        raise ConfigError(f"{project} has no configuration file any more; to stop trusting it, run: {remove}")
    if found.project_file and find_exposed(found.project_file):
        raise ConfigError(trust.describe_exposure(found.project_file))
    return Proposal(found.to_record(_read_server_files(found)), trust.read_record(store, project), found.requests)


def _read_server_files(found: config.Resolved) -> dict[str, Any]:
    """Return the servers in each server file that needs trust; a file that cannot be used is not trusted."""
    files = found.values["mcp.files"]
    if not isinstance(files, tuple) or not files:
        return {}
    from onhand.mcp.servers import read_servers, servers_to_json

    servers: dict[str, Any] = {}
    for path in server_files_to_trust(files, found.sources["mcp.files"], found.project, found.project_file):
        full = os.path.join(found.project, os.path.expanduser(path))
        if find_exposed(full):
            raise ConfigError(trust.describe_exposure(full))
        try:
            servers[path] = servers_to_json(read_servers(full).servers)
        except ConfigError as error:
            terminal.warn([f"{error} It is not trusted."])
    return servers


def _print_proposal(proposal: Proposal) -> None:
    directory, reasons = proposal.now.directory, {request.key: request.reason for request in proposal.requests}
    if not proposal.trusted:
        if proposal.requests:
            terminal.say(f"{directory} asks for:")
        for request in proposal.requests:
            for value in request.render_values():
                terminal.say(f"  {request.key} = {value}, which {request.reason} ({request.source})")
        for path, lines in proposal.changes:
            if path in proposal.now.servers:
                terminal.say(f"{path} has these servers:" if lines else f"{path} has no servers")
                for line in lines:
                    terminal.say(f"  {terminal.escape_newlines(line[2:])}")
        if not proposal.requests and not proposal.now.servers:
            terminal.say(f"{directory} asks for nothing that needs trust.")
        return
    terminal.say(f"Since you trusted {directory}, this has changed:")
    for part, lines in proposal.changes:
        terminal.say(f"{part}:" if lines else f"{part}: nothing in it")
        for line in lines:
            reason = reasons.get(line[2:].partition(" = ")[0]) if line.startswith("+") else None
            terminal.say(f"  {terminal.escape_newlines(line)}{f'  ({reason})' if reason else ''}")


def _ask() -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        terminal.complain("onhand: nobody can be asked without a terminal: add --yes to trust this, or use --show")
        return False
    print("Trust this? [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _render_record(record: TrustRecord) -> dict[str, list[ValueLine]]:
    """Return a record as sorted lines, such as `context.limit = 3`, for each file."""
    parts = {record.file: _lines(record.settings)} if record.file else {}
    if record.places:
        parts["outside the project"] = [ValueLine(place, place) for place in record.places]
    for path, servers in record.servers.items():
        parts[path] = _lines(servers.get("mcpServers", {}))
    return parts


def _lines(value: object, key: str = "") -> list[ValueLine]:
    """Return the lines of a value; what looks like a secret is hidden unless it is only a variable."""
    if isinstance(value, Mapping) and (value or not key):
        return [line for name in sorted(value) for line in _lines(value[name], f"{key}.{name}" if key else str(name))]
    name, section = key.rpartition(".")[2], key.split(".")[-2:-1]
    is_secret = section == ["headers"] or (looks_secret(name) and section == ["env"]) or name == "client_secret"
    shown = HIDDEN if is_secret and "${" not in str(value) else to_toml(value)
    return [ValueLine(f"{key} = {shown}", value)]
