"""Hold the tools by name and run calls of them: the one bridge from async to sync.

Calls take turns at a `Gate`: reads run side by side, a write runs alone, all in the order in which they came. Nothing
overtakes: a write is never starved, and a read that came after a write sees what it wrote. A ticket is a Future, so
that callers on different threads and event loops can wait in the same line. Nothing is printed: what happened is in the
Results.
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
    """A place in the line of a Gate; `admitted` is done when its turn has come."""

    def __init__(self, exclusive: bool) -> None:
        self.exclusive = exclusive
        self.admitted: Future[None] = Future()
        self.admitted.set_running_or_notify_cancel()  # who gives up calls leave(); nothing cancels it


class Gate:
    """Admits at most `limit` shared places, or one exclusive place, first come first served."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._waiting: deque[Ticket] = deque()
        self._inside: list[Ticket] = []

    def line_up(self, exclusive: bool) -> Ticket:
        """Take the next place in line; never waits."""
        place = Ticket(exclusive)
        with self._lock:
            self._waiting.append(place)
            admitted = self._admit()
        _tell(admitted)
        return place

    def leave(self, place: Ticket) -> None:
        """Give a place back, whether its turn had come or not."""
        with self._lock:
            if place in self._inside:
                self._inside.remove(place)
            elif place in self._waiting:
                self._waiting.remove(place)
            admitted = self._admit()
        _tell(admitted)

    def _admit(self) -> list[Ticket]:
        admitted = []
        while self._waiting and self._has_room_for(self._waiting[0]):
            place = self._waiting.popleft()
            self._inside.append(place)
            admitted.append(place)
        return admitted

    def _has_room_for(self, place: Ticket) -> bool:
        if place.exclusive:
            return not self._inside
        return len(self._inside) < self._limit and not any(other.exclusive for other in self._inside)


def _tell(admitted: list[Ticket]) -> None:
    # Outside the lock: telling runs the waiters' callbacks.
    for place in admitted:
        place.admitted.set_result(None)


GRACE_S = 1.0  # for a cancelled handler to clean up before the next call may start
MAX_LISTED = 10  # names told to a model that asked for a tool that does not exist


class Call(NamedTuple):
    """A call that a model asks for; the arguments are a mapping, or the JSON text of one."""

    name: str
    arguments: Mapping[str, Any] | str | None = None
    id: str = ""


class Result(NamedTuple):
    """The outcome of a call. `text` is for the model, whether the call succeeded or not."""

    id: str
    name: str
    ok: bool
    text: str
    structured: Any = None
    truncated_bytes: int = 0
    duration_s: float = 0.0  # of the handler, without the wait for its turn


class ToolView(Protocol):
    """What a model may see of the registry, when that is not all of it. A Session is one."""

    def refusal(self, name: str) -> str | None:
        """Why the model may not call this tool now; None if it may."""

    def manual(self, name: str) -> str:
        """Return what the model should read about a tool whose arguments it got wrong."""


class _Visit:
    """A running handler. Its own calls have a separate gate: at the common one they would wait for the handler."""

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
    place: Ticket


class Registry:
    """Tools by name; runs them with checked arguments, in turn, within their time and output limits.

    Tools that only read run side by side, up to `concurrency` at once. Any other runs alone, in the order of
    the calls, also across dispatches, threads and event loops.
    """

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = (), *, concurrency: int = 8) -> None:
        if concurrency < 1:
            raise InputError(f"concurrency must be at least 1, not {concurrency}")
        self._concurrency = concurrency
        self._gate = Gate(concurrency)
        self._tools: dict[str, tuple[Tool, ToolArguments]] = {}
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool | Callable[..., Any]) -> Self:
        """Add a tool or a typed function; InputError when its name is taken or its schema cannot be used."""
        tool = as_tool(tool)
        if tool.name in self._tools:
            raise InputError(f"duplicate tool: {tool.name}; remove the other one first, or rename one")
        self._tools[tool.name] = (tool, ToolArguments(tool))
        return self

    def remove(self, name: str) -> Self:
        """Remove a tool; calls of it that are already running are finished."""
        if name not in self._tools:
            raise InputError(self._unknown(name))
        del self._tools[name]
        return self

    def get(self, name: str) -> Tool | None:
        """Return the tool with that name, if there is one."""
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

        The order of registration depends on which server answered first; sorted, the same tools are the same
        bytes at the head of every prompt, and a provider's prompt cache keeps hitting.
        """
        return [tool.wire() for tool in sorted(self, key=lambda tool: tool.name)]

    def call(self, name: str, arguments: Mapping[str, Any] | str | None = None, view: ToolView | None = None) -> Result:
        """Call one tool and wait for it. Not from within an event loop, which it would block."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return _run_alone(self.dispatch([Call(name, arguments)], view))[0]
        raise InputError(
            "call() would block the event loop that runs in this thread; use `await registry.dispatch([Call(...)])`"
        )

    async def dispatch(
        self, calls: Sequence[Call], view: ToolView | None = None, tell: Callable[[int, Result], None] | None = None
    ) -> list[Result]:
        """Run the calls of one turn; results are in the order of the calls. Cancelling cancels handlers.

        With a view, only the calls that it does not refuse are run. `tell` gets each result as soon as it is available,
        with the index of its call.
        """
        visit = self._current_visit()
        gate = visit.gate if visit else self._gate
        # Every call takes its ticket before the first one starts: that keeps a turn in order.
        prepared = [self._prepare(call, gate, visit, view) for call in calls]
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
            for run in prepared:  # interrupted calls still hold their tickets
                if isinstance(run, _Run):
                    gate.leave(run.place)
        return [run if isinstance(run, Result) else tasks[i].result() for i, run in enumerate(prepared)]

    def _current_visit(self) -> _Visit | None:
        visit = _visit.get()
        while visit is not None and (visit.over or visit.registry is not self):
            visit = visit.outer
        return visit

    def _prepare(self, call: Call, gate: Gate, visit: _Visit | None, view: ToolView | None) -> _Run | Result:
        refusal = _refusal(view, str(call.name)) if view else None
        if refusal:
            return _failure(call, refusal)
        entry = self._tools.get(str(call.name))
        if entry is None:
            return _failure(call, self._unknown(call.name))
        tool, arguments = entry
        if visit is not None and not visit.exclusive and not tool.read_only:
            return _failure(call, f"{tool.name} may write, and a read-only tool is calling it; call it directly")
        try:
            return _Run(call, tool, arguments.read(call.arguments), gate.line_up(exclusive=not tool.read_only))
        except Exception as error:
            manual = view.manual(tool.name) if view else ""
            return _failure(call, _explain_error(tool, error) + f"\n{manual}" * bool(manual))

    async def _run(self, run: _Run, gate: Gate) -> Result:
        visit = _Visit(self, not run.tool.read_only, Gate(self._concurrency), _visit.get())
        try:
            if not run.place.admitted.done():
                await asyncio.wrap_future(run.place.admitted)
            _visit.set(visit)  # in this task only, and in what the handler starts
            started = perf_counter()
            result = await _run_handler(run)
            duration_s = perf_counter() - started
        finally:
            visit.over = True
        # Not when interrupted: the next in line would start before dispatch, which leaves in our place, cancels it.
        gate.leave(run.place)
        return result._replace(duration_s=duration_s)

    def _unknown(self, name: object) -> str:
        asked = shorten(str(name))
        nearest = close_names(asked, self._tools)
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
        task.add_done_callback(partial(_pass_on_result, tell, place))


def _pass_on_result(tell: Callable[[int, Result], None], place: int, task: "asyncio.Task[Result]") -> None:
    if not task.cancelled() and task.exception() is None:
        tell(place, task.result())


def _run_alone(dispatch: Coroutine[Any, Any, list[Result]]) -> list[Result]:
    """Like asyncio.run, which would wait for ever for a handler that ignores cancellation or runs in a thread."""
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
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # its Result reports it
    loop.close()


async def _run_handler(run: _Run) -> Result:
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
        return _failure(run.call, _timeout_advice(tool))
    try:
        capped, structured = present(tool, work.result())
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):  # these end more than this call
        raise
    except BaseException as error:  # such as a panic in a Rust extension, which is not an Exception
        return _failure(run.call, _explain_error(tool, error), _structured_error(tool, error))
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
    context.run(cancellation.continue_while, lambda: not left_behind.is_set())

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


def _refusal(view: ToolView, name: str) -> str | None:
    """Return why a view refuses a call. A view that fails, such as one of a damaged file, refuses only this call."""
    try:
        return view.refusal(name)
    except OnhandError as error:
        return str(error)


def _failure(call: Call, text: str, structured: Any = None) -> Result:
    capped = cap_text(text, MAX_ERROR_BYTES)
    return Result(call.id, call.name, False, capped.text, structured, capped.truncated_bytes)


def _timeout_advice(tool: Tool) -> str:
    after = f"timed out after {tool.timeout_s:g} s"
    if tool.read_only:
        return f"{after}; ask for less at once, or try again later"
    return f"{after}; it may have taken partial effect: check the state before you try again"


def _explain_error(tool: Tool, error: BaseException) -> str:
    """Return what the model reads of an error: a ToolError as it is, any other on one line, because it may quote names
    that anyone may have chosen."""
    try:
        message = str(error)
    except Exception:  # a __str__ that raises must not hide the failure it describes
        message = ""
    if isinstance(error, ToolError):
        return message
    if isinstance(error, OnhandError):
        return " ".join(message.split())
    return f"{tool.name} failed: {type(error).__name__}: {shorten(message, 500) or 'no message'}"


def _structured_error(tool: Tool, error: BaseException) -> Any:
    """Return what an error says to programs, if that is JSON."""
    if not isinstance(error, ToolError):
        return None
    try:
        return present(tool, Output("", error.structured))[1]
    except OnhandError:
        return None


def _forget(work: "asyncio.Future[Any]") -> None:
    if not work.cancelled():
        work.exception()  # retrieved, so that the event loop does not log it
