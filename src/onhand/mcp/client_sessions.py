"""The surface in front of upstream servers: it knows the sessions of its clients and notifies them of changes."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from onhand.errors import OnhandError
from onhand.mcp.client_callbacks import connection_of, is_modern
from onhand.mcp.surface import RequestContext, Surface
from onhand.mcp.upstreams import Upstreams

_log = logging.getLogger(__name__)

UNSUBSCRIBE_S = 5.0  # for telling servers that a client has disconnected


class ProxySurface(Surface):
    """A surface in front of upstream servers, which are open for as long as it is.

    Clients of protocols up to 2025-11-25 are notified through their sessions, later ones while they listen.
    """

    def __init__(self, upstreams: Upstreams) -> None:
        self.upstreams = upstreams
        self.version = upstreams.version
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self._sessions: dict[int, Any] = {}  # by the identity of their connection
        self._subscriptions: dict[tuple[int, str], Callable[[], Awaitable[None]]] = {}  # what ends each one
        self._changed = anyio.Event()
        self._logged: set[str] = set()
        self._life = AsyncExitStack()

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """Everything that an upstream server may have."""
        return types.ServerCapabilities(
            tools=types.ToolsCapability(list_changed=True),
            resources=types.ResourcesCapability(subscribe=True, list_changed=True),
            prompts=types.PromptsCapability(list_changed=True),
            completions=types.CompletionsCapability(),
            logging=types.LoggingCapability(),
        )

    async def __aenter__(self) -> Self:
        tasks = await self._life.enter_async_context(anyio.create_task_group())
        self._life.callback(tasks.cancel_scope.cancel)
        await self._life.enter_async_context(self.upstreams)
        self.upstreams.on_changed.append(self._note_change)
        self._life.callback(self.upstreams.on_changed.remove, self._note_change)
        self._life.callback(self._listening.close)
        tasks.start_soon(self._notify_of_changes)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._life.aclose()

    def address(self, uri: str) -> str:
        """Return the address by which the upstreams know a URI that a client sent."""
        return uri

    def lists_upstream_tools(self) -> bool:
        """Whether upstream tools are in our own list, so that it changes with theirs."""
        return True

    def register_client(self, ctx: RequestContext) -> None:
        """Remember the session of a client until it disconnects, and connect the servers that are needed."""
        self.upstreams.wake(not is_modern(ctx.protocol_version))
        connection = connection_of(ctx)
        if is_modern(ctx.protocol_version) or id(connection) in self._sessions:
            return
        self._sessions[id(connection)] = ctx.session
        connection.exit_stack.push_async_callback(self._forget_client, id(connection))

    async def _forget_client(self, client: int) -> None:
        self._sessions.pop(client, None)
        for place in [place for place in self._subscriptions if place[0] == client]:
            with suppress(OnhandError, MCPError):
                await self._subscriptions.pop(place)()

    async def subscribe_resource(self, ctx: RequestContext, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Notify this client when a resource of a server changes."""
        self.register_client(ctx)
        place = (id(connection_of(ctx)), params.uri)
        if place not in self._subscriptions:
            session = ctx.session

            async def notify(_: str) -> None:
                await session.send_resource_updated(params.uri)

            self._subscriptions[place] = await self.upstreams.subscribe(self.address(params.uri), notify, ctx)
        return types.EmptyResult()

    async def unsubscribe_resource(
        self, ctx: RequestContext, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Stop notifying this client about a resource."""
        end = self._subscriptions.pop((id(connection_of(ctx)), params.uri), None)
        if end is not None:
            await end()
        return types.EmptyResult()

    async def subscriptions_listen(
        self, ctx: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Notify this client of changes while the request is open."""
        self.upstreams.wake()
        ends: list[Callable[[], Awaitable[None]]] = []
        try:
            for uri in params.notifications.resource_subscriptions or ():
                with suppress(OnhandError, MCPError):  # no server has this resource
                    ends.append(await self.upstreams.subscribe(self.address(uri), self._publisher(uri), ctx))
            return await self._listening(ctx, params)
        finally:
            with anyio.move_on_after(UNSUBSCRIBE_S, shield=True):
                for end in ends:
                    with suppress(OnhandError, MCPError):
                        await end()

    def _publisher(self, uri: str) -> Callable[[str], Awaitable[None]]:
        async def publish(_: str) -> None:
            await self._bus.publish(ResourceUpdated(uri=uri))

        return publish

    async def set_logging_level(self, ctx: RequestContext, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Ask every server for the log messages that this client wants."""
        self.register_client(ctx)
        await self.upstreams.set_level(params.level)
        return types.EmptyResult()

    def _note_change(self) -> None:
        self._changed.set()

    async def _notify_of_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            self._log_problems()
            has_tools = self.lists_upstream_tools()
            events: list[ServerEvent] = [ResourcesListChanged(), PromptsListChanged()]
            for event in [*events, ToolsListChanged()] if has_tools else events:
                await self._bus.publish(event)
            for session in list(self._sessions.values()):
                with suppress(Exception):  # the client has disconnected
                    await session.send_resource_list_changed()
                    await session.send_prompt_list_changed()
                    if has_tools:
                        await session.send_tool_list_changed()

    def _log_problems(self) -> None:
        """Log once what of a server's list cannot be used, for whoever misses a tool."""
        problems = {f"{server.key}: {problem}" for server in self.upstreams.status() for problem in server.problems}
        for problem in sorted(problems - self._logged):
            _log.warning("%s", problem)
        self._logged = problems
