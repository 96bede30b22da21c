"""What is known of a tool before it is called? Its name, whose it is, and what it says of itself.

Everything here may have been written by a stranger's server. Nothing here ranks, keeps or runs a tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onhand.errors import InputError
from onhand.record import Record
from onhand.text import whole
from onhand.tools.tool import Tool, plain

MAX_NAME_CHARS = 128  # as MCP has it
MAX_SERVER_CHARS = 256
MAX_TEXT_CHARS = 4_000_000  # of a description: one of a megabyte is odd, but no reason to lose the tool
SUMMARY_CHARS = 200
MCP = "mcp__"  # what hosts put before the names of an MCP server's tools, followed by the server


NOTHING: Mapping[str, Any] = {}  # one for all tools of which nothing is said: a catalog may have tens of thousands


class CatalogTool(Record):
    """A tool that can be found, whoever runs it."""

    name: str  # by which it is called
    description: str = ""
    input_schema: Mapping[str, Any] = NOTHING
    source: str = "builtin"  # or mcp, skill, plugin
    server: str = ""  # whose it is, where it is a server's
    label: str = ""  # for people; the name where there is none
    summary: str = ""  # the beginning of the description where there is none
    hints: tuple[str, ...] = ()  # further words to find it by, which nobody is shown
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
    """The tool's own name, without `mcp__server__`, `mcp__server_` or `server__`."""
    if not server or not name.startswith((MCP, server)):  # as most: to write the prefixes costs more
        return name
    for prefix in (f"{MCP}{server}__", f"{server}__", f"{MCP}{server}_"):
        if name.startswith(prefix) and len(name) > len(prefix):
            return name[len(prefix) :]
    return name


def server_in(name: str) -> str:
    """The server that a name of the form `mcp__server__tool` names."""
    server, _, leaf = name.removeprefix(MCP).partition("__")
    return server if name.startswith(MCP) and leaf else ""


def identity(tool_id: str) -> tuple[str, str]:
    """Server and name of the tool of that id; a name has no slash."""
    server, _, name = tool_id.rpartition("/")
    return server, name


def catalog_tool(tool: Tool, source: str = "builtin", server: str = "") -> CatalogTool:
    """A tool of the registry as the catalog has it."""
    return CatalogTool(
        tool.name,
        tool.description,
        tool.input_schema,
        source,
        server,
        output_schema=tool.output_schema or NOTHING,
        annotations=tool.annotations(),
    )


def accepted_tool(tool: CatalogTool) -> CatalogTool:
    """The tool with whole texts and nothing missing, or an error that says why it cannot be kept."""
    if not isinstance(tool, CatalogTool):
        raise InputError(f"a tool of the catalog is a CatalogTool, not a {type(tool).__name__}")
    given: tuple[Any, ...] = tuple(tool)  # what its fields are, nobody has checked
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
        tuple(map(whole, hints)) if hints else (),
        _schema(output_schema, name, "output_schema") if output_schema else NOTHING,
        _schema(annotations, name, "annotations") if annotations else NOTHING,
    )
    return tuple.__new__(CatalogTool, checked_tool)  # there may be thousands


def accepted_name(name: Any) -> str:
    """A name that can be kept and shown, or an error."""
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
    return whole(text)


def _schema(schema: Any, name: str, field: str) -> Mapping[str, Any]:
    where = f"tool {name}: {field}"
    if not isinstance(schema, Mapping):
        raise InputError(f"{where} is a JSON object, not {type(schema).__name__}")
    copied: dict[str, Any]
    try:
        copied = plain(schema, where)
    except InputError:  # it may have halves of characters, which can be mended, or be no schema at all
        copied = plain(schema, where, lambda text, _: whole(text))
    return copied
