"""How are many files read, one after the other? Their directory is held open: the next one is most often in it too.

No link is followed on the way to it nor in it; a directory that is moved meanwhile is still the one that was found. It
asks no rules: whoever names the files has asked them.
"""

import os

from onhand.actions.beneath import DIRECTORY, FILE, NOFOLLOW
from onhand.actions.files import MAX_FILE_BYTES
from onhand.actions.workspace import Place, Root, open_place
from onhand.regular import read_whole

_FLAGS = FILE | NOFOLLOW


class InTurn:
    """Reads files in turn, until it is left."""

    def __init__(self) -> None:
        self._root: Root | None = None
        self._directory = ""
        self._number = -1

    def content(self, place: Place) -> bytes:
        """The bytes of a file at one moment; an OSError if it is none, cannot be read, or has too many."""
        directory, _, name = place.inner.rpartition("/")
        if directory != self._directory or place.root is not self._root:
            self._hold(place.root, directory)
        number = os.open(name, _FLAGS, dir_fd=self._number)
        try:
            return read_whole(number, MAX_FILE_BYTES)
        finally:
            os.close(number)

    def _hold(self, root: Root, directory: str) -> None:
        self._let_go()
        self._number = open_place(Place(root, directory), DIRECTORY)
        self._root, self._directory = root, directory

    def _let_go(self) -> None:
        if self._root is not None:
            self._root = None
            os.close(self._number)

    def __enter__(self) -> "InTurn":
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()
