"""Which lines does a pattern match? RE2, which takes time in proportion to the text times the pattern and no more.

Patterns are matched line by line; `\\d`, `\\w`, `\\s` and `\\b` are of ASCII. `^` is behind a byte order mark too, and
`$` before a carriage return: a reader sees neither. For ripgrep, whose expressions are almost the same, a pattern is
spelled so that it matches there whatever it matches here, or not at all.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from onhand.errors import InputError, MissingExtra

MAX_CHARS = 10_000
MAX_MEMORY_BYTES = 8 * 1024 * 1024  # of what a pattern is compiled to; ten thousand words take half of it
# A large pattern may take a step of some nanoseconds for each of its parts and each byte; nobody can interrupt that.
STEPS_AT_ONCE = 500_000_000
LEAST_AT_ONCE = 16 * 1024
NEAR_BYTES = 4 * 1024  # so far a text is looked for as such
SHORT_BYTES = 64  # of a text that RE2 surely finds in time in proportion to what it is looked for in
LONGEST = 4  # times what is searched at once: a longer line is not looked into
_SIGNS = frozenset("\\.^$|?*+()[]{}")  # all that is not text in a pattern


class Line(NamedTuple):
    """A line that matches: which one it is, and where it stands in the content."""

    number: int
    start: int
    end: int  # without the line feed


class Pattern:
    """A pattern, ready to be searched for."""

    def __init__(self, pattern: str, ignore_case: bool = False, literal: bool = False) -> None:
        """Compile it; InputError says what is wrong with it."""
        _check(pattern, literal)
        self.for_ripgrep = pattern if literal else spelled_for_ripgrep(pattern)
        self.ignore_case = ignore_case
        self.literal = literal
        self._regex = _compiled(pattern, ignore_case, literal)
        self._text = pattern.encode() if not ignore_case and (literal or _SIGNS.isdisjoint(pattern)) else None
        steps = self._regex.programsize if self._text is None else 1  # of each byte
        self._at_once = max(LEAST_AT_ONCE, STEPS_AT_ONCE // max(1, steps))

    def lines(self, content: bytes, is_over: Callable[[], bool] = lambda: False) -> Iterator[Line]:
        """The lines that match, in order, until it `is_over`; InputError for a line that would take too long."""
        last = len(content) - content.endswith(b"\n")  # where the last line ends
        number, counted, at, until = 1, 0, 0, -1
        while content and at <= last:
            if at > until:
                if is_over():
                    return
                until = self._until(content, at, last)
            found = self._found(content, at, until)
            if found < 0:
                at = until + 1
                continue
            start = content.rfind(b"\n", 0, found) + 1
            end = content.find(b"\n", found, last)
            end = last if end < 0 else end
            number += content.count(b"\n", counted, start)
            counted = start
            yield Line(number, start, end)
            at = end + 1

    def lines_among(self, content: bytes, lines: Iterable[tuple[int, int]]) -> Iterator[Line]:
        """Those that match, in order, of lines whose number and start are known."""
        last = len(content) - content.endswith(b"\n")
        for number, start in lines:
            end = content.find(b"\n", start, last)
            end = last if end < 0 else end
            if self._found(content, start, end) >= 0:
                yield Line(number, start, end)

    def is_quick_in(self, content: bytes) -> bool:
        """Whether no line of it can take too long."""
        return len(content) <= self._at_once

    def _found(self, content: bytes, at: int, until: int) -> int:
        """Where the next match begins, or -1. What is text alone is found near by without RE2, in a tenth of the time;
        further on RE2 is quicker."""
        if self._text is not None:
            near = at + NEAR_BYTES
            if near >= until or len(self._text) > SHORT_BYTES:
                return content.find(self._text, at, until)
            found = content.find(self._text, at, near)
            if found >= 0:
                return found
            at = near - len(self._text) + 1
        match = self._regex.search(content, at, until)
        return -1 if match is None else int(match.start())

    def _until(self, content: bytes, at: int, last: int) -> int:
        """The end of a line up to which is searched at once."""
        enough = at + self._at_once
        if enough >= last:
            return last
        end = content.find(b"\n", enough, last)
        end = last if end < 0 else end
        if end - at <= LONGEST * self._at_once:
            return end
        before = content.rfind(b"\n", at, enough)
        if before < 0:
            raise InputError("it has a line that is too long for so large a pattern; send a smaller one")
        return before


def _check(pattern: str, literal: bool) -> None:
    if not pattern:
        raise InputError("the pattern is empty: it would match every line; send what to look for")
    if len(pattern) > MAX_CHARS:
        raise InputError(f"the pattern has {len(pattern):,} characters, more than {MAX_CHARS:,}: send a shorter one")
    if "\0" in pattern or "\n" in pattern:
        raise InputError("the pattern has a NUL or a line feed: it is matched line by line; leave it out")
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise InputError("the pattern has half of a surrogate pair: send whole characters") from None
    if not literal and (found := _ACROSS_LINES.search(pattern)):
        raise InputError(f"{found[1]} is not for lines (at character {found.start(1) + 1}): use ^ and $")


# What would look beyond the line: \A, \z, \C and the flag m, unless the backslash itself is escaped.
_ACROSS_LINES = re.compile(r"(?<!\\)(?:\\\\)*(\\[AzC]|\(\?[a-zA-Z]*-?[a-zA-Z]*m[a-zA-Z-]*[:)])")


def _compiled(pattern: str, ignore_case: bool, literal: bool) -> Any:
    try:
        import re2
    except ImportError:
        raise MissingExtra("searching in files", "actions") from None
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.never_capture = True
    options.max_mem = MAX_MEMORY_BYTES
    options.case_sensitive = not ignore_case
    try:
        regex = re2.escape(pattern) if literal else pattern
        re2.compile(regex, options)  # by itself first: an error quotes it
        return re2.compile(f"(?m){_SIGN.sub(lambda sign: _EDGES.get(sign[0], sign[0]), regex)}", options)
    except re2.error as error:
        raise InputError(_explained(pattern, error)) from None


# The edges of a line, as both spell them.
_EDGES = {"^": r"(?:^\x{FEFF}?)", "$": r"(?:\r?$)"}
# Edges and parentheses; what is written with the same signs and means something else is taken whole.
_SIGN = re.compile(r"\\Q.*?(?:\\E|\Z)|\\[pP]\{\^|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|[\^$()]")


def _explained(pattern: str, error: Exception) -> str:
    """What RE2 says, with the place where it can be told."""
    said = error.args[0] if error.args else ""
    said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    what, _, piece = said.partition(": ")
    at = len(pattern) - 1 if what.startswith("trailing") else pattern.find(piece) if piece else -1
    at = _unpaired(pattern) if what.endswith(")") else at  # it quotes all of the pattern
    place = f" at character {at + 1}" if at >= 0 else ""
    advice = "RE2 has no look-around and no back-references; to find the text itself, send literal=true"
    return f"the pattern cannot be used: {what}{place}; {advice}"


def _unpaired(pattern: str) -> int:
    """Where a parenthesis stands that has no other."""
    opened: list[int] = []
    for sign in _SIGN.finditer(pattern):
        if sign[0] == "(":
            opened.append(sign.start())
        elif sign[0] == ")":
            if not opened:
                return sign.start()
            opened.pop()
    return opened[-1] if opened else -1


# What both can say, piece by piece. Whatever does not fit is left to RE2 alone.
_PIECE = re.compile(
    r"""
    (?P<escaped> \\[^\sA-Za-z0-9<>] | \\[tfrn] )  # to ripgrep \< and \> are edges of words
  | (?P<kind> \\[dDwWsSbB] )
  | (?P<group> \( (?! \? ) | \( \? (?: : | i\) | i: ) )
  | (?P<class> \[ \^? [A-Za-z0-9_./:;,@=%#+ -]+ \] )
  | (?P<repeat> (?: [*+?] | \{ [0-9]{1,3} (?: ,[0-9]{0,3} )? \} ) \?? )
  | (?P<any> \. )
  | (?P<plain> [^\\\[\](){}*+?] )
  | (?P<close> \) )
    """,
    re.VERBOSE,
)
# Three or four bytes that are no character, such as half of a surrogate pair: one to RE2, and none to ripgrep.
_LIKE_A_CHARACTER = r"(?-u:[\xE0-\xEF][\x80-\xBF]{2}|[\xF0-\xF4][\x80-\xBF]{3})"
_KINDS = {
    **_EDGES,
    "\\d": "[0-9]",
    "\\D": f"(?:[^0-9]|{_LIKE_A_CHARACTER})",
    "\\w": "[0-9A-Za-z_]",
    "\\W": f"(?:[^0-9A-Za-z_]|{_LIKE_A_CHARACTER})",
    "\\s": "[\\t\\f\\r ]",
    "\\S": f"(?:[^\\t\\f\\r ]|{_LIKE_A_CHARACTER})",
    ".": f"(?:.|{_LIKE_A_CHARACTER})",
    "\\b": "(?-u:\\b)",
    "\\B": "(?-u:\\B)",
}


def spelled_for_ripgrep(pattern: str) -> str | None:
    """The pattern as ripgrep has it, where it matches no less, or None when it may mean something else there."""
    spelled, at = "", 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None or (piece.lastgroup == "class" and not _is_simple(piece[0])):
            return None
        is_negated = piece[0].startswith("[^")
        spelled += f"(?:{piece[0]}|{_LIKE_A_CHARACTER})" if is_negated else _KINDS.get(piece[0], piece[0])
        at = piece.end()
    return spelled


def _is_simple(brackets: str) -> bool:
    """Whether a class has no hyphen but in ranges of letters or of digits, and nothing that is doubled."""
    inside = brackets.strip("[]^")
    rest = re.sub(r"[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]", "", inside)
    return "-" not in rest and "::" not in inside
