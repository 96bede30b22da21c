"""The description of a tool in a catalog, and an index of tools by name.

A stranger's server may have written any part of a description, so it is validated. `ToolNames` finds tools by their
exact name, with or without the server, in another spelling, or with one wrong letter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from onhand.errors import InputError
from onhand.hidden_characters import repair_surrogates
from onhand.lexical.tokenizer import fold
from onhand.record import Record
from onhand.tools.tool import Tool, copy_json

MAX_NAME_CHARS = 128  # the limit of MCP
MAX_SERVER_CHARS = 256
MAX_TEXT_CHARS = 4_000_000  # a description of a megabyte is odd, but no reason to reject the tool
SUMMARY_CHARS = 200
MCP = "mcp__"  # the prefix that hosts put before the server and the name of an MCP tool


NOTHING: Mapping[str, Any] = {}  # shared, because a catalog may have tens of thousands of tools


class CatalogTool(Record):
    """A tool that can be found, whatever runs it."""

    name: str  # to call it by
    description: str = ""
    input_schema: Mapping[str, Any] = NOTHING
    source: str = "builtin"  # or mcp, skill, plugin
    server: str = ""  # that it belongs to, if any
    label: str = ""  # for people; by default the name
    summary: str = ""  # by default the beginning of the description
    hints: tuple[str, ...] = ()  # further words to find it by, never shown
    output_schema: Mapping[str, Any] = NOTHING
    annotations: Mapping[str, Any] = NOTHING  # its own claims, such as that it is read-only

    @property
    def id(self) -> str:
        """The unique id. Servers choose names, and two may choose the same one."""
        return f"{self.server}/{self.name}" if self.server else self.name

    @property
    def leaf(self) -> str:
        """The name that its server uses."""
        return leaf_of(self.name, self.server)


def leaf_of(name: str, server: str = "") -> str:
    """Return the tool's own name, without `mcp__server__`, `mcp__server_` or `server__`."""
    if not server or not name.startswith((MCP, server)):  # the common case, without building the prefixes
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
    """Return the server and the name in an id; names contain no slash."""
    server, _, name = tool_id.rpartition("/")
    return server, name


def catalog_tool(tool: Tool, source: str = "builtin", server: str = "") -> CatalogTool:
    """Return the description of a Tool for the catalog."""
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
    """Return the tool with valid text and every field filled in; raise InputError if it cannot be stored."""
    if not isinstance(tool, CatalogTool):
        raise InputError(f"a tool of a catalog must be a CatalogTool, not a {type(tool).__name__}")
    values: tuple[Any, ...] = tuple(tool)  # of any type: the fields have not been checked
    name, description, input_schema, source, server, label, summary, hints, output_schema, annotations = values
    name = _check_name(name)
    texts = (description, source, server, label, summary)
    if {*map(type, texts)} != {str} or len(joined := "".join(texts)) > MAX_TEXT_CHARS or not joined.isascii():
        fields = ("description", "source", "server", "label", "summary")
        checked = [_check_text(text, f"tool {name}: {field}") for field, text in zip(fields, texts, strict=True)]
        description, source, server, label, summary = checked
    if len(server) > MAX_SERVER_CHARS or not server.isprintable():
        raise InputError(f"tool {name}: the server name {server[:100]!r} is not valid: use at most {MAX_SERVER_CHARS} "
                         "printable characters")  # fmt: skip
    if hints != () and (not isinstance(hints, tuple | list) or not all(isinstance(hint, str) for hint in hints)):
        raise InputError(f"tool {name}: hints must be a list of strings")
    checked_tool = (
        name,
        description,
        _check_schema(input_schema, name, "input_schema") if input_schema else NOTHING,
        source or "builtin",
        server or server_in(name),
        label or name,
        summary or description[:SUMMARY_CHARS],
        tuple(map(repair_surrogates, hints)) if hints else (),
        _check_schema(output_schema, name, "output_schema") if output_schema else NOTHING,
        _check_schema(annotations, name, "annotations") if annotations else NOTHING,
    )
    return tuple.__new__(CatalogTool, checked_tool)  # faster than the constructor; there may be thousands


def _check_name(name: Any) -> str:
    """Return the name; raise InputError if it cannot be stored and shown."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= MAX_NAME_CHARS
        or not name.isprintable()
        or name != name.strip()
        or "/" in name
    ):
        raise InputError(f"tool name {str(name)[:140]!r} is not valid: use 1 to {MAX_NAME_CHARS} printable characters "
                         "other than '/'")  # fmt: skip
    return name


def _check_text(text: Any, where: str) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise InputError(f"{where} must be a string, not {type(text).__name__}")
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(f"{where} has {len(text):,} characters: use at most {MAX_TEXT_CHARS:,}")
    return repair_surrogates(text)


def _check_schema(schema: Any, name: str, field: str) -> Mapping[str, Any]:
    where = f"tool {name}: {field}"
    if not isinstance(schema, Mapping):
        raise InputError(f"{where} must be a JSON object, not {type(schema).__name__}")
    copied: dict[str, Any]
    try:
        copied = copy_json(schema, where)
    except InputError:  # it may only have lone surrogates, which can be repaired
        copied = copy_json(schema, where, lambda text, _: repair_surrogates(text))
    return copied


MIN_TYPO_CHARS = 4  # in a shorter name, one letter makes too much of a difference
MAX_QUERIED_CHARS = 400  # a longer text is not a name
NEAREST = 3
MCP_SPELLED = MCP.strip("_")
Table = dict[str, str | dict[str, None]]  # a key → its id, or several ids, which is rare
_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())


class ToolNames:
    """The names of the tools in a catalog."""

    def __init__(self) -> None:
        self._exact: Table = {}  # id, name or leaf → ids
        self._spelled: Table = {}  # normalized names, with and without the server → ids
        self._servers: dict[str, dict[str, str]] = {}  # server or "" → its ids → their normalized names
        self._lengths: defaultdict[int, dict[str, None]] = defaultdict(dict)  # length → normalized names of that length
        self._listed: dict[int, str] = {}  # length → the same names as lines of one text, built on first use

    def add(self, tool_id: str) -> None:
        """Add the names of a tool."""
        server, whole, names, spellings = _spellings_of(tool_id)
        self._servers.setdefault(server, {})[tool_id] = whole
        exact, spelled = self._exact, self._spelled
        for name in names:
            if exact.setdefault(name, tool_id) != tool_id:
                _add_another(exact, name, tool_id)
        for spelling in spellings:
            if spelled.setdefault(spelling, tool_id) != tool_id:
                _add_another(spelled, spelling, tool_id)
            else:
                self._lengths[len(spelling)][spelling] = None
                if self._listed:
                    self._listed.pop(len(spelling), None)

    def remove(self, tool_id: str) -> None:
        """Remove the names of a tool."""
        server, _, names, spellings = _spellings_of(tool_id)
        _discard(self._servers, server, tool_id)
        for name in names:
            _drop(self._exact, name, tool_id)
        for spelling in spellings:
            if _drop(self._spelled, spelling, tool_id):
                _discard(self._lengths, len(spelling), spelling)
                self._listed.pop(len(spelling), None)

    def exact(self, name: str) -> list[str]:
        """Return the ids of the tools with exactly this id or name, with or without the server."""
        return _sorted_ids(self._exact, name)

    def find_spelling(self, name: str) -> list[str]:
        """Return the ids of the tools with this name in any spelling, such as `createIssue` or `Create issue`."""
        return _sorted_ids(self._spelled, normalize_name(name)) if len(name) <= MAX_QUERIED_CHARS else []

    def find_misspelling(self, name: str) -> list[str]:
        """Return the ids of the tools whose name differs by one letter or by two swapped ones."""
        normalized = normalize_name(name) if len(name) <= MAX_QUERIED_CHARS else ""
        if len(normalized) < MIN_TYPO_CHARS:
            return []
        found: dict[str, None] = {}
        for length in (len(normalized) - 1, len(normalized), len(normalized) + 1):
            for spelling in self._candidates(normalized, length):
                if is_one_edit_apart(normalized, spelling):
                    found.update(dict.fromkeys(_sorted_ids(self._spelled, spelling)))
        return sorted(found)

    def _candidates(self, normalized: str, length: int) -> set[str]:
        """Return the names of a length that share a half with a name: one mistake leaves one half intact."""
        own = self._lengths.get(length)
        if not own or length < MIN_TYPO_CHARS:
            return set()
        if length not in self._listed:
            self._listed[length] = "\n".join(["", *own, ""])
        lines = self._listed[length]
        middle = length // 2
        # The middle letter is in neither half, so that two swapped letters affect only one half.
        rest = length - middle - 1
        first, second = f"\n{normalized[:middle]}", f"{normalized[len(normalized) - rest :]}\n"
        starts = [place + 1 for place in _find_all(lines, first)]
        starts += [place + rest - length for place in _find_all(lines, second)]
        return {lines[start : start + length] for start in starts}

    def having(self, pieces: Collection[str], servers: Collection[str]) -> set[str]:
        """Return the ids of the tools of some servers, or of all, whose names contain every piece."""
        found: set[str] = set()
        for server in servers or self._servers:
            own = self._servers.get(server, {})
            left = list(own)
            for piece in map(normalize_name, pieces):
                left = [tool_id for tool_id in left if piece in own[tool_id]]
            found.update(left)
        return found

    def servers(self) -> dict[str, int]:
        """Count the tools of each server."""
        return {server: len(own) for server, own in sorted(self._servers.items()) if server}

    def nearest(self, name: str) -> list[str]:
        """Return the ids or names that are most similar to an unknown name."""
        from difflib import get_close_matches

        meant = self.find_spelling(name) or self.find_misspelling(name)
        return meant[:NEAREST] or get_close_matches(name[:MAX_QUERIED_CHARS], self._exact, NEAREST)


def normalize_name(name: str) -> str:
    """Return the lower-case letters and digits of a name, without accents: the same for every spelling."""
    if name.isascii():  # a faster way to the same result
        return name.lower().encode().translate(None, _SIGNS).decode()
    return "".join(filter(str.isalnum, fold(name).casefold()))


_normalize_server = lru_cache(1000)(normalize_name)  # the same for all tools of a server


def is_one_edit_apart(left: str, right: str) -> bool:
    """Return whether two texts differ by one inserted, missing or wrong letter, or by two swapped ones."""
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
    """Return the server of a tool, its normalized id, its exact names, and its normalized names.

    The normalized names are with and without the server, and with the prefix of hosts.
    """
    server, name = split_id(tool_id)
    spelled = normalize_name(name)
    if not server:
        return "", spelled, {tool_id}, {spelled} if spelled else set()
    leaf = leaf_of(name, server)
    own, of_server = spelled if leaf == name else normalize_name(leaf), _normalize_server(server)
    prefixed = of_server + own
    spellings = {spelled, own, prefixed, MCP_SPELLED + prefixed}
    spellings.discard("")
    return server, of_server + spelled, {tool_id, name, leaf}, spellings


def _find_all(text: str, piece: str) -> Iterator[int]:
    """Yield the positions of a piece in a text."""
    place = text.find(piece)
    while place >= 0:
        yield place
        place = text.find(piece, place + len(piece))


def _add_another(table: Table, key: str, tool_id: str) -> None:
    """Add an id under a key that already has another one."""
    own = table[key]
    if isinstance(own, dict):
        own[tool_id] = None
    else:
        table[key] = {own: None, tool_id: None}


def _drop(table: Table, key: str, tool_id: str) -> bool:
    """Remove an id from under a key; return whether it was the last one."""
    own = table.get(key)
    if isinstance(own, dict):
        own.pop(tool_id, None)
    if own == tool_id or own == {}:
        del table[key]
        return True
    return False


def _sorted_ids(table: Table, key: str) -> list[str]:
    """Return the sorted ids under a key."""
    own = table.get(key, {})
    return [own] if isinstance(own, str) else sorted(own)


def _discard(table: dict[Any, dict[str, Any]], key: object, value: str) -> None:
    """Remove a value from under a key, and the key with its last value."""
    own = table.get(key)
    if own is not None:
        own.pop(value, None)
        if not own:
            del table[key]
