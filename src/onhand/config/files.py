"""Find and read configuration files, and locate the directories of the user.

A file may have been put there by someone else. This module knows no settings.
"""

from __future__ import annotations

import os
import sys

from onhand.errors import ConfigError
from onhand.fsio import open_regular, temporary_place
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from onhand.trust import TrustRecord

OWN_FILES = ("onhand.toml", os.path.join(".onhand", "config.toml"))
SHARED_FILE = "pyproject.toml"
SHARED_TABLE = "tool.onhand"

# Together these bound what parsing can cost: tomllib needs memory in the square of the parts of a dotted key,
# so one line of 200 kB can use up a machine's. With these limits the worst file took 1.4 s and 120 MB.
MAX_FILE_BYTES = 262_144
MAX_DOTS_PER_LINE = 128


class File(Record):
    """The content of a configuration file."""

    path: str
    table: Mapping[str, Any]
    lines: Mapping[str, int]  # the line of each key, where it is known

    def place(self, key: str) -> str:
        """Return `path:line` of a key, or the path if the line is not known."""
        return f"{self.path}:{self.lines[key]}" if key in self.lines else self.path


def home(environ: Mapping[str, str]) -> str:
    """Return the user's home directory."""
    variable = "USERPROFILE" if sys.platform == "win32" else "HOME"
    found = environ.get(variable) or os.path.expanduser("~")
    # Without a home, the result is "~". A relative path would lead into the working directory, where a clone could
    # contain a configuration and a list of trusted directories that pass for the user's own.
    return found if os.path.isabs(found) else os.path.abspath(os.sep)


def user_file(environ: Mapping[str, str]) -> str:
    """Return the path of the user's configuration file, whether or not it exists."""
    return os.path.join(_user_directory(environ, "XDG_CONFIG_HOME", ".config", "APPDATA"), "config.toml")


def trust_store(environ: Mapping[str, str]) -> str:
    """Return the directory of the records of what the user trusts."""
    directory = _user_directory(environ, "XDG_STATE_HOME", os.path.join(".local", "state"), "LOCALAPPDATA")
    return os.path.join(directory, "trusted")


def cache_directory(environ: Mapping[str, str]) -> str:
    """Return the directory for data that can be rebuilt."""
    return os.path.join(_user_directory(environ, "XDG_CACHE_HOME", ".cache", "LOCALAPPDATA"), "kept")


def state_directory(environ: Mapping[str, str]) -> str:
    """Return the directory of saved conversations."""
    return os.path.join(_user_directory(environ, "XDG_STATE_HOME", ".local/state", "LOCALAPPDATA"), "sessions")


def quarantine_directory(environ: Mapping[str, str]) -> str:
    """Return the directory of the protected files that commands have created."""
    if not os.path.isabs(environ.get("XDG_STATE_HOME", "")) and not os.path.isdir(home(environ)):
        return temporary_place("quarantine")  # for users without a home, as of services
    return os.path.join(os.path.dirname(state_directory(environ)), "quarantine")


def _user_directory(environ: Mapping[str, str], xdg: str, fallback: str, windows: str) -> str:
    base = environ.get(windows if sys.platform == "win32" else xdg, "")
    if not os.path.isabs(base):  # the XDG specification says to ignore a relative path
        base = os.path.join(home(environ), fallback)
    return os.path.join(base, "onhand")


def find(
    start: str,
    environ: Mapping[str, str],
    warnings: list[str],
    read_record: Callable[[str], TrustRecord | None] = lambda directory: None,
) -> File | None:
    """Return the configuration file of the nearest directory, from `start` upwards, that has one.

    Where `read_record` returns what the user trusts of a directory, that is the content of its file, even if it was
    changed or deleted. Otherwise raise ConfigError if the directory has two files.
    """
    for directory in _upwards(start, home(environ)):
        if (record := read_record(directory)) is not None:
            if trusted := _trusted_file(directory, record, warnings):
                return trusted
            continue
        own = _own_files(directory)
        if directory != start and _is_planted(directory, own, start, warnings):
            continue
        shared = _read_shared(os.path.join(directory, SHARED_FILE), warnings)
        paths = own + ([shared.path] if shared else [])
        if len(paths) > 1:
            raise ConfigError(f"{' and '.join(paths)} both configure {directory}: keep one of them")
        if paths:
            return shared or read(paths[0])
    return None


def _trusted_file(directory: str, record: TrustRecord, warnings: list[str]) -> File | None:
    """Return the settings file of a directory with its trusted content, and warn if that differs from the present."""
    from onhand.trust import describe_change

    present, reason = None, ""
    names = [os.path.relpath(path, directory) for path in _own_files(directory)]
    try:
        if shared := _read_shared(os.path.join(directory, SHARED_FILE), warnings):
            names.append(SHARED_FILE)
        if names == [record.file]:
            present = shared or read(os.path.join(directory, record.file))
    except ConfigError as error:
        reason = str(error)
    if present and present.table == record.settings:
        return present._replace(table=record.settings)
    changes = dict.fromkeys(names, "has appeared")
    if record.file:
        changes[record.file] = "has changed" if record.file in names else "has disappeared"
    if reason:
        changes[record.file or SHARED_FILE] = f"has become unusable ({reason})"
    for name, change in changes.items():
        warnings.append(describe_change(os.path.join(directory, name), change, directory))
    name = record.file or next(iter(names), "")
    return File(os.path.join(directory, name), record.settings, {}) if name else None


def is_foreign(path: str, start: str) -> bool:
    """Return whether a path above `start` belongs to someone other than the user, root and the owner of `start`.

    In a shared directory such as /tmp, anyone can create a file above the projects of others.
    """
    if not hasattr(os, "geteuid"):  # Windows
        return False
    try:
        return os.lstat(path).st_uid not in (os.geteuid(), 0, os.stat(start).st_uid)
    except OSError:  # it does not exist, or is not accessible
        return False


def _is_planted(directory: str, own: list[str], start: str, warnings: list[str]) -> bool:
    above = {os.path.dirname(path) for path in own} - {directory}
    for path in (*above, *own, os.path.join(directory, SHARED_FILE)):
        if is_foreign(path, start):
            warnings.append(f"{path} is ignored because another user created it; to use it, work in {directory}")
            return True
    return False


def files_in(directory: str) -> list[str]:
    """Return the files that configure this directory itself."""
    shared = _read_shared(os.path.join(directory, SHARED_FILE), [])
    return _own_files(directory) + ([shared.path] if shared else [])


def _own_files(directory: str) -> list[str]:
    return [path for name in OWN_FILES if os.path.lexists(path := os.path.join(directory, name))]


def _upwards(start: str, stop: str) -> Iterator[str]:
    """Yield `start` and the directories above it; the home directory only if the search begins there."""
    stops = {stop, os.path.realpath(stop)}
    directory = start
    while True:
        yield directory
        above = os.path.dirname(directory)
        if directory in stops or above == directory or above in stops:
            return
        directory = above


def read(path: str) -> File:
    """Read an onhand configuration file."""
    text = _decode(path, _read_bytes(path))
    return File(path, _parse(path, text), _find_lines(text, ""))


def _read_shared(path: str, warnings: list[str]) -> File | None:
    """Read our table in pyproject.toml, if there is one; other errors in the file are only warnings."""
    if not os.path.lexists(path):
        return None
    try:
        data = _read_bytes(path)
    except ConfigError as error:
        warnings.append(f"{error}; assuming that it has no [{SHARED_TABLE}]")
        return None
    if b"onhand" not in data:  # most Python projects need not be parsed
        return None
    try:
        text = _decode(path, data)
        tools = _parse(path, text).get("tool")
    except ConfigError as error:
        if SHARED_TABLE.encode() in data:
            raise
        warnings.append(f"{error}; assuming that it has no [{SHARED_TABLE}]")
        return None
    table = tools.get("onhand") if isinstance(tools, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {SHARED_TABLE} is not a table: write [{SHARED_TABLE}.context]")
    return File(path, table, _find_lines(text, SHARED_TABLE + "."))


def _read_bytes(path: str) -> bytes:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): fix or remove it") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes: shorten it")
    return data


def _decode(path: str, data: bytes) -> str:
    try:
        return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8: save the file as UTF-8") from None


def _parse(path: str, text: str) -> dict[str, Any]:
    import tomllib

    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MAX_DOTS_PER_LINE:
            raise ConfigError(f"{path}:{number}: more than {MAX_DOTS_PER_LINE} dots in a line: split the line")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML: nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, and a number with too many digits
        problem, _, place = str(error).removesuffix(")").rpartition(" (at line ")
        line, _, column = place.partition(", ")
        if not problem:  # no line, or "(at end of document)"
            raise ConfigError(f"{path}: not valid TOML: {error}") from None
        raise ConfigError(f"{path}:{line}: not valid TOML: {problem} ({column})") from None


def _find_lines(text: str, prefix: str) -> dict[str, int]:
    """Return the line of each key in the usual notation; tomllib does not report lines."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("["):
            section = line.partition("]")[0].replace("[", "").strip() + "."
        elif "=" in line:
            key = section + line.partition("=")[0].strip()
            if key.startswith(prefix):
                lines.setdefault(key.removeprefix(prefix), number)
    return lines
