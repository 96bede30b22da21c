"""Serve one upstream server as if clients were connected to it directly.

Nothing is searched or cut and only the user renames, but tools that are disabled or not approved are left out. This is
for a client that knows its server and wants approvals, tool settings, health checks and reconnection for it.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

import mcp_types as types
from mcp import MCPError

from onhand.errors import InputError, NotFound, OnhandError, ToolError
from onhand.mcp import upstream_skills
from onhand.mcp.client_callbacks import forwarded_meta, is_modern
from onhand.mcp.client_sessions import ProxySurface
from onhand.mcp.local import EXTENSION
from onhand.mcp.offered_tools import OfferedTool
from onhand.mcp.surface import Method, RequestContext
from onhand.mcp.upstream_catalog import tool_for_era
from onhand.mcp.upstream_routes import public_address, public_name
from onhand.mcp.upstreams import Upstreams

Page = TypeVar("Page", bound=types.PaginatedResult)


class PassThrough(ProxySurface):
    """One upstream server under its own names."""

    instructions = None

    def __init__(self, upstreams: Upstreams, key: str) -> None:
        super().__init__(upstreams)
        self.name = key
        self._key = key

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """Everything that the server may have, because it need not be connected yet."""
        return super().capabilities.model_copy(update={"extensions": {EXTENSION: {"directoryRead": True}}})

    @property
    def methods(self) -> Mapping[str, Method]:
        """The methods of the server's skills."""
        return upstream_skills.skills_of_server(self, self._key)

    def address(self, uri: str) -> str:
        """Return the address by which the upstreams know a URI of the server."""
        return public_address(self._key, uri)

    def input_schema(self, tool: str) -> Any:
        """Return the input schema of a tool of the server."""
        with suppress(OnhandError):
            return self.upstreams.route(public_name(self._key, tool)).tool.input_schema
        return None

    async def list_tools(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return the server's page without tools that are disabled, blocked or not checked yet.

        Clients are notified when a tool has been checked.
        """
        listed = await self._list_page(ctx, types.ListToolsRequest, types.ListToolsResult, params)
        routes = [self.upstreams.approved_route(self._key, tool) for tool in listed.tools]
        if None in routes:
            self.upstreams.client(self._key).refresh()
        tools = [
            tool_for_era(_apply_settings(tool, route.offered), is_modern(ctx.protocol_version))
            for tool, route in zip(listed.tools, routes, strict=True)
            if route is not None and route.is_usable
        ]
        return listed.model_copy(update={"tools": tools})

    async def call_tool(
        self, ctx: RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Return the server's result."""
        await self._connect(ctx)
        name = public_name(self._key, params.name)
        try:
            return await self.upstreams.execute(name, params.arguments, ctx, params)
        except NotFound:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name[:200]}") from None
        except (ToolError, InputError) as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)

    async def list_resources(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return the server's page."""
        return await self._list_page(ctx, types.ListResourcesRequest, types.ListResourcesResult, params)

    async def list_resource_templates(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Return the server's page."""
        return await self._list_page(ctx, types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult, params)

    async def read_resource(
        self, ctx: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """Return what the server has at a URI."""
        self.register_client(ctx)
        return await self.upstreams.read(self.address(params.uri), ctx, params)

    async def list_prompts(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Return the server's page."""
        return await self._list_page(ctx, types.ListPromptsRequest, types.ListPromptsResult, params)

    async def get_prompt(
        self, ctx: RequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """Return a prompt of the server, filled in."""
        await self._connect(ctx)
        return await self.upstreams.get(public_name(self._key, params.name), params.arguments, ctx, params)

    async def completion(self, ctx: RequestContext, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Return the server's values that complete an argument."""
        self.register_client(ctx)
        return await self.upstreams.complete(self._key, ctx, params)

    async def set_logging_level(self, ctx: RequestContext, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Ask the server for the log messages that this client wants."""
        await self._connect(ctx)
        return await super().set_logging_level(ctx, params)

    async def _connect(self, ctx: RequestContext) -> None:
        """Wait until the server is connected in the protocol version of this client."""
        self.register_client(ctx)
        await self.upstreams.client(self._key).connect(not is_modern(ctx.protocol_version))

    async def _list_page(
        self, ctx: RequestContext, request: Any, result: type[Page], params: types.PaginatedRequestParams | None
    ) -> Page:
        self.register_client(ctx)
        forwarded_params = types.PaginatedRequestParams(
            cursor=params.cursor if params else None, _meta=forwarded_meta(params.meta) if params else None
        )
        return await self.upstreams.request(  # type: ignore[no-any-return]
            self._key, ctx, request(params=forwarded_params), result
        )


def _apply_settings(tool: types.Tool, offered: OfferedTool) -> types.Tool:
    """Return a tool as the user's settings present it."""
    if offered.name == tool.name and not offered.changes:
        return tool
    fields = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
    return types.Tool.model_validate({**fields, **offered.changes, "name": offered.name})
