"""The agent loop: ask a model, run the tools that it calls, and ask again, until there is an answer.

Every event goes to the listeners; nothing is printed here. Tools, formats of providers and approval are separate.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from onhand.agent.approval import CallRefusal, Gatekeeper
from onhand.agent.events import (
    Answered,
    Began,
    Calling,
    Ended,
    Event,
    Limits,
    Listener,
    Outcome,
    PromptPart,
    Returned,
    Usage,
)
from onhand.agent.models.choose import choose_model
from onhand.agent.models.model import Model
from onhand.agent.prompt import join_parts
from onhand.agent.toolbox import Toolbox
from onhand.errors import InputError, ModelError, OnhandError
from onhand.formats.message import Message, as_mapping
from onhand.tools.registry import Call, Result
from onhand.tools.tool import Tool


class RepeatCounter:
    """Detects a model that goes round in circles: equal calls between which nothing was changed.

    Equal calls of one turn count once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}

    def find_repeated(self, calls: Iterable[Call]) -> Call | None:
        """Return a call that was made `limit` times already, if there is one."""
        return next((call for call in calls if self._counts.get(_call_key(call), 0) >= self._limit), None)

    def count(self, calls: Iterable[Call], writers: Iterable[Call]) -> None:
        """Count the calls of a turn that ran. After a new one that may write, reading the same again is fine."""
        if any(_call_key(call) not in self._counts for call in writers):
            self._counts.clear()
        for key in {_call_key(call) for call in calls}:
            self._counts[key] = self._counts.get(key, 0) + 1


def _call_key(call: Call) -> str:
    return f"{call.name} {json.dumps(as_mapping(call.arguments), sort_keys=True)}"


LOST = "the conversation ended before this call was finished: check the state before you continue"


def rebuild_messages(events: Iterable[Event]) -> list[Message]:
    """Rebuild the messages of a conversation from its events.

    A call without a result gets one that says so, because providers refuse it otherwise.
    """
    messages: list[Message] = []
    results: dict[str, Result] = {}
    for event in events:
        match event:
            case Began(goal):
                _answer_calls(messages, results)
                messages.append(Message("user", goal))
            case Answered(message):
                _answer_calls(messages, results)
                messages.append(message)
            case Returned(call, result):
                results[call.id] = result
    _answer_calls(messages, results)
    return messages


def _answer_calls(messages: list[Message], results: dict[str, Result]) -> None:
    if messages and messages[-1].calls:
        answers = [results.get(call.id) or Result(call.id, call.name, False, LOST) for call in messages[-1].calls]
        messages.append(Message("tool", results=tuple(answers)))
    results.clear()


CANCELLED = "the run was cancelled"
MAX_CALLS = 128  # of one turn; a model that makes more is lost


class Tools(Protocol):
    """The tools that an agent needs, as a Toolbox provides them."""

    def begin(self, conversation_tokens: int = 0) -> None: ...
    def wire(self) -> list[dict[str, object]]: ...
    def index(self) -> str: ...
    def get(self, name: str) -> Tool | None: ...
    async def run(self, calls: Sequence[Call], on_result: "OnResult") -> list[Result]: ...


class OnResult(Protocol):
    """Takes the result of the call with this number."""

    def __call__(self, place: int, result: Result, /) -> None: ...


class Agent:
    """One conversation. `run` may be called again and remembers what was said before.

    `model` is a Model or the name of one, such as "openai:NAME"; `tools` is a Toolbox or a list of tools.
    """

    def __init__(
        self,
        model: Model | str,
        tools: Tools | Sequence[Tool | Callable[..., Any]] = (),
        parts: Sequence[PromptPart] = (),
        *,
        approval: Gatekeeper | None = None,
        limits: Limits = Limits(),  # noqa: B008  # immutable
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.model = choose_model(model) if isinstance(model, str) else model
        self.tools: Tools = Toolbox(tools) if isinstance(tools, list | tuple) else tools  # type: ignore[assignment]
        self.parts = tuple(parts)
        if not hasattr(self.model, "stream") or not hasattr(self.tools, "begin"):
            raise InputError("an agent needs a model, or the name of one such as 'openai:NAME', and a list of tools")
        self.approval, self.limits = approval, limits
        self.listeners = list(listeners)
        self.messages: list[Message] = []
        self.listener_failures: list[Exception] = []
        self._last_input_tokens = 0
        self._work: asyncio.Task[Outcome] | None = None

    async def run(self, goal: str) -> Outcome:
        """Work until there is an answer or a reason to stop. It raises only if the caller's own task is cancelled."""
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
        outcome = Outcome("cancelled", detail=CANCELLED)  # before it began
        self.notify(Ended(outcome))
        return outcome

    def cancel(self) -> None:
        """Cancel the running work; `run` then returns an outcome that says so."""
        if self._work is not None:
            self._work.cancel()

    def notify(self, event: Event) -> None:
        """Pass an event to the listeners. One that fails is removed."""
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as failure:  # of a listener: not a reason to lose the work
                self.listener_failures.append(failure)
                self.listeners.remove(listener)


class _AgentRun:
    """One run, from a goal to an outcome."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.messages = agent.messages
        self.repeats = RepeatCounter(agent.limits.max_repeats)
        self.usage = Usage()
        self.turns = 0
        self.results: dict[int, Result] = {}  # of the current turn
        self.is_over = False

    async def run(self) -> Outcome:
        try:
            outcome = await self._run_turns()
        except asyncio.CancelledError:
            outcome = self._outcome("cancelled", CANCELLED)
        except Exception as error:  # the conversation can continue in any case
            is_ours = isinstance(error, OnhandError)
            outcome = self._outcome("error", str(error) if is_ours else f"{type(error).__name__}: {error}")
        self.is_over = True
        self._answer_open_calls()
        self.agent.notify(Ended(outcome))
        return outcome

    async def _run_turns(self) -> Outcome:
        limits = self.agent.limits
        self.agent.tools.begin(self.agent._last_input_tokens)
        while self.turns < limits.max_turns:
            self.turns += 1
            answered = await self._ask_model()
            calls = answered.message.calls
            if answered.stop == "refusal":
                return self._outcome("refusal", "the model refuses to continue")
            if calls:
                repeated = self.repeats.find_repeated(calls)
                if repeated:
                    return self._outcome("repeated", f"{repeated.name} was called repeatedly with equal arguments")
                await self._run_calls(calls)
            elif answered.stop in ("max_tokens", "context_full"):
                return self._outcome(answered.stop, "the model ran out of tokens: allow longer answers or ask for less")
            elif answered.stop != "pause":
                return self._outcome("answer")
            if limits.max_tokens is not None and self.usage.total >= limits.max_tokens:
                return self._outcome("token_budget", f"the budget of {limits.max_tokens:,} tokens is spent")
        return self._outcome("max_turns", f"turn limit ({limits.max_turns}) reached")

    async def _ask_model(self) -> Answered:
        """Return what the model says to the conversation so far."""
        agent = self.agent
        system = join_parts(agent.parts, agent.tools.index())
        messages = [Message("system", system), *self.messages] if system else self.messages
        answered: Answered | None = None
        async with aclosing(agent.model.stream(messages, agent.tools.wire())) as events:
            async for event in events:
                if isinstance(event, Answered):
                    event = answered = event._replace(message=_with_ids(event.message, self.messages))
                agent.notify(event)
        if answered is None:
            raise ModelError(f"{agent.model.name} ended without an answer: try again, or use another model")
        self.messages.append(answered.message)
        self.usage = self.usage.plus(answered.usage)
        agent._last_input_tokens = answered.usage.input
        return answered

    async def _run_calls(self, calls: Sequence[Call]) -> None:
        """Run the allowed calls of a turn, and answer the others with the reason for the refusal."""
        agent, self.results = self.agent, {}
        rejected, allowed = set[int](), []
        for place, call in enumerate(calls):
            refusal = await self._check_call(place, call)
            if refusal is None:
                allowed.append(place)
                continue
            rejected |= {place} if refusal.by_person else set()
            self._record_result(calls, place, Result(call.id, call.name, False, refusal.text))
        for place in allowed:
            agent.notify(Calling(calls[place], read_only=not self._may_write(calls[place])))
        if allowed:
            await agent.tools.run(
                [calls[place] for place in allowed],
                lambda number, result: self._record_result(calls, allowed[number], result),
            )
        self._answer_open_calls()
        # A call that a person has rejected may be made again: it does not count as a repetition.
        counted = [call for place, call in enumerate(calls) if place not in rejected]
        self.repeats.count(counted, [calls[place] for place in allowed if self._may_write(calls[place])])

    async def _check_call(self, place: int, call: Call) -> CallRefusal | None:
        if place >= MAX_CALLS:
            return CallRefusal(f"not run: one turn may make at most {MAX_CALLS} calls", by_person=False)
        tool = self.agent.tools.get(call.name)
        if tool is None or self.agent.approval is None:  # the registry reports unknown tools
            return None
        return await self.agent.approval.check(call, tool, self.agent.notify)

    def _may_write(self, call: Call) -> bool:
        tool = self.agent.tools.get(call.name)
        return tool is not None and not tool.read_only

    def _record_result(self, calls: Sequence[Call], place: int, result: Result) -> None:
        if not self.is_over:
            self.results[place] = result
            self.agent.notify(Returned(calls[place], result))

    def _answer_open_calls(self) -> None:
        """Give every call a result, because providers refuse a conversation in which one has none."""
        last = self.messages[-1]
        if last.calls:
            results = [
                self.results.get(place)
                or Result(call.id, call.name, False, "not run, or not completed: check the state before you continue")
                for place, call in enumerate(last.calls)
            ]
            self.results = {}
            self.messages.append(Message("tool", results=tuple(results)))

    def _outcome(self, end: str, detail: str = "") -> Outcome:
        last = next((message for message in reversed(self.messages) if message.role == "assistant"), None)
        text = last.text if last and end not in ("error", "cancelled") else ""
        return Outcome(end, text, detail, self.turns, self.usage)


def _with_ids(message: Message, before: Sequence[Message]) -> Message:
    """Return the message with an id for each call that is unique in the conversation.

    Some servers send no ids, or the same ones twice, or start counting again with every answer.
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
