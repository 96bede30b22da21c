"""Whatever an upstream server answers, in every transport: its caller is told at once, and all others are served."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from mcp import MCPError

from hostile_answers import respond
from loopback import serving
from onhand.errors import UpstreamError
from onhand.mcp import upstream_messages, upstream_transport
from onhand.mcp.servers import ServerConfig
from onhand.mcp.upstreams import Upstreams
from requirements import requirement

from .test_gateway import text_of

PROGRAM = str(Path(__file__).parents[2] / "hostile_answers.py")
MAX_BYTES = 300_000
TRANSPORTS = ("stdio", "JSON", "compressed", "events")
every_transport = pytest.mark.parametrize("transport", TRANSPORTS)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is reached quickly."""
    monkeypatch.setattr(upstream_messages, "MAX_MESSAGE_BYTES", MAX_BYTES)
    monkeypatch.setattr(upstream_transport, "MAX_MESSAGE_BYTES", MAX_BYTES)
    monkeypatch.setattr(upstream_messages, "MAX_SKIPPED_BYTES", 20 * MAX_BYTES)


@contextmanager
def hostile(transport: str, kind: str, size: int) -> Iterator[ServerConfig]:
    if transport == "stdio":
        yield ServerConfig("bad", sys.executable, (PROGRAM, kind, str(size)), connect_timeout_s=240)
        return
    with serving(partial(respond, transport, kind, size)) as server:
        yield ServerConfig("bad", url=f"{server.url}/mcp", transport="http", connect_timeout_s=240)


async def call(registry: Upstreams, tool: str) -> str:
    """The result of a call, or its error; the time limit of a test is far below that of a call."""
    try:
        with anyio.fail_after(60):
            return text_of(await registry.execute(f"bad__{tool}", {}))  # type: ignore[arg-type]
    except (UpstreamError, MCPError) as error:
        return f"error: {error}"


def attack(transport: str, kind: str, size: int = 0) -> str:
    """What a caller of the attacking tool is told; the server is used on afterwards."""

    async def main() -> str:
        with hostile(transport, kind, size) as server:
            async with Upstreams([server]) as registry:
                assert await registry.connect() == {}
                assert await call(registry, "echo") == "on"
                told = await call(registry, "attack")
                assert await call(registry, "echo") == "on"
                return told

    return anyio.run(main)


@requirement("mcp.upstream-limits")
@every_transport
@pytest.mark.parametrize("kind", ["id first", "id between", "id last", "error"])
def test_a_response_that_is_too_long_is_an_error_wherever_its_id_stands(transport: str, kind: str) -> None:
    assert attack(transport, kind, 3 * MAX_BYTES) == "error: the response has more than 300,000 bytes: ask for less"


@requirement("mcp.upstream-limits")
@every_transport
def test_a_response_just_below_the_limit_is_passed_on(transport: str) -> None:
    assert "xxx" in attack(transport, "id first", MAX_BYTES - 1_000)


@requirement("mcp.upstream-limits")
@pytest.mark.parametrize("transport", ["stdio", "JSON", "events"])
def test_a_response_without_end_is_given_up_and_takes_no_memory(transport: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "more than 300,000 bytes" in attack(transport, "endless")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


@requirement("mcp.upstream-limits")
def test_an_event_whose_name_has_no_end_ends_the_stream() -> None:
    assert attack("events", "endless event").startswith("error: bad ended while it worked on this request")


@requirement("mcp.upstream-limits", "mcp.bad-items-cost-themselves")
@every_transport
def test_an_item_that_is_nested_too_deeply_costs_only_itself(transport: str) -> None:
    async def main() -> None:
        with hostile(transport, "deep list", 0) as server:
            async with Upstreams([server]) as registry:
                assert await registry.connect() == {}
                assert [tool["name"] for tool in registry.listing("bad").tools] == ["echo", "attack"]
                (status,) = registry.status()
                assert status.problems == ("its tool 'deep' is ignored: it is nested more than 150 levels deep",)
                assert await call(registry, "echo") == "on"

    anyio.run(main)


@requirement("mcp.upstream-limits")
@every_transport
@pytest.mark.parametrize("kind", ["deep result", "not UTF-8"])
def test_a_result_that_no_parser_takes_is_repaired(transport: str, kind: str) -> None:
    assert "error" not in attack(transport, kind)
