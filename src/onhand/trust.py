"""Whose configuration may start programs and reach outside its directory? Where the user said so.

One small JSON file of the user's. A directory is named by its real path, and stands for itself alone: not for
the directories above, beside or below it. Trust is in the directory, not in the text of a file: what the file
says later is trusted too, so trust only what you would run.

Nothing here knows what a configuration is.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from onhand.errors import ConfigError


def trusted(store: str) -> frozenset[str]:
    """The trusted directories; a ConfigError when the store cannot be read: then there are none."""
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
        raise ConfigError(f'{store} is not of the form {{"trusted": ["/a/directory"]}}: repair or delete it')
    return frozenset(directories)


def add(store: str, directory: str) -> None:
    """Trust a directory from now on."""
    with _locked(store):
        _write(store, trusted(store) | {os.path.realpath(directory)})


def remove(store: str, directory: str) -> bool:
    """Trust it no longer; False when it was not trusted."""
    with _locked(store):
        before = trusted(store)
        after = before - {os.path.realpath(directory)}
        if after == before:
            return False
        _write(store, after)
        return True


@contextmanager
def _locked(store: str) -> Iterator[None]:
    """One writer at a time, so that none overwrites what another has just added."""
    try:
        os.makedirs(os.path.dirname(store), mode=0o700, exist_ok=True)
        file = os.open(store + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unwritable(store, error) from None
    try:
        _wait_for(file)
        yield
    finally:
        os.close(file)  # and with it the lock


def _wait_for(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        fcntl.flock(file, fcntl.LOCK_EX)


def _write(store: str, directories: frozenset[str]) -> None:
    """Replace the store at once."""
    import json

    from onhand.replace import replace_file

    text = json.dumps({"trusted": sorted(directories)}, indent=2) + "\n"
    try:
        replace_file(store, text.encode("ascii"))
    except OSError as error:
        raise _unwritable(store, error) from None


def _unwritable(store: str, error: OSError) -> ConfigError:
    return ConfigError(f"{store} cannot be written ({error.strerror}): make its directory writable")
