"""Tools to test with: some of our own, and the sample of a hundred."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onhand.tools.catalog import Catalog
from onhand.tools.catalog_files import read_catalog
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.registry import Registry
from onhand.tools.tool import Tool

SAMPLE = Path(__file__).parents[1] / "examples" / "sample-tools" / "tools.json"


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)[:1]}


def mcp(server: str, name: str, description: str, **properties: Any) -> CatalogTool:
    """A tool of an MCP server, named as hosts name them."""
    properties = properties or {"text": {"type": "string"}}
    return CatalogTool(f"mcp__{server}__{name}", description, schema(**properties), "mcp", server)


def builtin(name: str, description: str = "") -> CatalogTool:
    return CatalogTool(name, description or f"Built in: {name} something.", schema(path={"type": "string"}))


ISSUE = mcp(
    "github",
    "create_issue",
    "Create a new issue in a GitHub repository.",
    repo={"type": "string"},
    title={"type": "string"},
    state={"type": "string", "enum": ["open", "closed"]},
)
PULLS = mcp("github", "list_pull_requests", "List open pull requests of a repository.", repo={"type": "string"})
MESSAGE = mcp("slack", "post_message", "Post a message to a Slack channel.", channel={"type": "string"})
BUILTINS = [builtin(name) for name in ("read", "bash", "edit", "lsp", "find")]
INTERNAL = builtin("resolve", "Resolve a pending change.")


def catalog(*tools: CatalogTool) -> Catalog:
    made = Catalog()
    made.add(tools or [ISSUE, PULLS, MESSAGE, *BUILTINS, INTERNAL])
    return made


def sample(count: int = 100) -> Catalog:
    """The first tools of the sample."""
    made = Catalog()
    made.add(read_catalog(SAMPLE).tools[:count])
    return made


def calls_of(do: Callable[[], object]) -> int:
    """How many calls something makes, of Python and of C: what it takes, whatever the machine."""
    count = 0

    def see(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


def registry_of(tools: Catalog) -> Registry:
    """Every tool of a catalog, with a handler that says what it was given."""
    registry = Registry()
    for tool in tools.tools():
        registry.register(
            Tool(tool.name, tool.description, tool.input_schema, lambda arguments: f"did {sorted(arguments)}")
        )
    return registry
