"""How are many files read, one after the other? The directories on the way are held open: the next file is most often
in one of them, or below one.

No link is followed on the way to it nor in it; a directory that is moved meanwhile is still the one that was found. It
asks no rules: whoever names the files has asked them.
"""

import os
from math import inf
from time import monotonic
from typing import NamedTuple

from onhand.actions.beneath import DIRECTORY, FILE, NOFOLLOW, parts_of
from onhand.actions.files import MAX_FILE_BYTES
from onhand.actions.workspace import Place, Root
from onhand.regular import read_with_status
from onhand.settled import is_settled

_FLAGS = FILE | NOFOLLOW


class _Held(NamedTuple):
    """A directory that is held open."""

    inner: str  # its path below the root
    number: int


class InTurn:
    """Reads files in turn, until it is left."""

    def __init__(self) -> None:
        self._root: Root | None = None
        self._held: list[_Held] = []  # the root, and each that is on the way to the last file
        self._changed_ns = 0  # when the last file changed
        self._way_changed_ns = 0  # when one of the directories did, as they were when they were looked at
        self._looked_at = -inf

    def content(self, place: Place) -> bytes:
        """The bytes of a file at one moment; an OSError if it is none, cannot be read, or has too many."""
        directory, _, name = place.inner.rpartition("/")
        if place.root is not self._root or directory != self._held[-1].inner:
            self._hold(place.root, directory)
        number = os.open(name, _FLAGS, dir_fd=self._held[-1].number)
        try:
            content, status = read_with_status(number, MAX_FILE_BYTES)
        finally:
            os.close(number)
        self._changed_ns = status.st_ctime_ns
        return content

    def was_same(self, since_ns: int, until: float) -> bool:
        """Whether all the time from a moment of the system's clock until one of the monotonic clock, the path of the
        file that was read last led to it, and the same was in it."""
        if self._looked_at <= until:
            self._looked_at = monotonic()
            self._way_changed_ns = max(os.fstat(held.number).st_ctime_ns for held in self._held)
        return is_settled(max(self._way_changed_ns, self._changed_ns), since_ns)

    def _hold(self, root: Root, directory: str) -> None:
        self._looked_at = -inf
        if root is not self._root:
            self._let_go()
            self._held.append(_Held("", os.open(root.path, DIRECTORY)))
            self._root = root
        while not f"{directory}/".startswith(self._below()):
            os.close(self._held.pop().number)
        if rest := directory[len(self._below()) :]:
            for part in parts_of(rest):
                number = os.open(part, DIRECTORY | NOFOLLOW, dir_fd=self._held[-1].number)
                self._held.append(_Held(self._below() + part, number))

    def _below(self) -> str:
        """What the path of everything in the last directory begins with."""
        inner = self._held[-1].inner
        return f"{inner}/" if inner else ""

    def _let_go(self) -> None:
        self._root = None
        while self._held:
            os.close(self._held.pop().number)

    def __enter__(self) -> "InTurn":
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()
