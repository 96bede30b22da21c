"""Walk the files below a directory, and find files by glob patterns.

A walk follows no links and meets the files in the same order every time. It leaves out what `.gitignore` files exclude
(those from the workspace's root downwards), hidden entries unless they are requested, `.git` always, and whatever the
workspace denies.
"""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from typing import Annotated, NamedTuple

from onhand import cancellation
from onhand.actions.action import workspace_tool
from onhand.actions.files import MAX_FILE_BYTES, read_bytes
from onhand.actions.workspace import (
    FILE_FLAGS,
    LIST_FLAGS,
    NOFOLLOW,
    ResolvedPath,
    Workspace,
    WorkspaceRoot,
    check_path,
    display,
    path_line,
)
from onhand.errors import InputError
from onhand.fsio import read_stable
from onhand.path_rules import (
    GITIGNORE,
    MAX_GITIGNORE_BYTES,
    IgnoreTree,
    PatternBlock,
    compile_patterns,
    last_match,
    parse_gitignore,
)
from onhand.text import quantity
from onhand.tools import Tool

MAX_FILES = 1_000  # in one answer
DEFAULT_LIMIT = 200  # files, if a model sends no limit
MAX_DEPTH = 100  # directories below the start; links are not followed, so no honest tree comes near it
MAX_DIRECTORY_BYTES = 3_800  # of a directory's path below the root, so that every entry's path is one that Linux takes
MAX_ENTRIES = 1_000_000  # in one walk, which takes some seconds
TIMEOUT_S = 20.0  # for one search: a tree can be crafted so that every entry takes long to match
TIMED_OUT = "the search timed out before it had seen everything; choose a smaller path"
MAX_ALTERNATIVES = 256  # patterns that one pattern with braces may expand to
_EXCLUDED_ANYWHERE = ".git"


class GlobResult(NamedTuple):
    """The files that match a pattern, in the order of their paths."""

    files: tuple[str, ...]  # as every tool of the workspace accepts them
    pattern: str = ""
    count: int = 0  # type: ignore[assignment]  # the name that agents know; it hides a method of tuples
    is_cut: bool = False  # there are more, or not everything was searched
    notes: tuple[str, ...] = ()
    left_out: int = 0  # for lack of room
    success: bool = True

    def to_text(self) -> str:
        """Return a line for each file, and what the reader should know."""
        lines = [path_line(file) for file in self.files] or [f"no file matches {display(self.pattern)}"]
        if self.is_cut or self.left_out:
            lines.append(f"[more than these {len(self.files):,}; narrow the pattern, or send limit]")
        return "\n".join([*lines, *(f"[{note}]" for note in self.notes)])


class WalkedFile(NamedTuple):
    """A file that a walk has reached."""

    place: ResolvedPath
    directory: int  # a descriptor of its directory, open until the walk goes on

    def read(self) -> bytes:
        """Return the content; OSError if it is no longer a regular file, cannot be read or is too large."""
        name = self.place.inner.rpartition("/")[2]
        descriptor = os.open(name, FILE_FLAGS | NOFOLLOW, dir_fd=self.directory)
        try:
            return read_stable(descriptor, MAX_FILE_BYTES)
        finally:
            os.close(descriptor)


@dataclass(slots=True)
class Gaps:
    """What a walk left out."""

    skipped: int = 0  # directories that cannot be read or are too deep
    is_cut: bool = False  # there were more than MAX_ENTRIES
    is_late: bool = False  # there was no time left

    def notes(self) -> list[str]:
        """Describe the gaps to the reader of an answer."""
        notes = [f"{quantity(self.skipped, 'directory')} could not be read"] if self.skipped else []
        notes += [f"only {MAX_ENTRIES:,} entries were examined; choose a smaller path"] * self.is_cut
        return notes + [TIMED_OUT] * self.is_late


class Walk:
    """The files below a directory in the order of their paths' bytes, and afterwards the gaps."""

    def __init__(
        self,
        workspace: Workspace,
        start: ResolvedPath,
        *,
        hidden: bool = False,
        ends_at: float | None = None,
        excludes: Callable[[ResolvedPath, bool], bool] = lambda place, is_directory: False,
    ) -> None:
        """Walk until `ends_at` on the monotonic clock, by default TIMEOUT_S from now.

        `excludes` gets an entry and whether it is a directory, and leaves out more than the usual rules do.
        """
        self.gaps = Gaps()
        self._workspace = workspace
        self._start = start
        self._hidden = hidden
        self._ends_at = monotonic() + TIMEOUT_S if ends_at is None else ends_at
        self._excludes = excludes
        self._ignore_files = _IgnoreFiles(workspace, start.root)
        self._room = MAX_ENTRIES

    def __iter__(self) -> Generator[WalkedFile, None, None]:
        """Yield the files; close the iterator to close its directories if you stop early."""
        try:
            with self._workspace.open_directory(self._start) as descriptor:
                yield from self._files_in(self._start, descriptor, 1)
        except InputError:  # it cannot be read, or was removed
            self.gaps.skipped += 1

    def _files_in(self, directory: ResolvedPath, descriptor: int, depth: int) -> Iterator[WalkedFile]:
        """Yield the files at any depth.

        Each directory is opened from its parent, which is kept open, so nobody can redirect the walk by replacing a
        directory with a link.
        """
        for name, is_directory in self._entries(directory, descriptor):
            cancellation.check()
            if monotonic() > self._ends_at:
                self.gaps.is_late = True
                return
            place = directory.child(name)
            if not self._includes(name, place, is_directory):
                continue
            if not is_directory:
                yield WalkedFile(place, descriptor)
            elif is_too_deep(place, depth):
                self.gaps.skipped += 1
            else:
                yield from self._files_below(place, name, descriptor, depth)

    def _files_below(self, place: ResolvedPath, name: str, parent: int, depth: int) -> Iterator[WalkedFile]:
        try:
            descriptor = os.open(name, LIST_FLAGS | NOFOLLOW, dir_fd=parent)
        except OSError:
            self.gaps.skipped += 1
            return
        try:
            yield from self._files_in(place, descriptor, depth + 1)
        finally:
            os.close(descriptor)

    def _entries(self, directory: ResolvedPath, descriptor: int) -> list[tuple[str, bool]]:
        """Return the names of the files and directories in a directory, sorted, and which ones are directories."""
        try:
            with os.scandir(descriptor) as entries:
                some = islice(entries, self._room + 1)
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in some if _is_plain(entry)]
        except OSError:
            self.gaps.skipped += 1
            return []
        if GITIGNORE not in (name for name, _ in found):
            self._ignore_files.set_absent(directory.inner)
        self._room -= len(found)
        if self._room < 0:
            self.gaps.is_cut = True
            return []
        return sorted(found, key=lambda entry: os.fsencode(entry[0]))

    def _includes(self, name: str, place: ResolvedPath, is_directory: bool) -> bool:
        """Return whether an entry of an included directory is included too."""
        if name == _EXCLUDED_ANYWHERE or (name.startswith(".") and not self._hidden):
            return False
        if self._ignore_files.tree.ignores(place.inner, is_directory) or self._workspace.denies_entry(place):
            return False
        return not self._excludes(place, is_directory)


class _IgnoreFiles:
    """The `.gitignore` files below a root, each read once."""

    def __init__(self, workspace: Workspace, root: WorkspaceRoot) -> None:
        self.tree = IgnoreTree(self._blocks)
        self._workspace = workspace
        self._root = root
        self._read: dict[str, tuple[PatternBlock, ...]] = {}

    def set_absent(self, directory: str) -> None:
        """Record that a directory has no such file, which saves an attempt to open it."""
        self._read.setdefault(directory, ())

    def _blocks(self, directory: str) -> tuple[PatternBlock, ...]:
        blocks = self._read.get(directory)
        if blocks is None:
            blocks = self._read[directory] = self._load(ResolvedPath(self._root, directory).child(GITIGNORE))
        return blocks

    def _load(self, place: ResolvedPath) -> tuple[PatternBlock, ...]:
        try:
            content = read_bytes(self._workspace, place, place.inner)
        except InputError:  # it does not exist or is not a file: like git, we do not follow a link
            return ()
        return parse_gitignore(content) if len(content) <= MAX_GITIGNORE_BYTES else ()


def is_too_deep(place: ResolvedPath, depth: int) -> bool:
    """Return whether a directory is left out, `depth` levels below the start of a walk."""
    if depth >= MAX_DEPTH:
        return True
    return 4 * len(place.inner) > MAX_DIRECTORY_BYTES and len(os.fsencode(place.inner)) > MAX_DIRECTORY_BYTES


def _is_plain(entry: "os.DirEntry[str]") -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)


def glob(
    workspace: Workspace,
    pattern: str,
    path: str = ".",
    ignore: Sequence[str] = (),
    hidden: bool = False,
    limit: int = MAX_FILES,
) -> GlobResult:
    """Return the files below a directory whose path from there matches: `*` within a name, `**` across directories."""
    alternatives = expand_braces(pattern.removeprefix("./"))
    parts = check_path(pattern).split("/")
    if not parts[0] or ".." in parts:
        raise InputError(f"{display(pattern)} is not relative: begin it with a name, and send the directory as path")
    start = workspace.resolve(path)
    with workspace.open_directory(start, path):
        pass
    naming_hidden = alternatives if hidden else [one for one in alternatives if _is_hidden(one)]
    matches = compile_globs(alternatives, anchored=True)
    matches_hidden = compile_globs(naming_hidden, anchored=True)
    is_ignored = _compile_ignore(ignore)
    prefix = len(start.inner) + 1 if start.inner else 0

    def is_match(file: WalkedFile) -> bool:
        inner = file.place.inner[prefix:]
        return (matches_hidden if _is_hidden(inner) else matches)(inner)

    walk = Walk(
        workspace,
        start,
        hidden=bool(naming_hidden),
        excludes=lambda place, is_directory: is_ignored(place.inner[prefix:], is_directory),
    )
    with closing(iter(walk)) as walking:
        files = [workspace.name(file.place) for file in islice(filter(is_match, walking), limit + 1)]
    notes = walk.gaps.notes() + ([] if files else _hints(workspace, pattern, start))
    is_cut = len(files) > limit or walk.gaps.is_cut or walk.gaps.is_late
    return GlobResult(tuple(files[:limit]), pattern, min(len(files), limit), is_cut, tuple(notes))


def glob_tool(workspace: Workspace) -> Tool:
    """Return the tool that finds files by their paths."""

    @workspace_tool(
        workspace,
        "glob",
        parameters={
            "path": {
                "description": f"The directory to search; the workspace by default.{workspace.describe_further_roots()}"
            }
        },
    )
    def find_files(
        pattern: Annotated[str, "For example **/*.py, relative to path."],
        path: str = ".",
        ignore: Annotated[
            list[str] | None, "Patterns to leave out, as in a .gitignore file.", {"maxItems": 100}
        ] = None,
        hidden: Annotated[bool, "Include hidden files."] = False,
        limit: Annotated[int, "At most this many files.", {"minimum": 1, "maximum": MAX_FILES}] = DEFAULT_LIMIT,
    ) -> GlobResult:
        """Find files in the workspace by their path, sorted by path. * matches within a name, ** across directories,
        {a,b} either alternative. Files that git ignores, hidden files (unless the pattern names them) and closed files
        are left out. To search file contents, use grep. Cheap. Example: glob(pattern="src/**/*.{ts,tsx}").
        """
        return glob(workspace, pattern, path, ignore or (), hidden, limit)

    return find_files


def _is_hidden(path: str) -> bool:
    """Return whether a path has a hidden part, or a pattern such as `.github/**` names one."""
    return path.startswith(".") or "/." in path


def _compile_ignore(lines: Sequence[str]) -> Callable[[str, bool], bool]:
    """Compile lines of a .gitignore file into a function of a path and whether it is a directory."""
    blocks = compile_patterns(
        [f"\\{one}" if one.startswith("#") else one for line in lines for one in expand_braces(line)]
    )
    return lambda inner, is_directory: bool(last_match(blocks, inner, is_directory))


def _hints(workspace: Workspace, pattern: str, start: ResolvedPath) -> list[str]:
    """Explain why a pattern may have matched nothing."""
    with suppress(InputError):  # it leads outside, or to something denied
        named = workspace.resolve(os.path.join(start.path, pattern)).path
        if os.path.isdir(named):
            return [f"this names a directory; to find the files in it, send {display(pattern.rstrip('/'))}/**"]
        if os.path.isfile(named):
            return [f"{display(pattern)} is a file that is ignored here or has pattern characters; try read_file"]
    if pattern.endswith("/"):
        return [f"this names a directory; to find the files in it, send {display(pattern)}**"]
    if "/" not in pattern and pattern != "**":
        return [f"this searches one directory only; to include those below it, send **/{display(pattern)}"]
    return []


def compile_globs(patterns: Sequence[str], anchored: bool) -> Callable[[str], bool]:
    """Compile patterns of which a path must match one, from its start if anchored, else at any depth."""
    blocks = compile_patterns([_ignore_line(one, anchored) for pattern in patterns for one in expand_braces(pattern)])
    return lambda inner: bool(last_match(blocks, inner, False))


def _ignore_line(pattern: str, anchored: bool) -> str:
    """Return a pattern as a line of a .gitignore file in which it is neither a comment nor a negation."""
    bare = pattern.rstrip(" ")
    line = bare + "\\ " * (len(pattern) - len(bare))  # spaces at the end count
    return f"/{line.removeprefix('/')}" if anchored else line if line[:1] not in ("#", "!") else "\\" + line


def expand_braces(pattern: str) -> list[str]:
    """Expand the braces in a pattern: `*.{ts,tsx}` is `*.ts` and `*.tsx`."""
    if not pattern or "\0" in pattern or "\n" in pattern or len(pattern) > 1000:
        raise InputError("a glob pattern is one line of 1 to 1000 characters, for example **/*.py")
    done, pending = list[str](), [pattern]
    while pending:
        one = pending.pop()
        alternatives = _alternatives(one)
        if alternatives is None:
            done.append(one)
        else:
            pending += alternatives
        if len(done) + len(pending) > MAX_ALTERNATIVES:
            raise InputError(f"the braces expand to more than {MAX_ALTERNATIVES} patterns: send fewer alternatives")
    return [one for one in dict.fromkeys(done) if one]  # `{a,}` has an empty alternative, which names nothing


def _alternatives(pattern: str) -> list[str] | None:
    """Expand the first innermost pair of braces; return None if there are no braces."""
    close = pattern.find("}")
    start = pattern.rfind("{", 0, close) if close >= 0 else -1
    if start < 0:
        return None
    return [pattern[:start] + one + pattern[close + 1 :] for one in pattern[start + 1 : close].split(",")]
