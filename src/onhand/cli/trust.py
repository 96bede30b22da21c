"""Trust the configuration of a directory, so that it may start programs, reach outside and give models more."""

import os
from shlex import quote
from typing import TYPE_CHECKING

from onhand import config, trust
from onhand.cli import terminal
from onhand.config.files import trust_store
from onhand.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Namespace

    from onhand.cli.parser import Parser


def add_arguments(parser: "Parser") -> None:
    parser.add_argument("directory", metavar="DIR", nargs="?", help="the project (default: the current one)")
    parser.add_argument("--list", action="store_true", help="list the trusted directories")
    parser.add_argument("--remove", metavar="DIR", help="stop trusting a directory")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: "Namespace") -> int:
    store = trust_store(os.environ)
    if arguments.list:
        return _list(store, arguments.json)
    if arguments.remove is not None:
        return _remove(store, os.path.realpath(arguments.remove), arguments.json)
    return _add(store, arguments.directory, arguments.json)


def _list(store: str, as_json: bool) -> int:
    directories = sorted(trust.trusted_directories(store))
    if as_json:
        terminal.print_json({"trusted": directories})
    for directory in [] if as_json else directories:
        terminal.say(directory)
    return 0


def _remove(store: str, directory: str, as_json: bool) -> int:
    removed = trust.remove(store, directory)
    if as_json:
        terminal.print_json({"removed": [directory] if removed else []})
    elif removed:
        terminal.say(f"{directory} is no longer trusted")
    else:
        terminal.complain(f"onhand: {directory} was not trusted")
    return 0 if removed else 1


def _add(store: str, directory: str | None, as_json: bool) -> int:
    # Without settings from the environment, which would hide those of the file.
    variables = {name for setting in config.SETTINGS for name in setting.variables}
    environ = {name: value for name, value in os.environ.items() if name not in variables}
    found = config.resolve(config.SETTINGS, directory, environ=environ)
    if directory is not None and os.path.realpath(found.project) != os.path.realpath(directory):
        raise ConfigError(f"{directory} has no configuration file; the nearest one is in {found.project}: trust that")
    if found.requests:
        trust.add(store, found.project)
    if as_json:
        granted = [request._asdict() for request in found.requests]
        terminal.print_json({"directory": found.project, "trusted": bool(granted), "settings": granted})
        return 0
    if not found.requests:
        terminal.say(f"{found.project} has no settings that need trust; nothing was recorded")
        return 0
    terminal.say(f"{found.project} is now trusted with:")
    for request in found.requests:
        for value in (request.value,) if isinstance(request.value, str) else request.value:
            terminal.say(f"  {request.key} = {value!r}, which {request.reason} ({request.source})")
    terminal.say("Later changes to its configuration are trusted too.")
    terminal.say(f"To undo: onhand trust --remove {quote(found.project)}")
    return 0
