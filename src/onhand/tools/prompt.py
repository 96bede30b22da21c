"""Write the tools' part of a prompt: full definitions of the loaded tools, and a compact index of the others.

A signature such as `create_issue(repo, title, body?, state: open|closed)` has a hundredth of the size of a schema, and
is enough for most calls. `ToolPrompt` only lets the text grow at its end; the session decides which tools are loaded.
A stranger may have written names and descriptions, so each is put on one line and can neither close the index nor forge
another block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onhand.record import Record
from onhand.text import one_line, quantity

if TYPE_CHECKING:
    from onhand.tools.catalog_tool import CatalogTool

MAX_ARGUMENTS = 24  # an ellipsis stands for the others
MAX_VALUES = 8  # of an enum
MAX_WORD_CHARS = 40  # of a name or a value
# Nested references, unions and arrays that are followed for one argument: enough for a list of optional references. In
# a hostile schema, each may branch MAX_VALUES times.
MAX_HOPS = 5

# Types that are left out of a signature, because they are the usual ones or say nothing.
_OMITTED_TYPES = ("string", "str", "object", "dict", "any", None)
_TYPE_NAMES = {"integer": "int", "number": "number", "boolean": "bool", "array": "list"}


class Argument(Record):
    """An argument in a signature."""

    name: str
    required: bool
    form: str  # such as "open|closed", "int" or "[int]"; "" if it is omitted

    def __str__(self) -> str:
        mark = "" if self.required else "?"
        return f"{self.name}{mark}: {self.form}" if self.form else f"{self.name}{mark}"


def signature(name: str, input_schema: Mapping[str, Any]) -> str:
    """Return a tool's name with its arguments, required ones first."""
    properties = input_schema.get("properties")
    named = properties if isinstance(properties, Mapping) else {}
    listed = input_schema.get("required")
    required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    names = sorted(named, key=lambda name: name not in required)
    arguments = [
        str(Argument(_shorten(one), one in required, _type_name(named[one], input_schema)))
        for one in names[:MAX_ARGUMENTS]
    ]
    more = ["…"] if len(names) > MAX_ARGUMENTS else []
    return f"{_shorten(name, 140)}({', '.join([*arguments, *more])})"


def _type_name(part: Any, root: Mapping[str, Any], hops: int = MAX_HOPS) -> str:
    """Return the type of an argument in a word; empty for a string or a complicated type."""
    if not isinstance(part, Mapping) or hops == 0:
        return ""
    values = part.get("enum") if isinstance(part.get("enum"), list) else None
    if values is None and "const" in part:
        values = [part["const"]]
    if values:
        listed = [_shorten(value if isinstance(value, str) else compact_json(value)) for value in values[:MAX_VALUES]]
        return "|".join([*listed, "…"] if len(values) > MAX_VALUES else listed)
    if isinstance(part.get("$ref"), str):
        return _type_name(_follow_reference(part["$ref"], root), root, hops - 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(part.get(key), list):
            return _union_type_name(part[key], root, hops)
    kind = part.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), None)
    if kind == "array":
        inner = _type_name(part.get("items"), root, hops - 1)
        return f"[{inner}]" if inner else "list"
    return "" if not isinstance(kind, str) or kind in _OMITTED_TYPES else _TYPE_NAMES.get(kind, _shorten(kind))


def _union_type_name(choices: list[Any], root: Mapping[str, Any], hops: int) -> str:
    """Return the type of a union if all members but null have the same; otherwise an empty text."""
    forms = {_type_name(one, root, hops - 1) for one in choices[:MAX_VALUES] if one != {"type": "null"}}
    return forms.pop() if len(forms) == 1 else ""


def _follow_reference(reference: str, root: Mapping[str, Any]) -> Any:
    """Return the part of the schema that a reference refers to, or None."""
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def _shorten(text: str, max_chars: int = MAX_WORD_CHARS) -> str:
    """Return a name or value on one line, shortened, without unprintable characters."""
    word = "".join(filter(str.isprintable, text[: 4 * max_chars]))
    return word if len(word) <= max_chars else f"{word[: max_chars - 1]}…"


MAX_LISTED_SERVERS = 40  # in a description; the index lists all of them
SUMMARY_CHARS = (96, 48)  # of descriptions; the most informative index that fits is used
MAX_CHARS_PER_TOKEN = 8  # more than any list of names has, so a longer text need not be counted
NAMES_PER_SERVER = (10_000, 400, 200, 100, 50, 24, 8, 3)
NAMES_OF_CHANGES = 24  # per server, in a block of changes

INTRODUCTION = (
    "These tools are not loaded. Before you call one, load it with {finder}: say what it should do, or name it. "
    "By server:"
)


class ToolSection(Record):
    """The tools' part of a request. The head stays the same while tools are activated, and the tail grows."""

    head: str  # the definitions that are always loaded, then the index
    tail: str  # definitions of activated tools and changes since the index was written, in that order

    @property
    def text(self) -> str:
        """Head and tail, in the order that keeps the longest prefix stable."""
        return self.head + self.tail

    @property
    def words(self) -> str:
        """The index and its changes, without the definitions, for providers that take those separately."""
        # Only these two blocks contain a `<` at the start of a line: in definitions it is escaped.
        blocks = re.findall(r"^<(tool_index|tool_changes)>\n(.*?)^</\1>$", self.text, re.MULTILINE | re.DOTALL)
        return "\n\n".join(f"<{tag}>\n{inner}</{tag}>" for tag, inner in blocks)


class ToolPrompt:
    """The text about the tools as it was last written. Not thread-safe: its owner holds a lock."""

    def __init__(self) -> None:
        self._wired: tuple[dict[str, Any], ...] = ()
        self._head = ""
        self._added: list[
            tuple[str, dict[str, Any] | None, str]
        ] = []  # id, definition, text; a note has no id and no definition

    def begin(self, loaded: Iterable[dict[str, Any]], index_text: str) -> None:
        """Write the head: definitions by name, then the index. Appended definitions stay, notes are removed."""
        self._wired = tuple(sorted(loaded, key=lambda wired: str(wired["name"])))
        lines = "".join(f"{escape_tags_in_json(compact_json(wired))}\n" for wired in self._wired)
        self._head = f"{lines}{index_text}\n" if index_text else lines
        self._added = [row for row in self._added if row[1]]

    def add(self, id: str, tool: CatalogTool) -> str:
        """Append a definition; return the text that was written."""
        text = render_definition(tool)
        self._added.append((id, wire_tool(tool), text))
        return text

    def note(self, text: str) -> None:
        """Append a note about tools that were added or removed."""
        self._added.append(("", None, text))

    def drop(self, ids: Collection[str]) -> None:
        """Remove appended definitions."""
        if ids:
            self._added = [row for row in self._added if row[0] not in ids]

    def renew(self, tools: Mapping[str, CatalogTool]) -> None:
        """Rewrite the appended definitions from the current tools."""
        self._added = [
            (id, wire_tool(tools[id]), render_definition(tools[id])) if wired else (id, None, text)
            for id, wired, text in self._added
        ]

    def added_ids(self) -> tuple[str, ...]:
        """Return the ids of the appended definitions, in order."""
        return tuple(id for id, wired, _ in self._added if wired)

    def section(self) -> ToolSection:
        """Return head and tail."""
        return ToolSection(self._head, "".join(text for _, _, text in self._added))

    def wire(self, added: bool = True) -> list[dict[str, Any]]:
        """Return copies of the definitions in the order of the text, with or without the appended ones."""
        appended = [wired for _, wired, _ in self._added if wired] if added else []
        copied: list[dict[str, Any]] = json.loads(json.dumps([*self._wired, *appended]))
        return copied


def wire_tool(tool: CatalogTool) -> dict[str, Any]:
    """Return the definition of a loaded tool: name, description and input_schema, in this order.

    It is a deep copy, because hosts change schemas in place for providers with further requirements.
    """
    copied: dict[str, Any] = json.loads(definition_json(tool))
    return copied


def definition_json(tool: CatalogTool) -> str:
    """Return the definition of a tool as JSON for a provider."""
    schema = {"type": "object", **tool.input_schema}
    return compact_json({"name": tool.name, "description": tool.description, "input_schema": schema})


def compact_json(value: Any) -> str:
    """Return JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def render_definition(tool: CatalogTool) -> str:
    """Return the definition of a tool as one line."""
    return escape_tags_in_json(definition_json(tool)) + "\n"


def render_signature(tool: CatalogTool) -> str:
    """Return the signature of a tool, with tags escaped."""
    return signature(tool.name, tool.input_schema).translate(_NO_TAG)


def escape_tags_in_json(text: str) -> str:
    """Escape what could start a tag in a JSON text. It can only be inside strings, where \\uXXXX means the same."""
    return text.translate(_IN_JSON)


def render_index(tools: Sequence[CatalogTool], finder: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return the most informative index of the deferred tools within the budget; empty if there are none."""
    if not tools:
        return ""
    by_server = group_by_server(tools)
    text = ""
    for lines in _index_levels(by_server):
        text = _wrap_block([INTRODUCTION.format(finder=finder), *lines])
        if len(text) <= MAX_CHARS_PER_TOKEN * max_tokens and count(text) <= max_tokens:
            break
    return text


def group_by_server(tools: Iterable[CatalogTool]) -> dict[str, list[CatalogTool]]:
    """Group tools by server, with both sorted. Tools without a server are grouped by their source."""
    groups: dict[str, list[CatalogTool]] = {}
    for tool in sorted(tools, key=lambda tool: (_group_of(tool), tool.name)):
        groups.setdefault(_group_of(tool), []).append(tool)
    return groups


def count_servers(servers: Mapping[str, int], limit: int = MAX_LISTED_SERVERS) -> str:
    """Return the servers with their number of tools, such as `github (23 tools), slack (1 tool)`, by name."""
    listed = [f"{plain_line(server, 60)} ({quantity(number, 'tool')})" for server, number in sorted(servers.items())]
    more = len(listed) - limit
    return ", ".join(listed[:limit]) + (f" and {quantity(more, 'more server')}" if more > 0 else "")


def render_changes(before: Mapping[str, CatalogTool], now: Mapping[str, CatalogTool]) -> str:
    """Return a block that lists the tools that were added or removed; empty if there are none."""
    added = [tool for id, tool in now.items() if id not in before]
    removed = [tool for id, tool in before.items() if id not in now]
    lines = [f"added: {line}" for line in _list_names(group_by_server(added), NAMES_OF_CHANGES)]
    lines += [f"removed: {line}" for line in _list_names(group_by_server(removed), NAMES_OF_CHANGES)]
    return _wrap_block(lines, "tool_changes") + "\n" if lines else ""


def plain_line(text: str, max_chars: int) -> str:
    """Return a stranger's text on one line, shortened, without invisible characters and with tags escaped."""
    return one_line(text, max_chars).translate(_NO_TAG)


_NO_TAG = {ord(char): "&lt;" for char in "<＜﹤≮"}  # a tokenizer may take the variants for the ASCII character
_IN_JSON = {ord(char): f"\\u{ord(char):04x}" for char in "<＜﹤≮"}


def _index_levels(by_server: Mapping[str, Sequence[CatalogTool]]) -> Iterator[list[str]]:
    for chars in SUMMARY_CHARS:
        yield list(_list_summaries(by_server, chars))
    for names in NAMES_PER_SERVER:
        yield list(_list_names(by_server, names))
    sizes = {server: len(tools) for server, tools in by_server.items()}
    yield [count_servers(sizes, limit=len(sizes))]
    yield [count_servers(sizes)]


def _list_summaries(by_server: Mapping[str, Sequence[CatalogTool]], chars: int) -> Iterator[str]:
    for server, tools in by_server.items():
        yield f"{plain_line(server, 60)}:"
        for tool in tools:
            yield f"- {plain_line(tool.leaf, 128)}: {plain_line(tool.summary or tool.description, chars)}"


def _list_names(by_server: Mapping[str, Sequence[CatalogTool]], limit: int) -> Iterator[str]:
    for server, tools in by_server.items():
        listed = ", ".join(plain_line(tool.leaf, 128) for tool in tools[:limit])
        more = len(tools) - limit
        yield f"{plain_line(server, 60)}: {listed}" + (f" and {more:,} more" if more > 0 else "")


def _group_of(tool: CatalogTool) -> str:
    return tool.server or tool.source


def _wrap_block(lines: Iterable[str], tag: str = "tool_index") -> str:
    return "\n".join([f"<{tag}>", *lines, f"</{tag}>"])
