"""What does a pattern of git's own form match? `.gitignore` lines against paths; it opens no file.

Paths are compared with the lines of a file byte by byte, as by git: there `?` is one byte. Whatever a pattern says, a
match takes time in proportion to the pattern and the path: every wildcard is atomic, since the leftmost place that fits
is as good as any.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence

from onhand.record import Record

NAME = ".gitignore"
MAX_BYTES = 256 * 1024  # of one file; the longest in use have a tenth of it
MAX_PATTERNS = 5_000  # of one file, each of which is compared with every path below it
IN_A_BLOCK = 64  # groups: about the root of what there can be, which is where the two looks cost least together


class Group(Record):
    """Patterns that stand one after the other and say the same of what they match."""

    is_negated: bool  # what matches is not left out after all
    needs_directory: bool
    is_of_names: bool  # compared with the last part of a path, at any depth
    regex: re.Pattern[str]


class Block(Record):
    """Groups that stand one after the other; one look says that none of them matches."""

    groups: tuple[Group, ...]
    names: re.Pattern[str] | None  # all that are compared with names; None: every group has to be looked at
    paths: re.Pattern[str] | None  # all others

    def may_match(self, name: str, inner: str) -> bool:
        """Whether any of the groups may match."""
        if self.names is None or self.paths is None:
            return True
        return bool(self.names.fullmatch(name) or self.paths.fullmatch(inner))


def verdict(blocks: Sequence[Block], inner: str, is_directory: bool) -> bool | None:
    """Whether the last group that matches a path leaves it out; None if no group does.

    `inner` is relative to the directory that the patterns stand in.
    """
    name = inner.rpartition("/")[2]
    for block in reversed(blocks):
        groups = block.groups if block.may_match(name, inner) else ()
        for is_negated, needs_directory, is_of_names, regex in reversed(groups):
            if (is_directory or not needs_directory) and regex.fullmatch(name if is_of_names else inner):
                return not is_negated
    return None


def blocks_in(content: bytes) -> tuple[Block, ...]:
    """What a file says, for paths `by_bytes`; lines beyond MAX_PATTERNS are left out."""
    return blocks_of(content.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")[:MAX_PATTERNS])


def is_clear(content: bytes) -> bool:
    """Whether what a file says is clear to everybody: of some lines, which hardly anybody writes, programs differ."""
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError:
        return False
    return len(content) <= MAX_BYTES and len(lines) <= MAX_PATTERNS and all(map(_is_clear_line, lines))


def _is_clear_line(line: str) -> bool:
    body = line.removesuffix("\r").rstrip(" ")
    if not body or body.startswith("#"):
        return True
    parts = body.removeprefix("!").removeprefix("/").removesuffix("/").split("/")
    return all(map(_CLEAR_NAME.fullmatch, parts))


# Not among them: braces, negated classes, ranges that may be none, a blank first, a backslash before a letter, a
# dot at the end (to ripgrep, what ends in two has no name).
_CLEAR_NAME = re.compile(
    r"""
    (?! .*\.\Z | [\#\ ] )
    (?: [\w.+@~=,%&$':;\#()<>|^\ -] | \*(?!\*) | \? | \\[\#!*?.\[\]~$+-]
      | \[ (?: a-z | A-Z | 0-9 | [A-Za-z0-9_.~] )+ \] )+
    | \*\*
    """,
    re.VERBOSE,
)


def by_bytes(path: str) -> str:
    """A path with one character for each of its bytes."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


class Rules(Record):
    """What the file of a directory says of what is below it."""

    start: int  # where in a path begins what they are compared with
    blocks: Sequence[Block]


class Tree:
    """What the files of a tree leave out. `blocks` gives what that of a directory says."""

    def __init__(self, blocks: Callable[[str], Sequence[Block]]) -> None:
        self._blocks = blocks
        self._rules: dict[str, tuple[Rules, ...]] = {}

    def forget(self) -> None:
        """Ask again from now on."""
        self._rules.clear()

    def leaves_out(self, path: str, is_directory: bool) -> bool:
        """Whether a path is left out, for whoever has come there through directories that are not."""
        spelled = by_bytes(path)
        for rules in self._rules_in(path.rpartition("/")[0]):
            found = verdict(rules.blocks, spelled[rules.start :], is_directory)
            if found is not None:
                return found
        return False

    def _rules_in(self, directory: str) -> tuple[Rules, ...]:
        """What is said of a directory's entries, by the nearest first; most often nothing is."""
        known = self._rules.get(directory)
        if known is not None:
            return known
        found: list[Rules] = []
        at: str | None = directory
        while at is not None and at not in self._rules:
            if blocks := self._blocks(at):
                found.append(Rules(len(by_bytes(at)) + 1 if at else 0, blocks))
            at = at.rpartition("/")[0] if at else None
        rules = self._rules[directory] = (*found, *(self._rules[at] if at is not None else ()))
        return rules


def blocks_of(lines: Sequence[str], few: int = IN_A_BLOCK) -> tuple[Block, ...]:
    """What the lines of a file say, in blocks if they are more than a few groups: thousands may take back one another.
    To make a block of them takes as long as to compare a hundred paths."""
    groups = groups_of(lines)
    if len(groups) <= few:
        return (Block(groups, None, None),)
    parts = [groups[at : at + IN_A_BLOCK] for at in range(0, len(groups), IN_A_BLOCK)]
    return tuple(Block(part, _any_of(part, True), _any_of(part, False)) for part in parts)


def _any_of(groups: Sequence[Group], of_names: bool) -> re.Pattern[str]:
    regexes = [group.regex.pattern for group in groups if group.is_of_names == of_names]
    return re.compile("|".join(regexes) or "(?!)", re.DOTALL)


def groups_of(lines: Sequence[str]) -> tuple[Group, ...]:
    """What the lines of a file say, in their order."""
    groups: list[tuple[tuple[bool, bool, bool], list[str]]] = []
    for line in lines:
        for *flags, regex in _pattern(trimmed(line)):
            if not groups or list(groups[-1][0]) != flags:
                groups.append(((flags[0], flags[1], flags[2]), []))
            groups[-1][1].append(regex)
    return tuple(Group(*flags, re.compile(_either(regexes), re.DOTALL)) for flags, regexes in groups)


def _either(regexes: Sequence[str]) -> str:
    """What matches one of some; where all begin at any depth, the depths are gone through once."""
    if all(regex.startswith(_DIRECTORIES) for regex in regexes):
        return f"{_DIRECTORIES}(?:{'|'.join(regex.removeprefix(_DIRECTORIES) for regex in regexes)})"
    return "|".join(regexes)


def trimmed(line: str) -> str:
    """What counts of a line: not spaces at its end, but for one that is escaped, nor a carriage return."""
    line = line.removesuffix("\r").partition("\0")[0]
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if backslashes % 2 and bare != line else bare


def _pattern(line: str) -> Iterator[tuple[bool, bool, bool, str]]:
    """What a line says, as the fields of a Group; nothing, if it says nothing or matches nothing."""
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
    """The names of a pattern, each as stars and expressions for one character; None if it matches nothing."""
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
    """One name. What stands between two stars is taken where it comes first."""
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
    """A path. What stands between two `**` is taken where it comes first."""
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


_NAMED = {
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
    """What stands in brackets, from behind the first on, as an expression, and where it ends; None if it never does."""
    is_negated = body[at : at + 1] in ("!", "^")
    at += is_negated
    members: list[str] = []
    before = ""  # what a range may begin with
    begin = at
    while at < len(body) and (body[at] != "]" or at == begin):
        if named := _CLASS_NAME.match(body, at):
            if named[1] not in _NAMED:
                return None
            members.append(_NAMED[named[1]])
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
