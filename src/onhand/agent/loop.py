"""The agent loop: ask a model, run the tools that it calls, and ask again until it answers.

The `delegate` tool runs the same loop for a sub-agent. Every event goes to the listeners; nothing is printed here.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Protocol

from onhand.agent.approval import CallRefusal, Gatekeeper
from onhand.agent.events import (
    Answered,
    Began,
    Calling,
    Ended,
    Event,
    Limits,
    Listener,
    Nested,
    Outcome,
    PromptPart,
    Returned,
    Usage,
)
from onhand.agent.models import choose_model
from onhand.agent.models.model import Model
from onhand.agent.prompt import join_parts
from onhand.agent.toolbox import Toolbox
from onhand.errors import InputError, ModelError, OnhandError, ToolError
from onhand.formats.message import Message, as_mapping
from onhand.tools.registry import Call, Result
from onhand.tools.schema import tool as make_tool
from onhand.tools.tool import Tool

MAX_CALLS = 128  # per turn; a model that makes more has lost its way
CANCELLED = "the run was cancelled"
UNFINISHED = "not run, or not completed: check the state before you continue"

DELEGATE = "delegate"
DELEGATE_DESCRIPTION = (
    "Hand a task to a helper that starts without this conversation, has its own tools for searching and reading, and "
    "answers with a short report. Good for searching through so much material that it would fill this conversation, "
    "and for several independent questions: call it once for each, in the same turn. Poor for what you can look up in "
    "one or two calls, and for tasks that depend on this conversation, because the helper knows only what you write. "
    "Expensive: each call runs up to {turns} turns. "
    'Example: delegate(name="flags", task="Find every page on feature flags, and list their rules.").'
)
DELEGATE_MAX_OUTPUT_BYTES = 16 * 1024
SUB_AGENT_LIMITS = Limits(max_turns=10)
MAX_SUB_AGENTS = 8  # at once


class RepeatCounter:
    """Detects a model that goes round in circles by counting equal calls between which nothing changed.

    Equal calls of one turn count once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}

    def find_repeated(self, calls: Iterable[Call]) -> Call | None:
        """Return the first call that was already made `limit` times, or None."""
        return next((call for call in calls if self._counts.get(_call_key(call), 0) >= self._limit), None)

    def count(self, calls: Iterable[Call], writers: Iterable[Call]) -> None:
        """Count the calls of a turn. A new call that may write starts the count again, since re-reading makes sense."""
        if any(_call_key(call) not in self._counts for call in writers):
            self._counts.clear()
        for key in {_call_key(call) for call in calls}:
            self._counts[key] = self._counts.get(key, 0) + 1


def _call_key(call: Call) -> str:
    return f"{call.name} {json.dumps(as_mapping(call.arguments), sort_keys=True)}"


def rebuild_messages(events: Iterable[Event]) -> list[Message]:
    """Rebuild the messages of a conversation from its events."""
    messages: list[Message] = []
    results: dict[str, Result] = {}
    for event in events:
        match event:
            case Began(goal):
                _append_results(messages, results)
                messages.append(Message("user", goal))
            case Answered(message):
                _append_results(messages, results)
                messages.append(message)
            case Returned(call, result):
                results[call.id] = result
    _append_results(messages, results)
    return messages


def _append_results(messages: list[Message], results: dict[str, Result]) -> None:
    """Answer every call of the last message, because providers reject a conversation with an unanswered call."""
    if messages and messages[-1].calls:
        answers = [results.get(call.id) or Result(call.id, call.name, False, UNFINISHED) for call in messages[-1].calls]
        messages.append(Message("tool", results=tuple(answers)))
    results.clear()


class Tools(Protocol):
    """What an agent needs of its tools; a Toolbox provides it."""

    def begin(self, conversation_tokens: int = 0) -> None: ...
    def wire(self) -> list[dict[str, object]]: ...
    def index(self) -> str: ...
    def get(self, name: str) -> Tool | None: ...
    async def run(self, calls: Sequence[Call], on_result: Callable[[int, Result], None]) -> list[Result]: ...


class Agent:
    """One conversation with a model. Each `run` continues where the last one ended.

    `model` is a Model or the name of one, such as "openai:NAME"; `tools` are tools, or a Toolbox or Registry of them.
    """

    def __init__(
        self,
        model: Model | str,
        tools: Tools | Iterable[Tool | Callable[..., Any]] = (),
        parts: Sequence[PromptPart] = (),
        *,
        approval: Gatekeeper | None = None,
        limits: Limits = Limits(),  # noqa: B008  # immutable
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.model = choose_model(model) if isinstance(model, str) else model
        if not hasattr(self.model, "stream"):
            raise InputError(f"{model!r} is not a model: pass a Model, or the name of one such as 'openai:NAME'")
        self.tools: Tools = tools if hasattr(tools, "begin") else Toolbox(tools)  # type: ignore[assignment]
        self.parts = tuple(parts)
        self.approval, self.limits = approval, limits
        self.listeners = list(listeners)
        self.messages: list[Message] = []
        self.listener_failures: list[Exception] = []
        self._last_input_tokens = 0
        self._work: asyncio.Task[Outcome] | None = None

    async def run(self, goal: str) -> Outcome:
        """Work on the goal until there is an answer or a reason to stop.

        It raises only if the conversation is already running or the caller's own task is cancelled.
        """
        if self._work is not None:
            raise InputError("this conversation is already running: wait for it, or cancel it")
        self.notify(Began(goal, self.parts, self.limits))
        self.messages.append(Message("user", goal))
        work = self._work = asyncio.ensure_future(_AgentRun(self).run())
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait({work})
            raise
        finally:
            self._work = None
        if not work.cancelled():
            return work.result()
        outcome = Outcome("cancelled", detail=CANCELLED)  # cancelled before it began
        self.notify(Ended(outcome))
        return outcome

    def cancel(self) -> None:
        """Cancel the run in progress, which then returns an outcome that says so."""
        if self._work is not None:
            self._work.cancel()

    def notify(self, event: Event) -> None:
        """Pass an event to every listener, and remove listeners that fail."""
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as failure:  # a broken listener is no reason to lose the work
                self.listener_failures.append(failure)
                self.listeners.remove(listener)


class _AgentRun:
    """One run of an agent, from a goal to an outcome."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.messages = agent.messages
        self.repeats = RepeatCounter(agent.limits.max_repeats)
        self.usage = Usage()
        self.turns = 0
        self.results: dict[str, Result] = {}  # of the current turn, by the id of the call
        self.is_over = False

    async def run(self) -> Outcome:
        try:
            outcome = await self._run_turns()
        except asyncio.CancelledError:
            outcome = self._outcome("cancelled", CANCELLED)
        except OnhandError as error:
            outcome = self._outcome("error", str(error))
        except Exception as error:  # of a model or a tool; the conversation can continue
            outcome = self._outcome("error", f"{type(error).__name__}: {error}")
        self.is_over = True
        _append_results(self.messages, self.results)
        self.agent.notify(Ended(outcome))
        return outcome

    async def _run_turns(self) -> Outcome:
        limits = self.agent.limits
        self.agent.tools.begin(self.agent._last_input_tokens)
        while self.turns < limits.max_turns:
            self.turns += 1
            answer = await self._ask_model()
            calls = answer.message.calls
            if answer.stop == "refusal":
                return self._outcome("refusal", "the model refused to continue")
            if calls:
                repeated = self.repeats.find_repeated(calls)
                if repeated:
                    return self._outcome("repeated", f"{repeated.name} was called repeatedly with the same arguments")
                await self._run_calls(calls)
            elif answer.stop in ("max_tokens", "context_full"):
                return self._outcome(answer.stop, "the model ran out of tokens: allow longer answers or ask for less")
            elif answer.stop != "pause":
                return self._outcome("answer")
            if limits.max_tokens is not None and self.usage.total >= limits.max_tokens:
                return self._outcome("token_budget", f"the budget of {limits.max_tokens:,} tokens is spent")
        return self._outcome("max_turns", f"turn limit ({limits.max_turns}) reached")

    async def _ask_model(self) -> Answered:
        """Send the conversation to the model, and add its answer."""
        agent = self.agent
        system = join_parts(agent.parts, agent.tools.index())
        messages = [Message("system", system), *self.messages] if system else self.messages
        answer: Answered | None = None
        async with aclosing(agent.model.stream(messages, agent.tools.wire())) as events:
            async for event in events:
                if isinstance(event, Answered):
                    event = answer = event._replace(message=_with_ids(event.message, self.messages))
                agent.notify(event)
        if answer is None:
            raise ModelError(f"{agent.model.name} ended without an answer: try again, or use another model")
        self.messages.append(answer.message)
        self.usage = self.usage.plus(answer.usage)
        agent._last_input_tokens = answer.usage.input
        return answer

    async def _run_calls(self, calls: Sequence[Call]) -> None:
        """Run the allowed calls of a turn, and answer the others with the reason for the refusal."""
        allowed: list[Call] = []
        counted: list[Call] = []  # as repetitions; not what a person rejected, which may be tried again
        for number, call in enumerate(calls, 1):
            refusal = await self._check_call(number, call)
            if refusal is None:
                allowed.append(call)
            else:
                self._record_result(call, Result(call.id, call.name, False, refusal.text))
            if refusal is None or not refusal.by_person:
                counted.append(call)
        for call in allowed:
            self.agent.notify(Calling(call, read_only=not self._may_write(call)))
        if allowed:
            await self.agent.tools.run(allowed, lambda place, result: self._record_result(allowed[place], result))
        _append_results(self.messages, self.results)
        self.repeats.count(counted, filter(self._may_write, allowed))

    async def _check_call(self, number: int, call: Call) -> CallRefusal | None:
        if number > MAX_CALLS:
            return CallRefusal(f"not run: at most {MAX_CALLS} calls are allowed per turn", by_person=False)
        tool = self.agent.tools.get(call.name)
        if tool is None or self.agent.approval is None:  # the registry reports unknown tools
            return None
        return await self.agent.approval.check(call, tool, self.agent.notify)

    def _may_write(self, call: Call) -> bool:
        tool = self.agent.tools.get(call.name)
        return tool is not None and not tool.read_only

    def _record_result(self, call: Call, result: Result) -> None:
        if not self.is_over:
            self.results[call.id] = result
            self.agent.notify(Returned(call, result))

    def _outcome(self, end: str, detail: str = "") -> Outcome:
        last = next((message for message in reversed(self.messages) if message.role == "assistant"), None)
        text = last.text if last and end not in ("error", "cancelled") else ""
        return Outcome(end, text, detail, self.turns, self.usage)


def _with_ids(message: Message, before: Sequence[Message]) -> Message:
    """Return the message with call ids that are unique in the conversation.

    Some servers send no ids, send the same id twice, or start counting again with every answer.
    """
    if not message.calls:
        return message
    ids, taken = [call.id for call in message.calls], {call.id for one in before for call in one.calls}
    if all(ids) and len(set(ids)) == len(ids) and not taken.intersection(ids):
        return message
    number = len(before)
    while taken.intersection(ids := [f"call_{number}_{place}" for place in range(1, len(ids) + 1)]):
        number += 1
    calls = [call._replace(id=id) for call, id in zip(message.calls, ids, strict=True)]
    return message._replace(calls=tuple(calls))


def make_delegate_tool(
    parent: Agent, toolbox: Toolbox, tools: Collection[str] | None = None, limits: Limits = SUB_AGENT_LIMITS
) -> Tool:
    """Return the tool with which an agent hands a task to a sub-agent, which has no such tool itself.

    A sub-agent has a conversation and limits of its own, and the approval policy and listeners of its parent. `tools`
    names its tools, by default those that only read. Sub-agents run in parallel if none of their tools may write.
    """
    chosen = [
        tool for tool in toolbox if tool.name != DELEGATE and (tool.read_only if tools is None else tool.name in tools)
    ]

    working: set[object] = set()

    @make_tool(
        description=DELEGATE_DESCRIPTION.format(turns=limits.max_turns),
        read_only=all(tool.read_only for tool in chosen),
        max_output_bytes=DELEGATE_MAX_OUTPUT_BYTES,
        timeout_s=None,  # its turns are limited instead
        reads=[],  # itself; the calls of a sub-agent wait for what they use
        writes=[],
        long_running=True,
    )
    async def delegate(
        name: Annotated[str, "A one-word name for the helper.", {"maxLength": 60}],
        task: Annotated[str, "Everything it needs to know, and what it should report."],
    ) -> str:
        if len(working) >= MAX_SUB_AGENTS:
            raise ToolError(f"not run: {len(working)} helpers are already working; call it again when one has answered")
        child = Agent(
            parent.model,
            toolbox.child([tool.name for tool in chosen]),
            parent.parts,
            approval=parent.approval,
            limits=limits,
            listeners=[partial(_forward_event, parent, name)],
        )
        working.add(child)
        try:
            outcome = await child.run(task)
        finally:
            working.remove(child)
        if outcome.end == "answer":
            return outcome.text or "(the helper returned an empty answer)"
        raise ToolError(f"the helper stopped without an answer ({outcome.detail}). Its last words: {outcome.text}")

    return delegate


def _forward_event(parent: Agent, name: str, event: Event) -> None:
    parent.notify(Nested(name, event))
