"""Describe a tool before it is called: its name, its server and what it says about itself; and index tools by name.

Everything here may have been written by a stranger's server. `ToolNames` finds tools by names as they are, without
their server, in any spelling, or with one letter wrong. Nothing here ranks, keeps or runs a tool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from onhand.errors import InputError
from onhand.lexical.tokenizer import fold
from onhand.record import Record
from onhand.text import repair_surrogates
from onhand.tools.tool import Tool, copy_json

MAX_NAME_CHARS = 128  # as MCP has it
MAX_SERVER_CHARS = 256
MAX_TEXT_CHARS = 4_000_000  # of a description: one of a megabyte is odd, but no reason to lose the tool
SUMMARY_CHARS = 200
MCP = "mcp__"  # what hosts put before the names of an MCP server's tools, followed by the server


NOTHING: Mapping[str, Any] = {}  # shared by all tools: a catalog may have tens of thousands


class CatalogTool(Record):
    """A tool that can be found, whatever runs it."""

    name: str  # by which it is called
    description: str = ""
    input_schema: Mapping[str, Any] = NOTHING
    source: str = "builtin"  # or mcp, skill, plugin
    server: str = ""  # whose it is, where it is a server's
    label: str = ""  # for people; the name where there is none
    summary: str = ""  # the beginning of the description where there is none
    hints: tuple[str, ...] = ()  # further words to find it by, which are never shown
    output_schema: Mapping[str, Any] = NOTHING
    annotations: Mapping[str, Any] = NOTHING  # what it claims of itself: read-only, destructive

    @property
    def id(self) -> str:
        """What tells it from every other tool: names are the servers' choice, and two may choose the same one."""
        return f"{self.server}/{self.name}" if self.server else self.name

    @property
    def leaf(self) -> str:
        """The name that its own server gave it."""
        return leaf_of(self.name, self.server)


def leaf_of(name: str, server: str = "") -> str:
    """Return the tool's own name, without `mcp__server__`, `mcp__server_` or `server__`."""
    if not server or not name.startswith((MCP, server)):  # as most: to write the prefixes costs more
        return name
    for prefix in (f"{MCP}{server}__", f"{server}__", f"{MCP}{server}_"):
        if name.startswith(prefix) and len(name) > len(prefix):
            return name[len(prefix) :]
    return name


def server_in(name: str) -> str:
    """Return the server in a name of the form `mcp__server__tool`."""
    server, _, leaf = name.removeprefix(MCP).partition("__")
    return server if name.startswith(MCP) and leaf else ""


def split_id(tool_id: str) -> tuple[str, str]:
    """Return server and name of the tool with this id; a name has no slash."""
    server, _, name = tool_id.rpartition("/")
    return server, name


def catalog_tool(tool: Tool, source: str = "builtin", server: str = "") -> CatalogTool:
    """Return a tool of the registry as the catalog describes it."""
    return CatalogTool(
        tool.name,
        tool.description,
        tool.input_schema,
        source,
        server,
        output_schema=tool.output_schema or NOTHING,
        annotations=tool.annotations(),
    )


def validate_tool(tool: CatalogTool) -> CatalogTool:
    """Return the tool with valid text and every field filled; InputError says why it cannot be kept."""
    if not isinstance(tool, CatalogTool):
        raise InputError(f"a tool of the catalog is a CatalogTool, not a {type(tool).__name__}")
    given: tuple[Any, ...] = tuple(tool)  # of any type: nothing has checked the fields
    name, description, input_schema, source, server, label, summary, hints, output_schema, annotations = given
    name = accepted_name(name)
    texts = (description, source, server, label, summary)
    if {*map(type, texts)} != {str} or len(said := "".join(texts)) > MAX_TEXT_CHARS or not said.isascii():
        fields = ("description", "source", "server", "label", "summary")
        checked = [_text(text, f"tool {name}: {field}") for field, text in zip(fields, texts, strict=True)]
        description, source, server, label, summary = checked
    if len(server) > MAX_SERVER_CHARS or not server.isprintable():
        raise InputError(f"tool {name}: the server's name {server[:100]!r} cannot be used: at most {MAX_SERVER_CHARS} "
                         "printable characters")  # fmt: skip
    if hints != () and (not isinstance(hints, tuple | list) or not all(isinstance(hint, str) for hint in hints)):
        raise InputError(f"tool {name}: hints are a list of texts")
    checked_tool = (
        name,
        description,
        _schema(input_schema, name, "input_schema") if input_schema else NOTHING,
        source or "builtin",
        server or server_in(name),
        label or name,
        summary or description[:SUMMARY_CHARS],
        tuple(map(repair_surrogates, hints)) if hints else (),
        _schema(output_schema, name, "output_schema") if output_schema else NOTHING,
        _schema(annotations, name, "annotations") if annotations else NOTHING,
    )
    return tuple.__new__(CatalogTool, checked_tool)  # there may be thousands


def accepted_name(name: Any) -> str:
    """Return a name that can be kept and shown; InputError for any other."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= MAX_NAME_CHARS
        or not name.isprintable()
        or name != name.strip()
        or "/" in name
    ):
        raise InputError(f"tool name {str(name)[:140]!r} cannot be used: 1 to {MAX_NAME_CHARS} printable characters "
                         "other than '/'")  # fmt: skip
    return name


def _text(text: Any, where: str) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise InputError(f"{where} is a text, not {type(text).__name__}")
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(f"{where} has {len(text):,} characters: at most {MAX_TEXT_CHARS:,}")
    return repair_surrogates(text)


def _schema(schema: Any, name: str, field: str) -> Mapping[str, Any]:
    where = f"tool {name}: {field}"
    if not isinstance(schema, Mapping):
        raise InputError(f"{where} is a JSON object, not {type(schema).__name__}")
    copied: dict[str, Any]
    try:
        copied = copy_json(schema, where)
    except InputError:  # it may have halves of characters, which can be mended, or be no schema at all
        copied = copy_json(schema, where, lambda text, _: repair_surrogates(text))
    return copied


MIN_TYPO_CHARS = 4  # in a shorter name one letter is too much of it
MAX_QUERIED_CHARS = 400  # a longer text is not a name
NEAREST = 3
MCP_SPELLED = MCP.strip("_")
Table = dict[str, str | dict[str, None]]  # a key → its id, or several ids, which is rare
_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())


class ToolNames:
    """The names of a catalog's tools, kept current while tools come and go."""

    def __init__(self) -> None:
        self._exact: Table = {}  # id, name or own name → ids
        self._spelled: Table = {}  # the same and more, in letters and digits alone → ids
        self._servers: dict[str, dict[str, str]] = {}  # server, "" where there is none → its ids → their spelling
        self._lengths: defaultdict[int, dict[str, None]] = defaultdict(dict)  # length → the spellings that are so long
        self._listed: dict[int, str] = {}  # the same as lines of one text, for lengths that were asked for

    def add(self, tool_id: str) -> None:
        """Let a tool be found by its names."""
        server, whole, names, spellings = _spellings_of(tool_id)
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
        server, _, names, spellings = _spellings_of(tool_id)
        _take(self._servers, server, tool_id)
        for name in names:
            _drop(self._exact, name, tool_id)
        for spelling in spellings:
            if _drop(self._spelled, spelling, tool_id):
                _take(self._lengths, len(spelling), spelling)
                self._listed.pop(len(spelling), None)

    def exact(self, name: str) -> list[str]:
        """Return the ids of the tools with exactly that id, name, or name without its server."""
        return _sorted_ids(self._exact, name)

    def find_spelling(self, name: str) -> list[str]:
        """Return the ids of the tools with that name in some spelling: `createIssue`, `Create issue`."""
        return _sorted_ids(self._spelled, normalize_name(name)) if len(name) <= MAX_QUERIED_CHARS else []

    def find_misspelling(self, name: str) -> list[str]:
        """Return the ids of the tools whose name differs in one letter, or in two that are swapped."""
        asked = normalize_name(name) if len(name) <= MAX_QUERIED_CHARS else ""
        if len(asked) < MIN_TYPO_CHARS:
            return []
        found: dict[str, None] = {}
        for length in (len(asked) - 1, len(asked), len(asked) + 1):
            for spelling in self._sharing_a_half(asked, length):
                if is_one_edit_apart(asked, spelling):
                    found.update(dict.fromkeys(_sorted_ids(self._spelled, spelling)))
        return sorted(found)

    def _sharing_a_half(self, asked: str, length: int) -> set[str]:
        """Return the spellings of a length that share a half with the name: one mistake leaves one half intact."""
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
        """Return the ids of the tools of some servers, or of all, whose names contain every one of the pieces."""
        found: set[str] = set()
        for server in servers or self._servers:
            own = self._servers.get(server, {})
            left = list(own)
            for piece in map(normalize_name, pieces):
                left = [tool_id for tool_id in left if piece in own[tool_id]]
            found.update(left)
        return found

    def servers(self) -> dict[str, int]:
        """Count the tools of each server, by its name."""
        return {server: len(own) for server, own in sorted(self._servers.items()) if server}

    def nearest(self, name: str) -> list[str]:
        """Return the names that look most like one that does not exist."""
        from difflib import get_close_matches

        meant = self.find_spelling(name) or self.find_misspelling(name)
        return meant[:NEAREST] or get_close_matches(name[:MAX_QUERIED_CHARS], self._exact, NEAREST)


def normalize_name(name: str) -> str:
    """Return only the letters and digits, lower-cased and without accents: the same for every spelling of a name."""
    if name.isascii():  # the same as below, only faster
        return name.lower().encode().translate(None, _SIGNS).decode()
    return "".join(filter(str.isalnum, fold(name).casefold()))


_spelling_of_server = lru_cache(1000)(normalize_name)  # the same for all its tools


def is_one_edit_apart(left: str, right: str) -> bool:
    """Whether two texts differ by one inserted, missing or wrong letter, or by two that are swapped."""
    if len(left) > len(right):
        left, right = right, left
    if len(right) - len(left) > 1:
        return False
    start = next((place for place, (one, other) in enumerate(zip(left, right)) if one != other), len(left))  # noqa: B905
    if len(left) < len(right):
        return left[start:] == right[start + 1 :]
    swapped = left[start : start + 2] == right[start : start + 2][::-1]
    return left[start + 1 :] == right[start + 1 :] or (swapped and left[start + 2 :] == right[start + 2 :])


def _spellings_of(tool_id: str) -> tuple[str, str, set[str], set[str]]:
    """Its server, and how the names of a tool may be written: the whole id in letters and digits alone; the names as
    they are; and in letters and digits alone, with and without the server, and as hosts prefix it."""
    server, name = split_id(tool_id)
    spelled = normalize_name(name)
    if not server:
        return "", spelled, {tool_id}, {spelled} if spelled else set()
    leaf = leaf_of(name, server)
    own, of_server = spelled if leaf == name else normalize_name(leaf), _spelling_of_server(server)
    prefixed = of_server + own
    spellings = {spelled, own, prefixed, MCP_SPELLED + prefixed}
    spellings.discard("")
    return server, of_server + spelled, {tool_id, name, leaf}, spellings


def _places(text: str, piece: str) -> Iterator[int]:
    """Yield the positions of a piece in a text."""
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


def _sorted_ids(table: Table, key: str) -> list[str]:
    """Return the ids under a key, in order."""
    own = table.get(key, {})
    return [own] if isinstance(own, str) else sorted(own)


def _take(table: dict[Any, dict[str, Any]], key: object, value: str) -> None:
    """Take a value out of a set of a table, and the set when it is empty."""
    own = table.get(key)
    if own is not None:
        own.pop(value, None)
        if not own:
            del table[key]
