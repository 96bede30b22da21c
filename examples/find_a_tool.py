"""Offer a hundred tools through a prompt that defines two: the model finds the others when it needs them.

python examples/find_a_tool.py
"""

import json
from pathlib import Path

from onhand import Registry, Session, Tool
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_files import read_catalog

catalog = Catalog()
catalog.add(read_catalog(Path(__file__).parent / "sample-tools" / "tools.json").tools)
registry = Registry(
    [
        Tool(tool.name, tool.description, tool.input_schema, lambda arguments: f"done: {arguments}")
        for tool in catalog.tools()
    ]
)
session = Session(catalog, mode="all")
for tool in session.tools():
    registry.register(tool)


def call(name: str, **arguments: object) -> None:
    """Run a call as an agent loop does, if the session allows it, and print the result."""
    result = registry.call(name, arguments, view=session)
    print(f"→ {name}({json.dumps(arguments)})\n{'ok' if result.ok else 'error'}: {result.text}\n")


session.begin_turn()
print(f"the model has: {', '.join(tool['name'] for tool in session.wire())}\n")
call("mcp__kubernetes__scale_deployment", deployment="web", replicas=3)
call("search_tools", query="how many replicas should a deployment have", limit=1)
call("mcp__kubernetes__scale_deployment", deployment="web", replicas="three")
call("mcp__kubernetes__scale_deployment", deployment="web", replicas=3)
session.begin_turn()
print(f"the model has: {', '.join(tool['name'] for tool in session.wire())}\n")

balance = session.balance()
print(f"all tools: {balance.eager_tokens:,} tokens; the first request had {balance.first_tokens:,}")
print(f"since then: {balance.spent}; {balance.stable_share:.0%} of the second request was as before")
