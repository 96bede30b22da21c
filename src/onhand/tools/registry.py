"""Which tools are there, and what happens when one is called? The one bridge from async to sync.

It emits nothing and prints nothing: what happened is in the Results.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from functools import partial
from threading import Event, Thread
from time import perf_counter
from typing import Any, NamedTuple, Protocol, Self

from onhand import wanted
from onhand.errors import InputError, OnhandError, ToolError
from onhand.tools.arguments import Arguments
from onhand.tools.gate import Gate, Place
from onhand.tools.output import MAX_ERROR_BYTES, cap, presented
from onhand.tools.problems import near, short
from onhand.tools.tool import Output, Tool

GRACE_S = 1.0  # for a cancelled handler to clean up before the next call may start
MAX_LISTED = 10  # names told to a model that asked for a tool that does not exist


class Call(NamedTuple):
    """A model's wish: which tool, with which arguments (a mapping, or the JSON text of one)."""

    name: str
    arguments: Mapping[str, Any] | str | None = None
    id: str = ""


class Result(NamedTuple):
    """What came of a call. `text` is for the model, whether it went well or not."""

    id: str
    name: str
    ok: bool
    text: str
    structured: Any = None
    truncated_bytes: int = 0
    duration_s: float = 0.0  # of the handler, without the wait for its turn


class View(Protocol):
    """Through whose eyes a model sees the registry, when it does not see all of it: a Session is one."""

    def refusal(self, name: str) -> str | None:
        """Why the model may not call this tool now; None if it may."""

    def manual(self, name: str) -> str:
        """What the model should read of a tool whose arguments it got wrong."""


class _Visit:
    """A handler at work. Its calls have a gate of their own: at the common one they would wait for it."""

    def __init__(self, registry: "Registry", exclusive: bool, gate: Gate, outer: "_Visit | None") -> None:
        self.registry = registry
        self.exclusive = exclusive
        self.gate = gate
        self.outer = outer
        self.over = False


_visit: ContextVar[_Visit | None] = ContextVar("onhand_tools_visit", default=None)


class _Run(NamedTuple):
    call: Call
    tool: Tool
    arguments: dict[str, Any]
    place: Place


class Registry:
    """Tools by name; runs them with checked arguments, in turn, within their time and output limits.

    Tools that only read run side by side, up to `concurrency` at once. Any other runs alone, in the order of
    the calls, also across dispatches, threads and event loops.
    """

    def __init__(self, tools: Sequence[Tool] = (), *, concurrency: int = 8) -> None:
        if concurrency < 1:
            raise InputError(f"concurrency must be at least 1, not {concurrency}")
        self._concurrency = concurrency
        self._gate = Gate(concurrency)
        self._tools: dict[str, tuple[Tool, Arguments]] = {}
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> Self:
        """Add a tool; InputError when its name is taken or its schema cannot be used."""
        tool = Tool(*tool)  # again, because _replace() does not check what it replaces
        if tool.name in self._tools:
            raise InputError(f"duplicate tool: {tool.name}; remove the other one first, or rename one")
        self._tools[tool.name] = (tool, Arguments(tool))
        return self

    def remove(self, name: str) -> Self:
        """Take a tool out; calls of it that run already are finished."""
        if name not in self._tools:
            raise InputError(self._unknown(name))
        del self._tools[name]
        return self

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        entry = self._tools.get(name)
        return entry[0] if entry else None

    def names(self) -> list[str]:
        """All names in the order of registration."""
        return list(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter([tool for tool, _ in self._tools.values()])

    def wire(self) -> list[dict[str, Any]]:
        """What a model is shown of every tool, sorted by name.

        The order of registration depends on which server answered first; sorted, the same tools are the same
        bytes at the head of every prompt, and a provider's prompt cache keeps hitting.
        """
        return [tool.wire() for tool in sorted(self, key=lambda tool: tool.name)]

    def call(self, name: str, arguments: Mapping[str, Any] | str | None = None, view: View | None = None) -> Result:
        """Call one tool and wait for it. Not from within an event loop, which it would block."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return _run_alone(self.dispatch([Call(name, arguments)], view))[0]
        raise InputError(
            "call() would block the event loop that runs in this thread; use `await registry.dispatch([Call(...)])`"
        )

    async def dispatch(
        self, calls: Sequence[Call], view: View | None = None, tell: Callable[[int, Result], None] | None = None
    ) -> list[Result]:
        """Run the calls of one turn; results stand in the order of the calls. Cancelling cancels handlers.

        With a view, only what it does not refuse is run. `tell` gets each result as soon as it is there, with the place
        of its call.
        """
        visit = self._current_visit()
        gate = visit.gate if visit else self._gate
        # Every call takes its place in line before the first one starts: that is what keeps a turn in order.
        prepared = [self._prepared(call, gate, visit, view) for call in calls]
        tasks = {
            i: asyncio.ensure_future(self._run(run, gate)) for i, run in enumerate(prepared) if isinstance(run, _Run)
        }
        if tell:
            _tell_each(prepared, tasks, tell)
        try:
            await asyncio.gather(*tasks.values())
        except BaseException:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            raise
        finally:
            for run in prepared:  # those that were interrupted still hold their places
                if isinstance(run, _Run):
                    gate.leave(run.place)
        return [run if isinstance(run, Result) else tasks[i].result() for i, run in enumerate(prepared)]

    def _current_visit(self) -> _Visit | None:
        visit = _visit.get()
        while visit is not None and (visit.over or visit.registry is not self):
            visit = visit.outer
        return visit

    def _prepared(self, call: Call, gate: Gate, visit: _Visit | None, view: View | None) -> _Run | Result:
        refusal = _refusal(view, str(call.name)) if view else None
        if refusal:
            return _failed(call, refusal)
        entry = self._tools.get(str(call.name))
        if entry is None:
            return _failed(call, self._unknown(call.name))
        tool, arguments = entry
        if visit is not None and not visit.exclusive and not tool.read_only:
            return _failed(call, f"{tool.name} may write, and a read-only tool is calling it; call it by itself")
        try:
            return _Run(call, tool, arguments.read(call.arguments), gate.line_up(exclusive=not tool.read_only))
        except Exception as error:
            manual = view.manual(tool.name) if view else ""
            return _failed(call, _explained(tool, error) + f"\n{manual}" * bool(manual))

    async def _run(self, run: _Run, gate: Gate) -> Result:
        visit = _Visit(self, not run.tool.read_only, Gate(self._concurrency), _visit.get())
        try:
            if not run.place.admitted.done():
                await asyncio.wrap_future(run.place.admitted)
            _visit.set(visit)  # in this task only, and in what the handler starts
            started = perf_counter()
            result = await _finished(run)
            duration_s = perf_counter() - started
        finally:
            visit.over = True
        # Not when interrupted: the next in line would start before dispatch, which leaves for us, cancels it.
        gate.leave(run.place)
        return result._replace(duration_s=duration_s)

    def _unknown(self, name: object) -> str:
        asked = short(str(name))
        nearest = near(asked, self._tools)
        if nearest:
            return f"unknown tool: {asked}; did you mean {' or '.join(nearest)}?"
        listed = ", ".join(sorted(self._tools)[:MAX_LISTED]) or "none"
        return f"unknown tool: {asked}; there are: {listed}{', …' if len(self) > MAX_LISTED else ''}"


def _tell_each(
    prepared: "Sequence[_Run | Result]",
    tasks: "Mapping[int, asyncio.Task[Result]]",
    tell: Callable[[int, Result], None],
) -> None:
    for place, refused in enumerate(prepared):
        if isinstance(refused, Result):
            tell(place, refused)
    for place, task in tasks.items():
        task.add_done_callback(partial(_told, tell, place))


def _told(tell: Callable[[int, Result], None], place: int, task: "asyncio.Task[Result]") -> None:
    if not task.cancelled() and task.exception() is None:
        tell(place, task.result())


def _run_alone(dispatch: Coroutine[Any, Any, list[Result]]) -> list[Result]:
    """Like asyncio.run, which would wait for ever for a handler that is not to be cancelled or sits in a thread."""
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    work = runner.get_loop().create_task(dispatch)
    try:
        return runner.run(_result(work))
    finally:
        _close(runner.get_loop(), work)


async def _result(work: "asyncio.Task[list[Result]]") -> list[Result]:
    return await work


def _close(loop: asyncio.AbstractEventLoop, work: "asyncio.Task[list[Result]]") -> None:
    if not work.done():  # we are interrupted: it cancels its handlers once, and they may end what they started
        work.cancel()
        loop.run_until_complete(asyncio.wait(asyncio.all_tasks(loop), timeout=5 * GRACE_S))  # also on a busy machine
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.wait({*left, loop.create_task(loop.shutdown_asyncgens())}, timeout=GRACE_S))
    for task in left:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # its Result has told of it
    loop.close()


async def _finished(run: _Run) -> Result:
    """Run the handler to its end, or to the end of its time, and turn whatever comes into a Result."""
    tool = run.tool
    work = asyncio.ensure_future(_value(tool, run.arguments))
    try:
        await asyncio.wait({work}, timeout=tool.timeout_s)
    finally:
        timed_out = not work.done()
        if timed_out:  # or we are cancelled; either way it must not go on
            work.cancel()
            work.add_done_callback(_forget)
            await asyncio.wait({work}, timeout=GRACE_S)
    if timed_out:
        return _failed(run.call, _timeout_advice(tool))
    try:
        capped, structured = presented(tool, work.result())
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):  # wishes to end more than this call
        raise
    except BaseException as error:  # such as a panic in a Rust extension, which is no Exception
        return _failed(run.call, _explained(tool, error), _structured(tool, error))
    return Result(run.call.id, tool.name, True, capped.text, structured, capped.truncated_bytes)


async def _value(tool: Tool, arguments: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(tool.handler):
        return await tool.handler(arguments)
    value = await _in_thread(tool, arguments)
    return await value if inspect.isawaitable(value) else value


async def _in_thread(tool: Tool, arguments: dict[str, Any]) -> Any:
    """Run a sync handler in a daemon thread: one that hangs must not keep the process from ending."""
    outcome: Future[tuple[Any, BaseException | None]] = Future()
    outcome.set_running_or_notify_cancel()  # a thread cannot be cancelled, only left behind: it may ask whether it is
    context, left_behind = copy_context(), Event()
    context.run(wanted.ask_whether, lambda: not left_behind.is_set())

    def work() -> None:
        try:
            outcome.set_result((context.run(tool.handler, arguments), None))
        except BaseException as error:
            outcome.set_result((None, error))  # not set_exception: a future cannot carry StopIteration

    Thread(target=work, name=f"tool {tool.name}", daemon=True).start()
    done = asyncio.wrap_future(outcome)
    try:
        value, error = await asyncio.shield(done)
    finally:
        left_behind.set()
        if not done.done():
            await asyncio.wait({done}, timeout=GRACE_S)  # it may have to end programs first
    if error is not None:
        raise error
    return value


def _refusal(view: View, name: str) -> str | None:
    """A view that cannot tell, such as one of a damaged file, refuses: it must not take the other calls with it."""
    try:
        return view.refusal(name)
    except OnhandError as error:
        return str(error)


def _failed(call: Call, text: str, structured: Any = None) -> Result:
    capped = cap(text, MAX_ERROR_BYTES)
    return Result(call.id, call.name, False, capped.text, structured, capped.truncated_bytes)


def _timeout_advice(tool: Tool) -> str:
    after = f"timed out after {tool.timeout_s:g} s"
    if tool.read_only:
        return f"{after}; ask for less at once, or try again later"
    return f"{after}; it may have taken effect in part: look at the state before you try again"


def _explained(tool: Tool, error: BaseException) -> str:
    """Our own errors are written to be read; of any other, its class and message on one line."""
    try:
        message = str(error)
    except Exception:  # a __str__ that raises must not hide the failure it describes
        message = ""
    if isinstance(error, OnhandError):
        return message
    return f"{tool.name} failed: {type(error).__name__}: {short(message, 500) or 'no message'}"


def _structured(tool: Tool, error: BaseException) -> Any:
    """What an error says to programs, if that is JSON."""
    if not isinstance(error, ToolError):
        return None
    try:
        return presented(tool, Output("", error.structured))[1]
    except OnhandError:
        return None


def _forget(work: "asyncio.Future[Any]") -> None:
    if not work.cancelled():
        work.exception()  # retrieved, so that the event loop does not log it
