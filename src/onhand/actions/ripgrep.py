"""Which files may have a match? ripgrep knows quickly, and only that: what it names is looked at again.

It opens paths as it finds them, where a race may lead it anywhere. Nothing that it reads is shown to anybody.
"""

import os
import select
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from typing import NamedTuple

from onhand import wanted
from onhand.actions.files import MAX_FILE_BYTES
from onhand.actions.pattern import Pattern
from onhand.actions.programs import ASK_MS, PIECE_BYTES, Program
from onhand.actions.tree import MAX_DEPTH, Scope, rank, unranked
from onhand.actions.workspace import Place

MAX_NAMED_BYTES = 32 * 1024 * 1024  # of the paths that it names
MAX_ARGUMENT_BYTES = 1024 * 1024  # of the directories that are named to it: half of what Linux lets a program have
EACH_BYTES = 16  # that a directory takes there beside its path

# Its own settings would be those of whoever set this machine up; what is ignored is what tree.py ignores.
_OPTIONS = (
    *("--no-config", "--files-with-matches", "--null", "--no-messages", "--color=never", "--no-follow"),
    *("--encoding=none", "--no-require-git", "--no-ignore-global", "--no-ignore-exclude"),
    *("--no-ignore-parent", "--no-ignore-dot", f"--max-depth={MAX_DEPTH}", f"--max-filesize={MAX_FILE_BYTES}"),
)
_HIDDEN = ("--hidden", "--glob=!.git")  # without the first the second only takes time


class Named(NamedTuple):
    """What ripgrep named."""

    places: Iterator[Place]  # in the order of a walk
    is_late: bool  # the time was too short to find all


class Naming:
    """ripgrep at work in a scope, until it is over. Whoever leaves it ends it."""

    def __init__(self, program: str, scope: Scope, pattern: Pattern, names: Sequence[str], ends_at: float) -> None:
        """Look for files that may have a match, of such names if some are given, until a monotonic moment."""
        command = [program, *_OPTIONS, *_HIDDEN * scope.hidden, *["--ignore-case"] * pattern.ignore_case]
        command += ["--fixed-strings"] * pattern.literal
        command += [f"--type-add=onhand:{name}" for name in names] + ["--type=onhand"] * bool(names)
        self._command = [*command, f"--regexp={pattern.for_ripgrep}"]
        self._root = scope.start.root
        self._ends_at = ends_at
        self.could_tell = True
        self._begin((), [scope.start.inner])

    def _begin(self, options: Sequence[str], directories: Sequence[str]) -> None:
        command = [*self._command, *options, "--", *(f"./{inner}" for inner in directories)]
        environment = {"LC_ALL": "C.UTF-8", "PATH": os.defpath}
        self._program = Program(command, self._root.path, environment, max(0.0, self._ends_at - monotonic()))
        self._pipe = self._program.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._said = bytearray()
        self._told = 0  # bytes of what it said that `news` gave
        self.count = 0  # of the files that it named so far
        self.is_over = False

    def begin_again(self, directories: Sequence[str]) -> None:
        """Look into the files of these directories instead, whatever `.gitignore` files say."""
        self._program.__exit__()
        self.could_tell, self.is_over = False, True
        if sum(len(os.fsencode(inner)) + EACH_BYTES for inner in directories) <= MAX_ARGUMENT_BYTES:
            with suppress(OSError):  # here a program may be told less
                self._begin(("--no-ignore", "--max-depth=1"), directories)
                self.could_tell = True

    def wait(self, enough: float = inf) -> None:
        """Wait until it is over, has named more files than that, or nobody waits for us."""
        says = select.poll()
        says.register(self._pipe, select.POLLIN)
        while not self._has(enough):
            if says.poll(ASK_MS):
                self._take(os.read(self._pipe, PIECE_BYTES))
            wanted.check()

    def _has(self, enough: float) -> bool:
        return self.is_over or self.count > enough

    def look(self) -> None:
        """Take what it has said meanwhile."""
        with suppress(BlockingIOError):
            if not self.is_over:
                self._take(os.read(self._pipe, PIECE_BYTES))

    def named(self, after: Place | None) -> Named | None:
        """All that it named, once it is over, from behind a place on; None when it could not tell."""
        if not self.could_tell:
            return None
        if len(self._said) > MAX_NAMED_BYTES:
            self._program.end()
        ran = self._program.ended()
        # 1: nothing matches. 2: a file could not be read, of which it says nothing, or the pattern is too large for it.
        self.could_tell = ran.is_late or (ran.code in (0, 1, 2) and not ran.err)
        if not self.could_tell:
            return None
        return Named(self.so_far(after), ran.is_late)

    def so_far(self, after: Place | None) -> Iterator[Place]:
        """The files that it has named by now, in the order of a walk, from behind a place on."""
        *names, _ = bytes(self._said).split(b"\0")
        ranks = sorted(rank(name.removeprefix(b"./")) for name in names)
        rest = ranks[bisect_right(ranks, rank(os.fsencode(after.inner))) :] if after else ranks
        return (Place(self._root, os.fsdecode(unranked(one))) for one in rest)

    def news(self) -> list[Place]:
        """The files that it has named since this was asked last."""
        *names, rest = bytes(self._said[self._told :]).split(b"\0")
        self._told = len(self._said) - len(rest)
        return [Place(self._root, os.fsdecode(name.removeprefix(b"./"))) for name in names]

    def _take(self, piece: bytes) -> None:
        self._said += piece
        self.count += piece.count(0)
        self.is_over = not piece or len(self._said) > MAX_NAMED_BYTES

    def __enter__(self) -> "Naming":
        return self

    def __exit__(self, *_: object) -> None:
        self._program.__exit__()
