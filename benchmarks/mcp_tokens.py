"""What our MCP server puts into a prompt: its list of tools, and typical answers.

python -m benchmarks.mcp_tokens

Claude Code and Codex give their model the structured content of an answer where there is any, and other clients the
text. Tokens are estimates of `onhand.tools.loading`.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client

from onhand.doors import mcp_surface
from onhand.mcp.servers import ServerConfig
from onhand.mcp.surface import build_server
from onhand.mcp.upstreams import Upstreams
from onhand.project import Project, load_config
from onhand.tools.loading import ESTIMATE

ROOT = Path(__file__).parents[1]
SERVER = (sys.executable, str(ROOT / "examples/sample-tools/server.py"))
KEYS = ("filesystem", "github", "memory", "fetch", "time", "playwright")
CALLS: Sequence[tuple[str, dict[str, Any]]] = (
    ("search_tools", {"query": "give a customer money back"}),
    ("describe_tool", {"name": "office__stripe_create_refund"}),
    ("context_search", {"query": "rollback"}),
    ("search_rules", {"query": "review a migration"}),
    ("search_skills", {"query": "database migration"}),
)


def main() -> None:
    """Print a line for each project and each answer."""
    os.environ["ONHAND_MCP_EMBEDDER"] = "none"
    print(f"{'':34} {'bytes':>8} {'tokens':>8}")
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home
        unconnected = [ServerConfig(key, url="http://127.0.0.1:9/mcp") for key in KEYS]
        for name, path in (("empty project", home), ("sample project", str(ROOT / "examples/sample-project"))):
            for count in (0, len(KEYS)):
                anyio.run(print_list, f"{name}, {count} servers", path, unconnected[:count])
        anyio.run(print_answers)


async def print_list(name: str, path: str, servers: list[ServerConfig]) -> None:
    """Print the cost of `tools/list`."""
    async with Client(build_server(open_surface(path, servers)), cache=None) as client:
        tools = (await client.list_tools()).tools
        print_cost(f"{name}: {len(tools)} tools", "\n".join(map(dump, tools)))


async def print_answers() -> None:
    """Print the cost of each answer in both of its forms."""
    surface = open_surface(str(ROOT / "examples/sample-project"), [ServerConfig("office", SERVER[0], SERVER[1:])])
    async with Client(build_server(surface), cache=None) as client:
        await client.list_tools()
        await surface.upstreams.connect()
        for tool, arguments in CALLS:
            result = await client.call_tool(tool, arguments)
            assert isinstance(result, types.CallToolResult)
            print_cost(f"{tool}: text", "\n".join(block.text for block in result.content if block.type == "text"))
            if result.structured_content is not None:
                print_cost(f"{tool}: structured", compact(result.structured_content))


def open_surface(path: str, servers: list[ServerConfig]) -> Any:
    """Return what `onhand serve` offers for a project with these servers."""
    project = Project(load_config(path))
    if servers:
        project.__dict__["servers"] = Upstreams(servers, project.approvals)
        from onhand.mcp.gateway import Gateway

        local = mcp_surface(project)
        return Gateway(project.__dict__["servers"], local)  # type: ignore[arg-type]
    return mcp_surface(project)


def dump(tool: types.Tool) -> str:
    return tool.model_dump_json(by_alias=True, exclude_none=True)


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def print_cost(what: str, text: str) -> None:
    print(f"{what:34} {len(text.encode()):8,} {ESTIMATE.tokens(text):8,}")


if __name__ == "__main__":
    main()
