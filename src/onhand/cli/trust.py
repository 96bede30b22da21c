"""Allow this directory's configuration to give a model more, start programs and reach outside it."""

import os
from typing import TYPE_CHECKING

from onhand.cli import terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument("directory", metavar="DIR", nargs="?", help="the project (the one of this directory)")
    parser.add_argument("--list", action="store_true", help="show the trusted directories")
    parser.add_argument("--remove", metavar="DIR", help="trust a directory no longer")


def run(arguments: "Namespace") -> int:
    from onhand import trust
    from onhand.config.files import trust_store

    store = trust_store(os.environ)
    if arguments.list:
        for directory in sorted(trust.trusted(store)):
            terminal.say(directory)
        return 0
    if arguments.remove is not None:
        return _remove(store, arguments.remove)
    return _add(store, arguments.directory)


def _remove(store: str, directory: str) -> int:
    from onhand import trust

    if trust.remove(store, directory):
        terminal.say(f"{os.path.realpath(directory)} is no longer trusted")
        return 0
    terminal.complain(f"onhand: {os.path.realpath(directory)} was not trusted")
    return 1


def _add(store: str, directory: str | None) -> int:
    from shlex import quote

    from onhand import config, trust
    from onhand.errors import ConfigError

    # Without the environment's own settings: they would hide what the file asks for.
    plain = {name: value for name, value in os.environ.items() if not _is_setting(name)}
    found = config.resolve(config.OPTIONS, directory, environ=plain)
    if directory is not None and os.path.realpath(found.project) != os.path.realpath(directory):
        raise ConfigError(
            f"{directory} has no configuration file of its own; the nearest is in {found.project}: name that"
        )
    if not found.asks:
        terminal.say(f"{found.project} asks for nothing that needs trust: nothing was recorded")
        return 0
    terminal.say(f"{found.project} asks for:")
    for ask in found.asks:
        for value in (ask.value,) if isinstance(ask.value, str) else ask.value:
            terminal.say(f"  {ask.key} = {value!r}, which {ask.reason} ({ask.source})")
    trust.add(store, found.project)
    undo = f"onhand trust --remove {quote(found.project)}"
    terminal.say(f"trusted, with what it may ask for later; to undo: {undo}")
    return 0


def _is_setting(name: str) -> bool:
    from onhand.config import OPTIONS

    return any(name in option.variables for option in OPTIONS)
