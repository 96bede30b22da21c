"""Define what a server offers (a Surface), and build the SDK server that serves it.

What does a server offer? In the wire types of the MCP SDK, without saying where it comes from or how it is carried.

A method has the signature of the SDK's low-level handler of the same name. Whoever implements a surface writes the
methods of what its capabilities name; the others answer that there is no such method. It knows no transport.
Which code says what went wrong? One table from our errors to the protocol's.
Which part of a long list is on this page, and how does one ask for the next?
How does a surface become a server? Each of its methods behind the protocol's request of that name.

It knows no transport: `stdio` and `http` carry what is built here.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from onhand.errors import InputError, OnhandError
from onhand.text import repair_surrogates

RequestContext = ServerRequestContext[Any, Any]

"Of one request: progress, logs, sampling and elicitation go through its `session`."


class Method(NamedTuple):
    """A request beyond the protocol's own, such as one of an extension: how it is read and who answers it."""

    params: "type[BaseModel]"
    answer: "Callable[[RequestContext, Any], Awaitable[BaseModel | dict[str, Any] | None]]"


class Surface(Protocol):
    """What a server offers to a client; open while it is entered. Subclass it and write what you offer."""

    name: str
    version: str
    instructions: str | None

    @property
    def capabilities(self) -> "types.ServerCapabilities":
        """What is served: only the methods of what this names are reachable."""
        raise NotImplementedError

    @property
    def methods(self) -> "Mapping[str, Method]":
        """Requests beyond the protocol's own, by name."""
        return {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def input_schema(self, tool: str) -> "Mapping[str, Any] | None":
        """The schema of a tool's arguments, for the headers that mirror them; None where there is nothing to check."""
        return None

    async def list_tools(
        self, ctx: "RequestContext", params: "types.PaginatedRequestParams | None"
    ) -> "types.ListToolsResult":
        """One page of the tools."""
        raise no_such_method("tools/list")

    async def call_tool(
        self, ctx: "RequestContext", params: "types.CallToolRequestParams"
    ) -> "types.CallToolResult | types.InputRequiredResult":
        """What a tool answers; a failure of the tool is a result, not an error."""
        raise no_such_method("tools/call")

    async def list_resources(
        self, ctx: "RequestContext", params: "types.PaginatedRequestParams | None"
    ) -> "types.ListResourcesResult":
        """One page of the resources."""
        raise no_such_method("resources/list")

    async def list_resource_templates(
        self, ctx: "RequestContext", params: "types.PaginatedRequestParams | None"
    ) -> "types.ListResourceTemplatesResult":
        """The forms of the addresses that can be read though they are not listed."""
        raise no_such_method("resources/templates/list")

    async def read_resource(
        self, ctx: "RequestContext", params: "types.ReadResourceRequestParams"
    ) -> "types.ReadResourceResult | types.InputRequiredResult":
        """What is at an address."""
        raise no_such_method("resources/read")

    async def subscribe_resource(
        self, ctx: "RequestContext", params: "types.SubscribeRequestParams"
    ) -> "types.EmptyResult":
        """Tell this client when a resource changes (protocols up to 2025-11-25)."""
        raise no_such_method("resources/subscribe")

    async def unsubscribe_resource(
        self, ctx: "RequestContext", params: "types.UnsubscribeRequestParams"
    ) -> "types.EmptyResult":
        """Tell it no more (protocols up to 2025-11-25)."""
        raise no_such_method("resources/unsubscribe")

    async def subscriptions_listen(
        self, ctx: "RequestContext", params: "types.SubscriptionsListenRequestParams"
    ) -> "types.SubscriptionsListenResult":
        """Tell of changes for as long as the request is open (protocols from 2026-07-28)."""
        raise no_such_method("subscriptions/listen")

    async def list_prompts(
        self, ctx: "RequestContext", params: "types.PaginatedRequestParams | None"
    ) -> "types.ListPromptsResult":
        """One page of the prompts."""
        raise no_such_method("prompts/list")

    async def get_prompt(
        self, ctx: "RequestContext", params: "types.GetPromptRequestParams"
    ) -> "types.GetPromptResult | types.InputRequiredResult":
        """A prompt, filled in."""
        raise no_such_method("prompts/get")

    async def completion(self, ctx: "RequestContext", params: "types.CompleteRequestParams") -> "types.CompleteResult":
        """How an argument that was begun may go on."""
        raise no_such_method("completion/complete")

    async def set_logging_level(
        self, ctx: "RequestContext", params: "types.SetLevelRequestParams"
    ) -> "types.EmptyResult":
        """Which log messages this client wants (protocols up to 2025-11-25)."""
        raise no_such_method("logging/setLevel")


def no_such_method(method: str) -> Exception:
    """The error that says so to a client."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND

    return MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=method)


RESOURCE_NOT_FOUND = -32002  # of protocols up to 2025-11-25; later ones say that the parameters are invalid


def as_mcp_error(error: OnhandError) -> MCPError:
    """What the caller passed is its own to mend; anything else is ours."""
    code = types.INVALID_PARAMS if isinstance(error, InputError) else types.INTERNAL_ERROR
    return MCPError(code=code, message=repair_surrogates(str(error)))


def no_such_resource(uri: str, reason: str, protocol_version: str) -> MCPError:
    """There is nothing at an address."""
    code = types.INVALID_PARAMS if protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
    return MCPError(
        code=code,
        message=f"Resource not found: {repair_surrogates(reason)}",
        data={"uri": repair_surrogates(uri[:2048])},
    )


PAGE = 100  # entries; a page of resources is some 30 KB

Entry = TypeVar("Entry")


def page(entries: Sequence[Entry], cursor: str | None, size: int = PAGE) -> tuple[list[Entry], str | None]:
    """The entries behind a cursor, and the cursor of the next page if there is one; InputError for a forged cursor."""
    start = 0
    if cursor is not None:
        if not re.fullmatch("[1-9][0-9]{0,8}", cursor, re.ASCII):
            raise InputError("this cursor is none of ours: send the nextCursor of the page before, or none")
        start = int(cursor)
    following = start + size
    return list(entries[start:following]), str(following) if following < len(entries) else None


Handler = Callable[[Any, Any], Awaitable[Any]]

_log = logging.getLogger(__name__)


def build_server(surface: Surface) -> "Server[Surface]":
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
