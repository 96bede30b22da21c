"""Connect to one upstream server and send it requests.

How is one server behind us reached? Connected when it is needed, again with growing pauses when it fails.

One connection serves all who ask; a server is spoken to in the protocol era of whoever asks, so that it may be two.
Whatever a server does, it costs only those who call it. Nothing here knows other servers, names of tools or pins.
"""

import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import anyio
import mcp
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared._httpx_utils import create_mcp_http_client

from onhand.errors import UpstreamError
from onhand.mcp.client_callbacks import Callbacks, declare_clients, is_modern, only, speaking_for
from onhand.mcp.output_validation import check_promises
from onhand.mcp.sanitize import clean_line
from onhand.mcp.servers import ServerConfig, environment, expanded, working_directory
from onhand.mcp.surface import RequestContext
from onhand.mcp.upstream_lists import UpstreamLists, listed, sift_lists
from onhand.mcp.upstream_transport import (
    KEPT_STDERR_LINES,
    MAX_LINE_BYTES,
    Starts,
    is_ended,
    is_expired,
    started,
    wants_newer,
    why,
)

T = TypeVar("T")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0
UNASKED_PAUSES = 4  # programs that do not start cost a processor: nobody waits for these attempts
MAX_UNASKED_ATTEMPTS = 4  # then a server is tried again only when somebody needs it
REFRESH_PAUSE_S = 1.0  # however often a server says that its list changed
LEAST_TTL_S = 5.0  # a list that is stale at once is still not asked for more often than this
MAX_REASON_CHARS = 300


class Status(NamedTuple):
    """How a server is."""

    state: str  # "idle", "connecting", "ready" or "down"
    detail: str = ""  # why it is down
    is_stale: bool = False  # whether its list is of an earlier time


class Link:
    """A live connection: its session, and the requests that it works on."""

    session: "ClientSession"
    tasks: "TaskGroup"

    def __init__(self) -> None:
        self.lost = anyio.Event()
        self.asking: dict[object, RequestContext | None] = {}

    def whom(self) -> "RequestContext | None":
        """The request that the server means when it asks something."""
        return only(self.asking.values())


class _Attempt:
    """A connection that is being made, for all who wait for it."""

    def __init__(self) -> None:
        self.is_begun = False
        self.waiting = anyio.CancelScope()  # for its turn
        self.done = anyio.Event()
        self.link: Link | None = None
        self.reason = "the gateway is closing"


class Client:
    """One server behind us. Its owner gives it a task group to live in, and is told of what it lists."""

    def __init__(
        self,
        server: ServerConfig,
        environ: Mapping[str, str],
        on_listed: Callable[[UpstreamLists], Awaitable[None]],
        on_updated: Callable[[str], Awaitable[None]] | None = None,
        admit: Callable[[], str | None] = lambda: None,
        auth: Any = None,
        version: str = "",
        starts: Starts | None = None,
    ) -> None:
        """`admit` says why the server may not be spoken to, or None; `on_updated` is told of changed resources.

        `starts` is shared by all servers whose programs take turns.
        """
        self.server = server
        self._environ = environ
        self._on_listed = on_listed
        self._on_updated = on_updated
        self._admit = admit
        self._auth = auth
        self._version = version
        self._starts = Starts() if starts is None else starts
        self._tasks: TaskGroup | None = None
        self._links: dict[bool, Link] = {}  # by whether it is of the older era
        self._attempts: dict[bool, _Attempt] = {}
        self._turns = anyio.Semaphore(server.max_concurrent)
        self._said: deque[str] = deque(maxlen=KEPT_STDERR_LINES)
        self._web_status = 0  # of the last answer of an address
        self._failures = 0
        self._not_before = 0.0
        self._detail = ""
        self._changed: anyio.Event | None = None
        self._expires = math.inf
        self._is_listed = False
        self._level: types.LoggingLevel | None = None
        self._watched: dict[str, int] = {}
        self._watches: dict[tuple[int, str], anyio.CancelScope] = {}

    def open(self, tasks: "TaskGroup") -> None:
        """Live in a task group until that ends."""
        self._tasks = tasks
        self._changed = anyio.Event()
        tasks.start_soon(self._refreshing)

    @property
    def status(self) -> Status:
        """How the server is now."""
        if any(not link.lost.is_set() for link in self._links.values()):
            return Status("ready")
        if self._attempts:
            return Status("connecting", self._detail, True)
        return Status("down", self._detail, True) if self._detail else Status("idle", "", True)

    @property
    def capabilities(self) -> types.ServerCapabilities | None:
        """What the server serves; None while it is not connected."""
        live = self._live()
        return live.session.server_capabilities if live else None

    def wake(self, legacy: bool = False) -> None:
        """Connect in the background if nobody did yet, or ask again for a list that is out of date."""
        if self._is_listed and anyio.current_time() >= self._expires:
            self.refresh()
        elif not self._is_listed and not self._attempts and self._tasks and anyio.current_time() >= self._not_before:
            attempt = self._attempts[legacy] = _Attempt()
            self._tasks.start_soon(self._in_turn, legacy, attempt)

    def hurry(self) -> None:
        """Somebody needs the server now: a connection that waits for its turn begins."""
        for legacy, attempt in self._attempts.items():
            self._begin(legacy, attempt)

    async def answered(self) -> None:
        """Wait for a first connection that is being made, if its list is not known."""
        for attempt in [] if self._is_listed else list(self._attempts.values()):
            await attempt.done.wait()

    def refresh(self) -> None:
        """Ask for the list again, soon."""
        if self._changed is not None:
            self._changed.set()

    async def ask(self, ctx: "RequestContext | None", send: Callable[[Link], Awaitable[T]]) -> T:
        """What the server answers; UpstreamError when it cannot be reached, is gone or takes too long."""
        key = self.server.key
        try:
            with anyio.fail_after(self.server.timeout_s), self._starts.call():
                return await self._asked(ctx, send)
        except TimeoutError:
            raise UpstreamError(
                f"{key} did not answer within {self.server.timeout_s:g} s: try again, or ask for less"
            ) from None

    async def _asked(self, ctx: "RequestContext | None", send: Callable[[Link], Awaitable[T]]) -> T:
        for is_last in (False, True):
            async with self._turns:
                link = await self.link(ctx is not None and not is_modern(ctx.protocol_version))
                place = object()
                link.asking[place] = ctx
                try:
                    with speaking_for(ctx):
                        return await send(link)
                except MCPError as error:
                    if is_expired(error) and not is_last:  # it never began: a restarted server forgot the session
                        link.lost.set()
                        continue
                    if is_ended(error):
                        link.lost.set()
                        said = f" ({self._last_words()})" if self._last_words() else ""
                        raise UpstreamError(
                            f"{self.server.key} ended while it worked on this{said}: "
                            "whether it was done is not known; the next call connects again"
                        ) from None
                    raise
                finally:
                    del link.asking[place]
        raise UpstreamError(f"{self.server.key} forgets its sessions: restart it")

    async def link(self, legacy: bool = False) -> Link:
        """A live connection of an era, or of the other if the server knows no more; UpstreamError if there is none."""
        live = self._links.get(legacy)
        if live is not None and not live.lost.is_set():
            return live
        attempt = self._attempts.get(legacy)
        if attempt is None:
            if self._tasks is None:
                raise UpstreamError(f"{self.server.key} is closed: open the gateway first")
            pause = self._not_before - anyio.current_time()
            if pause > 0:
                raise UpstreamError(f"{self.server.key} is down: {self._detail}; it is tried again in {pause:.0f} s")
            attempt = self._attempts[legacy] = _Attempt()
        self._begin(legacy, attempt)
        await attempt.done.wait()
        if attempt.link is None:
            raise UpstreamError(f"{self.server.key} cannot be reached: {attempt.reason}")
        return attempt.link

    async def _in_turn(self, legacy: bool, attempt: _Attempt) -> None:
        """Connect when it is this server's turn, or somebody cannot wait; an address has no program to start."""
        try:
            with attempt.waiting:
                if not self.server.url:
                    await self._starts.turn(self._failures > 0)
            if not self._is_listed:  # by a connection of the other era, which somebody needed
                self._begin(legacy, attempt)
        finally:
            if not attempt.is_begun:  # nobody needs it, or the gateway is closing
                self._attempts.pop(legacy, None)
                attempt.done.set()

    def _begin(self, legacy: bool, attempt: _Attempt) -> None:
        if not attempt.is_begun and self._tasks is not None:
            attempt.is_begun = True
            attempt.waiting.cancel()
            self._tasks.start_soon(self._hold, legacy, attempt)

    async def _hold(self, legacy: bool, attempt: _Attempt) -> None:
        """One connection from its beginning to its end; nothing that a server does gets out of here."""
        link = Link()
        reason = f"no answer within {self.server.connect_timeout_s:g} s"
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self.server.connect_timeout_s) as scope:
                refused = self._admit()
                if refused:
                    raise UpstreamError(refused)
                try:
                    await self._connected("legacy" if legacy else "auto", legacy, attempt, link, scope)
                except* MCPError as errors:
                    if not legacy or attempt.link is not None or not wants_newer(errors):
                        raise
                    await self._connected("auto", legacy, attempt, link, scope)
                reason = "the connection ended"
        except Exception as error:
            reason = self._reason(error)
        finally:
            link.lost.set()
            if self._attempts.get(legacy) is attempt:  # and none that began while this one ended
                del self._attempts[legacy]
            self._links = {era: live for era, live in self._links.items() if live is not link}
            if attempt.link is None:
                self._failed(reason)
                attempt.reason = reason
            attempt.done.set()

    async def _connected(
        self, mode: str, legacy: bool, attempt: _Attempt, link: Link, scope: anyio.CancelScope
    ) -> None:
        callbacks = Callbacks(link.whom)
        client = mcp.Client(
            self._transport(link.lost.set),
            mode=mode,
            cache=None,
            read_timeout_seconds=self.server.connect_timeout_s,
            sampling_callback=callbacks.sampling,
            sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
            elicitation_callback=callbacks.elicitation,
            list_roots_callback=callbacks.roots,
            logging_callback=callbacks.log,
            message_handler=self._heard,
            client_info=types.Implementation(name="onhand", version=self._version),
        )
        async with client, anyio.create_task_group() as tasks:
            link.session, link.tasks = client.session, tasks
            declare_clients(link.session)
            sift_lists(link.session)
            check_promises(link.session)
            listing = await listed(link.session)
            scope.deadline = math.inf
            await self._list(link, listing)
            self._failures, self._not_before, self._detail = 0, 0.0, ""
            self._links[legacy] = link
            if is_modern(link.session.protocol_version) == legacy:  # it knows only the other era: one is enough
                self._links.setdefault(not legacy, link)
            attempt.link = link
            self._attempts.pop(legacy, None)
            attempt.done.set()
            await self._resume(link)
            await link.lost.wait()
            tasks.cancel_scope.cancel()

    async def _resume(self, link: Link) -> None:
        """Ask a new connection for what an earlier one was asked for."""
        if is_modern(link.session.protocol_version):
            link.tasks.start_soon(self._watch_lists, link)
        elif self._level is not None:
            with suppress(MCPError):
                await _set_level(link, self._level)
        for uri in self._watched:
            with suppress(MCPError):
                await self._watch(link, uri)

    def _transport(self, on_end: Callable[[], None]) -> AbstractAsyncContextManager[Any]:
        server = self.server
        if server.url:
            return self._web()
        self._said.clear()
        where = f"server {server.key}"
        command = [expanded(part, self._environ, where) for part in (server.command, *server.args)]
        return started(command, environment(server, self._environ), working_directory(server), self._said, on_end)

    @asynccontextmanager
    async def _web(self) -> AsyncGenerator[Any, None]:
        """Only what the configuration says is sent: nothing of what our own client sent to us."""
        server = self.server
        where = f"server {server.key}"
        url = expanded(server.url, self._environ, where)
        headers = {
            name: expanded(text, self._environ, f"{where}: header {name}") for name, text in server.headers.items()
        }
        if server.transport == "sse":
            from mcp.client.sse import sse_client

            async with sse_client(url, headers, auth=self._auth) as streams:
                yield streams
            return
        from mcp.client.streamable_http import streamable_http_client

        async def note(response: Any) -> None:
            self._web_status = response.status_code  # which the SDK keeps to itself

        async with (
            create_mcp_http_client(headers, auth=self._auth) as http,
            streamable_http_client(url, http_client=http, max_sse_event_size=MAX_LINE_BYTES) as streams,
        ):
            http.event_hooks = {"response": [note]}
            yield streams

    def known(self) -> None:
        """A list of an earlier time is at hand: there is no need to connect before somebody asks for something."""
        self._is_listed = True

    async def _list(self, link: Link, listing: UpstreamLists) -> None:
        ttl, offered = listing.ttl_s, link.session.server_capabilities
        tells = bool(offered and offered.tools and offered.tools.list_changed)
        is_promised = ttl is not None and (ttl > 0 or not tells)
        self._expires = anyio.current_time() + max(ttl or 0.0, LEAST_TTL_S) if is_promised else math.inf
        await self._on_listed(listing)
        self._is_listed = True

    async def _heard(self, message: "IncomingMessage") -> None:
        match message:
            case types.ToolListChangedNotification() | types.ResourceListChangedNotification():
                self.refresh()
            case types.PromptListChangedNotification():
                self.refresh()
            case types.ResourceUpdatedNotification() if self._on_updated is not None:
                await self._on_updated(str(message.params.uri))

    async def _refreshing(self) -> None:
        """Ask for lists again when somebody said that they changed, but no more often than makes sense."""
        while self._changed is not None:
            await self._changed.wait()
            self._changed = anyio.Event()
            if self._live() is None:  # it may have changed while its first list is taken in
                for attempt in [one for one in self._attempts.values() if one.is_begun]:
                    await attempt.done.wait()
            live = self._live()
            if live is not None:
                try:
                    with anyio.fail_after(self.server.connect_timeout_s):
                        listing = await listed(live.session)
                    await self._list(live, listing)
                except Exception as error:  # the list stays as it was
                    self._detail = self._reason(error)
                    self._expires = anyio.current_time() + LONGEST_PAUSE_S
            await anyio.sleep(REFRESH_PAUSE_S)

    def _live(self) -> Link | None:
        return next((link for link in self._links.values() if not link.lost.is_set()), None)

    async def _watch_lists(self, link: Link) -> None:
        offered = link.session.server_capabilities
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
                async with listen(link.session, **kinds) as changes:
                    pause = FIRST_PAUSE_S
                    async for _ in changes:
                        self.refresh()
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def watch(self, ctx: "RequestContext | None", uri: str) -> None:
        """Be told of changes of a resource, now and after every reconnection."""
        await self.ask(ctx, lambda link: self._watch(link, uri))
        self._watched[uri] = self._watched.get(uri, 0) + 1

    async def unwatch(self, ctx: "RequestContext | None", uri: str) -> None:
        """Be told no more, when nobody is left who wants to be."""
        left = self._watched.get(uri, 0) - 1
        if left > 0:
            self._watched[uri] = left
            return
        self._watched.pop(uri, None)
        for link in set(self._links.values()):
            scope = self._watches.pop((id(link), uri), None)
            if scope is not None:
                scope.cancel()
            elif not is_modern(link.session.protocol_version) and not link.lost.is_set():
                request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
                await link.session.send_request(request, types.EmptyResult)

    async def _watch(self, link: Link, uri: str) -> None:
        if not is_modern(link.session.protocol_version):
            request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
            await link.session.send_request(request, types.EmptyResult)
        elif (id(link), uri) not in self._watches:
            await link.tasks.start(self._watch_one, link, uri)

    async def _watch_one(self, link: Link, uri: str, *, task_status: Any) -> None:
        with anyio.CancelScope() as scope, suppress(MCPError, SubscriptionLost, TimeoutError):
            self._watches[id(link), uri] = scope
            try:
                async with listen(link.session, resource_subscriptions=[uri]) as changes:
                    task_status.started()
                    async for _ in changes:
                        if self._on_updated is not None:
                            await self._on_updated(uri)
            finally:
                self._watches.pop((id(link), uri), None)
        with suppress(RuntimeError):  # it had started: nobody waits
            task_status.started()

    async def set_level(self, level: types.LoggingLevel) -> None:
        """Ask for log messages from a level on, now and after every reconnection; servers that have none are left."""
        self._level = level
        for link in set(self._links.values()):
            if not link.lost.is_set() and not is_modern(link.session.protocol_version):
                with suppress(MCPError):
                    await _set_level(link, level)

    def _failed(self, reason: str) -> None:
        self._detail = reason
        pause = pause_after(self._failures)
        self._failures += 1
        self._not_before = anyio.current_time() + pause
        if self._failures < MAX_UNASKED_ATTEMPTS and not self._is_listed and self._tasks is not None:
            self._tasks.start_soon(self._try_again, UNASKED_PAUSES * pause)

    async def _try_again(self, pause: float) -> None:
        await anyio.sleep(pause)
        self.wake()

    def _reason(self, error: BaseException) -> str:
        """Why, in a line that people can see: what is at the bottom of it, and what the program said last."""
        text = why(error, self.server, self._web_status)
        words = self._last_words()
        return clean_line(f"{text} ({words})" if words else text, MAX_REASON_CHARS)

    def _last_words(self) -> str:
        return clean_line(next((line for line in reversed(self._said) if line), ""), MAX_REASON_CHARS)


def pause_after(failures: int) -> float:
    """How long a server is left alone that has failed so often before: twice as long each time, within limits."""
    return min(FIRST_PAUSE_S * 2.0 ** min(failures, 10), LONGEST_PAUSE_S)  # a server may be down for months


async def _set_level(link: Link, level: types.LoggingLevel) -> None:
    request = types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))
    await link.session.send_request(request, types.EmptyResult)
