"""Tell a person who starts a server at a terminal what it serves, and how to connect a client.

A client that starts the server sees none of this: its end of standard input is a pipe.
"""

import json

from onhand.cli import terminal
from onhand.mcp.gateway import Gateway
from onhand.mcp.local import LocalSurface
from onhand.mcp.surface import Surface
from onhand.project import Project
from onhand.text import quantity
from onhand.tools.loading import ESTIMATE

CONNECT = (
    "Waiting for a client on standard input. Clients start this command themselves: `onhand mcp install CLIENT` adds "
    "it to one (claude, codex, cursor, …), and `onhand serve --http` serves clients that connect. Ctrl-C stops it."
)


def introduce(project: Project, surface: Surface, is_stdio: bool) -> None:
    """Print what is served and, if it is served over standard input, how clients connect."""
    lines = [("project", project.directory), *_describe(project, surface)]
    terminal.complain("onhand: this server offers")
    for name, text in lines:
        terminal.complain(terminal.wrap(f"  {name:9}{text}", 11))
    if is_stdio:
        terminal.complain(terminal.wrap(CONNECT))


def _describe(project: Project, surface: Surface) -> list[tuple[str, str]]:
    if not isinstance(surface, Gateway | LocalSurface):
        return [("server", f"{project.config.mcp.transparent}, unchanged")]
    tools = surface.listed_tools() if isinstance(surface, Gateway) else surface.tools()
    wire = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in tools]
    tokens = ESTIMATE.tokens(json.dumps(wire, ensure_ascii=False, separators=(",", ":")))
    listed = f"{quantity(len(tools), 'tool')} in the list, about {tokens:,} tokens"
    servers = surface.upstreams.status() if isinstance(surface, Gateway) else ()
    found = sum(server.tools for server in servers)
    lines = [("tools", f"{listed}; {found:,} more are found by search" if found else listed)]
    if servers:
        ages = project.list_ages()
        known = (
            f"{server.key} ({quantity(server.tools, 'tool') if ages.get(server.key) is not None else 'not listed yet'})"
            for server in servers
        )
        lines.append(("servers", ", ".join(known)))
    corpora = _count_corpora(project, {tool.name for tool in tools})
    return [*lines, ("corpora", ", ".join(corpora))] if corpora else lines


def _count_corpora(project: Project, tools: set[str]) -> list[str]:
    """Return what the corpora contain whose tools are served."""
    counts = []
    if "context_search" in tools:
        counts.append(quantity(sum(source.sections for source in project.context.searchable()), "context section"))
    if "search_skills" in tools:
        counts.append(quantity(len(project.skills.all()), "skill"))
    if "search_notes" in tools:
        counts.append(quantity(len(project.notes.all()), "note"))
    if project.has_documents and "fused_search" in tools:
        counts.append(quantity(project.documents.summary().documents, "document"))
    return [count for count in counts if not count.startswith("0 ")]
