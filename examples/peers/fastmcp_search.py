"""Use onhand's ranking in FastMCP, as a search transform: the tool list shrinks to `search_tools` and `call_tool`.

pip install onhand fastmcp
python examples/peers/fastmcp_search.py
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastmcp import Client, FastMCP
from fastmcp.server.context import Context
from fastmcp.server.transforms.search.base import BaseSearchTransform
from fastmcp.tools.base import Tool
from ranked import Ranked

from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import signature


class OnhandSearchTransform(BaseSearchTransform):
    """Tools are found by name, words and arguments, and shown as one line each instead of a whole schema."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"search_result_serializer": _signatures, **options})
        self._ranked = Ranked()

    def _make_search_tool(self) -> Tool:
        async def search_tools(
            query: Annotated[str, "What the tool should do, or select:NAME"],
            ctx: Context = None,  # type: ignore[assignment]  # FastMCP puts it in
        ) -> Any:
            """Find tools; call what you find with call_tool."""
            found = await self._search(await self._get_visible_tools(ctx), query)
            return await self._render_results(found)

        return Tool.from_function(fn=search_tools, name=self._search_tool_name)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        by_name = {tool.name: tool for tool in tools}
        described = [CatalogTool(tool.name, tool.description or "", tool.parameters or {}) for tool in tools]
        return [by_name[name] for name in self._ranked.best(described, query, self._max_results)]


def _signatures(tools: Sequence[Tool]) -> str:
    lines = [f"{signature(tool.name, tool.parameters or {})}: {tool.description or ''}" for tool in tools]
    return "\n".join(lines) or "No tool fits."


def text_of(result: Any) -> str:
    return str(result.content[0].text)


async def main() -> None:
    server = FastMCP("demo")

    @server.tool
    def createPullRequest(title: str, draft: bool = False) -> str:
        """Open a pull request from one branch into another."""
        return f"opened {title}"

    @server.tool
    def post_message(channel: str, text: str) -> str:
        """Post a message to a Slack channel."""
        return f"posted to {channel}"

    server.add_transform(OnhandSearchTransform(max_results=3))
    async with Client(server) as client:
        listed = [tool.name for tool in await client.list_tools()]
        print("listed:", ", ".join(listed))
        assert sorted(listed) == ["call_tool", "search_tools"]
        for query, first in (("create pull request", "createPullRequest("), ("tell a slack channel", "post_message(")):
            found = text_of(await client.call_tool("search_tools", {"query": query}))
            print(f"{query}: {found}")
            assert found.startswith(first)
        assert text_of(await client.call_tool("search_tools", {"query": "zebra xylophone"})) == "No tool fits."
        arguments = {"name": "createPullRequest", "arguments": {"title": "A"}}
        assert text_of(await client.call_tool("call_tool", arguments)) == "opened A"
    print("ok: fastmcp")


if __name__ == "__main__":
    asyncio.run(main())
