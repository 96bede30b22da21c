"""How does a surface become a server? Each of its methods behind the protocol's request of that name.

It knows no transport: `stdio` and `http` carry what is built here.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import NotificationOptions, Server
from pydantic import BaseModel

from onhand.errors import OnhandError
from onhand.mcp.status import as_mcp_error
from onhand.mcp.surface import Surface

Handler = Callable[[Any, Any], Awaitable[Any]]

_log = logging.getLogger(__name__)


def build(surface: Surface) -> "Server[Surface]":
    """The SDK's server of a surface, which is open while the server runs."""
    server = _SurfaceServer(surface)
    for method, params, handler in _handlers(surface):
        server.add_request_handler(method, params, _answering(handler))
    return server


class _SurfaceServer(Server[Surface]):
    """A server whose capabilities are those of its surface, in every era and over every transport."""

    def __init__(self, surface: Surface) -> None:
        super().__init__(
            surface.name,
            version=surface.version,
            instructions=surface.instructions,
            lifespan=lambda _: surface,
            get_tool_input_schema=surface.input_schema,
        )
        self._surface = surface
        self.extensions = surface.capabilities.extensions or {}

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        offered = self._surface.capabilities
        changes = NotificationOptions(
            prompts_changed=bool(offered.prompts and offered.prompts.list_changed),
            resources_changed=bool(offered.resources and offered.resources.list_changed),
            tools_changed=bool(offered.tools and offered.tools.list_changed),
        )
        return super().get_capabilities(changes, offered.experimental, extensions, protocol_version=protocol_version)


def _handlers(surface: Surface) -> list[tuple[str, type[BaseModel], Handler]]:
    """The requests that a surface's capabilities let through, and those of its extensions."""
    offered = surface.capabilities
    listing = types.PaginatedRequestParams
    table: list[tuple[object, str, type[BaseModel], Handler]] = [
        (offered.tools, "tools/list", listing, surface.list_tools),
        (offered.tools, "tools/call", types.CallToolRequestParams, surface.call_tool),
        (offered.resources, "resources/list", listing, surface.list_resources),
        (offered.resources, "resources/templates/list", listing, surface.list_resource_templates),
        (offered.resources, "resources/read", types.ReadResourceRequestParams, surface.read_resource),
        (_subscribes(offered), "resources/subscribe", types.SubscribeRequestParams, surface.subscribe_resource),
        (_subscribes(offered), "resources/unsubscribe", types.UnsubscribeRequestParams, surface.unsubscribe_resource),
        (
            _tells_changes(offered),
            "subscriptions/listen",
            types.SubscriptionsListenRequestParams,
            surface.subscriptions_listen,
        ),
        (offered.prompts, "prompts/list", listing, surface.list_prompts),
        (offered.prompts, "prompts/get", types.GetPromptRequestParams, surface.get_prompt),
        (offered.completions, "completion/complete", types.CompleteRequestParams, surface.completion),
        (offered.logging, "logging/setLevel", types.SetLevelRequestParams, surface.set_logging_level),
    ]
    own = [(method, params, handler) for offer, method, params, handler in table if offer]
    return own + [(name, method.params, method.answer) for name, method in surface.methods.items()]


def _subscribes(offered: types.ServerCapabilities) -> bool:
    return bool(offered.resources and offered.resources.subscribe)


def _tells_changes(offered: types.ServerCapabilities) -> bool:
    lists = (offered.tools, offered.resources, offered.prompts)
    return _subscribes(offered) or any(one and one.list_changed for one in lists)


def _answering(handler: Handler) -> Handler:
    """The handler, whose failures are answered: ours by their table, others without what is inside of us."""

    async def answered(ctx: Any, params: Any) -> Any:
        try:
            return await handler(ctx, params)
        except MCPError:
            raise
        except OnhandError as error:
            raise as_mcp_error(error) from None
        except Exception:
            _log.exception("%s failed", ctx.method)
            raise MCPError(code=types.INTERNAL_ERROR, message="this is a bug of the server's: see its log") from None

    return answered
