"""The directories whose configuration the user trusts, in one small JSON file.

A directory is recorded by its real path, and trust does not extend to directories above or below it. Trust applies to
the directory, not to the content of a file: later changes to its configuration are trusted too, so trust only what you
would run.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from onhand.errors import ConfigError
from onhand.fsio import FileLock, make_directories


def trusted_directories(store: str) -> frozenset[str]:
    """Return the trusted directories; raise ConfigError if the file cannot be read."""
    import json

    try:
        with open(store, "rb") as file:
            content = json.loads(file.read())
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise ConfigError(f"{store} cannot be read ({error.strerror}): repair or delete it") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{store} is not valid JSON: repair or delete it") from None
    directories = content.get("trusted") if isinstance(content, dict) else None
    if not isinstance(directories, list) or not all(isinstance(entry, str) for entry in directories):
        raise ConfigError(f'{store} does not have the form {{"trusted": ["/a/directory"]}}: repair or delete it')
    return frozenset(directories)


def add(store: str, directory: str) -> None:
    """Trust a directory from now on."""
    with _write_lock(store):
        _write(store, trusted_directories(store) | {os.path.realpath(directory)})


def remove(store: str, directory: str) -> bool:
    """Revoke trust in a directory; return False if it was not trusted."""
    with _write_lock(store):
        before = trusted_directories(store)
        after = before - {os.path.realpath(directory)}
        if after == before:
            return False
        _write(store, after)
        return True


@contextmanager
def _write_lock(store: str) -> Iterator[None]:
    """Admit one writer at a time, so that no addition is lost."""
    lock = FileLock(store + ".lock", mode=0o600)
    try:
        make_directories(os.path.dirname(store), 0o700)
        lock.__enter__()
    except OSError as error:
        raise _unwritable_store(store, error) from None
    try:
        yield
    finally:
        lock.__exit__()


def _write(store: str, directories: frozenset[str]) -> None:
    """Replace the file atomically."""
    import json

    from onhand.fsio import write_atomic

    text = json.dumps({"trusted": sorted(directories)}, indent=2) + "\n"
    try:
        write_atomic(store, text.encode("ascii"))
    except OSError as error:
        raise _unwritable_store(store, error) from None


def _unwritable_store(store: str, error: OSError) -> ConfigError:
    return ConfigError(f"{store} cannot be written ({error.strerror}): make its directory writable")
