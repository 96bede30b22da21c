"""What the user trusts of each project: the content that `onhand trust` showed, one JSON file for each directory.

A directory is recorded by its real path, and trust does not extend to directories above or below it. A record is a copy
of everything that counted in the project's settings file and its server files. It stays in force, whatever happens to
the files, until the user trusts their new content or revokes the trust.
"""

from __future__ import annotations

import os

from onhand.errors import ConfigError
from onhand.fsio import describe_fault, find_exposed, make_directories, open_regular, sync_directory, write_atomic
from onhand.record import Record
from onhand.text import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class TrustRecord(Record):
    """The trusted content of a project."""

    directory: str  # its real path
    file: str = ""  # the settings file, relative to the directory; "" if there was none
    settings: Mapping[str, Any] = {}  # the content of the settings file
    places: tuple[str, ...] = ()  # the real paths outside the directory that its settings may lead to
    servers: Mapping[str, Any] = {}  # the servers in each server file, by its path in mcp.files


def read_record(store: str, directory: str) -> TrustRecord | None:
    """Return what is trusted of a directory; raise ConfigError if the record cannot be read."""
    path = _record_path(store, directory)
    if not os.path.lexists(path):
        return None
    record = _read(path)
    return record if record.directory == os.path.realpath(directory) else None


def write_record(store: str, record: TrustRecord) -> None:
    """Trust this content from now on, instead of what was trusted of the directory before."""
    import json

    record = record._replace(directory=os.path.realpath(record.directory))
    text = json.dumps(record._asdict(), indent=2, sort_keys=True) + "\n"
    try:
        make_directories(store, 0o700)
        write_atomic(_record_path(store, record.directory), text.encode("ascii"))
    except OSError as error:
        raise _unwritable(store, error) from None


def remove_record(store: str, directory: str) -> bool:
    """Revoke the trust in a directory; return False if it was not trusted."""
    try:
        os.unlink(_record_path(store, directory))
        sync_directory(store)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unwritable(store, error) from None
    return True


def trusted_directories(store: str) -> tuple[str, ...]:
    """Return the trusted directories; raise ConfigError if they cannot be read."""
    try:
        names = os.listdir(store)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"{store} cannot be read ({error.strerror}): repair or delete it") from None
    return tuple(sorted(_read(os.path.join(store, name)).directory for name in names if name.endswith(".json")))


def describe_change(path: str, change: str, directory: str) -> str:
    """Return the warning about a file whose content is not what the user trusted."""
    from shlex import quote

    return (
        f"{path} {change} since you trusted {directory}, so the content that you trusted stays in force; "
        f"to see the difference and trust it, run: onhand trust {quote(directory)}"
    )


def describe_exposure(path: str) -> str:
    """Return the warning about a file that everyone can change."""
    return f"{path} is not trusted because everyone can change it; to fix that, run: {exposure_fix(path)}"


def exposure_fix(path: str) -> str:
    """Return the command after which not everyone can change a file."""
    from shlex import quote

    return f"chmod o-w {quote(find_exposed(path) or path)}"


def _record_path(store: str, directory: str) -> str:
    return os.path.join(store, f"{digest(os.fsencode(os.path.realpath(directory)))}.json")


def _read(path: str) -> TrustRecord:
    import json

    if find_exposed(path):
        raise ConfigError(describe_exposure(path))
    try:
        with open_regular(path) as file:
            content = json.loads(file.read())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): repair or delete it") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{path} is not valid JSON: repair or delete it") from None
    kinds = {"directory": str, "file": str, "settings": dict, "places": list, "servers": dict}
    if (
        not isinstance(content, dict)
        or content.keys() != kinds.keys()
        or not all(isinstance(content[name], kind) for name, kind in kinds.items())
        or not all(isinstance(place, str) for place in content["places"])
    ):
        raise ConfigError(f"{path} is not a record of `onhand trust`: delete it and trust the directory again")
    return TrustRecord(**{**content, "places": tuple(content["places"])})


def _unwritable(store: str, error: OSError) -> ConfigError:
    return ConfigError(f"{store} cannot be written: {describe_fault(error)}")
