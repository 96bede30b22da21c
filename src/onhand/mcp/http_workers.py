"""Requests of a session reach the worker process that has the session, whichever worker received them.

The id of a session begins with the number of its worker. A worker passes requests for another one on through a socket
in a directory that only this user can read; that worker checks them as if they had come from the client.
"""

import asyncio
import os
import socket
from contextlib import suppress

import anyio
import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onhand.mcp.http_sessions import SESSION_HEADER

CHUNK_BYTES = 64 * 1024
_HOP_BY_HOP = (b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"expect", b"upgrade", b"te")
_OWN = (b"connection", b"keep-alive", b"transfer-encoding", b"date")  # of a response: every server sets its own


class WorkerSessions:
    """ASGI middleware that passes requests for sessions of other workers on to them."""

    def __init__(self, app: ASGIApp, number: int, directory: str) -> None:
        self._app = app
        self._number = number
        self._directory = directory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the worker that has its session, or to our own application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        owner, dash, session_id = Headers(scope=scope).get(SESSION_HEADER, "").partition("-")
        if dash and owner != str(self._number):
            await self._forward(owner, scope, receive, send)
            return
        if dash:
            scope = {**scope, "headers": list(scope["headers"])}
            MutableHeaders(scope=scope)[SESSION_HEADER] = session_id

        async def send_with_number(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message["headers"]))
                if SESSION_HEADER in headers:
                    headers[SESSION_HEADER] = f"{self._number}-{headers[SESSION_HEADER]}"
                    message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, send_with_number)

    async def _forward(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if not (owner.isascii() and owner.isdecimal()):
                raise FileNotFoundError(owner)
            reader, writer = await asyncio.open_unix_connection(socket_path(self._directory, int(owner)))
        except OSError:  # that worker does not exist or has just crashed, and its sessions ended with it
            error = {"code": -32600, "message": "Session not found"}
            await JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 404)(scope, receive, send)
            return
        try:
            connection = h11.Connection(h11.CLIENT)
            writer.write(await _serialise_request(connection, scope, receive))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_wait_for_disconnect, receive, tasks.cancel_scope)
                with suppress(h11.RemoteProtocolError, ConnectionError):  # the other worker ended, and with it this
                    await _copy_response(connection, reader, send)
                tasks.cancel_scope.cancel()
        finally:
            writer.close()


def socket_path(directory: str, number: int) -> str:
    """Return the path of the socket at which a worker takes requests from the others."""
    return os.path.join(directory, f"{number}.sock")


def listen_for_workers(directory: str, number: int) -> socket.socket:
    """Return the listening socket of a worker; what a crashed one left there is replaced."""
    path = socket_path(directory, number)
    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    return listener


async def _serialise_request(connection: h11.Connection, scope: Scope, receive: Receive) -> bytes:
    body, more = b"", scope["method"] == "POST"  # the guard has read the body, so it is small and complete
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _HOP_BY_HOP]
    headers += [(b"connection", b"close"), (b"content-length", str(len(body)).encode())]
    parts = (
        h11.Request(method=scope["method"].encode(), target=target, headers=headers),
        *([h11.Data(data=body)] if body else []),
        h11.EndOfMessage(),
    )
    return b"".join(connection.send(part) or b"" for part in parts)


async def _copy_response(connection: h11.Connection, reader: asyncio.StreamReader, send: Send) -> None:
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(CHUNK_BYTES))
        elif isinstance(event, h11.Response):
            headers = [(name, value) for name, value in event.headers if name not in _OWN]
            await send({"type": "http.response.start", "status": event.status_code, "headers": headers})
        elif isinstance(event, h11.Data):
            await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
        elif isinstance(event, h11.EndOfMessage):
            await send({"type": "http.response.body", "body": b""})
            return


async def _wait_for_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    """End the request when its client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
