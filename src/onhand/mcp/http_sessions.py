"""The sessions of clients over HTTP: how many there may be, and how long an unused one lives.

Every `initialize` of the older protocol opens a session, which takes memory until it ends. The SDK refuses new sessions
when there are too many, so one client could keep all others out. Here a session that is not in use makes room.
"""

import anyio
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onhand.mcp.eviction import EvictionOrder

SESSION_HEADER = "mcp-session-id"
UNUSED_S = 300.0  # for the first request after `initialize`, which all known clients send within seconds
MAX_OPENING = 100  # sessions that wait to be opened, and those that are opened at once
OPENED_PER_S = 25  # after these: opening one costs as much as several calls, so a flood would slow all calls
CHECK_S = 10.0
BUSY = "Too many sessions are being opened. Try again later."


class Sessions:
    """ASGI middleware that ends sessions, by the request with which a client would."""

    def __init__(self, app: ASGIApp, path: str, max_sessions: int, idle_s: float) -> None:
        self._app = app
        self._path = path
        self._idle_s = idle_s
        self._order = EvictionOrder[str](max_sessions)
        self._requests: dict[str, int] = {}  # that are being answered; an open stream is one
        self._used: set[str] = set()
        self._opening = anyio.Lock()
        self._openable, self._counted_at = float(MAX_OPENING), 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note which session it opens or uses."""
        if scope["type"] != "http":  # the life of the server
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch)
                await self._app(scope, receive, send)
                tasks.cancel_scope.cancel()
            return
        headers = Headers(scope=scope)
        session_id = headers.get(SESSION_HEADER, "")
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER, HANDSHAKE_PROTOCOL_VERSIONS[0])
        if not session_id and version in HANDSHAKE_PROTOCOL_VERSIONS and not await self._wait_for_turn():
            await PlainTextResponse(BUSY, 503, {"retry-after": "1"})(scope, receive, send)
            return
        peer = (scope.get("client") or ("",))[0]
        status, opened, replaced = 0, "", ""

        async def note_status(message: Message) -> None:
            nonlocal status, opened, replaced
            if message["type"] == "http.response.start":
                status = message["status"]
                opened = "" if session_id else Headers(raw=message["headers"]).get(SESSION_HEADER, "")
                if opened:
                    replaced = self._add(opened, peer)
            await send(message)

        self._begin_request(session_id)
        try:
            await self._app(scope, receive, note_status)
        finally:
            if status == 200 and session_id:  # and not 202, which a notification gets
                self._used.add(session_id)
            self._end_request(session_id or opened)
        if session_id and (status == 404 or scope["method"] == "DELETE"):
            self._forget(session_id)
        if replaced:
            await self._end(replaced)

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(CHECK_S)
            now = anyio.current_time()
            for session_id in self._order.find_expired(now - min(UNUSED_S, self._idle_s), now - self._idle_s):
                await self._end(session_id)

    async def _wait_for_turn(self) -> bool:
        """Wait until one more session may be opened; return False if too many wait already."""
        if self._opening.statistics().tasks_waiting >= MAX_OPENING:
            return False
        async with self._opening:
            now = anyio.current_time()
            self._openable = min(MAX_OPENING, self._openable + (now - self._counted_at) * OPENED_PER_S)
            self._counted_at = now
            if self._openable < 1:
                await anyio.sleep((1 - self._openable) / OPENED_PER_S)
            self._openable -= 1
        return True

    def _add(self, session_id: str, peer: str) -> str:
        """Add a session, and return the one whose place it takes."""
        replaced = self._order.choose() or ""
        self._forget(replaced)
        self._order.add(session_id, peer, anyio.current_time())
        self._begin_request(session_id)
        return replaced

    def _begin_request(self, session_id: str) -> None:
        if session_id in self._order:
            self._requests[session_id] = self._requests.get(session_id, 0) + 1
            self._order.hold(session_id)

    def _end_request(self, session_id: str) -> None:
        if session_id in self._requests:
            self._requests[session_id] -= 1
            if not self._requests[session_id]:
                del self._requests[session_id]
                self._order.release(session_id, anyio.current_time(), is_proven=session_id in self._used)

    def _forget(self, session_id: str) -> None:
        self._order.remove(session_id)
        self._used.discard(session_id)

    async def _end(self, session_id: str) -> None:
        self._forget(session_id)
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "DELETE",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(SESSION_HEADER.encode(), session_id.encode())],
        }
        await self._app(scope, _nothing_more, _drop)


async def _nothing_more() -> Message:
    return {"type": "http.disconnect"}


async def _drop(message: Message) -> None:
    """Nobody waits for the response."""
