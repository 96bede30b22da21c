"""Where is what was learned of files kept between two processes? In files that may be lost at any time.

They are the user's alone, and none lies in a project: a clone could bring one that says what nobody wrote. One that is
not as it was written, or that another user could have written, counts for nothing.
"""

from __future__ import annotations

import os
import stat
import sys

from onhand.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FORMAT = 4  # changes with what a corpus makes of the same file, or how that is kept
UNUSED_S = 90 * 24 * 3600  # after which a file is deleted
NOTED_S = 24 * 3600  # how exactly it is known when a file was last used
DIGEST_CHARS = 32


def kept_at(directory: str, name: str, *settings: object) -> str:
    """The file for what a corpus learns under these settings."""
    # What is kept is spelt as this Python spells it, which another may not read.
    key = repr((FORMAT, sys.implementation.cache_tag, settings))
    return os.path.join(directory, f"{name}-{digest(key.encode('utf-8', 'replace'))}.kept")


def load(path: str) -> Any:
    """What was kept; None if there is nothing that can be used."""
    import marshal
    import time

    try:
        status = os.lstat(path)
        if not (stat.S_ISREG(status.st_mode) and _is_ours(status) and _is_ours(os.stat(os.path.dirname(path)))):
            return None  # a link, a pipe that would hang us, or what another user put there
        with open(path, "rb") as file:
            content = file.read()
        if time.time() - status.st_mtime > NOTED_S:
            os.utime(path)
        if digest(content[DIGEST_CHARS:]).encode() == content[:DIGEST_CHARS]:
            return marshal.loads(memoryview(content)[DIGEST_CHARS:])  # noqa: S302  # of our own writing
    except (OSError, ValueError, EOFError, TypeError):
        pass
    return None


def save(path: str, learned: Any) -> bool:
    """Keep what was learned, whole or not at all; whether that was possible."""
    import marshal

    temporary = f"{path}.{os.getpid()}"
    try:
        content = marshal.dumps(learned)
        if not os.path.lexists(path):
            _make_ready(os.path.dirname(path))
        if not _is_ours(os.stat(os.path.dirname(path))):
            return False
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
        with open(descriptor, "wb") as file:
            file.write(digest(content).encode())
            file.write(content)
        os.replace(temporary, path)
    except (OSError, ValueError):
        _remove(temporary)
        return False
    return True


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody else can have put there what is there."""
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _make_ready(directory: str) -> None:
    """Make the directory, and delete from it what nobody has used for long, if it is ours alone."""
    import time

    os.makedirs(directory, mode=0o700, exist_ok=True)
    if not _is_ours(os.stat(directory)):
        return
    oldest = time.time() - UNUSED_S
    with os.scandir(directory) as entries:
        unused = [entry.path for entry in entries if entry.is_file() and entry.stat().st_mtime < oldest]
    for path in unused:
        _remove(path)


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        return  # somebody else did, or nobody may
