"""Write a commented configuration file."""

import os
from typing import TYPE_CHECKING

from onhand.cli import terminal
from onhand.errors import ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import TextIO

FILE = "onhand.toml"


def add_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument("directory", metavar="DIR", nargs="?", default=".", help="where (here)")
    parser.add_argument("--force", action="store_true", help=f"replace an {FILE} that is there")


def run(arguments: "Namespace") -> int:
    path = os.path.join(arguments.directory, FILE)
    _refuse_a_second_file(arguments.directory)
    _write(path, template(), force=arguments.force)
    terminal.say(f"wrote {path}: every setting, with its default commented out\n")
    terminal.say("Next:")
    terminal.say("  put what every prompt needs into .AGENTS/overview.md and .AGENTS/conventions.md,")
    terminal.say("  and what is only sometimes needed into other Markdown files beside them")
    terminal.say("  onhand context search 'some words'   what an agent would find")
    terminal.say("  onhand config show                   every setting and where it came from")
    return 0


def template() -> str:
    """The file that is written: it loads to exactly the defaults."""
    from onhand.cli.config import written
    from onhand.config.options import OPTIONS, SECTIONS

    lines = [
        "# Settings of onhand for this directory and those below it. Commented out are the defaults.",
        "# `onhand config show` prints every value and where it came from.",
        "# What gives a model more, starts programs or reaches outside waits for `onhand trust`.",
    ]
    for section, fields in SECTIONS.items():
        lines += ["", f"# {fields.__doc__.strip()}", f"[{section}]"]
        for option in OPTIONS:
            of_section, _, name = option.key.rpartition(".")
            if of_section == section:
                lines += ["", f"# {option.about.text}"]
                lines += [f"# Expected: {option.expected}. Environment: {', '.join(option.variables)}."]
                lines += [f"# {name} = {written(option.default)}"]
    return "\n".join(lines) + "\n"


def _refuse_a_second_file(directory: str) -> None:
    """Two files in one directory would be refused by every later command."""
    from onhand.config.files import configured_in

    others = [path for path in configured_in(directory) if os.path.basename(path) != FILE]
    if others:
        raise ConfigError(f"{others[0]} already configures this directory: edit that, or remove it first")


def _write(path: str, text: str, *, force: bool) -> None:
    target = path + ".new" if force else path
    try:
        if force and os.path.lexists(target):
            os.unlink(target)  # left by a crash, or a link that would lead elsewhere
        with open(target, "x", encoding="utf-8", newline="\n") as file:
            _finish(file, text, path)
    except FileExistsError:
        raise ConfigError(f"{path} is already there: edit it, or replace it with --force") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): name a directory that you own") from None


def _finish(file: "TextIO", text: str, path: str) -> None:
    """Fill a new file and give it its name; when that fails, on a full disk for one, nothing of it stays."""
    try:
        file.write(text)
        file.flush()
        if file.name != path:
            os.replace(file.name, path)
    except BaseException:
        os.unlink(file.name)
        raise
