"""Check what is installed, what is missing and what to do about it."""

import sys
from typing import TYPE_CHECKING, NamedTuple

from onhand import __version__, config
from onhand.cli import terminal
from onhand.errors import ConfigError, install_command

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


HIDDEN_EXTRAS = ("all", "console")  # the union of the others, and a reserved name


class Extra(NamedTuple):
    """A set of optional packages."""

    name: str
    installed: tuple[str, ...]  # "numpy 2.3.1"
    missing: tuple[str, ...]

    @property
    def advice(self) -> str:
        return install_command(self.name) if self.missing else ""


def add_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: "Namespace") -> int:
    facts = {"onhand": __version__, "python": _python(), "sqlite": _sqlite(), "git": _git(), "sandbox": _sandbox()}
    facts["config"] = _config()
    extras = installed_extras()
    if arguments.json:
        found = {
            extra.name: {
                "installed": not extra.missing,
                "packages": list(extra.installed),
                "missing": list(extra.missing),
                "install": extra.advice,
            }
            for extra in extras
        }
        terminal.print_json({**facts, "extras": found})
        return 0
    terminal.print_table(list(facts.items()))
    terminal.say()
    terminal.print_table(
        [
            (extra.name, "missing" if extra.missing else "installed", extra.advice, ", ".join(extra.missing))
            for extra in extras
        ],
        header=("EXTRA", "STATE", "TO INSTALL", "MISSING PACKAGES"),
    )
    return 0


def _python() -> str:
    return f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"


def _sqlite() -> str:
    try:
        import sqlite3
    except ImportError:
        return "missing: this Python was built without it; install another Python"
    return sqlite3.sqlite_version


def _git() -> str:
    from shutil import which

    return which("git") or "missing: install git to use the git tool"


def _sandbox() -> str:
    from onhand.sandbox.policy import Policy
    from onhand.sandbox.sandbox import choose

    name = choose(Policy()).name
    return "none works here, so commands are refused; `onhand sandbox check` shows why" if name == "refuse" else name


def _config() -> str:
    try:
        loaded = config.load()
    except ConfigError as error:
        return f"unusable: {error}"
    terminal.warn(loaded.warnings)
    return ", ".join(loaded.files) or "no file; all settings have their default values"


def installed_extras() -> list[Extra]:
    """Return the extras of this installation, each with what is installed and missing."""
    from importlib import metadata

    try:
        distribution = metadata.distribution("onhand")
    except metadata.PackageNotFoundError:
        terminal.warn(["onhand is not installed but runs from source, so its extras are unknown"])
        return []
    extras = []
    for name in distribution.metadata.get_all("Provides-Extra") or []:
        if name in HIDDEN_EXTRAS:
            continue
        versions = {package: _version(package) for package in _packages_of(name, distribution.requires or [])}
        installed = tuple(f"{package} {version}" for package, version in versions.items() if version)
        missing = tuple(package for package, version in versions.items() if not version)
        extras.append(Extra(name, installed, missing))
    return extras


def _packages_of(extra: str, requirements: list[str]) -> list[str]:
    import re

    names = []
    for requirement in requirements:
        package = re.match(r"[\w.-]+", requirement)
        if package and re.search(rf"\bextra\s*==\s*['\"]{re.escape(extra)}['\"]", requirement):
            names.append(package[0])
    return names


def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
