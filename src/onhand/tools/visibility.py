"""Which tools of a catalog are loaded, and which wait to be found? Rules, and the catalog seen through them.

It decides from what tools say of themselves and from what the host asked for; it remembers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onhand.record import Record
from onhand.tools.catalog_tool import MCP, CatalogTool
from onhand.tools.tool import NAME

MODES = ("off", "mcp-only", "all")  # each defers more than the one before it
ESSENTIALS = ("read", "bash", "edit")
INTERNAL = ("resolve", "yield", "report_finding", "report_tool_issue")
FINDERS = ("search_tools", "describe_tool", "search_tool_bm25")  # nobody else's tool may have such a name


class View(Record):
    """The catalog, seen through rules and a mode; everything by id, in order."""

    version: int
    tools: dict[str, CatalogTool]  # all, also what is hidden
    loaded: dict[str, CatalogTool]
    deferred: dict[str, CatalogTool]
    unseen: tuple[str, ...]  # ids that no search may find: loaded, hidden, of a name that is taken or nobody can call
    ids: dict[str, list[str]]  # by name


class Rules(Record):
    """What the host asked for."""

    essentials: frozenset[str] = frozenset(ESSENTIALS)  # names that stay loaded; those that nothing has do no harm
    always_tools: frozenset[str] = frozenset()  # names or ids
    always_servers: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset(INTERNAL)

    def hides(self, tool: CatalogTool) -> bool:
        """Whether a tool is for the host alone."""
        return tool.name in self.hidden and not tool.server

    def shows(self, tool: CatalogTool) -> bool:
        """Whether a model can have a tool at all, loaded or found."""
        return not self.hides(tool) and tool.name not in FINDERS and bool(NAME.fullmatch(tool.name))

    def defers(self, tool: CatalogTool, mode: str) -> bool:
        """Whether a tool waits to be found in a mode."""
        if mode == "off" or tool.server in self.always_servers or {tool.name, tool.id} & self.always_tools:
            return False
        if is_mcp(tool):  # whatever its name: a server cannot make its tool essential
            return True
        return mode == "all" and tool.name not in self.essentials

    def may_wait(self, tools: Iterable[CatalogTool]) -> list[CatalogTool]:
        """The tools that some mode would defer."""
        return [tool for tool in tools if self.shows(tool) and self.defers(tool, "all")]

    def view(self, version: int, tools: Iterable[CatalogTool], mode: str) -> View:
        """The catalog through these rules. A provider takes each name once: of two, the later one waits, or is left out
        where nothing waits, since nobody could find it."""
        view = View(version, {tool.id: tool for tool in tools}, {}, {}, (), {})
        names: set[str] = set(FINDERS)
        for id, tool in view.tools.items():
            if not self.shows(tool):
                continue
            if self.defers(tool, mode) or (tool.name in names and mode != "off"):
                view.deferred[id] = tool
            elif tool.name not in names:
                view.loaded[id] = tool
                names.add(tool.name)
            else:
                continue
            view.ids.setdefault(tool.name, []).append(id)
        return view._replace(unseen=tuple(id for id in view.tools if id not in view.deferred))


def is_mcp(tool: CatalogTool) -> bool:
    """Whether a tool is of an MCP server, by what it says or by its name."""
    return tool.source == "mcp" or tool.name.startswith(MCP)


def by_server(tools: Iterable[Mapping[str, CatalogTool]]) -> dict[str, int]:
    """How many tools each server has, of several parts of a view."""
    counts: dict[str, int] = {}
    for part in tools:
        for tool in part.values():
            if tool.server:
                counts[tool.server] = counts.get(tool.server, 0) + 1
    return dict(sorted(counts.items()))
