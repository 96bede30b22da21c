"""Which files of a tree are closed by their names? A look at all of it, shortened by what is known from the last one.

Every command waits for it, so a directory is read again only when it has changed. It changes nothing, and does not know
what is done about what it finds.
"""

import os
import stat
from functools import lru_cache
from typing import NamedTuple

from onhand.closed import NOTHING, Closed, Patterns
from onhand.errors import SandboxError
from onhand.sandbox.policy import PROTECTED_NAMES, REPOSITORIES, SECRET_DIRECTORY, is_secret_name
from onhand.settled import directory_stamp

MAX_LOOKED_AT = 1_000_000  # entries: a second or two, and a tenth of it once they are known
SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox", "target"})


class Entry(NamedTuple):
    """Something that has a name of interest."""

    path: str
    is_link: bool


class Found(NamedTuple):
    """What there is of interest, in a directory or in a tree."""

    secrets: tuple[Entry, ...]
    protected: tuple[Entry, ...]
    repositories: tuple[Entry, ...]  # below a root


class _Directory(NamedTuple):
    stamp: tuple[int, ...]
    found: Found
    directories: tuple[str, ...]  # to be looked into
    size: int


def look(root: str, within: str = "", closed: Closed = NOTHING) -> Found:
    """What has the name of a secret or of something protected below a root, which may be `within` a project.

    SandboxError when there is too much to look at: what was left out could be read, and a command can make files.
    """
    return _tree(root, within, closed).look()


@lru_cache(8)
def _tree(root: str, within: str, closed: Closed) -> "_Tree":
    return _Tree(root, within, closed)


class _Tree:
    """A root under some rules, and what is known of its directories."""

    def __init__(self, root: str, within: str, closed: Closed) -> None:
        self._root = root
        self._within = within
        self._denied, self._protected, self._allowed = map(Patterns, closed)
        self._has_patterns = bool(closed.deny or closed.protect)
        self._known: dict[str, _Directory] = {}

    def look(self) -> Found:
        known, looked_at = dict[str, _Directory](), 0
        parts = [self._itself()]
        waiting = [self._root]
        while waiting:
            path = waiting.pop()
            now = directory_stamp(path)
            if now is None:
                continue
            directory = self._known.get(path)
            if directory is None or directory.stamp != now:
                directory = self._read(path, now)
            if directory is None:  # a command could open it again: what cannot be looked into is closed as a whole
                parts.append(Found((Entry(path, False),), (), ()))
                continue
            if now:
                known[path] = directory
            parts.append(directory.found)
            waiting += directory.directories
            looked_at += directory.size
            if looked_at > MAX_LOOKED_AT:
                raise SandboxError(
                    f"{self._root} has more than {MAX_LOOKED_AT:,} files to look at for secrets: "
                    "let commands work in a smaller directory (workspace.root), or clear this one up"
                )
        self._known = known
        return Found(*(tuple(entry for part in parts for entry in part[kind]) for kind in range(3)))

    def _itself(self) -> Found:
        """The root, where rules about the project close all of it."""
        itself = (Entry(self._root, False),)
        is_open = not self._within or self._allowed.cover(self._within)
        return Found(
            () if is_open or not self._denied.cover(self._within) else itself,
            () if is_open or not self._protected.cover(self._within) else itself,
            (),
        )

    def _read(self, path: str, stamp: tuple[int, ...]) -> _Directory | None:
        entries = _entries(path)
        if entries is None:
            return None
        secrets, protected, repositories, directories = list[Entry](), list[Entry](), list[Entry](), list[str]()
        for entry in entries:
            name = entry.name.casefold()
            is_directory = entry.is_dir(follow_symlinks=False)
            is_secret = name in SECRET_DIRECTORY if is_directory else is_secret_name(name)
            is_protected = name in PROTECTED_NAMES
            if self._has_patterns:
                is_secret = is_secret or self._is_among(self._denied, entry.path)
                is_protected = is_protected or self._is_among(self._protected, entry.path)
            is_repository = name in REPOSITORIES and path != self._root
            if (is_secret or is_protected or is_repository) and not self._is_open(entry):
                found = Entry(entry.path, entry.is_symlink())
                secrets += [found] if is_secret else []
                protected += [found] if is_protected else []
                repositories += [found] if is_repository else []
                if is_secret:
                    continue
            if is_directory and entry.name not in SKIPPED:
                directories.append(entry.path)
        found_here = Found(tuple(secrets), tuple(protected), tuple(repositories))
        return _Directory(stamp, found_here, tuple(directories), len(entries))

    def _is_open(self, entry: "os.DirEntry[str]") -> bool:
        """Whether what has such a name is no matter: it is allowed, or a socket, which only holds a place."""
        try:
            is_socket = stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
        except OSError:  # it has just gone
            return True
        return is_socket or self._is_among(self._allowed, entry.path, above=True)

    def _is_among(self, patterns: Patterns, path: str, above: bool = False) -> bool:
        """Whether patterns match a path as it is called below the root, or below the project."""
        inner = path[len(self._root) :].strip("/")
        paths = (inner, f"{self._within}/{inner}") if self._within else (inner,)
        return any(map(patterns.cover if above else patterns.match, paths))


def _entries(path: str) -> "list[os.DirEntry[str]] | None":
    """What is in a directory; None if that is not told."""
    try:
        return list(os.scandir(path)) if os.access(path, os.R_OK | os.X_OK) else None
    except FileNotFoundError:
        return []
    except OSError:
        return None
