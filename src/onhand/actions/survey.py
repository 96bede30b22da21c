"""Which directories are meant, and does ripgrep see in them what we see? A look into each, following no link.

ripgrep says nothing of directories that are too deep, and reads some `.gitignore` files otherwise than git does. A look
at directories alone takes a fraction of its time.
"""

import os
from collections.abc import Iterator
from itertools import islice
from time import monotonic

from onhand import wanted
from onhand.actions.beneath import LISTED, NOFOLLOW
from onhand.actions.tree import MAX_ENTRIES, Gaps, Scope, is_too_deep
from onhand.actions.workspace import Place, open_place
from onhand.gitignore import NAME


class Survey:
    """A look into the directories of a scope. Whoever goes through it can do something else after each."""

    def __init__(self, scope: Scope, ends_at: float) -> None:
        """It ends at a moment of the monotonic clock."""
        self._scope = scope
        self._ends_at = ends_at
        self._room = MAX_ENTRIES
        self.directories: list[str] = []  # by their paths below the root
        self.is_clear = True  # ripgrep looks into the same: it reads their `.gitignore` files as we do
        self.is_over = False
        self.gaps = Gaps()

    def __iter__(self) -> Iterator[None]:
        start = self._scope.start
        try:
            number = open_place(start, LISTED)
        except OSError:
            self.gaps.skipped += 1
        else:
            yield from self._below(start, number, 1)
        self.is_over = True

    def _below(self, place: Place, number: int, depth: int) -> Iterator[None]:
        """Look into a directory that is open, and those in it; it is closed then."""
        try:
            names = self._names(place, number)
            yield
            for name in names:
                below = place.below(name)
                if not self._scope.enters(below) or self._is_late():
                    continue
                if is_too_deep(below, depth):
                    self.is_clear = False
                    self.gaps.skipped += 1
                    continue
                try:
                    lower = os.open(name, LISTED | NOFOLLOW, dir_fd=number)
                except OSError:  # it may not be read, or went away
                    self.gaps.skipped += 1
                else:
                    yield from self._below(below, lower, depth + 1)
        finally:
            os.close(number)

    def _names(self, place: Place, number: int) -> list[str]:
        """The directories in a directory."""
        try:
            with os.scandir(number) as entries:
                found = {entry.name: entry for entry in islice(entries, self._room + 1)}
        except OSError:
            self.gaps.skipped += 1
            return []
        self._room -= len(found)
        if self._room < 0:
            self.gaps.is_cut = True
            return []
        self.directories.append(place.inner)
        self._note(place, found.get(NAME))
        return [name for name, entry in found.items() if entry.is_dir(follow_symlinks=False)]

    def _note(self, place: Place, file: "os.DirEntry[str] | None") -> None:
        """Take note of the `.gitignore` file of a directory, or that there is none."""
        ignored = self._scope.ignored
        if file is None:
            ignored.has_none(place.inner)
        elif not (file.is_file(follow_symlinks=False) and ignored.said_in(place.inner).is_clear):
            self.is_clear = False

    def _is_late(self) -> bool:
        wanted.check()
        self.gaps.is_late = self.gaps.is_late or monotonic() > self._ends_at
        return self.gaps.is_late
