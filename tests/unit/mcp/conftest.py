"""A surface over a small project, servers behind a gateway, and real clients of the SDK in front of both."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from mail import mails
from onhand.doors import mcp_surface
from onhand.mcp.approvals import Approvals
from onhand.mcp.gateway import Gateway
from onhand.mcp.servers import ServerConfig
from onhand.mcp.surface import Surface, build_server
from onhand.mcp.upstreams import Upstreams
from onhand.project import Project, load_config, open_index

UPSTREAMS = str(Path(__file__).parents[2] / "upstreams.py")
Behind = Callable[..., ServerConfig]
Fronted = Callable[..., Any]
Talk = Callable[[Client], Awaitable[None]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pages, a skill and mail."""
    monkeypatch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "none")
    files = {
        ".AGENTS/overview.md": "# Overview\n\nBikes for towns.\n",
        ".AGENTS/deploy.md": "# Deploy\n\n## Rolling back\n\nUse `tw rollback`.\n",
        ".agents/skills/wash/SKILL.md": "---\nname: wash\ndescription: Washes bikes.\n---\n\nUse water.\n",
        ".agents/skills/wash/references/soap.md": "# Soap\n\nGreen soap.\n",
        ".agents/skills/wash/.secret": "hidden",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / ".agents/skills/wash/logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff")
    (tmp_path / ".onhand").mkdir()
    open_index(tmp_path / ".onhand/documents.db", None).put(mails())
    return tmp_path


@pytest.fixture
def surface(project: Path) -> Surface:
    return mcp_surface(Project(load_config(str(project))))


def talking(surface: Surface, talk: Talk, mode: Any = "auto") -> None:
    """Let a client of the SDK talk to a surface, both in this process."""

    async def main() -> None:
        with anyio.fail_after(60):
            async with Client(build_server(surface), mode=mode) as client:
                await talk(client)

    anyio.run(main)


@pytest.fixture
def behind() -> Behind:
    """A server of `tests/upstreams.py` under a key."""

    def behind(key: str, *arguments: str, **more: Any) -> ServerConfig:
        return ServerConfig(key, sys.executable, (UPSTREAMS, *arguments), **more)

    return behind


@pytest.fixture
def fronted() -> Fronted:
    """A gateway in front of some servers and a client of it, both open; all servers are connected."""

    @asynccontextmanager
    async def fronted(
        *servers: ServerConfig,
        mode: str = "auto",
        pins: Approvals | None = None,
        **client: Any,
    ) -> AsyncIterator[tuple[Gateway, Client]]:
        registry = Upstreams(servers, pins, version="1")
        gateway = Gateway(registry)
        async with Client(build_server(gateway), mode=mode, cache=None, **client) as asking:
            await asking.list_tools()
            await registry.connect(legacy=mode == "legacy")
            yield gateway, asking

    return fronted
