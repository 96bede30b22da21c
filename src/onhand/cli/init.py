"""Write a commented configuration file."""

import os
from typing import TYPE_CHECKING

from onhand.cli import terminal
from onhand.cli.config import to_toml
from onhand.cli.trust import keep_trust
from onhand.config import SECTIONS, SETTINGS
from onhand.config.files import files_in
from onhand.errors import ConfigError
from onhand.fsio import describe_fault, write_atomic

if TYPE_CHECKING:
    from argparse import Namespace

    from onhand.cli.parser import Parser

FILE = "onhand.toml"


def add_arguments(parser: "Parser") -> None:
    parser.add_argument("directory", metavar="DIR", nargs="?", default=".", help="where to write it (default: .)")
    parser.add_argument("--force", action="store_true", help=f"replace an existing {FILE}")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: "Namespace") -> int:
    path = os.path.join(arguments.directory, FILE)
    _refuse_second_file(arguments.directory)
    with keep_trust(arguments.directory):
        _write(path, template(), force=arguments.force)
    if arguments.json:
        terminal.print_json({"path": path})
        return 0
    terminal.say(f"wrote {path}: every setting, with its default commented out\n")
    terminal.say("Next:")
    terminal.say("  Put what every prompt needs in .AGENTS/overview.md and .AGENTS/conventions.md,")
    terminal.say("  and what is needed only sometimes in other Markdown files next to them.")
    terminal.say("  onhand context search 'some words'   show what an agent would find")
    terminal.say("  onhand config show                   show every setting and where it came from")
    return 0


def template() -> str:
    """Return the content of the file; loading it gives exactly the defaults."""
    lines = [
        "# Settings of onhand for this directory and those below it. The defaults are commented out.",
        "# `onhand config show` prints every value and where it came from.",
        "# Settings that start programs, reach outside or give models more need `onhand trust`.",
    ]
    for section, fields in SECTIONS.items():
        lines += ["", f"# {fields.__doc__.strip()}", f"[{section}]"]
        for setting in SETTINGS:
            of_section, _, name = setting.key.rpartition(".")
            if of_section == section:
                lines += ["", f"# {setting.text}"]
                lines += [f"# Expected: {setting.expected}. Environment: {', '.join(setting.variables)}."]
                lines += [f"# {name} = {to_toml(setting.default)}"]
    return "\n".join(lines) + "\n"


def _refuse_second_file(directory: str) -> None:
    """Raise ConfigError if another file configures the directory; every later command would fail."""
    others = [path for path in files_in(directory) if os.path.basename(path) != FILE]
    if others:
        raise ConfigError(f"{others[0]} already configures this directory: edit or remove it")


def _write(path: str, text: str, *, force: bool) -> None:
    def refuse_existing() -> None:
        if os.path.lexists(path):
            raise ConfigError(f"{path} already exists: edit it, or replace it with --force")

    try:
        write_atomic(path, text.encode(), 0o666, check=None if force else refuse_existing)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {describe_fault(error)}") from None
