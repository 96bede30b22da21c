"""Where does a cache live between runs? In one file, which is replaced whole or not at all.

Its owner alone can read it: answers may be private. Several processes may use one file; the last to write wins, and
what the others found since they began is found again when it is asked for.
"""

import json
import os
from typing import TYPE_CHECKING, Any

from onhand.errors import InputError, StoreError
from onhand.memory.cache import SemanticCache
from onhand.regular import open_file
from onhand.replace import replace_file

if TYPE_CHECKING:
    from onhand.embed.embedder import Embedder

VERSION = 1
MODE = 0o600
MAX_BYTES = 1024 * 1024 * 1024


def open_cache(
    path: str | os.PathLike[str], embedder: "Embedder | None" = None, *, auto_persist: bool = False, **options: Any
) -> SemanticCache:
    """The cache of a file, which is written by `persist` and `close` and, with `auto_persist`, after each change.

    `options` are those of SemanticCache. A file that cannot be read is a StoreError, and stays as it is.
    """
    path = os.path.realpath(path)

    def write(entries: list[dict[str, Any]]) -> None:
        _write(path, entries)

    try:
        return SemanticCache(
            embedder, on_persist=write, initial_entries=_entries(path), auto_persist=auto_persist, **options
        )
    except InputError as error:
        if "cached entry" not in str(error):  # the caller's options, and not the file
            raise
        raise StoreError(f"{path}: {error}; delete the file to begin anew") from None


def _entries(path: str) -> list[Any]:
    try:
        file = open_file(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): change its permissions, or name another") from None
    with file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise StoreError(f"{path} has more than {MAX_BYTES // 2**20} MiB: delete it, or name another one")
        try:
            content = json.load(file)
        except (ValueError, RecursionError):
            content = None
    if not isinstance(content, dict) or not isinstance(content.get("entries"), list):
        raise StoreError(f"{path} is no file of a cache, and was left as it is: delete it, or name another one")
    if content.get("onhand_cache") != VERSION:
        raise StoreError(f"{path} was written by another version of onhand: delete it, or name another one")
    entries: list[Any] = content["entries"]
    return entries


def _write(path: str, entries: list[dict[str, Any]]) -> None:
    data = json.dumps({"onhand_cache": VERSION, "entries": entries}).encode()
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, data, MODE)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror}): make room, or make its directory writable"
        ) from None
