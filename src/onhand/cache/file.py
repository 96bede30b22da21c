"""A semantic cache in a file, which is always replaced as a whole.

Only its owner can read the file, because answers may be private. Several processes may use one file: the last to write
wins, and what the others had computed since they started is computed again when it is needed.
"""

import json
import os
from functools import partial
from typing import Any

from onhand.cache.cache import SemanticCache
from onhand.embed.embedder import Embedder
from onhand.errors import InputError, StoreError
from onhand.fsio import open_regular, write_atomic

FORMAT = 2
MODE = 0o600
MAX_BYTES = 1024 * 1024 * 1024


def open_cache(
    path: str | os.PathLike[str], embedder: Embedder | None = None, *, auto_persist: bool = False, **options: Any
) -> SemanticCache:
    """Open the cache in a file, which `persist` and `close` write and, with `auto_persist`, every change.

    `options` are those of SemanticCache. A file that cannot be read raises a StoreError and is left unchanged.
    """
    path = os.path.realpath(path)
    try:
        return SemanticCache(
            embedder,
            on_persist=partial(_write_entries, path),
            initial_entries=_read_entries(path),
            auto_persist=auto_persist,
            **options,
        )
    except InputError as error:
        if "cached entry" not in str(error):  # the caller's options, not the file
            raise
        raise StoreError(f"{path}: {error}; delete the file to start again") from None


def _read_entries(path: str) -> list[Any]:
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read ({error.strerror}): change its permissions, or use another file"
        ) from None
    with file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise StoreError(f"{path} is larger than {MAX_BYTES // 2**20} MiB: delete it, or use another file")
        try:
            content = json.load(file)
        except (ValueError, RecursionError):
            content = None
    if not isinstance(content, dict) or not isinstance(content.get("entries"), list):
        raise StoreError(f"{path} is not a cache file and was left unchanged: delete it, or use another file")
    if content.get("onhand_cache") != FORMAT:
        raise StoreError(f"{path} was written by another version of onhand: delete it, or use another file")
    entries: list[Any] = content["entries"]
    return entries


def _write_entries(path: str, entries: list[dict[str, Any]]) -> None:
    data = json.dumps({"onhand_cache": FORMAT, "entries": entries}).encode()
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomic(path, data, MODE)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror}): free some space, or make its directory writable"
        ) from None
