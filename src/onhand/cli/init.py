"""Write a commented configuration file."""

import os
from typing import TYPE_CHECKING

from onhand.cli import terminal
from onhand.cli.config import to_toml
from onhand.config import SECTIONS, SETTINGS
from onhand.config.files import files_in
from onhand.errors import ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import TextIO

FILE = "onhand.toml"


def add_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", default=".", help="the directory (the working directory)"
    )
    parser.add_argument("--force", action="store_true", help=f"replace an existing {FILE}")


def run(arguments: "Namespace") -> int:
    path = os.path.join(arguments.directory, FILE)
    _refuse_second_file(arguments.directory)
    _write(path, template(), force=arguments.force)
    terminal.say(f"wrote {path}: every setting, with its default commented out\n")
    terminal.say("Next:")
    terminal.say("  put what every prompt needs in .AGENTS/overview.md and .AGENTS/conventions.md,")
    terminal.say("  and what is needed only sometimes in other Markdown files next to them")
    terminal.say("  onhand context search 'some words'   what an agent would find")
    terminal.say("  onhand config show                   every setting and where it came from")
    return 0


def template() -> str:
    """Return the file that is written; loading it gives exactly the defaults."""

    lines = [
        "# Settings of onhand for this directory and those below it. The defaults are commented out.",
        "# `onhand config show` prints every value and where it came from.",
        "# Settings that give a model more, start programs or reach outside wait for `onhand trust`.",
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
    """Refuse to write a second file, which every later command would refuse."""

    others = [path for path in files_in(directory) if os.path.basename(path) != FILE]
    if others:
        raise ConfigError(f"{others[0]} already configures this directory: edit that, or remove it first")


def _write(path: str, text: str, *, force: bool) -> None:
    target = path + ".new" if force else path
    try:
        if force and os.path.lexists(target):
            os.unlink(target)  # left by a crash, or a link that leads elsewhere
        with open(target, "x", encoding="utf-8", newline="\n") as file:
            _finish(file, text, path)
    except FileExistsError:
        raise ConfigError(f"{path} already exists: edit it, or replace it with --force") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): name a directory that you own") from None


def _finish(file: "TextIO", text: str, path: str) -> None:
    """Fill a new file and rename it; if that fails, for example on a full disk, nothing of it stays."""
    try:
        file.write(text)
        file.flush()
        if file.name != path:
            os.replace(file.name, path)
    except BaseException:
        os.unlink(file.name)
        raise
