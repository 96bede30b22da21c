"""Give an agent the tools of upstream servers.

The annotations of a server, such as that a tool only reads, are not trusted: unless the user says so, any call may
change something. The user's policies for tools become those of the agent's approval.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import MCPError

from onhand.errors import InputError, OnhandError, ToolError
from onhand.mcp.tool_settings import READ
from onhand.mcp.upstream_routes import Route
from onhand.tools.tool import Output, Tool

if TYPE_CHECKING:
    from onhand.agent.toolbox import Toolbox
    from onhand.mcp.upstreams import Upstreams


class ConnectedServers:
    """Keeps servers open in a task, so that they can be opened in one task and closed in another."""

    def __init__(self, registry: "Upstreams") -> None:
        self.registry = registry
        self._is_open = asyncio.Event()
        self._is_over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> Sequence[str]:
        """Connect to every server whose tools are unknown, and return why servers cannot be reached."""
        self._task = asyncio.create_task(self._keep_open())
        try:
            return await self._connect(self._task)
        except asyncio.CancelledError:
            await self.close()  # since nobody else can close them yet
            raise

    async def close(self) -> None:
        """End the connections and the servers' programs."""
        self._is_over.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _connect(self, task: asyncio.Task[None]) -> Sequence[str]:
        opening = asyncio.create_task(self._is_open.wait())
        await asyncio.wait({task, opening}, return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
        if task.done():
            await task  # raises the error that ended it
        unknown = [key for key in self.registry.keys if not self.registry.listing(key).tools]
        return list((await self.registry.connect(unknown)).values())

    async def _keep_open(self) -> None:
        async with self.registry:
            self._is_open.set()
            await self._is_over.wait()


class JoinedServers:
    """Gives a toolbox the tools of servers and keeps them up to date, from `open` to `close`."""

    def __init__(self, toolbox: "Toolbox", registry: "Upstreams") -> None:
        self._toolbox, self._registry = toolbox, registry
        self._servers = ConnectedServers(registry)
        self._tools: dict[str, Tool] = {}

    async def open(self) -> Sequence[str]:
        """Connect, and return why servers cannot be reached and tools cannot be used."""
        problems = await self._servers.open()
        self._registry.on_changed.append(self.renew)
        listed = [f"{server.key}: {problem}" for server in self._registry.status() for problem in server.problems]
        return [*problems, *listed, *self.renew()]

    async def close(self) -> None:
        """End the connections and the servers' programs."""
        await self._servers.close()

    def renew(self) -> Sequence[str]:
        """Replace the toolbox's tools of servers by the current ones, and return why some cannot be used."""
        problems = []
        taken = {tool.name for tool in self._toolbox} - self._tools.keys()
        current = {tool.name: tool for tool in self._registry.tools(taken)}
        keys = {route.tool.name: route.key for route in self._registry.routes()}
        for name, tool in list(self._tools.items()):
            if name not in current or current[name].wire() != tool.wire():
                self._toolbox.remove(name)
                del self._tools[name]
        for name, tool in current.items():
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


def make_upstream_tool(registry: "Upstreams", route: Route) -> Tool:
    """Return the tool of a route; calling it sends a request to its server."""
    name = route.tool.name

    async def call(arguments: dict[str, Any]) -> Output:
        try:
            result = await registry.execute(name, arguments)
        except MCPError as error:
            raise ToolError(f"{route.key} refused the call: {error.message}") from None
        except OnhandError as error:
            raise ToolError(str(error)) from None
        return _to_output(result)

    return Tool(
        name=name,
        description=route.tool.description or f"{route.upstream_name} of {route.key}",
        input_schema=route.tool.input_schema,
        handler=call,
        max_output_bytes=registry.server(route.key).max_output_bytes,
        timeout_s=None,  # the server has its own
        writes=[],  # here; the server orders what it does there
        read_only=route.offered.kind == READ,
        policy=route.offered.policy,
        long_running=True,
        strict_arguments=False,
    )


def _to_output(result: types.CallToolResult | types.InputRequiredResult) -> Output:
    if isinstance(result, types.InputRequiredResult):
        raise ToolError("The server wants to ask a person something, which is not possible here. Try another way.")
    text = "\n".join(map(_render_block, result.content))
    if result.is_error:
        raise ToolError(text or "The tool failed without giving a reason.")
    return Output(text, result.structured_content)


def _render_block(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return resource.text
        case types.ResourceLink():
            return f"[{block.name}: {block.uri}]"
    return f"[{block.type}, not shown]"
