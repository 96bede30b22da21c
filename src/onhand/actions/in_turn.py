"""How are many files read, one after the other? Their directory is held open: the next one is most often in it too.

It asks no rules: whoever names the files has asked them.
"""

import os

from onhand.actions.beneath import DIRECTORY, FILE, NOFOLLOW
from onhand.actions.files import MAX_FILE_BYTES
from onhand.actions.workspace import Place, open_place
from onhand.regular import read_whole


class InTurn:
    """Reads files in turn, until it is left."""

    def __init__(self) -> None:
        self._directory: Place | None = None
        self._number = -1

    def content(self, place: Place) -> bytes:
        """The bytes of a file at one moment; an OSError if it is none, cannot be read, or has too many."""
        directory, _, name = place.inner.rpartition("/")
        if self._directory is None or self._directory.inner != directory or self._directory.root is not place.root:
            self._hold(Place(place.root, directory))
        number = os.open(name, FILE | NOFOLLOW, dir_fd=self._number)
        try:
            return read_whole(number, MAX_FILE_BYTES)
        finally:
            os.close(number)

    def _hold(self, directory: Place) -> None:
        self._let_go()
        self._number = open_place(directory, DIRECTORY)
        self._directory = directory

    def _let_go(self) -> None:
        if self._directory is not None:
            self._directory = None
            os.close(self._number)

    def __enter__(self) -> "InTurn":
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()
