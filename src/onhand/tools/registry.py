"""Register tools by name and run calls of them. This is the only bridge from asynchronous to synchronous code.

Calls pass a `Gate` in the order in which they arrive: reads run concurrently, a write runs alone. No call overtakes
another, so a write is never starved, and a read that came after a write sees its effect. A ticket is a Future, so that
callers on different threads and event loops can wait in the same queue.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from functools import partial
from threading import Event, Lock, Thread
from time import perf_counter
from typing import Any, NamedTuple, Protocol, Self

from onhand import cancellation
from onhand.errors import InputError, OnhandError, ToolError
from onhand.tools.arguments import ToolArguments, close_names, shorten
from onhand.tools.fitting import MAX_ERROR_BYTES, cap_text, present
from onhand.tools.schema import as_tool
from onhand.tools.tool import Output, Tool


class Ticket:
    """A place in the queue of a Gate; the future `admitted` is done when its turn has come."""

    def __init__(self, exclusive: bool) -> None:
        self.exclusive = exclusive
        self.admitted: Future[None] = Future()
        self.admitted.set_running_or_notify_cancel()  # a caller that gives up calls leave() instead of cancelling


class Gate:
    """Admits at most `limit` shared tickets or one exclusive ticket at a time, first come, first served."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._waiting: deque[Ticket] = deque()
        self._inside: list[Ticket] = []

    def line_up(self, exclusive: bool) -> Ticket:
        """Return a ticket for the next place in the queue, without waiting."""
        ticket = Ticket(exclusive)
        with self._lock:
            self._waiting.append(ticket)
            admitted = self._admit()
        _notify_admitted(admitted)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Give a ticket back, whether or not its turn had come."""
        with self._lock:
            if ticket in self._inside:
                self._inside.remove(ticket)
            elif ticket in self._waiting:
                self._waiting.remove(ticket)
            admitted = self._admit()
        _notify_admitted(admitted)

    def _admit(self) -> list[Ticket]:
        admitted = []
        while self._waiting and self._has_room_for(self._waiting[0]):
            ticket = self._waiting.popleft()
            self._inside.append(ticket)
            admitted.append(ticket)
        return admitted

    def _has_room_for(self, ticket: Ticket) -> bool:
        if ticket.exclusive:
            return not self._inside
        return len(self._inside) < self._limit and not any(other.exclusive for other in self._inside)


def _notify_admitted(admitted: list[Ticket]) -> None:
    # Call this without the lock, because it runs the callbacks of the waiting callers.
    for ticket in admitted:
        ticket.admitted.set_result(None)


GRACE_S = 1.0  # for a cancelled handler to clean up before the next call may start
MAX_LISTED = 10  # names listed for a model that called an unknown tool


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
    """A running handler. Its own calls have a separate gate, because at the common one they would wait for it."""

    def __init__(self, registry: "Registry", exclusive: bool, gate: Gate, outer: "_RunningHandler | None") -> None:
        self.registry = registry
        self.exclusive = exclusive
        self.gate = gate
        self.outer = outer
        self.over = False


_running: ContextVar[_RunningHandler | None] = ContextVar("onhand_tools_running", default=None)


class _Run(NamedTuple):
    call: Call
    tool: Tool
    arguments: dict[str, Any]
    ticket: Ticket


class Registry:
    """Tools by name. Calls run with checked arguments, in order, and within the time and output limits of each tool.

    Read-only tools run concurrently, up to `concurrency` at once. Any other tool runs alone, in the order of the
    calls, also across dispatches, threads and event loops.
    """

    def __init__(
        self, tools: Tool | Callable[..., Any] | Iterable[Tool | Callable[..., Any]] = (), *, concurrency: int = 8
    ) -> None:
        if concurrency < 1:
            raise InputError(f"concurrency must be at least 1, not {concurrency}")
        self._concurrency = concurrency
        self._gate = Gate(concurrency)
        self._tools: dict[str, tuple[Tool, ToolArguments]] = {}
        for tool in [tools] if isinstance(tools, Tool) or callable(tools) else tools:
            self.register(tool)

    def register(self, tool: Tool | Callable[..., Any]) -> Self:
        """Add a tool or a typed function; raise InputError if its name is taken or its schema cannot be used."""
        tool = as_tool(tool)
        if tool.name in self._tools:
            raise InputError(f"duplicate tool: {tool.name}; remove the other one first, or rename one")
        self._tools[tool.name] = (tool, ToolArguments(tool))
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
        return iter([tool for tool, _ in self._tools.values()])

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
    ) -> list[Result]:
        """Run the calls of one turn and return their results in order. Cancelling the dispatch cancels the handlers.

        With a view, only calls that it does not refuse are run. `on_result` gets each result as soon as it is
        available, with the index of its call.
        """
        handler = self._current_handler()
        gate = handler.gate if handler else self._gate
        # Every call takes its ticket before the first one starts, which keeps a turn in order.
        prepared = [self._prepare(call, gate, handler, view) for call in calls]
        tasks = {
            i: asyncio.ensure_future(self._run(run, gate)) for i, run in enumerate(prepared) if isinstance(run, _Run)
        }
        if on_result:
            _report_each(prepared, tasks, on_result)
        try:
            await asyncio.gather(*tasks.values())
        except BaseException:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            raise
        finally:
            for run in prepared:  # interrupted calls have not given their tickets back
                if isinstance(run, _Run):
                    gate.leave(run.ticket)
        return [run if isinstance(run, Result) else tasks[i].result() for i, run in enumerate(prepared)]

    def _current_handler(self) -> _RunningHandler | None:
        handler = _running.get()
        while handler is not None and (handler.over or handler.registry is not self):
            handler = handler.outer
        return handler

    def _prepare(self, call: Call, gate: Gate, handler: _RunningHandler | None, view: ToolView | None) -> _Run | Result:
        refusal = _refusal_of(view, str(call.name)) if view else None
        if refusal:
            return _failed_result(call, refusal)
        entry = self._tools.get(str(call.name))
        if entry is None:
            return _failed_result(call, self._describe_unknown(call.name))
        tool, arguments = entry
        if handler is not None and not handler.exclusive and not tool.read_only:
            return _failed_result(call, f"{tool.name} may write, and a read-only tool is calling it; call it directly")
        try:
            return _Run(call, tool, arguments.read(call.arguments), gate.line_up(exclusive=not tool.read_only))
        except Exception as error:
            manual = view.manual(tool.name) if view else ""
            return _failed_result(call, _explain_error(tool, error) + f"\n{manual}" * bool(manual))

    async def _run(self, run: _Run, gate: Gate) -> Result:
        handler = _RunningHandler(self, not run.tool.read_only, Gate(self._concurrency), _running.get())
        try:
            if not run.ticket.admitted.done():
                await asyncio.wrap_future(run.ticket.admitted)
            _running.set(handler)  # in this task only, and in what the handler starts
            started = perf_counter()
            result = await _run_handler(run)
            duration_s = perf_counter() - started
        finally:
            handler.over = True
        # Not after an interruption: the next call would start before dispatch() cancels it and gives this ticket back.
        gate.leave(run.ticket)
        return result._replace(duration_s=duration_s)

    def _describe_unknown(self, name: object) -> str:
        requested = shorten(str(name))
        nearest = close_names(requested, self._tools)
        if nearest:
            return f"unknown tool: {requested}; did you mean {' or '.join(nearest)}?"
        listed = ", ".join(sorted(self._tools)[:MAX_LISTED]) or "none"
        return f"unknown tool: {requested}; there are: {listed}{', …' if len(self) > MAX_LISTED else ''}"


def _report_each(
    prepared: "Sequence[_Run | Result]",
    tasks: "Mapping[int, asyncio.Task[Result]]",
    on_result: Callable[[int, Result], None],
) -> None:
    for place, refused in enumerate(prepared):
        if isinstance(refused, Result):
            on_result(place, refused)
    for place, task in tasks.items():
        task.add_done_callback(partial(_report_result, on_result, place))


def _report_result(on_result: Callable[[int, Result], None], place: int, task: "asyncio.Task[Result]") -> None:
    if not task.cancelled() and task.exception() is None:
        on_result(place, task.result())


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
