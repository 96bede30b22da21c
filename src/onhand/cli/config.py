"""Show every setting, its value and where it came from, or which files are read."""

import os
from typing import TYPE_CHECKING

from onhand import config
from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, add_to_all
from onhand.config import REASONS, SECTIONS, SETTINGS
from onhand.config.files import user_file
from onhand.config.settings import PROFILE_SETTINGS, ProfileSettings

if TYPE_CHECKING:
    from argparse import Namespace


def add_arguments(parser: Parser) -> None:
    verbs = parser.add_verbs("verb", "VERB")
    show = verbs.add_parser("show", help="show every setting, its value and where it came from")
    show.add_argument("--root", metavar="DIR", help="a project directory, or a directory of context files")
    verbs.add_parser("path", help="show which configuration files are read")
    add_to_all(verbs)


def run(arguments: "Namespace") -> int:
    return _show(arguments) if arguments.verb == "show" else _path(arguments)


def _show(arguments: "Namespace") -> int:
    loaded = open_project(arguments.root).config
    values = {
        setting.key: getattr(getattr(loaded, section), name)
        for setting in config.SETTINGS
        for section, _, name in [setting.key.rpartition(".")]
    }
    for name, profile in loaded.profiles.items():
        values |= {f"profiles.{name}.{field}": value for field, value in profile._asdict().items()}
    if arguments.json:
        terminal.print_json({key: {"value": values[key], "source": loaded.sources[key]} for key in values})
    else:
        rows = [(key, to_toml(value), loaded.sources[key]) for key, value in values.items()]
        terminal.print_table(rows, header=("KEY", "VALUE", "FROM"))
    return 0


def _path(arguments: "Namespace") -> int:
    loaded = config.load()
    terminal.warn(loaded.warnings)
    user = user_file(os.environ)
    project = loaded.project_file
    if arguments.json:
        terminal.print_json({"user": user, "project": project, "found": list(loaded.files)})
        return 0
    terminal.say(f"user     {user}{'' if user in loaded.files else ' (does not exist)'}")
    terminal.say(f"project  {project or 'none; `onhand init` writes one'}")
    return 0


def to_toml(value: object) -> str:
    """Return a value in TOML notation."""
    import json

    return json.dumps(value, ensure_ascii=False)  # JSON and TOML agree on strings, lists, numbers and booleans


def reference() -> str:
    """Return the reference page of all settings, in Markdown."""
    lines = ["# Settings", "", _INTRODUCTION]
    for section, fields in {**SECTIONS, "profiles.NAME": ProfileSettings}.items():
        lines += ["", f"## [{section}]", "", "\n".join(line.strip() for line in fields.__doc__.strip().splitlines())]
        for setting in (*SETTINGS, *PROFILE_SETTINGS):
            if setting.key.rpartition(".")[0] == section:
                variables = ", ".join(f"`{name}`" for name in setting.variables)
                lines += ["", f"### `{setting.key}`", "", setting.text, ""]
                lines += [f"- default: `{to_toml(setting.default)}`", f"- expected: {setting.expected}"]
                lines += [f"- environment: {variables}"]
                reason = REASONS.get(setting.role)
                lines += [f"- trust: from a project file it needs `onhand trust` if it {reason}"] if reason else []
    return "\n".join(lines) + "\n"


_INTRODUCTION = """\
A value comes from the last of these that sets it: the default, the user's file, the project's file, the
environment, a flag. `onhand config show` prints every value with where it came from.

The project's file is `onhand.toml`, `.onhand/config.toml`, or the table `[tool.onhand]` of `pyproject.toml`,
in the nearest directory that has one, from the working directory upwards; the search ends below the home
directory. Two of them in one directory are refused, and one that another user put above the working directory
is not read. The user's file is `$XDG_CONFIG_HOME/onhand/config.toml`,
usually `~/.config/onhand/config.toml`; on Windows `%APPDATA%\\onhand\\config.toml`.

A path is relative to the project's directory, in a flag to the working directory; `~/` is the home directory.
In an environment variable, lists are separated as in `PATH`, booleans are `true`, `false`, `1` or `0`, and an
empty variable counts as not set. A secret is never written to a file: a setting ending in `_env` names the
environment variable that holds it."""
