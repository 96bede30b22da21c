"""A client for the official suite: whatever it asks of a client goes through our gateway to the suite's server.

`python tests/conformance/client.py URL`, as the suite runs it; it lists everything and calls every tool.
"""

import json
import os
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client import session as mcp_session

from onhand.mcp.oauth import oauth_login
from onhand.mcp.pass_through import PassThrough
from onhand.mcp.servers import ServerConfig
from onhand.mcp.surface import build_server
from onhand.mcp.upstreams import Upstreams
from ports import reserve_port

DESCRIBED_AT = "https://conformance-test.local/client-metadata.json"  # where the suite expects us to be described
VALUES: dict[str, Any] = {"string": "x", "number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}


def agree(url: str) -> None:
    """A person who logs in: the suite's page answers at once, and sends us to the port where we wait."""

    def open_it() -> None:
        for _ in range(4000):
            with suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(url, timeout=10).read()
                return
            time.sleep(0.05)  # we do not listen yet

    threading.Thread(target=open_it, daemon=True).start()


async def elicited(context: Any, params: Any) -> types.ElicitResult:
    """Accept, with the defaults that the schema names."""
    properties = getattr(params, "requested_schema", {}).get("properties", {})
    return types.ElicitResult(
        action="accept", content={name: part["default"] for name, part in properties.items() if "default" in part}
    )


async def sampled(context: Any, params: Any) -> types.CreateMessageResult:
    """Say something."""
    return types.CreateMessageResult(role="assistant", content=types.TextContent(text="yes"), model="none")


async def rooted(context: Any) -> types.ListRootsResult:
    """Have no roots."""
    return types.ListRootsResult(roots=[])


async def main(url: str, tokens: str, port: int) -> None:
    is_newer = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25") >= "2026-07-28"
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    client_id, secret = given.get("client_id", DESCRIBED_AT), given.get("client_secret", "")
    server = ServerConfig(
        "suite", url=url, transport="http", oauth=True, client_id=client_id, client_secret=secret, connect_timeout_s=240
    )
    registry = Upstreams([server], auth_of=oauth_login(tokens, agree, port), version="1")
    async with Client(
        build_server(PassThrough(registry, "suite")),
        mode="auto" if is_newer else "legacy",
        cache=None,
        elicitation_callback=elicited,
        sampling_callback=sampled,
        list_roots_callback=rooted,
    ) as client:
        tools = (await client.list_tools()).tools
        for name, arguments in _calls(tools, given.get("toolCalls", ())):
            with suppress(MCPError):
                await client.call_tool(name, arguments)
        if "client-verify" in os.environ.get("MCP_CONFORMANCE_SCENARIO", ""):
            for skill in registry.listing("suite").skills:
                for file in skill["resources"]:  # SKILL.md first: whoever cannot have it reads no further
                    await client.read_resource(file["uri"])


def _calls(tools: list[types.Tool], asked: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The calls that the suite asks for; else one of every tool. What wants a schema gets the first tool's."""
    if asked:
        return [(call["name"], call.get("arguments", {})) for call in asked]
    calls = []
    for tool in tools:
        parts = tool.input_schema.get("properties", {})
        given = {name: VALUES.get(part.get("type"), "x") for name, part in parts.items()}
        calls.append((tool.name, {**given, **{name: tools[0].input_schema for name in parts if "chema" in name}}))
    return calls


if __name__ == "__main__":
    # The suite starts some forty clients at once. If `server/discover` takes longer than this, the SDK assumes an older
    # protocol version, and on a busy machine its default of ten seconds is not enough.
    mcp_session.DISCOVER_TIMEOUT_SECONDS = 240
    with tempfile.TemporaryDirectory() as tokens, reserve_port() as port:
        anyio.run(main, sys.argv[1], tokens, port)
