"""Servers behind a gateway, as programs; and a gateway in front of them, with a client of either era."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from onhand.mcp.gateway import Gateway
from onhand.mcp.pins import Pins
from onhand.mcp.registry import McpRegistry
from onhand.mcp.server import build
from onhand.mcp.servers import Server

UPSTREAMS = str(Path(__file__).parents[2] / "upstreams.py")
Behind = Callable[..., Server]
Fronted = Callable[..., Any]


@pytest.fixture
def behind() -> Behind:
    """A server of `tests/upstreams.py` under a key."""

    def behind(key: str, *arguments: str, **more: Any) -> Server:
        return Server(key, sys.executable, (UPSTREAMS, *arguments), **more)

    return behind


@pytest.fixture
def fronted() -> Fronted:
    """A gateway in front of some servers and a client of it, both open; all servers are connected."""

    @asynccontextmanager
    async def fronted(
        *servers: Server, mode: str = "auto", pins: Pins | None = None, surface: str = "stable", **client: Any
    ) -> AsyncIterator[tuple[Gateway, Client]]:
        registry = McpRegistry(servers, pins, version="1")
        gateway = Gateway(registry, surface=surface)
        async with Client(build(gateway), mode=mode, cache=None, **client) as asking:
            await asking.list_tools()
            await registry.connect(legacy=mode == "legacy")
            yield gateway, asking

    return fronted
