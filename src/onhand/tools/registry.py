"""Register tools by name and run calls of them. This is the only bridge from asynchronous to synchronous code.

Calls pass a `Gate`, where those that use the same resources wait for each other.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from functools import partial
from threading import Event, Thread
from time import perf_counter
from typing import Any, NamedTuple, Protocol, Self

from onhand import cancellation
from onhand.errors import InputError, OnhandError, ToolError
from onhand.text import one_line
from onhand.tools.arguments import ToolArguments, close_names, shorten
from onhand.tools.fitting import MAX_ERROR_BYTES, cap_text, present
from onhand.tools.gate import Access, Gate, Ticket, access_of
from onhand.tools.schema import as_tool, each_tool
from onhand.tools.tool import Output, Tool

GRACE_S = 1.0  # for a cancelled handler to clean up before the next call may start
MAX_LISTED = 10  # names listed for a model that called an unknown tool
CONCURRENCY = 8  # short calls at once
WAIT_REPORT_S = 1.0  # between two reports of what a call waits for
LABEL_ARGUMENTS = ("command", "path")  # which say to others what a call is about
MAX_LABEL_CHARS = 60


class Call(NamedTuple):
    """A call that a model requests. The arguments are a mapping or the JSON text of one."""

    name: str
    arguments: Mapping[str, Any] | str | None = None
    id: str = ""


class Result(NamedTuple):
    """The outcome of a call. The model reads `text`, whether the call succeeded or failed."""

    id: str
    name: str
    ok: bool
    text: str
    structured: Any = None
    truncated_bytes: int = 0
    duration_s: float = 0.0  # of the handler, not including the time in the queue


class ToolView(Protocol):
    """The part of a registry that a model may use. A Session is a ToolView."""

    def refusal(self, name: str) -> str | None:
        """Return why the model may not call this tool now; None if it may."""

    def manual(self, name: str) -> str:
        """Return what the model should read about a tool whose arguments it got wrong."""


class _RunningHandler:
    """A running handler, which may make calls itself."""

    def __init__(self, registry: "Registry", run: "_Run", gate: Gate, outer: "_RunningHandler | None") -> None:
        self.line = registry.gate  # the gate of the project, at which it or an outer call of it lined up
        self.tool = run.tool
        self.access = run.access
        self.outer = outer
        self.over = False
        self._ticket = run.ticket
        self._gate = gate
        self._inner_gate: Gate | None = None

    def place_for(self, access: Access) -> tuple[Gate, Ticket | None]:
        """Return where its own calls line up; raise ToolError if it may not make such a call.

        A call holds the resources that it uses, so calls that use the same ones wait only for each other. Waiting for
        anything else while it holds something could deadlock. A long-running call that uses nothing itself may wait for
        anything.
        """
        if self.access.long_running and not self.access.reads and not self.access.writes:
            return self._gate, self._ticket
        if missing := self.access.missing_for(access):
            raise ToolError(
                f"{self.tool.name} does not declare that it {missing}; declare it, or call the tool directly"
            )
        if self._inner_gate is None:
            self._inner_gate = Gate(self._gate.limit)
        return self._inner_gate, None


_running: ContextVar[_RunningHandler | None] = ContextVar("onhand_tools_running", default=None)


class _Run(NamedTuple):
    call: Call
    tool: Tool
    access: Access
    arguments: dict[str, Any]
    gate: Gate
    ticket: Ticket


class _Waiting(NamedTuple):
    """How long a call waits for its turn, and the listener that learns what it waits for."""

    max_s: float | None
    on_wait: Callable[[str], None] | None


class Registry:
    """Tools by name. Calls run with checked arguments, in order, and within the time and output limits of each tool.

    Calls that use the same resources wait for each other, also across dispatches, threads, event loops and registries
    with the same `gate`. At most `concurrency` short calls run at once. The calls of one turn take effect in order:
    those that only read run concurrently, any other runs alone among them.
    """

    def __init__(
        self,
        tools: Tool | Callable[..., Any] | Iterable[Tool | Callable[..., Any]] = (),
        *,
        concurrency: int = CONCURRENCY,
        gate: Gate | None = None,
    ) -> None:
        if concurrency < 1:
            raise InputError(f"concurrency must be at least 1, not {concurrency}")
        self.gate = gate or Gate(concurrency)
        self._tools: dict[str, tuple[Tool, Access, ToolArguments]] = {}
        for tool in each_tool(tools):
            self.register(tool)

    def register(self, tool: Tool | Callable[..., Any]) -> Self:
        """Add a tool or a typed function; raise InputError if its name is taken or its schema cannot be used."""
        tool = as_tool(tool)
        if tool.name in self._tools:
            raise InputError(f"duplicate tool: {tool.name}; remove the other one first, or rename one")
        self._tools[tool.name] = (tool, access_of(tool), ToolArguments(tool))
        return self

    def remove(self, name: str) -> Self:
        """Remove a tool. Calls that are already running still finish."""
        if name not in self._tools:
            raise InputError(self._describe_unknown(name))
        del self._tools[name]
        return self

    def get(self, name: str) -> Tool | None:
        """Return the tool with this name, or None."""
        entry = self._tools.get(name)
        return entry[0] if entry else None

    def names(self) -> list[str]:
        """Return all names in the order of registration."""
        return list(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter([tool for tool, _, _ in self._tools.values()])

    def wire(self) -> list[dict[str, Any]]:
        """Return the definition of every tool, sorted by name.

        The order of registration depends on which server answered first. Sorted, the same tools are the same bytes at
        the head of every prompt, so a provider's prompt cache keeps hitting.
        """
        return [tool.wire() for tool in sorted(self, key=lambda tool: tool.name)]

    def call(self, name: str, arguments: Mapping[str, Any] | str | None = None, view: ToolView | None = None) -> Result:
        """Call one tool and wait for its result. Raise InputError in an event loop, which this would block."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return _run_alone(self.dispatch([Call(name, arguments)], view))[0]
        raise InputError(
            "call() would block the event loop that runs in this thread; use `await registry.dispatch([Call(...)])`"
        )

    async def dispatch(
        self,
        calls: Sequence[Call],
        view: ToolView | None = None,
        on_result: Callable[[int, Result], None] | None = None,
        *,
        max_wait_s: float | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> list[Result]:
        """Run the calls of one turn and return their results in order. Cancelling the dispatch cancels the handlers.

        With a view, only calls that it does not refuse are run. `on_result` gets each result as soon as it is
        available, with the index of its call. A call whose turn does not come within `max_wait_s` fails without having
        been run; its own time limit begins when it runs. `on_wait` receives what a call waits for, at once and then
        every second, and "" when it starts.
        """
        handler, turn = self._current_handler(), object()
        waiting = _Waiting(max_wait_s, on_wait)
        # Every call takes its ticket before the first one starts, which keeps a turn in order.
        prepared = [self._prepare(call, turn, handler, view) for call in calls]
        runs = {i: run for i, run in enumerate(prepared) if isinstance(run, _Run)}
        tasks = {i: asyncio.ensure_future(self._run_and_report(i, run, waiting, on_result)) for i, run in runs.items()}
        for i, refused in enumerate(prepared):
            if on_result and isinstance(refused, Result):
                on_result(i, refused)
        try:
            running = {*tasks.values()}
            while running:
                # Unlike gather, this passes no cancellation on: a scope of anyio repeats it, also while they clean up.
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        except BaseException:
            for task in tasks.values():
                task.cancel()
            await asyncio.wait(tasks.values())
            raise
        finally:
            for i, task in tasks.items():  # interrupted calls have not given their tickets back
                _leave_when_done(task, runs[i])
        return [run if isinstance(run, Result) else tasks[i].result() for i, run in enumerate(prepared)]

    def _current_handler(self) -> _RunningHandler | None:
        handler = _running.get()
        while handler is not None and (handler.over or handler.line is not self.gate):
            handler = handler.outer
        return handler

    def _prepare(
        self, call: Call, turn: object, handler: _RunningHandler | None, view: ToolView | None
    ) -> _Run | Result:
        refusal = _refusal_of(view, str(call.name)) if view else None
        if refusal:
            return _failed_result(call, refusal)
        entry = self._tools.get(str(call.name))
        if entry is None:
            return _failed_result(call, self._describe_unknown(call.name))
        tool, access, arguments = entry
        if handler is not None and handler.tool.read_only and not tool.read_only:
            return _failed_result(call, f"{tool.name} may write, and a read-only tool is calling it; call it directly")
        try:
            checked = arguments.read(call.arguments)
            gate, outer = handler.place_for(access) if handler else (self.gate, None)
            ticket = gate.line_up(access, turn, partial(_describe_call, tool, checked), outer)
            return _Run(call, tool, access, checked, gate, ticket)
        except Exception as error:
            manual = view.manual(tool.name) if view else ""
            return _failed_result(call, _explain_error(tool, error) + f"\n{manual}" * bool(manual))

    async def _run_and_report(
        self, place: int, run: _Run, waiting: _Waiting, on_result: Callable[[int, Result], None] | None
    ) -> Result:
        result = await self._run(run, waiting)
        if on_result:  # here, so that whoever sees the task done knows that its result has been reported
            on_result(place, result)
        return result

    async def _run(self, run: _Run, waiting: _Waiting) -> Result:
        handler = _RunningHandler(self, run, run.gate, _running.get())
        try:
            if not run.ticket.is_inside and not await _wait_for_turn(run, waiting):
                problem = f"not run: it waited {waiting.max_s:g} s for {run.gate.explain_wait(run.ticket)}"
                run.gate.leave(run.ticket)
                return _failed_result(run.call, f"{problem}. Do something else first, or try again later")
            _running.set(handler)  # in this task only, and in what the handler starts
            started = perf_counter()
            result = await _run_handler(run)
            duration_s = perf_counter() - started
        finally:
            handler.over = True
        # Not after an interruption: the next call would start before dispatch() cancels it and gives this ticket back.
        run.gate.leave(run.ticket)
        return result._replace(duration_s=duration_s)

    def _describe_unknown(self, name: object) -> str:
        requested = shorten(str(name))
        nearest = close_names(requested, self._tools)
        if nearest:
            return f"unknown tool: {requested}; did you mean {' or '.join(nearest)}?"
        listed = ", ".join(sorted(self._tools)[:MAX_LISTED]) or "none"
        return f"unknown tool: {requested}; there are: {listed}{', …' if len(self) > MAX_LISTED else ''}"


def _leave_when_done(task: "asyncio.Task[Result]", run: _Run) -> None:
    """Give the ticket of a call back once nothing of the call runs any more.

    A dispatch that is cancelled again while it waits for them ends before its calls do.
    """
    if task.done():
        run.gate.leave(run.ticket)
    else:
        task.add_done_callback(lambda _: run.gate.leave(run.ticket))


def _describe_call(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return what another caller, who waits for the call, reads about it."""
    for name in LABEL_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return f"{tool.name} ({one_line(value, MAX_LABEL_CHARS)})"
    return tool.name


async def _wait_for_turn(run: _Run, waiting: _Waiting) -> bool:
    """Return whether the turn of a call has come within the limit."""
    assert run.ticket.admitted is not None
    admitted = asyncio.wrap_future(run.ticket.admitted)
    if waiting.max_s is None and waiting.on_wait is None:
        await admitted
        return True
    end = None if waiting.max_s is None else perf_counter() + waiting.max_s
    while True:
        if waiting.on_wait:
            waiting.on_wait(run.gate.explain_wait(run.ticket))
        left = WAIT_REPORT_S if end is None else end - perf_counter()
        await asyncio.wait({admitted}, timeout=min(WAIT_REPORT_S, max(left, 0)))
        if run.ticket.is_inside or left <= 0:
            break
    if run.ticket.is_inside and waiting.on_wait:
        waiting.on_wait("")
    return run.ticket.is_inside


def _run_alone(dispatch: Coroutine[Any, Any, list[Result]]) -> list[Result]:
    """Run a dispatch like asyncio.run, but do not wait forever for a handler that ignores cancellation."""
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    work = runner.get_loop().create_task(dispatch)
    try:
        return runner.run(_await_task(work))
    finally:
        _close_loop(runner.get_loop(), work)


async def _await_task(work: "asyncio.Task[list[Result]]") -> list[Result]:
    return await work


def _close_loop(loop: asyncio.AbstractEventLoop, work: "asyncio.Task[list[Result]]") -> None:
    if not work.done():  # after an interruption, handlers get one chance to end what they started
        work.cancel()
        loop.run_until_complete(asyncio.wait(asyncio.all_tasks(loop), timeout=5 * GRACE_S))  # enough on a busy machine
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.wait({*left, loop.create_task(loop.shutdown_asyncgens())}, timeout=GRACE_S))
    for task in left:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # its Result has already reported it
    loop.close()


async def _run_handler(run: _Run) -> Result:
    """Run the handler until it ends or times out, and turn the outcome into a Result."""
    tool = run.tool
    work = asyncio.ensure_future(_call_handler(tool, run.arguments))
    try:
        await asyncio.wait({work}, timeout=tool.timeout_s)
    finally:
        timed_out = not work.done()
        if timed_out:  # or this call was cancelled; in both cases the handler must stop
            work.cancel()
            work.add_done_callback(_retrieve_exception)
            await asyncio.wait({work}, timeout=GRACE_S)
    if timed_out:
        return _failed_result(run.call, _timeout_advice(tool))
    try:
        capped, structured = present(tool, work.result())
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):  # these are not about this call alone
        raise
    except BaseException as error:  # such as a panic in a Rust extension, which is not an Exception
        return _failed_result(run.call, _explain_error(tool, error), _structured_error(tool, error))
    return Result(run.call.id, tool.name, True, capped.text, structured, capped.truncated_bytes)


async def _call_handler(tool: Tool, arguments: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(tool.handler):
        return await tool.handler(arguments)
    value = await _call_in_thread(tool, arguments)
    return await value if inspect.isawaitable(value) else value


async def _call_in_thread(tool: Tool, arguments: dict[str, Any]) -> Any:
    """Run a synchronous handler in a daemon thread, so that one that hangs does not keep the process from ending."""
    outcome: Future[tuple[Any, BaseException | None]] = Future()
    outcome.set_running_or_notify_cancel()  # a thread cannot be cancelled, but it can check whether it was abandoned
    context, abandoned = copy_context(), Event()
    context.run(cancellation.continue_while, lambda: not abandoned.is_set())

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
        abandoned.set()
        if not done.done():
            await asyncio.wait({done}, timeout=GRACE_S)  # it may have to end subprocesses first
    if error is not None:
        raise error
    return value


def _refusal_of(view: ToolView, name: str) -> str | None:
    """Return why a view refuses a call. If the view fails, for example on a damaged file, that is the reason."""
    try:
        return view.refusal(name)
    except OnhandError as error:
        return str(error)


def _failed_result(call: Call, text: str, structured: Any = None) -> Result:
    capped = cap_text(text, MAX_ERROR_BYTES)
    return Result(call.id, call.name, False, capped.text, structured, capped.truncated_bytes)


def _timeout_advice(tool: Tool) -> str:
    after = f"timed out after {tool.timeout_s:g} s"
    if tool.read_only:
        return f"{after}; request less at once, or try again later"
    return f"{after}; it may have taken partial effect: check the state before you try again"


def _explain_error(tool: Tool, error: BaseException) -> str:
    """Return the text of an error for the model.

    Any error but a ToolError is put on one line, because it may quote names that a stranger chose.
    """
    try:
        message = str(error)
    except Exception:  # a __str__ that raises must not hide the failure
        message = ""
    if isinstance(error, ToolError):
        return message
    if isinstance(error, OnhandError):
        return " ".join(message.split())
    return f"{tool.name} failed: {type(error).__name__}: {shorten(message, 500) or 'no message'}"


def _structured_error(tool: Tool, error: BaseException) -> Any:
    """Return the structured part of an error, if it is JSON."""
    if not isinstance(error, ToolError):
        return None
    try:
        return present(tool, Output("", error.structured))[1]
    except OnhandError:
        return None


def _retrieve_exception(work: "asyncio.Future[Any]") -> None:
    if not work.cancelled():
        work.exception()  # retrieved, so that the event loop does not log it
