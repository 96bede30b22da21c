"""Which tools does a name mean? Names as they are, without their server, in any spelling, or with one letter wrong.

It knows names and servers, but neither what the tools do nor how they are ranked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

from onhand.lexical.tokenize import fold
from onhand.tools.catalog_tool import MCP, identity, leaf_of

MIN_TYPO_CHARS = 4  # in a shorter name one letter is too much of it
MAX_ASKED_CHARS = 400  # what is longer is no name of anything
NEAREST = 3
MCP_SPELLED = MCP.strip("_")
Table = dict[str, str | dict[str, None]]  # a key → its ids; nearly always there is one, which then stands by itself
_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())


class Names:
    """The names of a catalog's tools, kept current while tools come and go."""

    def __init__(self) -> None:
        self._exact: Table = {}  # id, name or own name → ids
        self._spelled: Table = {}  # the same and more, in letters and digits alone → ids
        self._servers: dict[str, dict[str, str]] = {}  # server, "" where there is none → its ids → their spelling
        self._lengths: defaultdict[int, dict[str, None]] = defaultdict(dict)  # length → the spellings that are so long
        self._listed: dict[int, str] = {}  # the same as lines of one text; of a length that somebody has asked for

    def add(self, tool_id: str) -> None:
        """Let a tool be found by its names."""
        server, whole, names, spellings = _written(tool_id)
        self._servers.setdefault(server, {})[tool_id] = whole
        exact, spelled = self._exact, self._spelled
        for name in names:
            if exact.setdefault(name, tool_id) != tool_id:
                _put_beside(exact, name, tool_id)
        for spelling in spellings:
            if spelled.setdefault(spelling, tool_id) != tool_id:
                _put_beside(spelled, spelling, tool_id)
            else:
                self._lengths[len(spelling)][spelling] = None
                if self._listed:
                    self._listed.pop(len(spelling), None)

    def remove(self, tool_id: str) -> None:
        """Take a tool's names out."""
        server, _, names, spellings = _written(tool_id)
        _take(self._servers, server, tool_id)
        for name in names:
            _drop(self._exact, name, tool_id)
        for spelling in spellings:
            if _drop(self._spelled, spelling, tool_id):
                _take(self._lengths, len(spelling), spelling)
                self._listed.pop(len(spelling), None)

    def exact(self, name: str) -> list[str]:
        """The ids of the tools of just that id, name, or name without its server."""
        return _sorted(self._exact, name)

    def spelled(self, name: str) -> list[str]:
        """The ids of the tools whose name is that one in some spelling: `createIssue`, `Create issue`."""
        return _sorted(self._spelled, spelling_of(name)) if len(name) <= MAX_ASKED_CHARS else []

    def misspelt(self, name: str) -> list[str]:
        """The ids of the tools whose name differs in one letter, or two that are swapped."""
        asked = spelling_of(name) if len(name) <= MAX_ASKED_CHARS else ""
        if len(asked) < MIN_TYPO_CHARS:
            return []
        found: dict[str, None] = {}
        for length in (len(asked) - 1, len(asked), len(asked) + 1):
            for spelling in self._sharing_a_half(asked, length):
                if is_one_off(asked, spelling):
                    found.update(dict.fromkeys(_sorted(self._spelled, spelling)))
        return sorted(found)

    def _sharing_a_half(self, asked: str, length: int) -> set[str]:
        """The spellings of a length that have a half of what is asked: one mistake leaves the other half whole."""
        own = self._lengths.get(length)
        if not own or length < MIN_TYPO_CHARS:
            return set()
        if length not in self._listed:
            self._listed[length] = "\n".join(["", *own, ""])
        lines = self._listed[length]
        middle = length // 2
        rest = length - middle - 1  # the letter in the middle is in no half, so that two swapped ones spoil only one
        first, second = f"\n{asked[:middle]}", f"{asked[len(asked) - rest :]}\n"
        starts = [place + 1 for place in _places(lines, first)]
        starts += [place + rest - length for place in _places(lines, second)]
        return {lines[start : start + length] for start in starts}

    def having(self, pieces: Collection[str], servers: Collection[str]) -> set[str]:
        """The ids of the tools of some servers, or of all, whose names have every one of some pieces."""
        found: set[str] = set()
        for server in servers or self._servers:
            own = self._servers.get(server, {})
            left = list(own)
            for piece in map(spelling_of, pieces):
                left = [tool_id for tool_id in left if piece in own[tool_id]]
            found.update(left)
        return found

    def servers(self) -> dict[str, int]:
        """How many tools each server has, by its name."""
        return {server: len(own) for server, own in sorted(self._servers.items()) if server}

    def nearest(self, name: str) -> list[str]:
        """The names that look most like one that does not exist."""
        from difflib import get_close_matches

        meant = self.spelled(name) or self.misspelt(name)
        return meant[:NEAREST] or get_close_matches(name[:MAX_ASKED_CHARS], self._exact, NEAREST)


def spelling_of(name: str) -> str:
    """Letters and digits alone, small and without accents: the same for every way to write a name."""
    if name.isascii():  # the same as below, only faster
        return name.lower().encode().translate(None, _SIGNS).decode()
    return "".join(filter(str.isalnum, fold(name).casefold()))


_spelling_of_server = lru_cache(1000)(spelling_of)  # the same for all its tools


def is_one_off(left: str, right: str) -> bool:
    """Whether two texts differ in one letter too many, too few or wrong, or in two that are swapped."""
    if len(left) > len(right):
        left, right = right, left
    if len(right) - len(left) > 1:
        return False
    start = next((place for place, (one, other) in enumerate(zip(left, right)) if one != other), len(left))  # noqa: B905
    if len(left) < len(right):
        return left[start:] == right[start + 1 :]
    swapped = left[start : start + 2] == right[start : start + 2][::-1]
    return left[start + 1 :] == right[start + 1 :] or (swapped and left[start + 2 :] == right[start + 2 :])


def _written(tool_id: str) -> tuple[str, str, set[str], set[str]]:
    """Its server, and how the names of a tool may be written: the whole id in letters and digits alone; the names as
    they are; and in letters and digits alone, with and without the server, and as hosts prefix it."""
    server, name = identity(tool_id)
    spelled = spelling_of(name)
    if not server:
        return "", spelled, {tool_id}, {spelled} if spelled else set()
    leaf = leaf_of(name, server)
    own, of_server = spelled if leaf == name else spelling_of(leaf), _spelling_of_server(server)
    prefixed = of_server + own
    spellings = {spelled, own, prefixed, MCP_SPELLED + prefixed}
    spellings.discard("")
    return server, of_server + spelled, {tool_id, name, leaf}, spellings


def _places(text: str, piece: str) -> Iterator[int]:
    """Where a piece stands in a text."""
    place = text.find(piece)
    while place >= 0:
        yield place
        place = text.find(piece, place + len(piece))


def _put_beside(table: Table, key: str, tool_id: str) -> None:
    """Put an id under a key that has another."""
    own = table[key]
    if isinstance(own, dict):
        own[tool_id] = None
    else:
        table[key] = {own: None, tool_id: None}


def _drop(table: Table, key: str, tool_id: str) -> bool:
    """Take an id away from under a key, and say whether it was the last."""
    own = table.get(key)
    if isinstance(own, dict):
        own.pop(tool_id, None)
    if own == tool_id or own == {}:
        del table[key]
        return True
    return False


def _sorted(table: Table, key: str) -> list[str]:
    """The ids under a key, in order."""
    own = table.get(key, {})
    return [own] if isinstance(own, str) else sorted(own)


def _take(table: dict[Any, dict[str, Any]], key: object, value: str) -> None:
    """Take a value out of a set of a table, and the set when it is empty."""
    own = table.get(key)
    if own is not None:
        own.pop(value, None)
        if not own:
            del table[key]
