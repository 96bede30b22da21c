"""An MCP server with the hundred tools of tools.json, to stand behind `onhand serve`. Calls do nothing.

python examples/sample-tools/server.py
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

CATALOG = Path(__file__).with_name("tools.json")


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    tools = json.loads(CATALOG.read_text(encoding="utf-8"))["tools"]
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=tool["name"].removeprefix("mcp__").replace("__", "_"),
                description=tool["description"],
                input_schema=tool["inputSchema"],
            )
            for tool in tools
        ]
    )


async def call_tool(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
    given = asked.arguments or {}
    (tool,) = (tool for tool in (await list_tools(None, None)).tools if tool.name == asked.name)
    missing = [name for name in tool.input_schema.get("required", []) if name not in given]
    text = f"missing: {', '.join(missing)}" if missing else f"done: {json.dumps(given)}"
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=bool(missing))


async def main() -> None:
    server: Server[Any] = Server("office", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
