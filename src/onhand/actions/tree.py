"""Which files are below a directory? A walk that follows no link, in the same order every time.

Left out are what `.gitignore` files say, hidden entries unless they are asked for, `.git` always, and what is closed in
the workspace. Only the `.gitignore` files from the workspace's root downwards count.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from typing import NamedTuple

from onhand import wanted
from onhand.actions.files import contents
from onhand.actions.workspace import Place, Root, Workspace
from onhand.amounts import counted
from onhand.errors import InputError
from onhand.gitignore import MAX_BYTES, NAME, Block, Tree, blocks_in, blocks_of, is_clear, verdict

MAX_DEPTH = 100  # directories below where a walk begins; links are not followed, so that no honest tree comes near
MAX_DIRECTORY_BYTES = 3_800  # of its path below the root: whatever is in it has one that Linux takes
MAX_ENTRIES = 1_000_000  # that are looked at: some seconds
TIMEOUT_S = 20.0  # of one search: a tree can be made so that every entry takes long to judge
LATE = "the search took too long and was ended before it had seen all; choose a smaller path"
MAX_BRACES = 256  # patterns that one with braces may stand for


class Said(NamedTuple):
    """What a `.gitignore` file says."""

    blocks: tuple[Block, ...] = ()
    is_clear: bool = False  # everybody who reads it would say the same


NOTHING_SAID = Said(is_clear=True)


class Ignored:
    """What the `.gitignore` files of a root leave out, each read once."""

    def __init__(self, workspace: Workspace, root: Root) -> None:
        self._workspace = workspace
        self._root = root
        self._read: dict[str, Said] = {}
        self._tree = Tree(lambda directory: self.said_in(directory).blocks)

    def leaves_out(self, inner: str, is_directory: bool) -> bool:
        """Whether an entry is left out, for whoever has come there through directories that are not."""
        return self._tree.leaves_out(inner, is_directory)

    def has_none(self, directory: str) -> None:
        """Take note that a directory has no such file, which saves a look."""
        self._read.setdefault(directory, NOTHING_SAID)

    def said_in(self, directory: str) -> Said:
        """What the file in a directory says."""
        said = self._read.get(directory)
        if said is None:
            said = self._read[directory] = self._said_at(Place(self._root, directory).below(NAME))
        return said

    def _said_at(self, place: Place) -> Said:
        try:
            content = contents(self._workspace, place, place.inner)
        except InputError:  # it is not there, or no file: as in git, a link is not followed
            return Said()
        return Said(blocks_in(content), is_clear(content)) if len(content) <= MAX_BYTES else Said()


class Scope(NamedTuple):
    """Which of the files below a directory are meant."""

    workspace: Workspace
    start: Place
    hidden: bool
    ignored: Ignored
    directories: dict[str, bool]  # whether they are meant, of those that `has` met

    @classmethod
    def at(cls, workspace: Workspace, start: Place, hidden: bool = False) -> "Scope":
        """The files below a place."""
        return cls(workspace, start, hidden, Ignored(workspace, start.root), {})

    def has_entry(self, place: Place, is_directory: bool) -> bool:
        """Whether an entry is meant, for whoever has come there through directories that are."""
        name = place.inner.rpartition("/")[2]
        if name == ".git" or (name.startswith(".") and not self.hidden):
            return False
        return not self.ignored.leaves_out(place.inner, is_directory) and not self.workspace.denies_entry(place)

    def has(self, place: Place) -> bool:
        """Whether a file is meant, wherever it came from."""
        known = self.directories.get(place.inner.rpartition("/")[0])
        return (self.has_directory(place.above()) if known is None else known) and self.has_entry(place, False)

    def has_directory(self, place: Place) -> bool:
        """Whether a directory is meant, and all on the way to it."""
        if place.inner in ("", self.start.inner):
            return True
        known = self.directories.get(place.inner)
        if known is None:
            known = self.directories[place.inner] = self.has_directory(place.above()) and self.has_entry(place, True)
        return known

    def enters(self, place: Place) -> bool:
        """The same for whoever has come there through directories that are meant."""
        self.directories[place.inner] = is_meant = self.has_entry(place, True)
        return is_meant


@dataclass(slots=True)
class Gaps:
    """What a walk did not look at."""

    skipped: int = 0  # directories that may not be read, or are too deep
    is_cut: bool = False  # there were more entries than are looked at
    is_late: bool = False  # there was no time for all of them

    def notes(self) -> list[str]:
        """What a reader of the answer should know."""
        notes = [f"{counted(self.skipped, 'directory')} could not be looked into"] if self.skipped else []
        notes += [f"only {MAX_ENTRIES:,} entries were looked at; choose a smaller path"] * self.is_cut
        return notes + [LATE] * self.is_late


class Walk:
    """The files of a scope, by their parts' bytes; afterwards, what could not be looked at."""

    def __init__(
        self, scope: Scope, ends_at: float | None = None, leaves_out: Callable[[Place, bool], bool] | None = None
    ) -> None:
        """It ends at a moment of the monotonic clock, TIMEOUT_S from now if none is given.

        What it `leaves_out` besides, given an entry and whether it is a directory, is not looked into either.
        """
        self._scope = scope
        self._leaves_out = leaves_out or (lambda place, is_directory: False)
        self._room = MAX_ENTRIES
        self._ends_at = monotonic() + TIMEOUT_S if ends_at is None else ends_at
        self.gaps = Gaps()

    def __iter__(self) -> Iterator[Place]:
        waiting = [self._entries(self._scope.start)]
        while waiting:
            place, is_directory = next(waiting[-1], (None, False))
            if place is None:
                waiting.pop()
            elif not is_directory:
                yield place
            elif is_too_deep(place, len(waiting)):
                self.gaps.skipped += 1
            else:
                waiting.append(self._entries(place))

    def _entries(self, directory: Place) -> Iterator[tuple[Place, bool]]:
        """The files and directories in a directory that are meant."""
        try:
            with self._scope.workspace.opened_directory(directory) as number, os.scandir(number) as entries:
                some = islice(entries, self._room + 1)
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in some if _is_plain(entry)]
        except (InputError, OSError):  # it may not be read, or went away
            self.gaps.skipped += 1
            return
        if NAME not in (name for name, _ in found):
            self._scope.ignored.has_none(directory.inner)
        self._room -= len(found)
        if self._room < 0:
            self.gaps.is_cut = True
            return
        for name, is_directory in sorted(found, key=lambda entry: os.fsencode(entry[0])):
            wanted.check()
            if monotonic() > self._ends_at:
                self.gaps.is_late = True
                return
            place = directory.below(name)
            if self._scope.has_entry(place, is_directory) and not self._leaves_out(place, is_directory):
                yield place, is_directory


def is_too_deep(place: Place, depth: int) -> bool:
    """Whether a directory, so many below where a walk begins, is not looked into: nor could ripgrep name all in it."""
    if depth >= MAX_DEPTH:
        return True
    return 4 * len(place.inner) > MAX_DIRECTORY_BYTES and len(os.fsencode(place.inner)) > MAX_DIRECTORY_BYTES


def _is_plain(entry: "os.DirEntry[str]") -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)


def rank(path: bytes) -> bytes:
    """What a path is sorted by, to come where a walk comes to it: part by part."""
    return path.replace(b"/", b"\0")


def unranked(ranked: bytes) -> bytes:
    """The path again."""
    return ranked.replace(b"\0", b"/")


def matcher(patterns: Sequence[str], anchored: bool) -> Callable[[str], bool]:
    """Whether a path matches one of some patterns; anchored ones match whole paths only, others names at any depth."""
    blocks = blocks_of([_line(one, anchored) for pattern in patterns for one in expanded(pattern)])
    return lambda inner: bool(verdict(blocks, inner, False))


def _line(pattern: str, anchored: bool) -> str:
    """A pattern as a line of a .gitignore file, where it can be neither a comment nor an exception."""
    bare = pattern.rstrip(" ")
    kept = bare + "\\ " * (len(pattern) - len(bare))  # spaces at the end count
    return f"/{kept.removeprefix('/')}" if anchored else kept if kept[:1] not in ("#", "!") else "\\" + kept


def expanded(pattern: str) -> list[str]:
    """What a pattern with braces stands for: `*.{ts,tsx}` is `*.ts` and `*.tsx`."""
    if not pattern or "\0" in pattern or "\n" in pattern or len(pattern) > 1000:
        raise InputError("a glob pattern has 1 to 1000 characters on one line: send such a one, such as **/*.py")
    done, waiting = list[str](), [pattern]
    while waiting:
        one = waiting.pop()
        alternatives = _alternatives(one)
        if alternatives is None:
            done.append(one)
        else:
            waiting += alternatives
        if len(done) + len(waiting) > MAX_BRACES:
            raise InputError(f"the braces of the pattern stand for more than {MAX_BRACES} patterns: send fewer")
    return [one for one in dict.fromkeys(done) if one]  # that one of `{a,}` names nothing


def _alternatives(pattern: str) -> list[str] | None:
    """The patterns that the innermost first braces stand for; None if there are none that close."""
    close = pattern.find("}")
    opened = pattern.rfind("{", 0, close) if close >= 0 else -1
    if opened < 0:
        return None
    return [pattern[:opened] + one + pattern[close + 1 :] for one in pattern[opened + 1 : close].split(",")]
