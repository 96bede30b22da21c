"""What does a user close in a workspace, and what open? Patterns of .gitignore's form; it looks at no disk.

Both who work for a model are held to the same: the tools for files, and the commands in the sandbox.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from onhand.errors import InputError
from onhand.gitignore import Block, blocks_of, verdict

_WILD = re.compile(r"[*?\[\\]")
# What some file systems pass over in a name, so that `.git` has many spellings: ext4 with folded case, HFS+.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


class Closed(NamedTuple):
    """Besides what is closed to everybody: what is neither read nor written, what is only read, what is open after all.

    Patterns are held against a path below the root that it is in and, if that is in a project, below the project.
    """

    deny: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()

    def checked(self) -> "Closed":
        """The same, if it can be meant; InputError for an exception among what is closed."""
        if exception := next((pattern for pattern in (*self.deny, *self.protect) if pattern.startswith("!")), None):
            raise InputError(f"{exception!r} would open what is closed: to do that, say it in workspace.allow")
        return self


NOTHING = Closed()


class Patterns:
    """Held against paths as they are `folded`. A file may yet become a directory: it counts as one."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._blocks = _compiled(tuple(folded(line).rstrip("/") for line in lines))

    def match(self, path: str) -> bool:
        """Whether a path matches, by itself."""
        return bool(verdict(self._blocks, folded(path), True))

    def cover(self, path: str) -> bool:
        """Whether a path, or a directory that it is in, matches."""
        parts = folded(path).split("/")
        return any(verdict(self._blocks, "/".join(parts[:end]), True) for end in range(1, len(parts) + 1))


def folded(path: str) -> str:
    """A path as patterns are held against it: without regard to case, how letters are composed, and what is unseen."""
    if path.isascii():
        return path.lower()
    from unicodedata import normalize

    return normalize("NFC", _UNSEEN.sub("", path.casefold()))


@lru_cache(32)
def _compiled(lines: tuple[str, ...]) -> tuple[Block, ...]:
    """Between two exceptions the order of patterns means nothing, so they stand by kind: few looks instead of many."""
    runs = (list(run) for _, run in groupby(lines, lambda line: line.startswith("!")))
    return blocks_of([line for run in runs for line in sorted(run, key=lambda line: "/" in line)], few=1)


def literal(patterns: Iterable[str]) -> Iterator[str]:
    """Of some patterns, those that name one path below a root: that can be closed also before it is there."""
    for pattern in patterns:
        path = pattern.rstrip(" ").strip("/")
        if path and not pattern.startswith("#") and not _WILD.search(path) and not {"", ".", ".."} & {*path.split("/")}:
            yield path
