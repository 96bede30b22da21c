"""Calls run in turn, fail alone, end in time, and come back in order."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from onhand import cancellation
from onhand.errors import InputError, ToolError
from onhand.tools.registry import Call, Registry, Result
from onhand.tools.tool import Output, Tool
from requirements import requirement

OBJECT: dict[str, Any] = {"type": "object"}
OPEN: dict[str, Any] = {"type": "object", "additionalProperties": True}
Handler = Callable[[dict[str, Any]], Any]


def tool(name: str, handler: Handler, **options: Any) -> Tool:
    return Tool(name, f"the tool {name}", OPEN, handler, **options)


def run(calls: Awaitable[list[Result]]) -> list[Result]:
    async def main() -> list[Result]:
        return await calls

    return asyncio.run(main())


@requirement("tools.duplicate-is-refused")
def test_a_name_can_be_taken_once() -> None:
    registry = Registry().register(tool("a", str)).register(tool("b", str))
    with pytest.raises(InputError, match="duplicate tool: a"):
        registry.register(tool("a", str))
    assert registry.remove("a").register(tool("a", str)).names() == ["b", "a"]


def test_a_registry_is_a_collection_in_the_order_of_registration() -> None:
    registry = Registry([tool("b", str), tool("a", str)])
    assert registry.names() == ["b", "a"]
    assert [each.name for each in registry] == ["b", "a"]
    assert len(registry) == 2
    assert "a" in registry
    assert "c" not in registry
    assert registry.get("c") is None
    found = registry.get("a")
    assert found is not None
    assert found.name == "a"
    with pytest.raises(InputError, match="unknown tool: c"):
        registry.remove("c")
    with pytest.raises(InputError, match="concurrency must be at least 1"):
        Registry(concurrency=0)


def test_a_tool_that_was_replaced_in_part_is_checked_again() -> None:
    with pytest.raises(InputError, match="is not valid"):
        Registry().register(tool("a", str)._replace(name="not a name"))


@requirement("tools.wire-is-byte-stable")
def test_the_same_tools_are_the_same_bytes_in_whatever_order_they_came() -> None:
    tools = [tool(name, str) for name in ("c", "a", "B", "a.b")]
    wires = {json.dumps(Registry(order).wire()) for order in (tools, tools[::-1], tools[2:] + tools[:2])}
    assert len(wires) == 1
    assert [each["name"] for each in json.loads(wires.pop())] == ["B", "a", "a.b", "c"]


@requirement("tools.results-stand-in-call-order", "tools.sync-handlers-do-not-block")
def test_results_stand_in_the_order_of_the_calls_whoever_ends_first() -> None:
    second_done = threading.Event()

    def slow(arguments: dict[str, Any]) -> str:
        assert second_done.wait(60)
        return "slow"

    def quick(arguments: dict[str, Any]) -> str:
        second_done.set()
        return "quick"

    registry = Registry([tool("slow", slow, read_only=True), tool("quick", quick, read_only=True)])
    results = run(registry.dispatch([Call("slow", id="1"), Call("nope", id="2"), Call("quick", id="3")]))
    assert [(each.id, each.ok, each.name) for each in results] == [
        ("1", True, "slow"),
        ("2", False, "nope"),
        ("3", True, "quick"),
    ]
    assert run(registry.dispatch([])) == []


@requirement("tools.unknown-tool-is-answered")
def test_an_unknown_tool_is_answered_with_the_nearest_names() -> None:
    registry = Registry([tool("context_search", str), tool("get_document", str)])
    assert registry.call("contxt_search").text == "unknown tool: contxt_search; did you mean context_search?"
    assert registry.call("zzz").text == "unknown tool: zzz; there are: context_search, get_document"
    assert Registry().call("zzz").text == "unknown tool: zzz; there are: none"
    for name in ("x" * 1_000_000, "a\nb", "\ud800", None, ["a"]):
        result = registry.call(name)  # type: ignore[arg-type]
        assert not result.ok
        assert len(result.text) < 300
        result.text.encode()


@requirement("tools.failures-are-isolated", "tools.error-shows-no-internals")
def test_a_failure_is_one_honest_line_and_the_others_go_on() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def fail(error: BaseException, arguments: dict[str, Any]) -> str:
        raise error

    async def fail_later(arguments: dict[str, Any]) -> str:
        raise ValueError("two\nlines")

    registry = Registry(
        [
            tool("refuses", partial(fail, ToolError("name it\nlike this"))),
            tool("breaks", partial(fail, ZeroDivisionError("division by zero"))),
            tool("stops", partial(fail, StopIteration())),
            tool("mute", partial(fail, Mute())),
            tool("later", fail_later),
            tool("odd", lambda arguments: object()),
            tool("works", lambda arguments: "fine"),
        ]
    )
    results = run(registry.dispatch([Call(name) for name in registry.names()]))
    assert {each.name: each.text for each in results} == {
        "refuses": "name it\nlike this",
        "breaks": "breaks failed: ZeroDivisionError: division by zero",
        "stops": "stops failed: RuntimeError: coroutine raised StopIteration",
        "mute": "mute failed: Mute: no message",
        "later": "later failed: ValueError: two lines",
        "odd": "the output of odd: a object is not a JSON value",
        "works": "fine",
    }
    assert [each.ok for each in results] == [False] * 6 + [True]


@requirement("tools.errors-are-capped-too")
def test_an_error_is_capped_and_safe_to_encode() -> None:
    def fail(arguments: dict[str, Any]) -> str:
        raise ToolError("é\ud800" * 100_000)

    result = Registry([tool("t", fail)]).call("t")
    assert len(result.text.encode()) < 4200
    assert result.text.endswith("more bytes]")
    assert result.truncated_bytes > 0


@requirement("tools.failures-are-isolated")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_a_wish_to_end_the_program_is_not_swallowed(error: BaseException) -> None:
    def stop(arguments: dict[str, Any]) -> str:
        raise error

    with pytest.raises(type(error)):
        Registry([tool("t", stop)]).call("t")


@requirement("tools.failures-are-isolated")
def test_what_is_not_an_exception_but_no_wish_to_end_either_is_a_failure_like_others() -> None:
    class Panic(BaseException):
        pass

    def panic(arguments: dict[str, Any]) -> str:
        raise Panic("index out of bounds")

    async def panic_later(arguments: dict[str, Any]) -> str:
        raise GeneratorExit

    registry = Registry([tool("a", panic), tool("b", panic_later), tool("c", lambda arguments: "fine")])
    results = run(registry.dispatch([Call("a"), Call("b"), Call("c")]))
    assert [each.text for each in results] == [
        "a failed: Panic: index out of bounds",
        "b failed: GeneratorExit: no message",
        "fine",
    ]


@requirement("tools.a-slow-call-times-out")
def test_call_comes_back_from_a_handler_that_is_not_to_be_stopped() -> None:
    stop = threading.Event()

    async def stubborn(arguments: dict[str, Any]) -> None:
        while not stop.is_set():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    async def in_thread(arguments: dict[str, Any]) -> None:
        await asyncio.to_thread(stop.wait, 60)

    registry = Registry([tool("stubborn", stubborn, timeout_s=0.01), tool("in_thread", in_thread, timeout_s=0.01)])
    try:
        assert registry.call("in_thread").text.startswith("timed out after 0.01 s")
        assert registry.call("stubborn").text.startswith("timed out after 0.01 s")
    finally:
        stop.set()


def test_call_closes_what_a_handler_left_open() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            closed.append("numbers")

    async def helper() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("helper")

    kept: list[object] = []

    async def leave(arguments: dict[str, Any]) -> str:
        kept.extend([numbers(), asyncio.ensure_future(helper())])
        await asyncio.sleep(0)
        return str(await anext(kept[0]))  # type: ignore[call-overload]

    assert Registry([tool("t", leave)]).call("t").text == "1"
    assert sorted(closed) == ["helper", "numbers"]


@requirement("tools.arguments-are-checked")
def test_a_handler_never_sees_arguments_that_do_not_fit() -> None:
    seen: list[dict[str, Any]] = []
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    registry = Registry([Tool("t", "d", schema, seen.append)])
    bad: list[Any] = [{}, {"query": 1}, "{", "[]", {"query": "a", "more": 1}, {"query": "\ud800"}]
    assert [registry.call("t", sent).ok for sent in bad] == [False] * len(bad)
    assert seen == []
    assert registry.call("t", '{"query": "a"}').text == "(no output)"
    assert seen == [{"query": "a"}]


@requirement("tools.output-is-capped-at-a-character")
def test_output_is_capped_by_the_limit_of_its_tool() -> None:
    registry = Registry([tool("t", lambda arguments: Output("é" * 10, {"n": 1}), max_output_bytes=9)])
    result = registry.call("t")
    assert result[:6] == ("", "t", True, "éééé\n\n[truncated: 12 more bytes]", {"n": 1}, 12)


@requirement("tools.a-slow-call-times-out")
def test_a_sync_handler_that_hangs_is_left_behind() -> None:
    release = threading.Event()
    registry = Registry([tool("reads", lambda arguments: release.wait(60), read_only=True, timeout_s=0.01)])
    registry.register(tool("writes", lambda arguments: release.wait(60), timeout_s=0.01))
    registry.register(tool("works", lambda arguments: "fine"))
    try:
        results = run(registry.dispatch([Call("reads"), Call("writes"), Call("works")]))
    finally:
        release.set()
    assert [each.text for each in results] == [
        "timed out after 0.01 s; request less at once, or try again later",
        "timed out after 0.01 s; it may have taken partial effect: check the state before you try again",
        "fine",
    ]


@requirement("tools.a-slow-call-times-out")
def test_an_async_handler_is_cancelled_and_may_clean_up_before_the_next_call() -> None:
    events: list[str] = []

    async def hang(arguments: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):  # turns of the loop, in which an impatient next call would get ahead
                await asyncio.sleep(0)
            events.append("cleaned up")

    registry = Registry([tool("hang", hang, timeout_s=0.01), tool("next", lambda arguments: events.append("next"))])
    results = run(registry.dispatch([Call("hang"), Call("next")]))
    assert [each.ok for each in results] == [False, True]
    assert events == ["cleaned up", "next"]


@requirement("tools.a-hung-handler-does-not-block-exit")
def test_the_process_ends_though_a_handler_hangs() -> None:
    program = (
        "import threading\n"
        "from onhand.tools import Registry, Tool\n"
        "hang = Tool('t', 'd', {'type': 'object'}, lambda _: threading.Event().wait(), timeout_s=0.01)\n"
        "print(Registry([hang]).call('t').text[:9])\n"
    )
    source = f"import sys; sys.path[:0] = {sys.path!r}\n{program}"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "timed out\n", "")


@requirement("tools.cancelling-cancels-handlers")
def test_cancelling_a_dispatch_cancels_its_handlers_and_frees_the_gate() -> None:
    async def main() -> None:
        started, cancelled = asyncio.Event(), asyncio.Event()

        async def hang(arguments: dict[str, Any]) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        registry = Registry([tool("hang", hang, timeout_s=None), tool("works", lambda arguments: "fine")])
        task = asyncio.ensure_future(registry.dispatch([Call("hang"), Call("works"), Call("hang")]))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled.is_set()
        assert (await registry.dispatch([Call("works")]))[0].text == "fine"
        early = asyncio.ensure_future(registry.dispatch([Call("works")]))
        await asyncio.sleep(0)  # its calls stand in line, and none has taken its first step
        early.cancel()
        with pytest.raises(asyncio.CancelledError):
            await early
        assert (await registry.dispatch([Call("works")]))[0].text == "fine"

    asyncio.run(main())


@requirement("tools.cancelling-cancels-handlers")
def test_a_cancelled_call_keeps_others_waiting_until_it_has_cleaned_up() -> None:
    events: list[str] = []

    async def main() -> None:
        started = anyio.Event()

        async def hang(arguments: dict[str, Any]) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(100):  # turns of the loop, in each of which a scope of anyio cancels again
                    await asyncio.sleep(0)
                events.append("cleaned up")

        registry = Registry([tool("hang", hang), tool("next", lambda arguments: events.append("next"))])
        async with anyio.create_task_group() as tasks:  # as in the MCP server, when its client cancels a request
            tasks.start_soon(registry.dispatch, [Call("hang")])
            await started.wait()
            tasks.cancel_scope.cancel()
        await registry.dispatch([Call("next")])

    anyio.run(main)
    assert events == ["cleaned up", "next"]


@requirement("tools.cancelling-cancels-handlers", "tools.a-slow-call-times-out")
@pytest.mark.parametrize("timeout_s", [None, 0.01], ids=["cancelled", "timed out"])
def test_a_handler_in_a_thread_that_was_left_behind_learns_that_nobody_waits(timeout_s: float | None) -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(arguments: dict[str, Any]) -> None:
        begun.set()
        try:
            while True:
                cancellation.check()
        finally:
            ended.set()

    async def main() -> None:
        task = asyncio.ensure_future(Registry([tool("work", work, timeout_s=timeout_s)]).dispatch([Call("work")]))
        await asyncio.to_thread(begun.wait, 60)
        if timeout_s is None:
            task.cancel()
        await asyncio.wait({task})

    asyncio.run(main())
    assert ended.wait(60)
    cancellation.check()  # outside of the call nobody has asked


@requirement("tools.cancelling-cancels-handlers")
def test_a_handler_that_is_cancelled_from_within_cancels_the_rest() -> None:
    async def give_up(arguments: dict[str, Any]) -> None:
        raise asyncio.CancelledError

    ran: list[str] = []
    registry = Registry([tool("give_up", give_up), tool("after", lambda arguments: ran.append("after"))])

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await registry.dispatch([Call("give_up"), Call("after")])

    asyncio.run(main())
    assert ran == []


@requirement("tools.turns-stay-in-order")
def test_a_read_after_a_write_in_the_same_turn_sees_what_it_wrote() -> None:
    state = ["old"]

    async def write(arguments: dict[str, Any]) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        state[0] = "new"

    registry = Registry([tool("read", lambda arguments: state[0], read_only=True), tool("write", write)])
    results = run(registry.dispatch([Call("read"), Call("write"), Call("read")]))
    assert [each.text for each in results] == ["old", "(no output)", "new"]


@requirement("tools.writes-exclude-per-resource")
def test_reads_meet_and_writes_never_do_also_from_several_threads_and_loops() -> None:
    meeting = threading.Barrier(2, timeout=60)
    inside: list[int] = []
    crowded: list[int] = []

    def write(arguments: dict[str, Any]) -> None:
        inside.append(1)
        crowded.append(len(inside))
        inside.pop()

    registry = Registry([tool("meet", lambda arguments: meeting.wait() >= 0, read_only=True), tool("write", write)])
    results: list[list[Result]] = []

    def turn() -> None:
        results.append(run(registry.dispatch([Call("meet")])))
        results.append(run(registry.dispatch([Call("write")] * 20)))

    threads = [threading.Thread(target=turn) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [each.ok for result in results for each in result] == [True] * 42
    assert crowded == [1] * 40


@requirement("tools.concurrency-limit")
def test_no_more_reads_than_the_limit_run_at_once() -> None:
    running, most = 0, 0

    async def read(arguments: dict[str, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    registry = Registry([tool("read", read, read_only=True)], concurrency=3)
    run(registry.dispatch([Call("read")] * 20))
    assert most == 3


@requirement("tools.tools-may-call-tools")
def test_a_tool_may_call_tools_without_waiting_for_itself() -> None:
    registry = Registry(concurrency=1)

    def outer(arguments: dict[str, Any]) -> str:
        return registry.call("inner").text + registry.call("read").text

    async def outer_async(arguments: dict[str, Any]) -> str:
        results = await registry.dispatch([Call("outer"), Call("read")])
        return ",".join(each.text for each in results)

    def nosy(arguments: dict[str, Any]) -> str:
        return registry.call("read").text + registry.call("inner").text

    registry.register(tool("inner", lambda arguments: "inner")).register(tool("outer", outer, timeout_s=None))
    registry.register(tool("read", lambda arguments: "read", read_only=True))
    registry.register(tool("outer_async", outer_async, timeout_s=None))
    registry.register(tool("nosy", nosy, read_only=True, timeout_s=None))
    assert registry.call("outer").text == "innerread"
    assert registry.call("outer_async").text == "innerread,read"
    assert registry.call("nosy").text == "readinner may write, and a read-only tool is calling it; call it directly"


def test_call_refuses_to_block_a_running_loop() -> None:
    registry = Registry([tool("t", str)])

    async def main() -> None:
        with pytest.raises(InputError, match=r"await registry\.dispatch"):
            registry.call("t")

    asyncio.run(main())


def test_a_sync_handler_may_give_an_awaitable() -> None:
    async def later() -> str:
        return "later"

    assert Registry([tool("t", lambda arguments: later())]).call("t").text == "later"


def test_the_duration_of_a_handler_is_reported() -> None:
    result = Registry([tool("t", lambda arguments: "fine")]).call("t")
    assert result.duration_s > 0


@requirement("tools.results-stand-in-call-order")
def test_each_result_is_told_as_soon_as_it_is_there_with_the_place_of_its_call() -> None:
    second_is_told = threading.Event()
    told: list[tuple[int, str]] = []

    def tell(place: int, result: Result) -> None:
        told.append((place, result.text))
        if place == 1:
            second_is_told.set()

    def first(_: dict[str, Any]) -> str:
        second_is_told.wait(60)
        return "one"

    registry = Registry(
        [tool("first", first, read_only=True, timeout_s=90), tool("second", lambda _: "two", read_only=True)]
    )
    results = run(registry.dispatch([Call("first"), Call("second"), Call("nobody")], on_result=tell))
    assert [text for _, text in told[1:]] == ["two", "one"]
    assert told[0][0] == 2  # what is refused is told at once
    assert [result.text for result in results[:2]] == ["one", "two"]


@requirement("tools.results-stand-in-call-order")
def test_every_result_has_been_reported_when_the_calls_of_a_turn_are_over() -> None:
    """Calls that end at the same moment are the case that went wrong, so they do, many times."""

    async def main() -> None:
        for _ in range(20):
            together = threading.Barrier(7)

            def meet(_: dict[str, Any], together: threading.Barrier = together) -> str:
                return str(together.wait(60))

            reported: dict[int, Result] = {}
            registry = Registry([tool("meet", meet, read_only=True, timeout_s=90)])
            results = await registry.dispatch([Call("meet")] * 7, on_result=reported.__setitem__)
            assert [reported[place] for place in range(7)] == results

    asyncio.run(main())


def test_an_error_may_say_the_same_to_programs() -> None:
    def handler(arguments: dict[str, Any]) -> str:
        raise ToolError("no such thing", arguments["say"] if "say" in arguments else {"bad": object()})

    schema = {"type": "object", "properties": {"say": {}}}
    registry = Registry([Tool("t", "A tool.", schema, handler)])
    failed = registry.call("t", {"say": {"success": False, "half": "a"}})
    assert (failed.ok, failed.text, failed.structured) == (False, "no such thing", {"success": False, "half": "a"})
    assert registry.call("t").structured is None  # what is no JSON is left out
    assert registry.call("t", {"say": "x" * 10_000}).structured is None  # and so is what is too large


def test_other_names_of_arguments_are_understood_and_not_shown() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tool = Tool("t", "A tool.", schema, lambda arguments: str(arguments), aliases={"file": "path", "name": "path"})
    registry = Registry([tool])
    assert registry.call("t", {"file": "a"}).text == "{'path': 'a'}"
    assert "file" not in str(registry.wire())
    assert "unknown argument 'file'" in registry.call("t", {"path": "a", "file": "b"}).text
    assert "unknown argument 'name'" in registry.call("t", {"file": "a", "name": "b"}).text


class Held:
    """A tool whose calls run until they are released."""

    def __init__(self, name: str, **options: Any) -> None:
        self.started, self.release = asyncio.Event(), asyncio.Event()
        self.tool = tool(name, self._run, timeout_s=None, **options)

    async def _run(self, arguments: dict[str, Any]) -> str:
        self.started.set()
        await self.release.wait()
        return "done"


@requirement("tools.waiting-is-explained")
def test_a_call_that_waits_too_long_is_not_run_and_says_for_what_it_waited() -> None:
    async def main() -> None:
        ran: list[str] = []
        command = Held("run_command", writes=["files"], long_running=True)
        write = tool("write", lambda arguments: ran.append("write"), writes=["files"])
        registry = Registry([command.tool, write])
        first = asyncio.ensure_future(registry.dispatch([Call("run_command", {"command": "make\x1b[2J test"})]))
        await command.started.wait()
        at_once: list[str] = []
        (given_up,) = await registry.dispatch([Call("write")], max_wait_s=0.01, on_wait=at_once.append)
        assert not given_up.ok
        assert {text.partition(",")[0] for text in at_once} == {"run_command (make[U+001B][2J test)"}
        assert re.fullmatch(
            r"not run: it waited 0\.01 s for run_command \(make\[U\+001B\]\[2J test\), which has been running "
            r"for \d+ s\. Do something else first, or try again later",
            given_up.text,
        )
        heard: list[str] = []

        def hear(text: str) -> None:
            heard.append(text)
            command.release.set()

        (written,) = await registry.dispatch([Call("write")], max_wait_s=60, on_wait=hear)
        assert written.ok
        assert [text.partition(",")[0] for text in heard] == ["run_command (make[U+001B][2J test)", ""]
        assert (ran, [each.text for each in await first]) == (["write"], ["done"])

    asyncio.run(main())


@requirement("tools.waiting-is-explained", "tools.a-slow-call-times-out")
def test_the_time_limit_of_a_call_does_not_count_what_it_waits() -> None:
    async def main() -> None:
        first, waited = Held("first"), asyncio.Event()

        async def second(arguments: dict[str, Any]) -> str:
            return "fine"

        registry = Registry([first.tool, tool("second", second, timeout_s=0.5)])
        reports: list[str] = []

        def hear(text: str) -> None:
            reports.append(text)
            if len(reports) == 2:
                waited.set()

        calls = asyncio.ensure_future(registry.dispatch([Call("first"), Call("second")], on_wait=hear))
        await waited.wait()  # for the second report, which comes after a second, longer than the limit
        first.release.set()
        assert [each.text for each in await calls] == ["done", "fine"]

    asyncio.run(main())


@requirement("tools.cancelling-cancels-handlers")
def test_who_is_cancelled_while_waiting_holds_up_nobody() -> None:
    async def main() -> None:
        first, late = Held("first", reads=["files"], read_only=True), Held("late", reads=["files"], read_only=True)
        registry = Registry([first.tool, late.tool, tool("write", str, writes=["files"])])
        calls = [asyncio.ensure_future(registry.dispatch([Call(name)])) for name in ("first", "write", "late")]
        await first.started.wait()
        calls[1].cancel()
        await late.started.wait()  # while the first still runs
        first.release.set()
        late.release.set()
        assert [each.text for one in (calls[0], calls[2]) for each in await one] == ["done", "done"]

    asyncio.run(main())


@requirement("tools.tools-may-call-tools", "tools.sub-agents-share-resources")
def test_a_tool_may_call_what_it_declares_and_no_more() -> None:
    registry = Registry(concurrency=1)
    registry.register(tool("note", lambda arguments: "noted", writes=["notes"]))
    registry.register(tool("read", lambda arguments: "read", reads=["files"], read_only=True))
    outer: dict[str, dict[str, Any]] = {
        "covers": {"writes": ["notes"], "reads": ["files"]},
        "everything": {},
        "notes only": {"writes": ["notes"]},
        "nothing": {"writes": []},
        "long": {"writes": [], "long_running": True},
    }

    def both(arguments: dict[str, Any]) -> str:
        return "; ".join(registry.call(name).text for name in ("note", "read"))

    for name, options in outer.items():
        registry.register(tool(name.replace(" ", "_"), both, timeout_s=None, **options))
    texts = {name: registry.call(name.replace(" ", "_")).text for name in outer}
    refused = "{} does not declare that it {}; declare it, or call the tool directly"
    assert texts == {
        "covers": "noted; read",
        "everything": "noted; read",
        "notes only": "noted; " + refused.format("notes_only", "reads files"),
        "nothing": refused.format("nothing", "writes notes") + "; " + refused.format("nothing", "reads files"),
        "long": "noted; read",
    }


@requirement("tools.sub-agents-share-resources")
def test_registries_with_the_same_gate_wait_for_each_other() -> None:
    async def main() -> None:
        first, second = Held("first", writes=["files"]), Held("second", writes=["files"])
        one = Registry([first.tool])
        other = Registry([second.tool], gate=one.gate)
        turns = one.dispatch([Call("first")]), other.dispatch([Call("second")])
        calls = [asyncio.ensure_future(turn) for turn in turns]
        await first.started.wait()
        assert not second.started.is_set()
        second.release.set()
        first.release.set()
        await asyncio.gather(*calls)

    asyncio.run(main())
