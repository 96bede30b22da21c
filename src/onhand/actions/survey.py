"""Which directories are meant, and does ripgrep see in them what we see? A look into each.

ripgrep says nothing of directories that are too deep, and reads some `.gitignore` files otherwise than git does. A look
at directories alone takes a fraction of its time, and less where a directory is known from the last look and has not
changed. A race may lead it anywhere: nothing that it sees is shown.
"""

import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from time import monotonic
from typing import NamedTuple

from onhand import wanted
from onhand.actions.beneath import DIRECTORY, LISTED, NOFOLLOW
from onhand.actions.tree import MAX_ENTRIES, Gaps, Scope, is_too_deep
from onhand.actions.workspace import Place
from onhand.gitignore import NAME
from onhand.settled import stamp

MAX_KNOWN = 100_000  # directories of a root, in some 50 MB


class _Listed(NamedTuple):
    """What is in a directory."""

    stamp: tuple[int, ...]
    directories: tuple[str, ...]
    size: int  # of all entries
    has_rules: bool  # something is called `.gitignore`


@lru_cache(8)
def _known_below(root: str) -> dict[str, _Listed]:
    """What was seen in the directories below a root, by their paths."""
    return {}


class Survey:
    """A look into the directories of a scope. Whoever goes through it can do something else after each."""

    def __init__(self, scope: Scope, ends_at: float) -> None:
        """It ends at a moment of the monotonic clock."""
        self._scope = scope
        self._ends_at = ends_at
        self._room = MAX_ENTRIES
        self._known = _known_below(scope.start.root.path)
        self.directories: list[str] = []  # by their paths below the root
        self.is_clear = True  # ripgrep looks into the same: it reads their `.gitignore` files as we do
        self.is_over = False
        self.gaps = Gaps()

    def __iter__(self) -> Iterator[None]:
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        try:
            root = os.open(self._scope.start.root.path, DIRECTORY)
        except OSError:
            self.gaps.skipped += 1
        else:
            try:
                yield from self._below(root)
            finally:
                os.close(root)
        self.is_over = True

    def _below(self, root: int) -> Iterator[None]:
        waiting = [(self._scope.start, 1)]
        while waiting and not self.gaps.is_cut and not self._is_late():
            place, depth = waiting.pop()
            for name in self._directories_in(place, root):
                below = place.below(name)
                if not self._scope.enters(below):
                    continue
                if is_too_deep(below, depth):
                    self.is_clear = False
                    self.gaps.skipped += 1
                else:
                    waiting.append((below, depth + 1))
            yield

    def _directories_in(self, place: Place, root: int) -> tuple[str, ...]:
        try:
            listed = self._listed(place.inner, root)
        except OSError:  # it may not be read, or went away
            self.gaps.skipped += 1
            return ()
        self._room -= listed.size
        if self._room < 0:
            self.gaps.is_cut = True
            return ()
        self.directories.append(place.inner)
        self._note(place.inner, listed.has_rules)
        return listed.directories

    def _listed(self, inner: str, root: int) -> _Listed:
        """What is in a directory. As long as it has not changed, it need not be read again."""
        path = inner or "."
        known = self._known.get(inner)
        if known and known.stamp == stamp(os.stat(path, dir_fd=root, follow_symlinks=False)):
            return known
        number = os.open(path, LISTED | NOFOLLOW, dir_fd=root)
        try:
            stamped = stamp(os.fstat(number))
            with os.scandir(number) as entries:
                found = {entry.name: entry.is_dir(follow_symlinks=False) for entry in islice(entries, self._room + 1)}
        finally:
            os.close(number)
        directories = tuple(name for name, is_directory in found.items() if is_directory)
        listed = _Listed(stamped, directories, len(found), NAME in found)
        if stamped and len(found) <= self._room and len(self._known) < MAX_KNOWN:
            self._known[inner] = listed
        return listed

    def _note(self, directory: str, has_rules: bool) -> None:
        """Take note of the `.gitignore` file of a directory, or that there is none."""
        ignored = self._scope.ignored
        if not has_rules:
            ignored.has_none(directory)
        elif not ignored.said_in(directory).is_clear:
            self.is_clear = False

    def _is_late(self) -> bool:
        wanted.check()
        self.gaps.is_late = self.gaps.is_late or monotonic() > self._ends_at
        return self.gaps.is_late
