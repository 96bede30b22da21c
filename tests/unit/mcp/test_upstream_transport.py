"""When does a program start that nobody waits for?"""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from mcp import Client

from onhand.errors import UpstreamError
from onhand.mcp import upstream_transport
from onhand.mcp.gateway import Gateway
from onhand.mcp.surface import build_server
from onhand.mcp.upstream_transport import StartupThrottle
from onhand.mcp.upstreams import Upstreams
from requirements import requirement
from unit.mcp.conftest import Behind
from unit.mcp.test_gateway import text_of

NEVER_S = 1e6


@pytest.fixture
def unpaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns come at once, and while calls are made, never."""
    monkeypatch.setattr(upstream_transport, "FIRST_S", 0.0)
    monkeypatch.setattr(upstream_transport, "AGAIN_S", 0.0)
    monkeypatch.setattr(upstream_transport, "QUIET_S", 0.01)
    monkeypatch.setattr(upstream_transport, "BUSY_S", NEVER_S)


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not is_so():
            await anyio.sleep(0.01)


@requirement("mcp.dead-upstreams-are-harmless")
def test_programs_start_one_after_the_other_and_those_that_failed_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_transport, "FIRST_S", 0.0)
    monkeypatch.setattr(upstream_transport, "AGAIN_S", NEVER_S)
    turns: list[str] = []

    async def wait(turn: StartupThrottle, name: str, has_failed: bool) -> None:
        await turn.wait_for_turn(has_failed)
        turns.append(name)

    async def main() -> None:
        turn = StartupThrottle()
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b", "c", "failed", "behind it"):
                tasks.start_soon(wait, turn, name, name == "failed")
                await wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

    anyio.run(main)
    assert turns == ["a", "b", "c"]


@requirement("mcp.dead-upstreams-are-harmless")
@pytest.mark.usefixtures("unpaced")
def test_programs_give_way_to_calls_and_start_when_it_is_quiet() -> None:
    turns: list[int] = []

    async def wait(turn: StartupThrottle, number: int) -> None:
        await turn.wait_for_turn(False)
        turns.append(number)

    async def main() -> None:
        turn = StartupThrottle()
        async with anyio.create_task_group() as tasks:
            with turn.request():
                for number in range(20):
                    tasks.start_soon(wait, turn, number)
                await wait_all_tasks_blocked()
                assert turns == [0]  # the first in a long time costs little
        assert turns == list(range(20))

    anyio.run(main)


@requirement("mcp.dead-upstreams-are-harmless")
def test_calls_without_end_do_not_keep_a_program_from_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_transport, "BUSY_S", 0.05)

    async def main() -> None:
        turn = StartupThrottle()
        with turn.request(), anyio.fail_after(60):
            for _ in range(3):
                await turn.wait_for_turn(False)

    anyio.run(main)


@requirement("mcp.dead-upstreams-are-harmless", "mcp.one-client-per-server")
@pytest.mark.usefixtures("unpaced")
def test_a_server_that_someone_needs_does_not_wait_for_its_turn(behind: Behind, tmp_path: Path) -> None:
    log = tmp_path / "log"
    servers = [behind(key, "counting", str(log)) for key in ("first", "second", "third", "fourth")]

    async def main() -> None:
        registry = Upstreams(servers)
        async with registry:
            with registry._throttle.request():
                registry.wake()
                await until(lambda: registry.pending() == ("second", "third", "fourth"))
                assert registry.listing("first").tools
                assert log.read_text() == "listed\n"
                assert text_of(await registry.execute("first__echo", {})) == "yes"  # type: ignore[arg-type]
                assert await registry.connect(["third"]) == {}
                await registry.wait_until_listed("fourth__echo")  # nobody else is waited for
                assert text_of(await registry.execute("fourth__echo", {})) == "yes"  # type: ignore[arg-type]
                assert log.read_text() == "listed\n" * 3
                assert registry.pending() == ("second",)
            await until(lambda: not registry.pending())
        assert log.read_text() == "listed\n" * 4

    anyio.run(main)


@requirement("mcp.dead-upstreams-are-harmless")
def test_a_program_that_hangs_takes_nobody_elses_turn(behind: Behind) -> None:
    hanging = [behind(f"hangs{n}", "hanging", connect_timeout_s=600) for n in range(3)]

    async def main() -> None:
        async with Upstreams([*hanging, behind("good", "plain")]) as registry:
            registry.wake()
            await until(lambda: registry.pending() == ("hangs0", "hangs1", "hangs2"))
            assert registry.listing("good").tools

    anyio.run(main)


@requirement("mcp.dead-upstreams-are-harmless")
@pytest.mark.usefixtures("unpaced")
def test_closing_answers_those_who_wait_for_a_turn_that_never_came(behind: Behind) -> None:
    async def main() -> None:
        with anyio.fail_after(60):
            registry = Upstreams([behind("a", "plain"), behind("b", "plain")])
            async with anyio.create_task_group() as tasks, registry:
                with registry._throttle.request():
                    registry.wake()
                    await until(lambda: bool(registry.listing("a").tools))
                    tasks.start_soon(registry.client("b").wait_until_listed)
                    await wait_all_tasks_blocked()

    anyio.run(main)


@requirement("mcp.dead-upstreams-are-harmless")
def test_a_call_to_a_known_tool_waits_for_no_other_server(behind: Behind) -> None:
    async def main() -> None:
        registry = Upstreams([behind("hangs", "hanging", connect_timeout_s=600), behind("good", "plain")])
        async with Client(build_server(Gateway(registry)), cache=None) as client:
            await client.list_tools()
            await registry.connect(["good"])
            registry._search_until = anyio.current_time() + NEVER_S
            with anyio.fail_after(60):
                echo = {"name": "good__echo", "arguments": {"text": "a"}}
                assert text_of(await client.call_tool("call_tool", echo)) == "a"
                assert "good__echo" in text_of(await client.call_tool("describe_tool", {"name": "good__echo"}))

    anyio.run(main)


@requirement("mcp.dead-upstreams-are-harmless")
@pytest.mark.usefixtures("unpaced")
def test_a_call_to_a_server_that_waits_for_its_turn_waits_for_it_however_late(behind: Behind) -> None:
    async def main() -> None:
        registry = Upstreams([behind("a", "plain"), behind("b", "plain")])
        async with Client(build_server(Gateway(registry)), cache=None) as client:
            with registry._throttle.request(), anyio.fail_after(60):
                await client.list_tools()
                await until(lambda: registry.pending() == ("b",))
                assert registry.listing("a").tools
                registry._search_until = anyio.current_time()  # the first search is long over
                echo = {"name": "b__echo", "arguments": {"text": "late"}}
                assert text_of(await client.call_tool("call_tool", echo)) == "late"

    anyio.run(main)


@requirement("mcp.one-client-per-server")
@pytest.mark.usefixtures("unpaced")
def test_a_program_whose_list_is_known_when_its_turn_comes_is_not_started_again(behind: Behind, tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def main() -> None:
        async with Upstreams([behind(key, "counting", str(log)) for key in ("first", "second")]) as registry:
            with registry._throttle.request():
                registry.wake()
                await until(lambda: bool(registry.listing("first").tools))
                assert await registry.connect(["second"], legacy=True) == {}
            await until(lambda: not registry.client("second")._connector.attempts)
            assert log.read_text() == "listed\n" * 2

    anyio.run(main)


@requirement("mcp.one-client-per-server")
def test_a_program_that_ends_slowly_does_not_make_its_successor_unknown(
    behind: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_transport, "STOP_S", 0.1)
    log, gate = tmp_path / "log", tmp_path / "gate"

    async def main() -> None:
        async with Upstreams([behind("a", "lingering", str(log), str(gate))]) as registry:
            assert await registry.connect() == {}
            with pytest.raises(UpstreamError, match="ended while it worked"):
                await registry.execute("a__echo", {})
            first = Path(f"/proc/{log.read_text().strip()}")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(registry.execute, "a__echo", {})
                await until(lambda: len(log.read_text().splitlines()) == 2 and not first.exists())
                await wait_all_tasks_blocked()
                tasks.start_soon(registry.execute, "a__echo", {})
                await wait_all_tasks_blocked()
                gate.touch()
            assert len(log.read_text().splitlines()) == 2

    anyio.run(main)
