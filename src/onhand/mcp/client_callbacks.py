"""Forward what an upstream server asks of its client to ours: sampling, elicitation, roots, logs and progress.

An upstream server serves all of our clients over one connection, and what it asks does not say for which of them. It is
forwarded to the client whose requests the server is working on; if these belong to several clients, it is refused,
since one client's data must not reach another.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.client.extension import ClientExtension
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.server.connection import allowed_log_levels
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from onhand.mcp.surface import RequestContext, sanitize_message

RESERVED = "io.modelcontextprotocol/"  # prefix of the `_meta` keys that are about a connection, not about a request


def is_modern(version: str | None) -> bool:
    """Return whether a protocol version is of the stateless era, in which a server asks through its results."""
    return version in MODERN_PROTOCOL_VERSIONS


def connection_of(ctx: RequestContext) -> Any:
    """Return the object that identifies a connected client, which the SDK gives only to middleware."""
    return ctx.session._connection


def forwarded_meta(meta: Mapping[str, Any] | None) -> Any:
    """Return what a request's `_meta` says about the request itself, and not about the connection that it came by."""
    rest = {
        key: value
        for key, value in (meta or {}).items()
        if key not in ("progress_token", "progressToken")
        and (not key.startswith(RESERVED) or key == types.LOG_LEVEL_META_KEY)
    }
    return rest or None


MAX_LOGS_IN_PROGRESS = 100  # of a server, on their way to a client

_REQUESTER: ContextVar[RequestContext | None] = ContextVar("requester", default=None)


@contextmanager
def requesting_for(ctx: RequestContext | None) -> Iterator[None]:
    """Make the requests in the block for this client."""
    token = _REQUESTER.set(ctx)
    try:
        yield
    finally:
        _REQUESTER.reset(token)


class AppsExtension(ClientExtension):
    """Tells servers of the older era that interfaces (MCP Apps) can be shown, since a client of ours may show them.

    In the newer era, each request has the capabilities of the client that it is made for.
    """

    identifier = "io.modelcontextprotocol/ui"

    def settings(self) -> dict[str, Any]:
        return {"mimeTypes": ["text/html;profile=mcp-app"]}


def shows_apps(ctx: RequestContext) -> bool:
    """Return whether a client shows interfaces, which may call tools through it."""
    offered = ctx.session.client_capabilities
    return bool(offered and AppsExtension.identifier in (offered.extensions or {}))


def declare_capabilities(session: ClientSession) -> None:
    """Have every request of the modern era declare the capabilities of the client that it is made for, not our own.

    The SDK writes the same capabilities into each request of a session and has no hook to change that.
    """
    stamp = session._stamp

    def stamp_for_client(data: dict[str, Any], options: Any) -> None:
        stamp(data, options)
        ctx = _REQUESTER.get()
        meta = data.get("params", {}).get("_meta", {})
        if ctx is not None and types.CLIENT_CAPABILITIES_META_KEY in meta:
            offered = ctx.session.client_capabilities or types.ClientCapabilities()
            meta[types.CLIENT_CAPABILITIES_META_KEY] = offered.model_dump(by_alias=True, mode="json", exclude_none=True)

    session._stamp = stamp_for_client


def progress_callback(ctx: RequestContext | None) -> ProgressFnT | None:
    """Return what forwards progress to a client; the SDK drops it if the client did not request it."""
    if ctx is None:
        return None

    async def report(progress: float, total: float | None, message: str | None) -> None:
        await ctx.session.report_progress(progress, total, sanitize_message(message))

    return report


def shared_client(requests: Iterable[RequestContext | None]) -> RequestContext | None:
    """Return the latest of these requests if all of them are from one client, else None."""
    contexts = list(requests)
    clients = {id(connection_of(ctx)) if ctx is not None else None for ctx in contexts}
    return contexts[-1] if len(clients) == 1 else None


async def ask_client(ctx: RequestContext | None, request: Any) -> Any:
    """Return the client's response to sampling, elicitation or roots, or an error if it cannot be asked."""
    refusal = _find_refusal(ctx, request)
    if refusal or ctx is None:
        return types.ErrorData(code=types.INVALID_REQUEST, message=refusal)
    try:
        return await ctx.session.send_request(
            sanitize_message(request),
            _result_type(request),
            metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
        )
    except MCPError as error:
        return error.error


def _find_refusal(ctx: RequestContext | None, request: Any) -> str:
    if ctx is None:
        return f"{request.method} cannot be forwarded: it is not clear which client it is for"
    offered = ctx.session.client_capabilities
    needed = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
    if offered is None or getattr(offered, needed[request.method], None) is None:
        return f"{request.method} cannot be forwarded: the client does not support {needed[request.method]}"
    return "" if ctx.session.can_send_request else f"{request.method} cannot be forwarded in this protocol version"


def _result_type(request: Any) -> type[BaseModel]:
    match request:
        case types.CreateMessageRequest():
            with_tools = request.params.tools is not None or request.params.tool_choice is not None
            return types.CreateMessageResultWithTools if with_tools else types.CreateMessageResult
        case types.ElicitRequest():
            return types.ElicitResult
        case _:
            return types.ListRootsResult


async def forward_log(ctx: RequestContext | None, params: types.LoggingMessageNotificationParams) -> None:
    """Forward a log message if the client wants messages of its level."""
    if ctx is None or params.level not in allowed_log_levels(ctx.protocol_version, ctx.meta):
        return
    await ctx.session.send_notification(
        types.LoggingMessageNotification(params=sanitize_message(params)), related_request_id=ctx.request_id
    )


class Callbacks:
    """What the SDK calls when the server asks something; `find_client` returns the request that it is working on."""

    def __init__(self, find_client: Callable[[], RequestContext | None]) -> None:
        self._find_client = find_client
        self._logs_in_progress = 0

    async def sampling(self, context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
        """Handle the SDK's sampling_callback."""
        return await ask_client(self._find_client(), types.CreateMessageRequest(params=params))

    async def elicitation(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> Any:
        """Handle the SDK's elicitation_callback."""
        return await ask_client(self._find_client(), types.ElicitRequest(params=params))

    async def roots(self, context: ClientRequestContext) -> Any:
        """Handle the SDK's list_roots_callback."""
        return await ask_client(self._find_client(), types.ListRootsRequest())

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Handle the SDK's logging_callback. What a client does not take in time is dropped.

        The SDK calls this in a task for each message, and goes on reading while they wait.
        """
        if self._logs_in_progress >= MAX_LOGS_IN_PROGRESS:
            return
        self._logs_in_progress += 1
        try:
            await forward_log(self._find_client(), params)
        finally:
            self._logs_in_progress -= 1
