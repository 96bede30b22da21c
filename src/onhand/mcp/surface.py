"""What a server offers (a Surface), and the SDK server that serves it over any transport."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from onhand.errors import InputError, OnhandError
from onhand.hidden_characters import repair_surrogates, sanitize, sanitize_json

_log = logging.getLogger(__name__)

RequestContext = ServerRequestContext[Any, Any]
"""The context of one request: progress, logs, sampling and elicitation go through its `session`."""

Handler = Callable[[RequestContext, Any], Awaitable[Any]]
Entry = TypeVar("Entry")

RESOURCE_NOT_FOUND = -32002  # in protocols up to 2025-11-25; later ones use INVALID_PARAMS
STRUCTURED = "onhand/structured"  # in the `_meta` of a request: true asks for JSON for programs beside the text
PAGE_SIZE = 100  # entries; a page of resources is about 30 KB


class Method(NamedTuple):
    """A request beyond the core protocol, such as one of an extension: its parameters and its handler."""

    params: type[BaseModel]
    answer: Handler


class Surface:
    """What a server offers to clients; it is open while it is entered.

    A subclass declares its capabilities and has the handlers of `HANDLERS` for them. A request without a handler is
    answered with "method not found".
    """

    name: str
    version: str
    instructions: str | None
    is_structured = False  # whether our tools send JSON to all clients, and not only to those that ask for it

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """What is served: only the handlers of these capabilities can be reached."""
        raise NotImplementedError

    @property
    def methods(self) -> Mapping[str, Method]:
        """Requests beyond the core protocol, by name."""
        return {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def input_schema(self, tool: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool, for the HTTP headers that mirror arguments; None if unknown."""
        return None

    def sends_structured(self, params: types.RequestParams | None) -> bool:
        """Return whether JSON of our tools, or its schemas, are part of the answer to a request."""
        asked: Mapping[str, Any] = (params.meta if params else None) or {}
        return self.is_structured or asked.get(STRUCTURED) is True


class Handled(NamedTuple):
    """A request of the core protocol: the capability that it needs, its parameters, and its handler's name.

    A handler takes a RequestContext and these parameters and returns the SDK's result type of that request.
    """

    method: str
    capability: Callable[[types.ServerCapabilities], object]
    params: type[BaseModel]
    handler: str


def _can_subscribe(offered: types.ServerCapabilities) -> bool:
    return bool(offered.resources and offered.resources.subscribe)


def _announces_changes(offered: types.ServerCapabilities) -> bool:
    lists = (offered.tools, offered.resources, offered.prompts)
    return _can_subscribe(offered) or any(one and one.list_changed for one in lists)


_LIST = types.PaginatedRequestParams
HANDLERS = (
    Handled("tools/list", lambda offered: offered.tools, _LIST, "list_tools"),
    Handled("tools/call", lambda offered: offered.tools, types.CallToolRequestParams, "call_tool"),
    Handled("resources/list", lambda offered: offered.resources, _LIST, "list_resources"),
    Handled("resources/templates/list", lambda offered: offered.resources, _LIST, "list_resource_templates"),
    Handled("resources/read", lambda offered: offered.resources, types.ReadResourceRequestParams, "read_resource"),
    # Protocols up to 2025-11-25 subscribe to resources; from 2026-07-28 on, clients listen instead.
    Handled("resources/subscribe", _can_subscribe, types.SubscribeRequestParams, "subscribe_resource"),
    Handled("resources/unsubscribe", _can_subscribe, types.UnsubscribeRequestParams, "unsubscribe_resource"),
    Handled("subscriptions/listen", _announces_changes, types.SubscriptionsListenRequestParams, "subscriptions_listen"),
    Handled("prompts/list", lambda offered: offered.prompts, _LIST, "list_prompts"),
    Handled("prompts/get", lambda offered: offered.prompts, types.GetPromptRequestParams, "get_prompt"),
    Handled("completion/complete", lambda offered: offered.completions, types.CompleteRequestParams, "completion"),
    Handled("logging/setLevel", lambda offered: offered.logging, types.SetLevelRequestParams, "set_logging_level"),
)


def build_server(surface: Surface) -> "Server[Surface]":
    """Return the SDK's server for a surface, which is open while the server runs."""
    server = _SurfaceServer(surface)
    for method, capability, params, name in HANDLERS:
        handler = getattr(surface, name, None)
        if handler is not None and capability(surface.capabilities):
            server.add_request_handler(method, params, _guard(handler))
    for method, (params, handler) in surface.methods.items():
        server.add_request_handler(method, params, _guard(handler))
    return server


class _SurfaceServer(Server[Surface]):
    """A server with the capabilities of its surface, in every protocol version and over every transport."""

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


def sanitize_message(message: Any) -> Any:
    """Return a message of the protocol, or a part of one, with all its texts sanitized."""
    if isinstance(message, BaseModel):
        fields = {**message.__dict__, **(message.model_extra or {})}
        sanitized = {name: sanitize_message(value) for name, value in fields.items()}
        return message if sanitized == fields else message.model_copy(update=sanitized)
    if isinstance(message, list):
        return [sanitize_message(item) for item in message]
    if isinstance(message, dict) and any(isinstance(item, BaseModel) for item in message.values()):
        return {sanitize(name): sanitize_message(item) for name, item in message.items()}
    return sanitize_json(message)


def _guard(handler: Handler) -> Handler:
    """Wrap a handler so that what it returns is sanitized.

    Our errors become protocol errors, and others reveal nothing about the inside.
    """

    async def handle(ctx: RequestContext, params: Any) -> Any:
        try:
            return sanitize_message(await handler(ctx, params))
        except MCPError as error:
            sanitized = sanitize_message(error.error)
            if sanitized == error.error:
                raise
            raise MCPError.from_error_data(sanitized) from None
        except OnhandError as error:
            code = types.INVALID_PARAMS if isinstance(error, InputError) else types.INTERNAL_ERROR
            raise MCPError(code=code, message=sanitize(repair_surrogates(str(error)))) from None
        except Exception:
            _log.exception("%s failed", ctx.method)
            raise MCPError(
                code=types.INTERNAL_ERROR, message="The server has a bug. Its log has the details."
            ) from None

    return handle


def no_such_resource(uri: str, reason: str, protocol_version: str) -> MCPError:
    """Return the error for an address that leads nowhere."""
    code = types.INVALID_PARAMS if protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
    return MCPError(
        code=code,
        message=f"Resource not found: {repair_surrogates(reason)}",
        data={"uri": repair_surrogates(uri[:2048])},
    )


def page(
    entries: Sequence[Entry], params: types.PaginatedRequestParams | None, size: int = PAGE_SIZE
) -> tuple[list[Entry], str | None]:
    """Return one page of the entries and the cursor of the next page, if there is one; InputError for other cursors."""
    start = 0
    cursor = params.cursor if params else None
    if cursor is not None:
        if not re.fullmatch("[1-9][0-9]{0,8}", cursor, re.ASCII):
            raise InputError("Unknown cursor. Send the nextCursor of the previous page, or start again without one.")
        start = int(cursor)
    following = start + size
    return list(entries[start:following]), str(following) if following < len(entries) else None
