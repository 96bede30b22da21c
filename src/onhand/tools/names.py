"""Which tools does a name mean? Names as they are, without their server, in any spelling, or with one letter wrong.

It knows names and servers, but neither what the tools do nor how they are ranked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from onhand.lexical.tokenize import fold
from onhand.tools.catalog_tool import MCP, identity, leaf_of

MIN_TYPO_CHARS = 4  # in a shorter name one letter is too much of it
MAX_ASKED_CHARS = 400  # what is longer is no name of anything
NEAREST = 3
_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())


class Names:
    """The names of a catalog's tools, kept current while tools come and go."""

    def __init__(self) -> None:
        self._exact: dict[str, dict[str, None]] = {}  # id, name or own name → ids
        self._spelled: dict[str, dict[str, None]] = {}  # the same and more, in letters and digits alone → ids
        self._halves: dict[tuple[bool, str], dict[str, None]] = {}  # whether it is the first, half → spellings
        self._whole: dict[str, str] = {}  # id → its spelling

    def add(self, tool_id: str) -> None:
        """Let a tool be found by its names."""
        self._whole[tool_id] = spelling_of(tool_id)
        for name in _names(tool_id):
            self._exact.setdefault(name, {})[tool_id] = None
        for spelling in _spellings(tool_id):
            if spelling not in self._spelled:
                for half in _halves(spelling):
                    self._halves.setdefault(half, {})[spelling] = None
            self._spelled.setdefault(spelling, {})[tool_id] = None

    def remove(self, tool_id: str) -> None:
        """Take a tool's names out."""
        self._whole.pop(tool_id, None)
        for name in _names(tool_id):
            _drop(self._exact, name, tool_id)
        for spelling in _spellings(tool_id):
            _drop(self._spelled, spelling, tool_id)
            if spelling not in self._spelled:
                for half in _halves(spelling):
                    _drop(self._halves, half, spelling)

    def exact(self, name: str) -> list[str]:
        """The ids of the tools of just that id, name, or name without its server."""
        return sorted(self._exact.get(name, ()))

    def spelled(self, name: str) -> list[str]:
        """The ids of the tools whose name is that one in some spelling: `createIssue`, `Create issue`."""
        return sorted(self._spelled.get(spelling_of(name), ())) if len(name) <= MAX_ASKED_CHARS else []

    def misspelt(self, name: str) -> list[str]:
        """The ids of the tools whose name differs in one letter, or two that are swapped."""
        asked = spelling_of(name) if len(name) <= MAX_ASKED_CHARS else ""
        if len(asked) < MIN_TYPO_CHARS:
            return []
        found: dict[str, None] = {}
        for half in _halves_near(asked):
            for spelling in self._halves.get(half, ()):
                if is_one_off(asked, spelling):
                    found.update(self._spelled[spelling])
        return sorted(found)

    def having(self, pieces: Collection[str], servers: Collection[str]) -> set[str]:
        """The ids of the tools of some servers, or of all, whose names have every one of some pieces."""
        spelled = [spelling_of(piece) for piece in pieces]
        found = {tool_id for tool_id, whole in self._whole.items() if all(piece in whole for piece in spelled)}
        return {tool_id for tool_id in found if identity(tool_id)[0] in servers} if servers else found

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


def _names(tool_id: str) -> set[str]:
    server, name = identity(tool_id)
    return {tool_id, name, leaf_of(name, server)}


def _spellings(tool_id: str) -> set[str]:
    """With and without the server, and as hosts prefix it."""
    server, name = identity(tool_id)
    leaf = leaf_of(name, server)
    written = (name, leaf, f"{server}{leaf}", f"{MCP}{server}{leaf}") if server else (name,)
    return set(filter(None, map(spelling_of, written)))


def _halves(spelling: str) -> Iterator[tuple[bool, str]]:
    """What is left of a name on at least one side of any one mistake: the letter in the middle is in neither half, so
    that two swapped ones spoil only one of them."""
    if len(spelling) >= MIN_TYPO_CHARS:
        middle = len(spelling) // 2
        yield True, spelling[:middle]
        yield False, spelling[middle + 1 :]


def _halves_near(asked: str) -> Iterator[tuple[bool, str]]:
    """The halves of all names that are one mistake away from this."""
    for length in (len(asked) - 1, len(asked), len(asked) + 1):
        middle = length // 2
        yield True, asked[:middle]
        yield False, asked[len(asked) - (length - middle - 1) :]


def _drop(table: dict, key: object, value: str) -> None:  # type: ignore[type-arg]
    """Take a value out of a set of a table, and the set when it is empty."""
    own = table.get(key)
    if own is not None:
        own.pop(value, None)
        if not own:
            del table[key]
