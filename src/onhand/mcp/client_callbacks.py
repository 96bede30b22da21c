"""Forward what an upstream server asks of its client to our own client.

How does what a server asks of its client reach ours? Sampling, elicitation, roots, logs and progress.

A server behind us serves all of our clients over one connection, and what it asks does not say for whom. It goes to
the client whose requests it works on; when these are several clients', to nobody: a question with one client's data
must not reach another. Nothing here knows what was called.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.server.connection import allowed_log_levels
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from onhand.mcp.surface import RequestContext

RESERVED = "io.modelcontextprotocol/"  # keys of `_meta` that are about one connection, not about a request


def is_modern(version: str | None) -> bool:
    """Whether a protocol version is of the stateless era, in which a server asks by its answers."""
    return version in MODERN_PROTOCOL_VERSIONS


def connection_of(ctx: "RequestContext") -> Any:
    """What stands for the client while it is connected; the SDK hands it to middleware only."""
    return ctx.session._connection


def forwarded(meta: Mapping[str, Any] | None) -> Any:
    """What of a request's `_meta` goes on: everything but what is about the connection that it came by."""
    kept = {
        key: value
        for key, value in (meta or {}).items()
        if key not in ("progress_token", "progressToken")
        and (not key.startswith(RESERVED) or key == types.LOG_LEVEL_META_KEY)
    }
    return kept or None


_SPEAKER: "ContextVar[RequestContext | None]" = ContextVar("speaker", default=None)


@contextmanager
def speaking_for(ctx: "RequestContext | None") -> "Iterator[None]":
    """What is asked in the block is asked for this client."""
    token = _SPEAKER.set(ctx)
    try:
        yield
    finally:
        _SPEAKER.reset(token)


def declare_clients(session: "ClientSession") -> None:
    """Have every request of the newer era say what the client can do that it is made for, and not what we can pass on.

    The SDK writes the same capabilities into each request of a session, and has no other place to say it.
    """
    stamp = session._stamp

    def stamped(data: dict[str, Any], options: Any) -> None:
        stamp(data, options)
        ctx = _SPEAKER.get()
        meta = data.get("params", {}).get("_meta", {})
        if ctx is not None and types.CLIENT_CAPABILITIES_META_KEY in meta:
            offered = ctx.session.client_capabilities or types.ClientCapabilities()
            meta[types.CLIENT_CAPABILITIES_META_KEY] = offered.model_dump(by_alias=True, mode="json", exclude_none=True)

    session._stamp = stamped


def progress_to(ctx: "RequestContext | None") -> "ProgressFnT | None":
    """Where progress of a request goes; to a client that did not ask for it, none is told."""
    if ctx is None:
        return None

    async def report(progress: float, total: float | None, message: str | None) -> None:
        await ctx.session.report_progress(progress, total, message)

    return report


def only(asking: "Iterable[RequestContext | None]") -> "RequestContext | None":
    """The latest request, if all of these are one client's."""
    found = list(asking)
    clients = {id(connection_of(ctx)) if ctx is not None else None for ctx in found}
    return found[-1] if len(clients) == 1 else None


async def ask_client(ctx: "RequestContext | None", request: Any) -> Any:
    """What the client answers to sampling, elicitation or roots; an error where it cannot be asked."""
    refusal = _refusal(ctx, request)
    if refusal or ctx is None:
        return types.ErrorData(code=types.INVALID_REQUEST, message=refusal)
    try:
        return await ctx.session.send_request(
            request, _result_of(request), metadata=ServerMessageMetadata(related_request_id=ctx.request_id)
        )
    except MCPError as error:
        return error.error


def _refusal(ctx: "RequestContext | None", request: Any) -> str:
    if ctx is None:
        return f"{request.method} cannot be answered: it is not clear which client it is for"
    offered = ctx.session.client_capabilities
    needed = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
    if offered is None or getattr(offered, needed[request.method], None) is None:
        return f"{request.method} cannot be answered: the client does not offer {needed[request.method]}"
    return "" if ctx.session.can_send_request else f"{request.method} cannot be answered in this protocol version"


def _result_of(request: Any) -> "type[BaseModel]":
    match request:
        case types.CreateMessageRequest():
            with_tools = request.params.tools is not None or request.params.tool_choice is not None
            return types.CreateMessageResultWithTools if with_tools else types.CreateMessageResult
        case types.ElicitRequest():
            return types.ElicitResult
        case _:
            return types.ListRootsResult


async def log_to(ctx: "RequestContext | None", params: types.LoggingMessageNotificationParams) -> None:
    """Pass a log message on, as far as the client wants to have it."""
    if ctx is None or params.level not in allowed_log_levels(ctx.protocol_version, ctx.meta):
        return
    await ctx.session.send_notification(
        types.LoggingMessageNotification(params=params), related_request_id=ctx.request_id
    )


class Callbacks:
    """What an SDK client calls when the server asks something; `whom` says on whose request it works now."""

    def __init__(self, whom: "Callable[[], RequestContext | None]") -> None:
        self._whom = whom

    async def sampling(self, context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
        """For SDK's sampling_callback."""
        return await ask_client(self._whom(), types.CreateMessageRequest(params=params))

    async def elicitation(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> Any:
        """For SDK's elicitation_callback."""
        return await ask_client(self._whom(), types.ElicitRequest(params=params))

    async def roots(self, context: ClientRequestContext) -> Any:
        """For SDK's list_roots_callback."""
        return await ask_client(self._whom(), types.ListRootsRequest())

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        """For SDK's logging_callback."""
        await log_to(self._whom(), params)
