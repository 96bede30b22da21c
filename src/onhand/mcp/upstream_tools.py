"""How does an agent of our own call what other servers offer? Each tool of theirs as one of the Registry's.

What a server says of its tools, such as that one only reads, is not taken for granted: a call may change something.
"""

import asyncio
from collections.abc import Sequence, Set
from typing import Any

import mcp_types as types
from mcp import MCPError

from onhand.agent.toolbox import Toolbox
from onhand.errors import InputError, OnhandError, ToolError
from onhand.mcp.upstreams import Route, Upstreams
from onhand.tools.tool import Output, Tool


class ConnectedServers:
    """Keeps servers open in a task of its own, for those who open them in one place and close them in another."""

    def __init__(self, registry: Upstreams) -> None:
        self.registry = registry
        self._is_open = asyncio.Event()
        self._is_over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> Sequence[str]:
        """Connect to every server whose tools are not known; what is wrong with those that cannot be reached."""
        self._task = asyncio.create_task(self._kept_open())
        try:
            return await self._connected(self._task)
        except asyncio.CancelledError:
            await self.close()  # nobody else knows of them yet
            raise

    async def close(self) -> None:
        """End the connections, and the programs behind them."""
        self._is_over.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _connected(self, kept_open: asyncio.Task[None]) -> Sequence[str]:
        opening = asyncio.create_task(self._is_open.wait())
        await asyncio.wait({kept_open, opening}, return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
        if kept_open.done():
            await kept_open  # it says why
        unknown = [key for key in self.registry.keys if not self.registry.listing(key).tools]
        return list((await self.registry.connect(unknown)).values())

    async def _kept_open(self) -> None:
        async with self.registry:
            self._is_open.set()
            await self._is_over.wait()


class JoinedServers:
    """Gives a toolbox the tools that servers list, and keeps them current, from `open` to `close`."""

    def __init__(self, toolbox: Toolbox, registry: Upstreams) -> None:
        self._toolbox, self._registry = toolbox, registry
        self._servers = ConnectedServers(registry)
        self._tools: dict[str, Tool] = {}

    async def open(self) -> Sequence[str]:
        """Connect, and return what is wrong with servers that cannot be reached and tools that cannot be used."""
        problems = await self._servers.open()
        self._registry.on_changed.append(self.renew)
        return [*problems, *self.renew()]

    async def close(self) -> None:
        """End the connections, and the programs behind them."""
        await self._servers.close()

    def renew(self) -> Sequence[str]:
        """Give the toolbox the tools that are listed now in place of those listed before; return which cannot be."""
        problems = []
        taken = {tool.name for tool in self._toolbox} - self._tools.keys()
        now = {tool.name: tool for tool in upstream_tools(self._registry, taken)}
        keys = {route.tool.name: route.key for route in self._registry.routes()}
        for name, tool in list(self._tools.items()):
            if name not in now or now[name].wire() != tool.wire():
                self._toolbox.remove(name)
                del self._tools[name]
        for name, tool in now.items():
            if name not in self._tools:
                try:
                    self._toolbox.add(tool, keys[name])
                    self._tools[name] = tool
                except InputError as error:
                    problems.append(str(error))
        self._report_status()
        return problems

    def _report_status(self) -> None:
        """Report the state of each server, so that a search that finds nothing can say where it could not look."""
        states = {"connecting": "pending", "down": "failed"}
        for key, status, *_ in self._registry.status():
            self._toolbox.session.report(key, states.get(status.state, "ready"), status.detail)


def upstream_tools(registry: Upstreams, taken: Set[str] = frozenset()) -> list[Tool]:
    """The tools that may be called, but for those whose name is taken."""
    return [_tool(registry, route) for route in registry.routes() if not route.held and route.tool.name not in taken]


def _tool(registry: Upstreams, route: Route) -> Tool:
    name = route.tool.name

    async def call(arguments: dict[str, Any]) -> Output:
        try:
            result = await registry.execute(name, arguments)
        except MCPError as error:
            raise ToolError(f"{route.key} refuses: {error.message}") from None
        except OnhandError as error:
            raise ToolError(str(error)) from None
        return _output(result)

    return Tool(
        name=name,
        description=route.tool.description or f"{route.own} of {route.key}",
        input_schema=route.tool.input_schema,
        handler=call,
        max_output_bytes=registry.server(route.key).max_output_bytes,
        timeout_s=None,  # the server has one of its own
        strict_arguments=False,
    )


def _output(result: types.CallToolResult | types.InputRequiredResult) -> Output:
    if isinstance(result, types.InputRequiredResult):
        raise ToolError("the server wants to ask a person something, which cannot be done here: do it another way")
    text = "\n".join(map(_shown, result.content))
    if result.is_error:
        raise ToolError(text or "the tool failed and did not say why")
    return Output(text, result.structured_content)


def _shown(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return resource.text
        case types.ResourceLink():
            return f"[{block.name}: {block.uri}]"
    return f"[{block.type}, not shown]"
