"""How does the OpenAI Responses API want tools that wait to be found? `tool_search`, with a namespace for each server.

Searched by us (`execution: client`), a request names only what is loaded, and the answer to a search brings the
definitions. Searched by the API (`server`), a request has every definition, those that wait marked `defer_loading`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onhand.errors import InputError
from onhand.formats.names import OPENAI
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import plain_line, wire
from onhand.tools.session import Session

ADVISED_FUNCTIONS = 10  # in one namespace, by the API's guide; more works, and costs more
MAX_NAMESPACE_CHARS = 64


def request_tools(session: Session, execution: str = "client") -> list[dict[str, Any]]:
    """The `tools` of a request. Tools whose name the API refuses are left out: `names.left_out` tells which."""
    if execution not in ("client", "server"):
        raise InputError(f"execution is client or server, not {execution!r}")
    finders = {tool.name: tool for tool in session.tools()}
    loaded = [
        _function(wired)
        for wired in session.wire(activated=False)
        if wired["name"] not in finders and OPENAI.fullmatch(wired["name"])
    ]
    search = finders.get("search_tools") or finders.get("search_tool_bm25")
    if search is None:
        return loaded
    if execution == "server":
        return [*loaded, {"type": "tool_search"}, *namespaces(session.deferred())]
    parameters = {**search.wire()["input_schema"], "additionalProperties": False}
    described = {"description": search.description, "parameters": parameters}
    return [*loaded, {"type": "tool_search", "execution": "client", **described}]


def search_output(call_id: str, tools: Iterable[CatalogTool]) -> dict[str, Any]:
    """The answer to a `tool_search_call` that was left to us: whole definitions, by namespace, in the order found."""
    found = namespaces(tools)
    return {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": call_id,
        "status": "completed",
        "tools": found,
    }


def namespaces(tools: Iterable[CatalogTool]) -> list[dict[str, Any]]:
    """Deferred functions; those of one server in one namespace, at the place of its first."""
    groups: dict[str, list[CatalogTool]] = {}
    for tool in filter(lambda tool: OPENAI.fullmatch(tool.name), tools):
        groups.setdefault(tool.server or f"\n{tool.id}", []).append(tool)  # no server's name has a line break
    names: dict[str, str] = {}
    spelled: list[dict[str, Any]] = []
    for server, group in groups.items():
        functions = [{**_function(wire(tool)), "defer_loading": True} for tool in group]
        if server.startswith("\n"):
            spelled += functions
        else:
            spelled.append(_namespace(_free_name(server, names), group, functions))
    return spelled


def _namespace(name: str, group: Sequence[CatalogTool], functions: list[dict[str, Any]]) -> dict[str, Any]:
    listed = ", ".join(plain_line(tool.leaf, 64) for tool in group[:ADVISED_FUNCTIONS])
    more = "" if len(group) <= ADVISED_FUNCTIONS else f" and {len(group) - ADVISED_FUNCTIONS} more"
    described = f"Tools of {plain_line(group[0].server, 64)}: {listed}{more}."
    return {"type": "namespace", "name": name, "description": described, "tools": functions}


def _function(wired: Mapping[str, Any]) -> dict[str, Any]:
    named = {"type": "function", "name": wired["name"], "description": wired["description"]}
    return {**named, "parameters": wired["input_schema"]}


def _free_name(server: str, taken: dict[str, str]) -> str:
    """A name that the API accepts, and that no other server has."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", server)[: MAX_NAMESPACE_CHARS - 4] or "server"
    name, number = plain, 2
    while name in taken:
        name, number = f"{plain}_{number}", number + 1
    taken[name] = server
    return name
