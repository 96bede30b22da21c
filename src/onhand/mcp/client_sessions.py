"""Track client sessions and notify them of changes.

Which clients are there, and what are they told? Of changed lists and resources, each in the way of its era.

What gateway and transparent surface have in common: they stand in front of a registry, which lives as long as they do.
Nothing here knows what is listed or called.
"""

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

END_S = 5.0  # for telling servers that a client has gone


class Front(Surface):
    """A surface in front of a registry."""

    def __init__(self, registry: Upstreams) -> None:
        self.registry = registry
        self.version = registry.version
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self._clients: dict[int, Any] = {}  # by the identity of a connection: a session that can be told of changes
        self._subscribed: dict[tuple[int, str], Callable[[], Awaitable[None]]] = {}
        self._changed = anyio.Event()
        self._logged: set[str] = set()
        self._life = AsyncExitStack()

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """All that a server behind us may have."""
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
        await self._life.enter_async_context(self.registry)
        self.registry.on_changed.append(self._note_change)
        self._life.callback(self.registry.on_changed.remove, self._note_change)
        self._life.callback(self._listening.close)
        tasks.start_soon(self._telling)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        await self._life.aclose()

    def address(self, uri: str) -> str:
        """What the registry calls an address that a client names."""
        return uri

    def lists_their_tools(self) -> bool:
        """Whether tools of servers are in our own list, so that it changes with theirs."""
        return True

    async def subscribe_resource(
        self, ctx: "RequestContext", params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Tell this client when a resource of a server changes."""
        self.meet(ctx)
        place = (id(connection_of(ctx)), params.uri)
        if place not in self._subscribed:
            session = ctx.session

            async def tell(_: str) -> None:
                await session.send_resource_updated(params.uri)

            self._subscribed[place] = await self.registry.subscribe(self.address(params.uri), tell, ctx)
        return types.EmptyResult()

    async def unsubscribe_resource(
        self, ctx: "RequestContext", params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Tell it no more."""
        end = self._subscribed.pop((id(connection_of(ctx)), params.uri), None)
        if end is not None:
            await end()
        return types.EmptyResult()

    async def subscriptions_listen(
        self, ctx: "RequestContext", params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Tell of changes while the request is open."""
        self.registry.wake()
        ends: list[Callable[[], Awaitable[None]]] = []
        try:
            for uri in params.notifications.resource_subscriptions or ():
                with suppress(OnhandError, MCPError):  # one that nobody has is never told of
                    ends.append(await self.registry.subscribe(self.address(uri), self._publisher(uri), ctx))
            return await self._listening(ctx, params)
        finally:
            with anyio.move_on_after(END_S, shield=True):
                for end in ends:
                    with suppress(OnhandError, MCPError):
                        await end()

    async def set_logging_level(self, ctx: "RequestContext", params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Ask every server for the messages that this client wants."""
        self.meet(ctx)
        await self.registry.set_level(params.level)
        return types.EmptyResult()

    def meet(self, ctx: "RequestContext") -> None:
        """Know a client from now on, and have the servers connect that are needed."""
        self.registry.wake(not is_modern(ctx.protocol_version))
        connection = connection_of(ctx)
        if is_modern(ctx.protocol_version) or id(connection) in self._clients:
            return
        self._clients[id(connection)] = ctx.session
        connection.exit_stack.push_async_callback(self.part, id(connection))

    async def part(self, client: int) -> None:
        """Forget a client that has gone."""
        self._clients.pop(client, None)
        for place in [place for place in self._subscribed if place[0] == client]:
            with suppress(OnhandError, MCPError):
                await self._subscribed.pop(place)()

    def _publisher(self, uri: str) -> Callable[[str], Awaitable[None]]:
        async def tell(_: str) -> None:
            await self._bus.publish(ResourceUpdated(uri=uri))

        return tell

    def _note_change(self) -> None:
        self._changed.set()

    async def _telling(self) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            self._log_problems()
            tools = self.lists_their_tools()
            events: list[ServerEvent] = [ResourcesListChanged(), PromptsListChanged()]
            for event in [*events, ToolsListChanged()] if tools else events:
                await self._bus.publish(event)
            for session in list(self._clients.values()):
                with suppress(Exception):  # a client that has gone
                    await session.send_resource_list_changed()
                    await session.send_prompt_list_changed()
                    if tools:
                        await session.send_tool_list_changed()

    def _log_problems(self) -> None:
        """Write down once what of a list cannot be used: whoever misses a tool looks into our log."""
        told = {f"{one.key}: {problem}" for one in self.registry.status() for problem in one.problems}
        for problem in sorted(told - self._logged):
            _log.warning("%s", problem)
        self._logged = told
