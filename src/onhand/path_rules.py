"""Match paths against `.gitignore` patterns, and the user's deny, protect and allow rules. Opens no file.

Paths are compared with the lines of a `.gitignore` byte by byte, as git does, so `?` is one byte. A match takes time in
proportion to the pattern and the path, whatever the pattern: wildcards never backtrack, since the leftmost match is as
good as any. The user's rules apply to file tools and to sandboxed commands alike.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from onhand.errors import InputError
from onhand.hidden_characters import IGNORABLE
from onhand.record import Record

GITIGNORE = ".gitignore"
MAX_GITIGNORE_BYTES = 256 * 1024  # of one file; the longest in use have a tenth of that
MAX_PATTERNS = 5_000  # of one file; each is compared with every path below it
GROUPS_PER_BLOCK = 64  # about the square root of the maximum, which minimises the cost of the two-level look-up


class PatternGroup(Record):
    """Consecutive patterns that all ignore, or all include, the paths that they match."""

    is_negated: bool  # a match is included again
    needs_directory: bool
    is_of_names: bool  # compared with the last part of a path, at any depth
    regex: re.Pattern[str]


class PatternBlock(Record):
    """Consecutive groups, with combined patterns that can rule out all of them at once."""

    groups: tuple[PatternGroup, ...]
    names: re.Pattern[str] | None  # of all groups compared with names; None: check every group
    paths: re.Pattern[str] | None  # of all other groups

    def may_match(self, name: str, inner: str) -> bool:
        """Return whether any of the groups may match."""
        if self.names is None or self.paths is None:
            return True
        return bool(self.names.fullmatch(name) or self.paths.fullmatch(inner))


def last_match(blocks: Sequence[PatternBlock], inner: str, is_directory: bool) -> bool | None:
    """Return whether the last matching group ignores a path, or None if no group matches.

    `inner` is relative to the directory of the patterns.
    """
    name = inner.rpartition("/")[2]
    for block in reversed(blocks):
        groups = block.groups if block.may_match(name, inner) else ()
        for is_negated, needs_directory, is_of_names, regex in reversed(groups):
            if (is_directory or not needs_directory) and regex.fullmatch(name if is_of_names else inner):
                return not is_negated
    return None


def parse_gitignore(content: bytes) -> tuple[PatternBlock, ...]:
    """Compile a `.gitignore` for paths with one character per byte; lines beyond MAX_PATTERNS are ignored."""
    return compile_patterns(content.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")[:MAX_PATTERNS])


def one_char_per_byte(path: str) -> str:
    """Return a path with one character for each of its bytes."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


class DirectoryRules(Record):
    """The patterns that a directory's file applies to everything below it."""

    start: int  # where the part of a path begins that they are compared with
    blocks: Sequence[PatternBlock]


class IgnoreTree:
    """What the `.gitignore` files of a tree ignore; `blocks` returns the patterns of a directory."""

    def __init__(self, blocks: Callable[[str], Sequence[PatternBlock]]) -> None:
        self._blocks = blocks
        self._rules: dict[str, tuple[DirectoryRules, ...]] = {}

    def forget(self) -> None:
        """Read the patterns again from now on."""
        self._rules.clear()

    def ignores(self, path: str, is_directory: bool) -> bool:
        """Return whether a path is ignored, assuming that its parent directories are not."""
        encoded = one_char_per_byte(path)
        for rules in self._rules_in(path.rpartition("/")[0]):
            found = last_match(rules.blocks, encoded[rules.start :], is_directory)
            if found is not None:
                return found
        return False

    def _rules_in(self, directory: str) -> tuple[DirectoryRules, ...]:
        """Return the rules for a directory's entries, nearest first; most often there are none."""
        known = self._rules.get(directory)
        if known is not None:
            return known
        found: list[DirectoryRules] = []
        at: str | None = directory
        while at is not None and at not in self._rules:
            if blocks := self._blocks(at):
                found.append(DirectoryRules(len(one_char_per_byte(at)) + 1 if at else 0, blocks))
            at = at.rpartition("/")[0] if at else None
        rules = self._rules[directory] = (*found, *(self._rules[at] if at is not None else ()))
        return rules


def compile_patterns(lines: Sequence[str], few: int = GROUPS_PER_BLOCK) -> tuple[PatternBlock, ...]:
    """Compile lines, into several blocks if there are more than a few groups.

    Compiling a block takes as long as comparing a hundred paths.
    """
    groups = group_patterns(lines)
    if len(groups) <= few:
        return (PatternBlock(groups, None, None),)
    parts = [groups[at : at + GROUPS_PER_BLOCK] for at in range(0, len(groups), GROUPS_PER_BLOCK)]
    return tuple(PatternBlock(part, _any_of(part, True), _any_of(part, False)) for part in parts)


def _any_of(groups: Sequence[PatternGroup], of_names: bool) -> re.Pattern[str]:
    regexes = [group.regex.pattern for group in groups if group.is_of_names == of_names]
    return re.compile("|".join(regexes) or "(?!)", re.DOTALL)


def group_patterns(lines: Sequence[str]) -> tuple[PatternGroup, ...]:
    """Return the patterns of the lines, in order, as groups."""
    groups: list[tuple[tuple[bool, bool, bool], list[str]]] = []
    for line in lines:
        for *flags, regex in _pattern(trim_line(line)):
            if not groups or list(groups[-1][0]) != flags:
                groups.append(((flags[0], flags[1], flags[2]), []))
            groups[-1][1].append(regex)
    return tuple(PatternGroup(*flags, re.compile(_either(regexes), re.DOTALL)) for flags, regexes in groups)


def _either(regexes: Sequence[str]) -> str:
    """Return a regex for any of some; if all match at any depth, the depths are tried once."""
    if all(regex.startswith(_DIRECTORIES) for regex in regexes):
        return f"{_DIRECTORIES}(?:{'|'.join(regex.removeprefix(_DIRECTORIES) for regex in regexes)})"
    return "|".join(regexes)


def trim_line(line: str) -> str:
    """Return a line without its carriage return and trailing spaces, unless one is escaped."""
    line = line.removesuffix("\r").partition("\0")[0]
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if backslashes % 2 and bare != line else bare


def _pattern(line: str) -> Iterator[tuple[bool, bool, bool, str]]:
    """Yield the fields of a PatternGroup for a line; nothing if it is empty, a comment or matches nothing."""
    if not line or line.startswith("#"):
        return
    is_negated = line.startswith("!")
    body = line[is_negated:]
    needs_directory = body.endswith("/")
    body = body[: len(body) - needs_directory]
    is_of_names = "/" not in body
    segments = _segments(body.removeprefix("/"))
    if segments is not None and all(segments):
        regex = _segment(segments[0]) if is_of_names else _path(segments)
        yield is_negated, needs_directory, is_of_names, regex


_STAR, _STARS = "*", "**"  # any part of a name; any number of directories
_ANY = "[^/]"
_DIRECTORIES = f"(?:{_ANY}++/)*?"


def _segments(body: str) -> list[list[str]] | None:
    """Split a pattern into names of stars and single-character regexes; None if it matches nothing."""
    segments: list[list[str]] = [[]]
    at = 0
    while at < len(body):
        character = body[at]
        at += 1
        if character == "\\":
            if at == len(body):
                return None
            character = body[at]
            at += 1
            one = re.escape(character)
        elif character == "[":
            found = _class(body, at)
            if found is None:
                return None
            one, at = found
        else:
            one = {"*": _STAR, "?": _ANY}.get(character) or re.escape(character)
        if character == "/":
            segments.append([])
        else:
            segments[-1].append(one)
    return [[_STARS] if len(segment) > 1 and {*segment} == {_STAR} else segment for segment in segments]


def _segment(pieces: list[str]) -> str:
    """Return a regex for one name; text between two stars matches at its first occurrence."""
    if pieces == [_STARS]:
        return _ANY + "*+"
    runs = [""]
    for piece in pieces:
        if piece == _STAR:
            runs.append("")
        else:
            runs[-1] += piece
    first, *between = runs
    if not between:
        return first
    *between, last = between
    found = "".join(f"(?>{_ANY}*?{run})" for run in between if run)
    return f"{first}{found}{_ANY}*{last}(?=/|\\Z)"


def _path(segments: list[list[str]]) -> str:
    """Return a regex for a path; names between two `**` match at their first occurrence."""
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == [_STARS]:
            runs.append([])
        else:
            runs[-1].append(_segment(segment))
    first, *between = ("/".join(run) for run in runs)
    if not between:
        return first
    *between, last = between
    found = "".join(f"(?>{_DIRECTORIES}{run}/)" for run in between if run)
    return f"{f'{first}/' if first else ''}{found}{f'{_DIRECTORIES}{last}' if last else '.+'}"


_CHARACTER_CLASSES = {
    "alnum": "A-Za-z0-9",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "\\x21-\\x7e",
    "lower": "a-z",
    "print": "\\x20-\\x7e",
    "punct": "\\x21-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7e",
    "space": "\\x09-\\x0d\\x20",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_CLASS_NAME = re.compile(r"\[:([^\]]*?):\]")


def _class(body: str, at: int) -> tuple[str, int] | None:
    """Return a regex for a bracket expression and its end; None if it is invalid or unclosed."""
    is_negated = body[at : at + 1] in ("!", "^")
    at += is_negated
    members: list[str] = []
    before = ""  # what a range may start with
    begin = at
    while at < len(body) and (body[at] != "]" or at == begin):
        if named := _CLASS_NAME.match(body, at):
            if named[1] not in _CHARACTER_CLASSES:
                return None
            members.append(_CHARACTER_CLASSES[named[1]])
            before, at = "", named.end()
            continue
        is_range = body[at] == "-" and before != "" and body[at + 1 : at + 2] not in ("", "]")
        at += is_range
        at += body[at] == "\\"
        if at == len(body):
            return None
        if is_range:
            members.append(f"{re.escape(before)}-{re.escape(body[at])}" if before <= body[at] else "")
            before = ""
        else:
            members.append(re.escape(body[at]))
            before = body[at]
        at += 1
    if at >= len(body):
        return None
    return f"(?!/)[{'^' if is_negated else ''}{''.join(members)}]", at + 1


_WILD = re.compile(r"[*?\[\\]")
# Characters that some file systems ignore in a name, so that `.git` has many spellings (ext4 with casefold, HFS+).
_IGNORABLE = re.compile(f"[{IGNORABLE}]")


class PathRules(NamedTuple):
    """The user's rules: which paths are closed, which are read-only, and which are open as exceptions.

    Patterns are matched against the path below its root and, if the root is in a project, below the project.
    """

    deny: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()

    def validate(self) -> "PathRules":
        """Return the rules; raise InputError if deny or protect contains an exception."""
        if exception := next((pattern for pattern in (*self.deny, *self.protect) if pattern.startswith("!")), None):
            raise InputError(f"{exception!r} would open a closed path: put it in workspace.allow instead")
        return self


NO_RULES = PathRules()


class PathPatterns:
    """Patterns matched against folded paths. A file counts as a directory, because it may become one."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._blocks = _compile(tuple(fold_path(line).rstrip("/") for line in lines))

    def match(self, path: str) -> bool:
        """Return whether the path itself matches."""
        return bool(last_match(self._blocks, fold_path(path), True))

    def cover(self, path: str) -> bool:
        """Return whether the path or one of its parent directories matches."""
        parts = fold_path(path).split("/")
        return any(last_match(self._blocks, "/".join(parts[:end]), True) for end in range(1, len(parts) + 1))


def fold_path(path: str) -> str:
    """Return a path without differences of case, Unicode composition and invisible characters."""
    if path.isascii():
        return path.lower()
    from unicodedata import normalize

    return normalize("NFC", _IGNORABLE.sub("", path.casefold()))


@lru_cache(32)
def _compile(lines: tuple[str, ...]) -> tuple[PatternBlock, ...]:
    """Compile lines sorted by kind between exceptions, where order is irrelevant, for fewer groups."""
    runs = (list(run) for _, run in groupby(lines, lambda line: line.startswith("!")))
    return compile_patterns([line for run in runs for line in sorted(run, key=lambda line: "/" in line)], few=1)


def literal_paths(patterns: Iterable[str]) -> Iterator[str]:
    """Yield the patterns that name a single path, which can be closed even before it exists."""
    for pattern in patterns:
        path = pattern.rstrip(" ").strip("/")
        if path and not pattern.startswith("#") and not _WILD.search(path) and not {"", ".", ".."} & {*path.split("/")}:
            yield path
