"""MCP over HTTP."""

import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from onhand.mcp.http import application
from onhand.mcp.surface import Surface
from onhand.tools import Tool
from rawmcp import ENVELOPE, request
from requirements import requirement

from .test_local import over

Message = MutableMapping[str, Any]


@asynccontextmanager
async def started(app: Any) -> AsyncIterator[None]:
    """An application between its start and its end."""
    to_app, from_test = anyio.create_memory_object_stream[Message](2)
    to_test, from_app = anyio.create_memory_object_stream[Message](2)
    async with to_app, from_test, to_test, from_app, anyio.create_task_group() as group:
        group.start_soon(app, {"type": "lifespan"}, from_test.receive, to_test.send)
        await to_app.send({"type": "lifespan.startup"})
        assert (await from_app.receive())["type"] == "lifespan.startup.complete"
        yield
        await to_app.send({"type": "lifespan.shutdown"})
        assert (await from_app.receive())["type"] == "lifespan.shutdown.complete"


@requirement("mcp.progress")
def test_a_disconnecting_client_of_the_newer_protocol_ends_its_call(surface: Surface) -> None:
    begun, ended = anyio.Event(), anyio.Event()

    async def hang(arguments: dict[str, Any]) -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return "never"

    tool = Tool("hang", "d", {"type": "object", "properties": {}}, hang)
    body = json.dumps(request("tools/call", 1, name="hang", arguments={}, _meta=ENVELOPE)).encode()
    headers = {
        "host": "localhost",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "hang",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    sent = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        for message in sent:
            return message
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        """Nobody is there to read it."""

    async def main() -> None:
        with anyio.fail_after(60):
            app: Any = application(over(surface, tool))
            async with started(app), anyio.create_task_group() as group:
                group.start_soon(app, scope, receive, send)
                await ended.wait()

    anyio.run(main)
