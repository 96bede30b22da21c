"""Connect to one upstream server, reconnect when the connection is lost, and keep lists and subscriptions up to date.

A connection is made when it is first needed and again, after growing pauses, when it fails. A server is addressed in
the protocol era of the client that a request is for, so there may be two connections.
"""

import math
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import mcp
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen

from onhand.errors import UpstreamError
from onhand.mcp.client_callbacks import (
    AppsExtension,
    Callbacks,
    declare_capabilities,
    is_modern,
    requesting_for,
    shared_client,
)
from onhand.mcp.output_validation import OutputValidator
from onhand.mcp.servers import ServerConfig
from onhand.mcp.surface import RequestContext
from onhand.mcp.upstream_catalog import UpstreamCatalog
from onhand.mcp.upstream_lists import UpstreamLists, fetch_lists, validate_lists
from onhand.mcp.upstream_transport import ServerTransport, StartupThrottle, requires_modern

FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0
BACKGROUND_PAUSES = 4  # times longer: nobody waits for these attempts, and starting programs costs a processor
MAX_BACKGROUND_ATTEMPTS = 4  # after which a server is tried again only when somebody needs it
MIN_TTL_S = 5.0  # for lists that are stale at once
OnUpdate = Callable[[], Awaitable[None]]


class Connection:
    """A live connection to a server."""

    session: ClientSession
    tasks: TaskGroup
    outputs: OutputValidator

    def __init__(self) -> None:
        self.lost = anyio.Event()
        self._requests: dict[object, RequestContext | None] = {}

    @property
    def is_live(self) -> bool:
        return not self.lost.is_set()

    @property
    def is_modern(self) -> bool:
        return is_modern(self.session.protocol_version)

    @contextmanager
    def requesting(self, ctx: RequestContext | None) -> Generator[None, None, None]:
        """Mark that the server works on a request of this client."""
        token = object()
        self._requests[token] = ctx
        try:
            with requesting_for(ctx):
                yield
        finally:
            del self._requests[token]

    def client(self) -> RequestContext | None:
        """Return the request that the server means when it asks the client something."""
        return shared_client(self._requests.values())


class Subscriptions:
    """The notifications that clients want from one server, which every new connection subscribes to again."""

    def __init__(self) -> None:
        self._subscribers: dict[str, dict[object, OnUpdate]] = {}  # by URI
        self._active: set[str] = set()  # URIs that the server has accepted
        self._listeners: dict[tuple[int, str], anyio.CancelScope] = {}  # by connection and URI, in the modern era
        self._level: types.LoggingLevel | None = None

    def add(self, uri: str, on_update: OnUpdate) -> object:
        """Add a subscriber, before the server is asked since it may notify at once; return its token."""
        token = object()
        self._subscribers.setdefault(uri, {})[token] = on_update
        return token

    def remove(self, uri: str, token: object) -> bool:
        """Remove a subscriber, and return whether it was the last one of this URI."""
        subscribers = self._subscribers.get(uri, {})
        if subscribers.pop(token, None) is None or subscribers:
            return False
        del self._subscribers[uri]
        self._active.discard(uri)
        return True

    async def notify(self, uri: str) -> None:
        """Notify all subscribers that a resource changed."""
        for on_update in list(self._subscribers.get(uri, {}).values()):
            await on_update()

    async def resume(self, connection: Connection) -> None:
        """Subscribe on a new connection to everything that earlier ones were subscribed to."""
        if not connection.is_modern and self._level is not None:
            with suppress(MCPError):
                await _set_level(connection, self._level)
        for uri in list(self._active):
            with suppress(MCPError):
                await self.start(connection, uri)

    async def start(self, connection: Connection, uri: str) -> None:
        """Subscribe to a resource."""
        if not connection.is_modern:
            request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
            await connection.session.send_request(request, types.EmptyResult)
        elif (id(connection), uri) not in self._listeners:
            await connection.tasks.start(self._listen, connection, uri)
        if uri in self._subscribers:
            self._active.add(uri)

    async def stop(self, connection: Connection, uri: str) -> None:
        """Unsubscribe from a resource."""
        listener = self._listeners.pop((id(connection), uri), None)
        if listener is not None:
            listener.cancel()
        elif not connection.is_modern:
            request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
            await connection.session.send_request(request, types.EmptyResult)

    async def set_level(self, level: types.LoggingLevel, connections: Iterable[Connection]) -> None:
        """Request log messages from a level on; servers without log messages refuse, which is fine."""
        self._level = level
        for connection in connections:
            if not connection.is_modern:
                with suppress(MCPError):
                    await _set_level(connection, level)

    async def _listen(self, connection: Connection, uri: str, *, task_status: Any) -> None:
        with anyio.CancelScope() as scope, suppress(MCPError, SubscriptionLost, TimeoutError):
            self._listeners[id(connection), uri] = scope
            try:
                async with listen(connection.session, resource_subscriptions=[uri]) as changes:
                    task_status.started()
                    async for _ in changes:
                        await self.notify(uri)
            finally:
                self._listeners.pop((id(connection), uri), None)
        with suppress(RuntimeError):  # it had started, so nobody waits any more
            task_status.started()


class ListState:
    """How fresh the lists of one server are, and whether they have to be fetched again."""

    def __init__(self, server: ServerConfig, catalog: UpstreamCatalog) -> None:
        self._server = server
        self._catalog = catalog
        self.changed = anyio.Event()
        self.is_known = catalog.load(server)  # with cached lists, there is no need to connect before a request
        self._expires = math.inf

    @property
    def is_expired(self) -> bool:
        return self.is_known and anyio.current_time() >= self._expires

    def refresh(self) -> None:
        """Have the lists fetched again soon."""
        self.changed.set()

    async def update(self, connection: Connection, lists: UpstreamLists) -> None:
        """Put fetched lists into the catalog."""
        ttl, offered = lists.ttl_s, connection.session.server_capabilities
        notifies = bool(offered and offered.tools and offered.tools.list_changed)
        has_ttl = ttl is not None and (ttl > 0 or not notifies)
        self._expires = anyio.current_time() + max(ttl or 0.0, MIN_TTL_S) if has_ttl else math.inf
        await self._catalog.update(self._server, lists)
        self.is_known = True

    def postpone(self) -> None:
        """Keep the lists that could not be fetched again for a while."""
        self._expires = anyio.current_time() + LONGEST_PAUSE_S

    async def watch(self, connection: Connection) -> None:
        """Listen for changed lists, as servers of the modern era expect."""
        offered = connection.session.server_capabilities
        kinds: dict[str, Any] = {
            f"{kind}_list_changed": bool(part and part.list_changed)
            for kind, part in (
                ("tools", offered and offered.tools),
                ("resources", offered and offered.resources),
                ("prompts", offered and offered.prompts),
            )
        }
        pause = FIRST_PAUSE_S
        while any(kinds.values()):
            with suppress(MCPError, SubscriptionLost, TimeoutError):
                async with listen(connection.session, **kinds) as changes:
                    pause = FIRST_PAUSE_S
                    async for _ in changes:
                        self.refresh()
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)


class _Attempt:
    """A connection that is being made, and everybody who waits for it."""

    def __init__(self) -> None:
        self.has_begun = False
        self.waiting = anyio.CancelScope()  # for its turn to start
        self.done = anyio.Event()
        self.connection: Connection | None = None
        self.reason = "the gateway is closing"


class Connector:
    """Makes the connections to one server, at most one for each protocol era, and pauses after failures."""

    def __init__(
        self,
        server: ServerConfig,
        transport: ServerTransport,
        lists: ListState,
        subscriptions: Subscriptions,
        throttle: StartupThrottle,
        admit: Callable[[ServerConfig], str | None],
        version: str,
    ) -> None:
        """`admit` returns why the server may not be contacted, or None."""
        self._server = server
        self._transport = transport
        self._lists = lists
        self._subscriptions = subscriptions
        self._throttle = throttle
        self._admit = admit
        self._version = version
        self.tasks: TaskGroup | None = None
        self.detail = ""  # why the server is down
        self.connections: dict[bool, Connection] = {}  # by whether it is of the legacy era
        self.attempts: dict[bool, _Attempt] = {}
        self._failures = 0
        self._not_before = 0.0

    def live(self) -> list[Connection]:
        """Return the live connections."""
        return [connection for connection in set(self.connections.values()) if connection.is_live]

    def connect_soon(self, legacy: bool) -> None:
        """Connect in the background, unless a connection is being made or the server has just failed."""
        if not self.attempts and self.tasks and anyio.current_time() >= self._not_before:
            attempt = self.attempts[legacy] = _Attempt()
            self.tasks.start_soon(self._connect_in_turn, legacy, attempt)

    def hurry(self) -> None:
        """Begin connections that wait for their turn, since somebody needs the server now."""
        for legacy, attempt in self.attempts.items():
            self._begin(legacy, attempt)

    async def wait(self, only_begun: bool = False) -> None:
        """Wait for the connections that are being made."""
        for attempt in [attempt for attempt in self.attempts.values() if attempt.has_begun or not only_begun]:
            await attempt.done.wait()

    async def connect(self, legacy: bool) -> Connection:
        """Return a live connection of an era, or of the other if the server knows only that; raise UpstreamError."""
        connection = self.connections.get(legacy)
        if connection is not None and connection.is_live:
            return connection
        key = self._server.key
        attempt = self.attempts.get(legacy)
        if attempt is None:
            if self.tasks is None:
                raise UpstreamError(f"{key} is closed. Open the gateway first.")
            pause = self._not_before - anyio.current_time()
            if pause > 0:
                raise UpstreamError(f"{key} is down: {self.detail}. It is tried again in {pause:.0f} s.")
            attempt = self.attempts[legacy] = _Attempt()
        self._begin(legacy, attempt)
        await attempt.done.wait()
        if attempt.connection is None:
            raise UpstreamError(f"{key} cannot be reached: {attempt.reason}")
        return attempt.connection

    async def _connect_in_turn(self, legacy: bool, attempt: _Attempt) -> None:
        """Connect when it is this server's turn or somebody needs it; an address has no program to start."""
        try:
            with attempt.waiting:
                if not self._server.url:
                    await self._throttle.wait_for_turn(self._failures > 0)
            if not self._lists.is_known:  # from a connection of the other era, which somebody needed
                self._begin(legacy, attempt)
        finally:
            if not attempt.has_begun:  # nobody needs it, or the gateway is closing
                self.attempts.pop(legacy, None)
                attempt.done.set()

    def _begin(self, legacy: bool, attempt: _Attempt) -> None:
        if not attempt.has_begun and self.tasks is not None:
            attempt.has_begun = True
            attempt.waiting.cancel()
            self.tasks.start_soon(self._run, legacy, attempt)

    async def _run(self, legacy: bool, attempt: _Attempt) -> None:
        """Run a connection from its beginning to its end. No failure of the server leaves this method."""
        connection = Connection()
        reason = f"no answer within {self._server.connect_timeout_s:g} s"
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._server.connect_timeout_s) as scope:
                refusal = self._admit(self._server)
                if refusal:
                    raise UpstreamError(refusal)
                try:
                    await self._run_session("legacy" if legacy else "auto", legacy, attempt, connection, scope)
                except* MCPError as errors:
                    if not legacy or attempt.connection is not None or not requires_modern(errors):
                        raise
                    await self._run_session("auto", legacy, attempt, connection, scope)
                reason = "the connection ended"
        except Exception as error:
            reason = self._transport.explain(error)
        finally:
            connection.lost.set()
            if self.attempts.get(legacy) is attempt:  # and not one that began while this one ended
                del self.attempts[legacy]
            self.connections = {era: other for era, other in self.connections.items() if other is not connection}
            if attempt.connection is None:
                self._note_failure(reason)
                attempt.reason = reason
            attempt.done.set()

    async def _run_session(
        self, mode: str, legacy: bool, attempt: _Attempt, connection: Connection, scope: anyio.CancelScope
    ) -> None:
        callbacks = Callbacks(connection.client)
        client = mcp.Client(
            self._transport.open(connection.lost.set),
            mode=mode,
            cache=None,
            read_timeout_seconds=self._server.connect_timeout_s,
            sampling_callback=callbacks.sampling,
            sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
            elicitation_callback=callbacks.elicitation,
            list_roots_callback=callbacks.roots,
            logging_callback=callbacks.log,
            message_handler=self._handle_message,
            extensions=[AppsExtension()],
            client_info=types.Implementation(name="onhand", version=self._version),
        )
        async with client, anyio.create_task_group() as tasks:
            connection.session, connection.tasks = client.session, tasks
            connection.outputs = OutputValidator(client.session)
            declare_capabilities(client.session)
            validate_lists(client.session)
            lists = await fetch_lists(client.session)
            scope.deadline = math.inf
            await self._lists.update(connection, lists)
            self._failures, self._not_before, self.detail = 0, 0.0, ""
            self.connections[legacy] = connection
            if connection.is_modern == legacy:  # the server knows only the other era: one connection is enough
                self.connections.setdefault(not legacy, connection)
            attempt.connection = connection
            self.attempts.pop(legacy, None)
            attempt.done.set()
            if connection.is_modern:
                tasks.start_soon(self._lists.watch, connection)
            await self._subscriptions.resume(connection)
            await connection.lost.wait()
            tasks.cancel_scope.cancel()

    async def _handle_message(self, message: IncomingMessage) -> None:
        match message:
            case types.ToolListChangedNotification() | types.ResourceListChangedNotification():
                self._lists.refresh()
            case types.PromptListChangedNotification():
                self._lists.refresh()
            case types.ResourceUpdatedNotification():
                await self._subscriptions.notify(str(message.params.uri))

    def _note_failure(self, reason: str) -> None:
        self.detail = reason
        pause = pause_after(self._failures)
        self._failures += 1
        self._not_before = anyio.current_time() + pause
        if self._failures < MAX_BACKGROUND_ATTEMPTS and not self._lists.is_known and self.tasks is not None:
            self.tasks.start_soon(self._try_again, BACKGROUND_PAUSES * pause)

    async def _try_again(self, pause: float) -> None:
        await anyio.sleep(pause)
        if not self._lists.is_known:
            self.connect_soon(legacy=False)


def pause_after(failures: int) -> float:
    """Return the pause before the next attempt, which doubles with every failure up to a limit."""
    return min(FIRST_PAUSE_S * 2.0 ** min(failures, 10), LONGEST_PAUSE_S)  # a server may be down for months


async def _set_level(connection: Connection, level: types.LoggingLevel) -> None:
    request = types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))
    await connection.session.send_request(request, types.EmptyResult)
