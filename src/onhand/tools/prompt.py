"""What does a prompt say of the tools? Full definitions of those that are loaded, a compact index of the others.

Which tools are loaded is for `session`; here is what was written of them, and how it grows. Names and descriptions may
be a stranger's: each stands on one line and can neither close the index nor forge another block.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onhand import amounts
from onhand.record import Record
from onhand.tools.signature import signature

if TYPE_CHECKING:
    from onhand.tools.catalog_tool import CatalogTool

MAX_LISTED_SERVERS = 40  # in a description; the index has the others
SUMMARY_CHARS = (96, 48)  # the most telling index that fits wins
MAX_CHARS_PER_TOKEN = 8  # no list of names has so many; a longer text need not be counted
NAMES_PER_SERVER = (10_000, 400, 200, 100, 50, 24, 8, 3)
NAMES_OF_CHANGES = 24  # of each server, in what is said of a change

INTRODUCTION = (
    "These tools are not loaded. Before you call one, load it with {finder}: say what it should do, or name it. "
    "By server:"
)


class Section(Record):
    """The tools' part of a request. While only activations happen, head stays as it is and tail grows at its end."""

    head: str  # definitions that are always there, then the index
    tail: str  # definitions of activated tools and what came or went since the index was written, in that order

    @property
    def text(self) -> str:
        """Both, in the order that keeps the longest beginning stable."""
        return self.head + self.tail

    @property
    def words(self) -> str:
        """The text without the definitions, for providers that take those apart: the index, and what came or went."""
        # Of all that is written here only these two begin with `<`: in definitions it is spelled out.
        blocks = re.findall(r"^<(tool_index|tool_changes)>\n(.*?)^</\1>$", self.text, re.MULTILINE | re.DOTALL)
        return "\n\n".join(f"<{tag}>\n{inner}</{tag}>" for tag, inner in blocks)


class Prompt:
    """What was written of the tools. Not safe between threads: its owner holds a lock."""

    def __init__(self) -> None:
        self._wired: tuple[dict[str, Any], ...] = ()
        self._head = ""
        self._added: list[tuple[str, dict[str, Any] | None, str]] = []  # id, definition, text; a note has neither

    def begin(self, loaded: Iterable[dict[str, Any]], index_text: str) -> None:
        """Write the part that stays: definitions by name, then the index. What was added stays, but for notes."""
        self._wired = tuple(sorted(loaded, key=lambda wired: str(wired["name"])))
        lines = "".join(f"{spelled_out(compact(wired))}\n" for wired in self._wired)
        self._head = f"{lines}{index_text}\n" if index_text else lines
        self._added = [row for row in self._added if row[1]]

    def add(self, id: str, tool: "CatalogTool") -> str:
        """Write a definition below; what was written."""
        text = line(tool)
        self._added.append((id, wire(tool), text))
        return text

    def note(self, text: str) -> None:
        """Write below what came and went."""
        self._added.append(("", None, text))

    def drop(self, ids: Collection[str]) -> None:
        """Take definitions out again."""
        if ids:
            self._added = [row for row in self._added if row[0] not in ids]

    def renew(self, tools: Mapping[str, "CatalogTool"]) -> None:
        """Write what was added as it is now."""
        self._added = [
            (id, wire(tools[id]), line(tools[id])) if wired else (id, None, text) for id, wired, text in self._added
        ]

    def added(self) -> tuple[str, ...]:
        """The ids of what was added, in order."""
        return tuple(id for id, wired, _ in self._added if wired)

    def section(self) -> Section:
        """The whole as text."""
        return Section(self._head, "".join(text for _, _, text in self._added))

    def wire(self, added: bool = True) -> list[dict[str, Any]]:
        """The definitions in the order of the text, with or without what was added; copies, to be changed at will."""
        below = [wired for _, wired, _ in self._added if wired] if added else []
        copied: list[dict[str, Any]] = json.loads(json.dumps([*self._wired, *below]))
        return copied


def wire(tool: "CatalogTool") -> dict[str, Any]:
    """What a model is shown of a loaded tool: name, description and input_schema, in this order.

    A copy, through and through: hosts change schemas in place, for providers that ask for more than JSON Schema does.
    """
    copied: dict[str, Any] = json.loads(definition(tool))
    return copied


def definition(tool: "CatalogTool") -> str:
    """What a provider is sent of a tool."""
    schema = {"type": "object", **tool.input_schema}
    return compact({"name": tool.name, "description": tool.description, "input_schema": schema})


def compact(wired: Mapping[str, Any]) -> str:
    """JSON without a needless byte."""
    return json.dumps(wired, ensure_ascii=False, separators=(",", ":"))


def line(tool: "CatalogTool") -> str:
    """The definition of a tool as a line of a text."""
    return spelled_out(definition(tool)) + "\n"


def called_as(tool: "CatalogTool") -> str:
    """How a tool is called, in a line of a text."""
    return signature(tool.name, tool.input_schema).translate(_NO_TAG)


def spelled_out(spelled: str) -> str:
    """A JSON text in which nothing begins a tag: only strings can hold these, and \\uXXXX is how JSON spells them."""
    return spelled.translate(_IN_JSON)


def index(tools: Sequence["CatalogTool"], finder: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """The most telling list of tools that wait to be found within the budget; nothing when there are none."""
    if not tools:
        return ""
    by_server = grouped(tools)
    text = ""
    for lines in _levels(by_server):
        text = _block([INTRODUCTION.format(finder=finder), *lines])
        if len(text) <= MAX_CHARS_PER_TOKEN * max_tokens and count(text) <= max_tokens:
            break
    return text


def grouped(tools: Iterable["CatalogTool"]) -> dict[str, list["CatalogTool"]]:
    """Tools by server, both in order; those of no server are under the name of their source."""
    groups: dict[str, list[CatalogTool]] = {}
    for tool in sorted(tools, key=lambda tool: (_owner(tool), tool.name)):
        groups.setdefault(_owner(tool), []).append(tool)
    return groups


def counted(servers: Mapping[str, int], most: int = MAX_LISTED_SERVERS) -> str:
    """`github (23 tools), slack (1 tool)`, in order of the name."""
    listed = [
        f"{plain_line(server, 60)} ({amounts.counted(number, 'tool')})" for server, number in sorted(servers.items())
    ]
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {amounts.counted(more, 'more server')}" if more > 0 else "")


def delta(before: Mapping[str, "CatalogTool"], now: Mapping[str, "CatalogTool"]) -> str:
    """What came and went, by id, as lines to add below; nothing when nothing did."""
    came = [tool for id, tool in now.items() if id not in before]
    went = [tool for id, tool in before.items() if id not in now]
    lines = [f"came: {line}" for line in _names(grouped(came), NAMES_OF_CHANGES)]
    lines += [f"gone: {line}" for line in _names(grouped(went), NAMES_OF_CHANGES)]
    return _block(lines, "tool_changes") + "\n" if lines else ""


def plain_line(text: str, most: int) -> str:
    """A stranger's text on one line, cut, with nothing invisible, and no beginning of a tag."""
    shown = text[: 4 * most]
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() else " " for char in shown)
    shown = " ".join(shown.split())
    shown = shown if len(shown) <= most else f"{shown[: most - 1].rstrip()}…"
    return shown.translate(_NO_TAG)


_NO_TAG = {ord(char): "&lt;" for char in "<＜﹤≮"}  # the wide ones are what a tokenizer may take for a narrow one
_IN_JSON = {ord(char): f"\\u{ord(char):04x}" for char in "<＜﹤≮"}


def _levels(by_server: Mapping[str, Sequence["CatalogTool"]]) -> Iterator[list[str]]:
    for chars in SUMMARY_CHARS:
        yield list(_summaries(by_server, chars))
    for names in NAMES_PER_SERVER:
        yield list(_names(by_server, names))
    sizes = {server: len(tools) for server, tools in by_server.items()}
    yield [counted(sizes, most=len(sizes))]
    yield [counted(sizes)]


def _summaries(by_server: Mapping[str, Sequence["CatalogTool"]], chars: int) -> Iterator[str]:
    for server, tools in by_server.items():
        yield f"{plain_line(server, 60)}:"
        for tool in tools:
            yield f"- {plain_line(tool.leaf, 128)}: {plain_line(tool.summary or tool.description, chars)}"


def _names(by_server: Mapping[str, Sequence["CatalogTool"]], most: int) -> Iterator[str]:
    for server, tools in by_server.items():
        listed = ", ".join(plain_line(tool.leaf, 128) for tool in tools[:most])
        more = len(tools) - most
        yield f"{plain_line(server, 60)}: {listed}" + (f" and {more:,} more" if more > 0 else "")


def _owner(tool: "CatalogTool") -> str:
    return tool.server or tool.source


def _block(lines: Iterable[str], tag: str = "tool_index") -> str:
    return "\n".join([f"<{tag}>", *lines, f"</{tag}>"])
