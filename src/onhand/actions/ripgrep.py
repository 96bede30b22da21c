"""Which files may have a match? ripgrep knows quickly, and only that: what it names is looked at again.

It opens paths as it finds them, where a race may lead it anywhere. Nothing that it reads is shown to anybody.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import inf
from typing import NamedTuple

from onhand.actions.files import MAX_FILE_BYTES
from onhand.actions.pattern import Pattern
from onhand.actions.programs import Program
from onhand.actions.tree import MAX_DEPTH, Scope, rank, unranked
from onhand.actions.workspace import Place

MAX_NAMED_BYTES = 32 * 1024 * 1024  # of the paths that it names
PIECE_BYTES = 64 * 1024

# Its own settings would be those of whoever set this machine up; what is ignored is what tree.py ignores.
_OPTIONS = (
    *("--no-config", "--files-with-matches", "--null", "--no-messages", "--color=never", "--no-follow"),
    *("--text", "--encoding=none", "--no-require-git", "--no-ignore-global", "--no-ignore-exclude"),
    *("--no-ignore-parent", "--no-ignore-dot", "--glob=!.git", f"--max-depth={MAX_DEPTH}"),
    f"--max-filesize={MAX_FILE_BYTES}",
)


class Named(NamedTuple):
    """What ripgrep named."""

    places: Iterator[Place]  # in the order of a walk
    is_late: bool  # the time was too short to find all
    is_whole: bool  # nothing was in the way that it could not read


class Naming:
    """ripgrep at work in a scope, until it is over. Whoever leaves it ends it."""

    def __init__(self, program: str, scope: Scope, pattern: Pattern, names: Sequence[str], timeout_s: float) -> None:
        """Look for files that may have a match, of such names if some are given."""
        command = [program, *_OPTIONS, *["--hidden"] * scope.hidden, *["--ignore-case"] * pattern.ignore_case]
        command += ["--fixed-strings"] * pattern.literal
        command += [f"--type-add=onhand:{name}" for name in names] + ["--type=onhand"] * bool(names)
        command += [f"--regexp={pattern.for_ripgrep}", "--", f"./{scope.start.inner}"]
        environment = {"LC_ALL": "C.UTF-8", "PATH": os.defpath}
        self._root = scope.start.root
        self._program = Program(command, self._root.path, environment, timeout_s)
        self._pipe = self._program.stdout.fileno()
        self._said = bytearray()
        self._count = 0
        self.is_over = False
        self.could_tell = True

    def wait(self, enough: float = inf) -> None:
        """Wait until it is over, or has named more files than that."""
        os.set_blocking(self._pipe, True)
        while not self.is_over and self._count <= enough:
            self._take(os.read(self._pipe, PIECE_BYTES))
        os.set_blocking(self._pipe, False)

    def look(self) -> None:
        """Take what it has said meanwhile, for whoever waited before."""
        with suppress(BlockingIOError):
            self._take(os.read(self._pipe, PIECE_BYTES))

    def named(self, after: Place | None) -> Named | None:
        """All that it named, once it is over, from behind a place on; None when it could not tell."""
        if len(self._said) > MAX_NAMED_BYTES:
            self._program.end()
        ran = self._program.ended()
        # 1: nothing matches. 2: a file could not be read, of which it says nothing, or the pattern is too large for it.
        self.could_tell = ran.is_late or (ran.code in (0, 1, 2) and not ran.err)
        if not self.could_tell:
            return None
        *names, _ = bytes(self._said).split(b"\0")
        ranks = sorted(rank(name.removeprefix(b"./")) for name in names)
        rest = ranks[bisect_right(ranks, rank(os.fsencode(after.inner))) :] if after else ranks
        return Named((Place(self._root, os.fsdecode(unranked(one))) for one in rest), ran.is_late, ran.code != 2)

    def _take(self, piece: bytes) -> None:
        self._said += piece
        self._count += piece.count(0)
        self.is_over = not piece or len(self._said) > MAX_NAMED_BYTES

    def __enter__(self) -> "Naming":
        return self

    def __exit__(self, *_: object) -> None:
        self._program.__exit__()
