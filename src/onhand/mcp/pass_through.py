"""Pass one upstream server through to clients.

What does a client see of one server behind us? All of it, under its own names, as if we were not there.

Nothing is renamed, searched for or cut; what was not approved is left out, and what nobody would see is taken out of
descriptions. For a client that knows its server and wants our care for it: pins, health, a connection that comes back.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

import mcp_types as types
from mcp import MCPError

from onhand.errors import InputError, NotFound, OnhandError, ToolError
from onhand.mcp import upstream_skills
from onhand.mcp.client_callbacks import forwarded_meta, is_modern
from onhand.mcp.client_sessions import Front
from onhand.mcp.local import EXTENSION
from onhand.mcp.sanitize import clean_json
from onhand.mcp.surface import Method, RequestContext
from onhand.mcp.upstream_catalog import tool_for_era
from onhand.mcp.upstream_routes import public_address, public_name
from onhand.mcp.upstreams import Upstreams

Page = TypeVar("Page", bound=types.PaginatedResult)


class PassThrough(Front):
    """One server of a registry, passed through."""

    instructions = None

    def __init__(self, registry: Upstreams, key: str) -> None:
        super().__init__(registry)
        self.name = key
        self._key = key

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """All that the server may have: it need not be connected yet."""
        return super().capabilities.model_copy(update={"extensions": {EXTENSION: {"directoryRead": True}}})

    @property
    def methods(self) -> Mapping[str, Method]:
        """Those of the server's skills."""
        return upstream_skills.skills_of_server(self, self._key)

    def address(self, uri: str) -> str:
        """The server's own."""
        return public_address(self._key, uri)

    def input_schema(self, tool: str) -> Any:
        """The server's own."""
        with suppress(OnhandError):
            return self.registry.route(public_name(self._key, tool)).tool.input_schema
        return None

    async def list_tools(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """The server's page, without what is held or was not looked at yet; of that, clients are told when it was."""
        listed = await self._page(ctx, types.ListToolsRequest, types.ListToolsResult, params)
        approved = [tool for tool in listed.tools if self.registry.is_approved(self._key, tool)]
        if len(approved) < len(listed.tools):
            self.registry.client(self._key).refresh()
        is_newer = is_modern(ctx.protocol_version)
        tools = [tool_for_era(_without_the_unseen(tool), is_newer) for tool in approved]
        return listed.model_copy(update={"tools": tools})

    async def call_tool(
        self, ctx: "RequestContext", params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """The server's answer."""
        self.meet(ctx)
        await self.registry.client(self._key).connect(not is_modern(ctx.protocol_version))
        name = public_name(self._key, params.name)
        try:
            return await self.registry.execute(name, params.arguments, ctx, params)
        except NotFound:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name[:200]}") from None
        except (ToolError, InputError) as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)

    async def list_resources(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """The server's page."""
        return await self._page(ctx, types.ListResourcesRequest, types.ListResourcesResult, params)

    async def list_resource_templates(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """The server's page."""
        return await self._page(ctx, types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult, params)

    async def read_resource(
        self, ctx: "RequestContext", params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """What the server has at its address."""
        self.meet(ctx)
        return await self.registry.read(public_address(self._key, params.uri), ctx, params)

    async def list_prompts(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """The server's page."""
        return await self._page(ctx, types.ListPromptsRequest, types.ListPromptsResult, params)

    async def get_prompt(
        self, ctx: "RequestContext", params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """A prompt of the server's."""
        self.meet(ctx)
        await self.registry.client(self._key).connect(not is_modern(ctx.protocol_version))
        return await self.registry.get(public_name(self._key, params.name), params.arguments, ctx, params)

    async def completion(self, ctx: "RequestContext", params: types.CompleteRequestParams) -> types.CompleteResult:
        """How the server lets an argument go on."""
        self.meet(ctx)
        return await self.registry.complete(self._key, ctx, params)

    async def set_logging_level(self, ctx: "RequestContext", params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Ask the server for the messages that this client wants."""
        await self.registry.client(self._key).connect(not is_modern(ctx.protocol_version))
        return await super().set_logging_level(ctx, params)

    async def _page(
        self, ctx: "RequestContext", request: Any, result: type[Page], params: types.PaginatedRequestParams | None
    ) -> Page:
        self.meet(ctx)
        asked = types.PaginatedRequestParams(
            cursor=params.cursor if params else None, _meta=forwarded_meta(params.meta) if params else None
        )
        return await self.registry.request(self._key, ctx, request(params=asked), result)  # type: ignore[no-any-return]


def _without_the_unseen(tool: types.Tool) -> types.Tool:
    shown = clean_json(tool.model_dump(by_alias=True, mode="json", exclude_none=True))
    return types.Tool.model_validate(shown)
