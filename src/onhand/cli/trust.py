"""Let this directory's configuration start programs, reach outside it and give models more."""

import os
from typing import TYPE_CHECKING

from onhand import config, trust
from onhand.cli import terminal
from onhand.config import SETTINGS
from onhand.config.files import trust_store
from onhand.errors import ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument("directory", metavar="DIR", nargs="?", help="the project (that of the working directory)")
    parser.add_argument("--list", action="store_true", help="list the trusted directories")
    parser.add_argument("--remove", metavar="DIR", help="stop trusting a directory")


def run(arguments: "Namespace") -> int:
    store = trust_store(os.environ)
    if arguments.list:
        for directory in sorted(trust.trusted_directories(store)):
            terminal.say(directory)
        return 0
    if arguments.remove is not None:
        return _remove(store, arguments.remove)
    return _add(store, arguments.directory)


def _remove(store: str, directory: str) -> int:
    if trust.remove(store, directory):
        terminal.say(f"{os.path.realpath(directory)} is no longer trusted")
        return 0
    terminal.complain(f"onhand: {os.path.realpath(directory)} was not trusted")
    return 1


def _add(store: str, directory: str | None) -> int:
    from shlex import quote

    # Without settings from the environment, which would hide what the file says.
    plain = {name: value for name, value in os.environ.items() if not _is_setting(name)}
    found = config.resolve(config.SETTINGS, directory, environ=plain)
    if directory is not None and os.path.realpath(found.project) != os.path.realpath(directory):
        raise ConfigError(
            f"{directory} has no configuration file of its own; the nearest is in {found.project}: name that"
        )
    if not found.requests:
        terminal.say(f"{found.project} has no settings that need trust: nothing was recorded")
        return 0
    terminal.say(f"{found.project} wants:")
    for request in found.requests:
        for value in (request.value,) if isinstance(request.value, str) else request.value:
            terminal.say(f"  {request.key} = {value!r}, which {request.reason} ({request.source})")
    trust.add(store, found.project)
    undo = f"onhand trust --remove {quote(found.project)}"
    terminal.say(f"trusted, including future settings; to undo: {undo}")
    return 0


def _is_setting(name: str) -> bool:
    return any(name in setting.variables for setting in SETTINGS)
