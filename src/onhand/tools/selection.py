"""Which tools stay active from one session to the next? Their ids in a small JSON file, written whole or not at all."""

import json
from collections.abc import Collection

from onhand.errors import StoreError
from onhand.regular import open_file

MAX_FILE_BYTES = 1024 * 1024
MAX_IDS = 10_000


def read(path: str) -> tuple[str, ...]:
    """The ids in the order in which they were chosen; none where there is no file."""
    try:
        with open_file(path) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        why = getattr(error, "strerror", None) or error
        raise StoreError(f"{path!r} cannot be read ({why}): make it readable, or name another file") from None
    try:
        ids = json.loads(raw)["tools"] if len(raw) <= MAX_FILE_BYTES else None
    except (ValueError, TypeError, KeyError, RecursionError):
        ids = None
    if not isinstance(ids, list) or len(ids) > MAX_IDS or not all(isinstance(id, str) for id in ids):
        raise StoreError(f"{path} is no list of activated tools: name another file, or delete it and activate anew")
    return tuple(dict.fromkeys(ids))


def change(path: str, add: Collection[str] = (), remove: Collection[str] = ()) -> None:
    """Add and remove ids; two sessions that do so at once lose nothing."""
    from onhand.replace import replace_file
    from onhand.store.files import locked

    try:
        with locked(f"{path}.lock"):
            before = read(path)
            ids = tuple(dict.fromkeys(id for id in (*before, *add) if id not in remove))[-MAX_IDS:]
            if ids != before:
                replace_file(path, (json.dumps({"tools": list(ids)}, indent=2) + "\n").encode("ascii"))
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror or 'another process keeps its lock'}): make its directory "
            "writable, or name another file"
        ) from None
