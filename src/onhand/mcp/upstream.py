"""Send requests to one upstream server.

All requests share the connections of `upstream_connection`. A failing server affects only requests to itself. Nothing
here knows about other servers.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError
from pydantic import ValidationError

from onhand.errors import UpstreamError
from onhand.mcp.client_callbacks import is_modern, progress_callback
from onhand.mcp.servers import ServerConfig
from onhand.mcp.surface import RequestContext
from onhand.mcp.upstream_catalog import UpstreamCatalog
from onhand.mcp.upstream_connection import Connection, Connector, ListState, OnUpdate, Subscriptions
from onhand.mcp.upstream_lists import fetch_lists
from onhand.mcp.upstream_transport import ServerTransport, StartupThrottle, cap_error, is_ended, is_expired

T = TypeVar("T")
REFRESH_PAUSE_S = 1.0  # between lists, however often a server says that they changed


class UpstreamRequest(NamedTuple):
    """A request to a server, and the type of its result."""

    message: types.Request[Any, Any]
    result: Any  # a type or a TypeAdapter
    tool: str = ""  # the public name of the tool that it calls, which must still be approved when it is sent

    def with_input(self, responses: types.InputResponses | None, state: str | None) -> "UpstreamRequest":
        """Return the same request with the client's responses to what the server asked."""
        params = self.message.params.model_copy(update={"input_responses": responses, "request_state": state})
        return self._replace(message=self.message.model_copy(update={"params": params}))


class Status(NamedTuple):
    """The state of a server."""

    state: str  # "idle", "connecting", "ready" or "down"
    detail: str = ""  # why it is down
    is_stale: bool = False  # whether its lists are from an earlier connection


class Upstream:
    """One upstream server. It runs in the task group of its owner."""

    def __init__(
        self,
        server: ServerConfig,
        transport: ServerTransport,
        catalog: UpstreamCatalog,
        throttle: StartupThrottle,
        version: str = "",
    ) -> None:
        """`catalog` receives the server's lists; `throttle` is shared by all servers."""
        self.server = server
        self._transport = transport
        self._catalog = catalog
        self._throttle = throttle
        self._lists = ListState(server, catalog)
        self._subscriptions = Subscriptions()
        self._connector = Connector(
            server, transport, self._lists, self._subscriptions, throttle, catalog.blocked_server, version
        )
        self._slots = anyio.Semaphore(server.max_concurrent)

    def open(self, tasks: TaskGroup) -> None:
        """Run in a task group until that ends."""
        self._connector.tasks = tasks
        tasks.start_soon(self._keep_lists_fresh)

    @property
    def status(self) -> Status:
        """The state of the server."""
        detail = self._connector.detail
        if self._connector.live():
            return Status("ready")
        if self._connector.attempts:
            return Status("connecting", detail, True)
        return Status("down", detail, True) if detail else Status("idle", "", True)

    def wake(self, legacy: bool = False) -> None:
        """Connect in the background if the lists are unknown, or fetch lists again that have expired."""
        if self._lists.is_expired:
            self._lists.refresh()
        elif not self._lists.is_known:
            self._connector.connect_soon(legacy)

    def hurry(self) -> None:
        """Begin connections that wait for their turn, since somebody needs the server now."""
        self._connector.hurry()

    async def wait_until_listed(self) -> None:
        """Wait for the first connection, if it is being made and the lists are unknown."""
        if not self._lists.is_known:
            await self._connector.wait()

    def refresh(self) -> None:
        """Have the lists fetched again soon."""
        self._lists.refresh()

    async def connect(self, legacy: bool = False) -> Connection:
        """Return a live connection of an era, or of the other if the server knows only that; raise UpstreamError."""
        return await self._connector.connect(legacy)

    async def request(self, ctx: RequestContext | None, request: UpstreamRequest) -> Any:
        """Send a request for a client, reconnecting once, and return its result.

        Raise UpstreamError if the server cannot be reached, ends, takes too long or violates the protocol, and
        MCPError if it responds with an error.
        """
        key = self.server.key
        try:
            return _without_server_info(await self._run(ctx, partial(self._send, ctx, request)))
        except MCPError as error:
            raise cap_error(error, self.server.max_output_bytes) from None
        except ValidationError:
            raise UpstreamError(f"{key} violates the MCP protocol: its response is not a valid result.") from None
        except RuntimeError as error:
            raise UpstreamError(f"{key}: {error}") from None

    async def subscribe(
        self, ctx: RequestContext | None, uri: str, on_update: OnUpdate
    ) -> Callable[[], Awaitable[None]]:
        """Have `on_update` called whenever a resource changes; return a function that ends this."""
        token = self._subscriptions.add(uri, on_update)
        try:
            await self._run(ctx, partial(self._subscriptions.start, uri=uri))
        except BaseException:
            self._subscriptions.remove(uri, token)
            raise

        async def unsubscribe() -> None:
            if self._subscriptions.remove(uri, token):
                for connection in self._connector.live():
                    await self._subscriptions.stop(connection, uri)

        return unsubscribe

    async def set_level(self, level: types.LoggingLevel) -> None:
        """Request log messages from a level on, now and after every reconnection."""
        await self._subscriptions.set_level(level, self._connector.live())

    async def _run(self, ctx: RequestContext | None, send: Callable[[Connection], Awaitable[T]]) -> T:
        """Use a connection, and a second one if the server forgot the session of the first."""
        try:
            with anyio.fail_after(self.server.timeout_s), self._throttle.request():
                for is_last in (False, True):
                    async with self._slots:
                        connection = await self.connect(ctx is not None and not is_modern(ctx.protocol_version))
                        try:
                            with connection.requesting(ctx):
                                return await send(connection)
                        except MCPError as error:
                            if is_expired(error) and not is_last:  # it never began: a restarted server lost the session
                                connection.lost.set()
                                continue
                            if is_ended(error):
                                connection.lost.set()
                                raise UpstreamError(self._explain_end()) from None
                            raise
        except TimeoutError:
            raise UpstreamError(
                f"{self.server.key} did not answer within {self.server.timeout_s:g} s. Try again, or ask for less."
            ) from None
        raise UpstreamError(f"{self.server.key} keeps losing its sessions. Restart it.")

    async def _send(self, ctx: RequestContext | None, request: UpstreamRequest, connection: Connection) -> Any:
        if not request.tool:
            return await connection.session.send_request(request.message, request.result)
        route = self._catalog.route(request.tool)  # connecting may have shown that the tool changed
        try:
            result = await self._send_tool_call(ctx, request, connection)
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH:
                raise
            await fetch_lists(connection.session)  # the schema changed, from which the SDK makes the headers
            self._catalog.route(request.tool)
            result = await self._send_tool_call(ctx, request, connection)
        if isinstance(result, types.CallToolResult) and not result.is_error:
            mismatch = connection.outputs.find_mismatch(route.upstream_name, result)
            if mismatch:
                raise UpstreamError(f"{self.server.key}: {mismatch}")
        return result

    async def _send_tool_call(
        self, ctx: RequestContext | None, request: UpstreamRequest, connection: Connection
    ) -> Any:
        return await connection.session.send_request(
            request.message,
            request.result,
            request_read_timeout_seconds=self.server.timeout_s,
            progress_callback=progress_callback(ctx),
        )

    def _explain_end(self) -> str:
        last = self._transport.last_stderr_line
        return (
            f"{self.server.key} ended while it worked on this request{f' ({last})' if last else ''}. "
            "It may or may not have been carried out; the next call connects again."
        )

    async def _keep_lists_fresh(self) -> None:
        """Fetch lists again that have changed, but not more often than makes sense."""
        while True:
            await self._lists.changed.wait()
            self._lists.changed = anyio.Event()
            if not self._connector.live():  # the first lists may have changed while they are taken in
                await self._connector.wait(only_begun=True)
            for connection in self._connector.live()[:1]:
                try:
                    with anyio.fail_after(self.server.connect_timeout_s):
                        lists = await fetch_lists(connection.session)
                    await self._lists.update(connection, lists)
                except Exception as error:
                    self._connector.detail = self._transport.explain(error)
                    self._lists.postpone()
            await anyio.sleep(REFRESH_PAUSE_S)


def _without_server_info(result: T) -> T:
    """Return a result without what its server says about itself: to our clients, we are the server."""
    meta = getattr(result, "meta", None)
    if isinstance(meta, dict) and types.SERVER_INFO_META_KEY in meta:
        rest = {key: value for key, value in meta.items() if key != types.SERVER_INFO_META_KEY}
        return result.model_copy(update={"meta": rest or None})  # type: ignore[attr-defined, no-any-return]
    return result
