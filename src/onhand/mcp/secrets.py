"""Secrets of servers, in a file of the user's that only the owner can read; entries refer to them as `${secret:NAME}`.

They are kept apart from the list of servers, so that the list can be compared, shared and committed.
"""

import json
import os
import re
from collections.abc import Collection

from onhand.errors import ConfigError
from onhand.fsio import describe_fault, make_directories, open_regular, write_atomic

PREFIX = "secret:"
MAX_FILE_BYTES = 1024 * 1024
_REFERENCE = re.compile(r"\$\{secret:([A-Za-z0-9_-]+)")


def read_secrets(path: str) -> dict[str, str]:
    """Return the stored secrets as variables, by names such as `secret:github-token`."""
    return {f"{PREFIX}{name}": value for name, value in _read(path).items()}


def store_secret(path: str, name: str, value: str) -> str:
    """Store a secret, and return the text that stands for it in an entry."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "secret"
    _write(path, {**_read(path), name: value})
    return f"${{{PREFIX}{name}}}"


def delete_secrets(path: str, names: Collection[str]) -> None:
    """Delete stored secrets by their names."""
    before = _read(path) if names else {}
    after = {name: value for name, value in before.items() if name not in names}
    if after != before:
        _write(path, after)


def find_references(text: str) -> set[str]:
    """Return the names of the secrets that a text refers to."""
    return set(_REFERENCE.findall(text))


def _write(path: str, content: dict[str, str]) -> None:
    try:
        make_directories(os.path.dirname(path), 0o700)
        write_atomic(path, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode(), mode=0o600)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {describe_fault(error)}") from None


def _read(path: str) -> dict[str, str]:
    try:
        with open_regular(path) as file:
            content = json.loads(file.read(MAX_FILE_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}). Make it readable.") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not all(isinstance(value, str) for value in content.values()):
        raise ConfigError(f"{path} is not a JSON object of strings. Repair or delete it.")
    return content
