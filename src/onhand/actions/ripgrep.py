"""Which lines of which files may match? ripgrep knows quickly, and only that: what it names is looked at again.

It opens paths as it finds them, where a race may lead it anywhere. Nothing that it reads is shown to anybody.
"""

import os
import select
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import inf
from time import monotonic, time_ns
from typing import NamedTuple

from onhand import wanted
from onhand.actions.files import MAX_FILE_BYTES
from onhand.actions.pattern import Pattern
from onhand.actions.programs import Program
from onhand.actions.tree import MAX_DEPTH, Scope, rank, unranked
from onhand.actions.workspace import Place

MAX_KEPT_BYTES = 32 * 1024 * 1024  # paths and, as long as half of the room is left, where the lines are
MOST_LINES = 100  # that it tells of a file: one with more is looked through
PIPE_BYTES = 1024 * 1024  # between it and us, where the system lets us: it need not wait while we do something else
LOOK_MS = 1  # it is not listened to all the time: to wake us at every file takes as long as to look into it
# After so long, and twice as long, and so on, see whether it is busy with a file that we would not read; no more once
# there is less time left than it would take to come as far again.
BUSY_S = 0.1
MAX_MEMORY_BYTES = 1024 * 1024 * 1024  # a line of a large file is held in one piece
MAX_ARGUMENT_BYTES = 1024 * 1024  # of the directories that are named to it: half of what Linux lets a program have
EACH_BYTES = 16  # that a directory takes there beside its path

# Its own settings would be those of whoever set this machine up; what is ignored is what tree.py ignores.
_OPTIONS = (
    *("--no-config", "--no-messages", "--color=never", "--no-follow", "--with-filename", "--null", "--heading"),
    *("--line-number", "--byte-offset", "--max-columns=1"),  # where the lines are, and not what is in them
    *("--encoding=none", "--no-require-git", "--no-ignore-global", "--no-ignore-exclude"),
    *("--no-ignore-parent", "--no-ignore-dot", f"--max-depth={MAX_DEPTH}"),
)
# Takes a sixth of its time: it asks for the size of every file.
_NONE_LARGE = (f"--max-filesize={MAX_FILE_BYTES}",)
_NEXT = b"\n\n"  # stands before every file but the first
_HIDDEN = ("--hidden", "--glob=!.git")  # without the first the second only takes time


class Named(NamedTuple):
    """What ripgrep named."""

    places: Iterator[Place]  # in the order of a walk
    is_late: bool  # the time was too short to find all


class _Told:
    """What ripgrep has told: files, and where in them the lines are that may match."""

    def __init__(self, most_lines: int) -> None:
        """Of a file with more lines than that, it may not have told all."""
        self.names: list[bytes] = []  # of the files
        self._most_lines = most_lines
        self._lines: dict[bytes, bytes] = {}  # what was said of each file
        self._last, self._rest = b"", _NEXT  # the file that is spoken of, and what was said of it so far
        self._kept_bytes = 0

    @property
    def is_too_much(self) -> bool:
        return self._kept_bytes + len(self._rest) > MAX_KEPT_BYTES

    def add(self, piece: bytes) -> None:
        """Take what it says next: a file's path, a NUL, its lines, an empty line, and so on with the next file."""
        *parts, self._rest = (self._rest + piece).split(b"\0")
        for part in parts:
            lines, again, warning = part.partition(b"\n./%b: " % self._last)
            if again and _NEXT not in lines + b"\n":  # of a NUL it warns behind the path, where empty lines may be too
                part = warning
            said, _, path = part.partition(_NEXT)
            if self._kept_bytes + len(said) < MAX_KEPT_BYTES // 2:
                self._lines[self._last] = said
                self._kept_bytes += len(said)
            self._last = path.removeprefix(b"./")
            self.names.append(self._last)
            self._kept_bytes += len(self._last)

    def lines(self, name: bytes) -> list[tuple[int, int]] | None:
        """Of each line of a file that may match: its number, and where it starts. None unless it told of all.

        That is known once it speaks of another file: while it speaks of the last one, somebody may have ended it.
        """
        said = self._lines.get(name, b"")
        if said.count(b"\n") >= self._most_lines:
            return None
        try:
            told = (line.split(b":", 2) for line in said.split(b"\n"))
            return [(int(number), int(start)) for number, start, _ in told]
        except ValueError:  # it said nothing yet, or that it found a NUL
            return None


class Naming:
    """ripgrep at work in a scope, until it is over. Whoever leaves it ends it."""

    def __init__(
        self, program: str, scope: Scope, pattern: Pattern, names: Sequence[str], limit: int, ends_at: float
    ) -> None:
        """Look for files that may have a match, of such names if some are given, until a monotonic moment.

        Where a file has more lines than the limit, it need not tell of them.
        """
        command = [program, *_OPTIONS, *_HIDDEN * scope.hidden, *["--ignore-case"] * pattern.ignore_case]
        command += ["--fixed-strings"] * pattern.literal
        command += [f"--type-add=onhand:{name}" for name in names] + ["--type=onhand"] * bool(names)
        self._most_lines = min(limit, MOST_LINES)
        self._command = [*command, f"--max-count={self._most_lines + 1}", f"--regexp={pattern.for_ripgrep}"]
        self._root = scope.start.root
        self._ends_at = ends_at
        self.could_tell = True
        self._where = ["--", f"./{scope.start.inner}"]
        self._sizes = () if os.path.isdir("/proc/self/fd") else _NONE_LARGE
        self._begin()

    def _begin(self) -> None:
        self._told = _Told(self._most_lines)
        self._given = 0  # files, by `news`
        self._busy_s = BUSY_S
        command = [*self._command, *self._sizes, *self._where]
        environment = {"LC_ALL": "C.UTF-8", "PATH": os.defpath}
        self.began_ns = time_ns()
        self.heard_at = self._began_at = monotonic()
        left_s = max(0.0, self._ends_at - self._began_at)
        self._program = Program(command, self._root.path, environment, left_s, MAX_MEMORY_BYTES)
        self._pipe = self._program.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._says = select.poll()
        self._says.register(self._pipe, 0 if _widened(self._pipe) else select.POLLIN)  # 0: to be woken by its end only
        self.is_over = False

    @property
    def count(self) -> int:
        """Of the files that it named so far."""
        return len(self._told.names)

    def begin_again(self, directories: Sequence[str]) -> None:
        """Look into the files of these directories instead, whatever `.gitignore` files say."""
        self._where = ["--no-ignore", "--max-depth=1", "--", *(f"./{inner}" for inner in directories)]
        size = sum(len(os.fsencode(inner)) + EACH_BYTES for inner in directories)
        if size <= MAX_ARGUMENT_BYTES:
            self._begin_anew()
        else:
            self._give_up()

    def _begin_anew(self) -> None:
        self._give_up()
        with suppress(OSError):  # here a program may be told less
            self._begin()
            self.could_tell = True

    def _give_up(self) -> None:
        self._program.__exit__()
        self.could_tell, self.is_over = False, True

    def wait(self, enough: float = inf) -> None:
        """Wait until it is over, has named more files than that, or nobody waits for us."""
        while not self.is_over and self.count <= enough:
            self._says.poll(LOOK_MS)
            self.look()
            wanted.check()

    def look(self) -> None:
        """Take what it has said meanwhile."""
        if self.is_over:
            return
        with suppress(BlockingIOError):
            piece = os.read(self._pipe, PIPE_BYTES)
            self.heard_at = monotonic()
            self._told.add(piece)
            self.is_over = not piece or self._told.is_too_much
        if not self.is_over and not self._sizes and self._is_held_up():
            self._sizes = _NONE_LARGE
            self._begin_anew()

    def _is_held_up(self) -> bool:
        """Whether it is busy with a file that we would not read, if it is time to see that."""
        now = monotonic()
        if not self._busy_s < now - self._began_at < self._ends_at - now:
            return False
        self._busy_s *= 2
        return self._program.reads_more_than(MAX_FILE_BYTES)

    def named(self, after: Place | None) -> Named | None:
        """All that it named, once it is over, from behind a place on; None when it could not tell."""
        if not self.could_tell:
            return None
        if self._told.is_too_much:
            self._program.end()
        ran = self._program.ended()
        # 1: nothing matches. 2: a file could not be read, of which it says nothing, or the pattern is too large for it.
        self.could_tell = ran.is_late or (ran.code in (0, 1, 2) and not ran.err)
        if not self.could_tell:
            return None
        return Named(self.so_far(after), ran.is_late)

    def so_far(self, after: Place | None) -> Iterator[Place]:
        """The files that it has named by now, in the order of a walk, from behind a place on."""
        ranks = sorted(set(map(rank, self._told.names)))  # a file that is renamed meanwhile may be met twice
        rest = ranks[bisect_right(ranks, rank(os.fsencode(after.inner))) :] if after else ranks
        return (Place(self._root, os.fsdecode(unranked(one))) for one in rest)

    def news(self) -> list[Place]:
        """The files that it has told all of since this was asked last."""
        given, self._given = self._given, max(0, self.count - (not self.is_over))
        return [Place(self._root, os.fsdecode(name)) for name in self._told.names[given : self._given]]

    def lines(self, place: Place) -> list[tuple[int, int]] | None:
        """Of each line of a file that may match: its number, and where it starts. None unless it told of all."""
        return self._told.lines(os.fsencode(place.inner))

    def __enter__(self) -> "Naming":
        return self

    def __exit__(self, *_: object) -> None:
        self._program.__exit__()


def _widened(pipe: int) -> bool:
    """Give a pipe more room: then its writer need not wait for us, and we need not listen all the time."""
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (ImportError, AttributeError, OSError):  # another system, or all the room for pipes is taken
        return False
    return True
