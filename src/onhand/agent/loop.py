"""How does an agent work? It asks a model, runs what the model calls, and asks again, until there is an answer.

Everything that happens is told to listeners; nothing is printed here. What tools do, how a provider spells them, and
who approves of a call is for others to know.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Protocol

from onhand.agent.approval import Gatekeeper, Refusal
from onhand.agent.events import (
    Answered,
    Began,
    Calling,
    Ended,
    Event,
    Limits,
    Listener,
    Outcome,
    Part,
    Returned,
    Usage,
)
from onhand.agent.models.model import Model
from onhand.agent.prompt import joined
from onhand.agent.repeats import Repeats
from onhand.errors import InputError, ModelError, OnhandError
from onhand.formats.message import Message
from onhand.tools.registry import Call, Result
from onhand.tools.tool import Tool

CANCELLED = "the run was cancelled"
MAX_CALLS = 128  # of one turn; a model that makes more has lost its way


class Tools(Protocol):
    """What the loop needs of tools: a Toolbox has it."""

    def begin(self, conversation_tokens: int = 0) -> None: ...
    def wire(self) -> list[dict[str, object]]: ...
    def index(self) -> str: ...
    def get(self, name: str) -> Tool | None: ...
    async def run(self, calls: Sequence[Call], tell: "Tell") -> list[Result]: ...


class Tell(Protocol):
    """Takes the result of the call at a place."""

    def __call__(self, place: int, result: Result, /) -> None: ...


class Agent:
    """One conversation. `run` may be called again: what was said before is remembered."""

    def __init__(
        self,
        model: Model,
        tools: Tools,
        parts: Sequence[Part] = (),
        *,
        approval: Gatekeeper | None = None,
        limits: Limits = Limits(),  # noqa: B008  # immutable
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.model, self.tools, self.parts = model, tools, tuple(parts)
        self.approval, self.limits = approval, limits
        self.listeners = list(listeners)
        self.messages: list[Message] = []
        self.listener_failures: list[Exception] = []
        self._last_input_tokens = 0
        self._work: asyncio.Task[Outcome] | None = None

    async def run(self, goal: str) -> Outcome:
        """Work until there is an answer, or a reason to stop. Only cancelling the caller's own task raises."""
        if self._work is not None:
            raise InputError("this conversation is at work: wait for it, or cancel it")
        self.tell(Began(goal, self.parts, self.limits))
        self.messages.append(Message("user", goal))
        work = self._work = asyncio.ensure_future(_Run(self).to_the_end())
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
        outcome = Outcome("cancelled", detail=CANCELLED)  # before it had begun
        self.tell(Ended(outcome))
        return outcome

    def cancel(self) -> None:
        """Stop what is at work; `run` then gives an outcome that says so."""
        if self._work is not None:
            self._work.cancel()

    def tell(self, event: Event) -> None:
        """Tell listeners of something that happened. One that fails is not told again."""
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as failure:  # of whoever prints or keeps: no reason to lose the work
                self.listener_failures.append(failure)
                self.listeners.remove(listener)


class _Run:
    """From a person's words to an outcome."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.messages = agent.messages
        self.repeats = Repeats(agent.limits.max_repeats)
        self.usage = Usage()
        self.turns = 0
        self.results: dict[int, Result] = {}  # of the turn that is at work
        self.is_over = False

    async def to_the_end(self) -> Outcome:
        try:
            outcome = await self._turns()
        except asyncio.CancelledError:
            outcome = self._outcome("cancelled", CANCELLED)
        except Exception as error:  # whatever it is, the conversation can go on
            is_ours = isinstance(error, OnhandError)
            outcome = self._outcome("error", str(error) if is_ours else f"{type(error).__name__}: {error}")
        self.is_over = True
        self._answer_open_calls()
        self.agent.tell(Ended(outcome))
        return outcome

    async def _turns(self) -> Outcome:
        limits = self.agent.limits
        self.agent.tools.begin(self.agent._last_input_tokens)
        while self.turns < limits.max_turns:
            self.turns += 1
            answered = await self._asked()
            calls = answered.message.calls
            if answered.stop == "refusal":
                return self._outcome("refusal", "the model refuses to go on")
            if calls:
                repeated = self.repeats.one_too_many(calls)
                if repeated:
                    return self._outcome("repeated", f"{repeated.name} was called again and again with equal arguments")
                await self._ran(calls)
            elif answered.stop in ("max_tokens", "context_full"):
                return self._outcome(answered.stop, "the model ran out of room: allow longer answers, or ask for less")
            elif answered.stop != "pause":
                return self._outcome("answer")
            if limits.max_tokens is not None and self.usage.total >= limits.max_tokens:
                return self._outcome("token_budget", f"the budget of {limits.max_tokens:,} tokens is spent")
        return self._outcome("max_turns", f"turn limit ({limits.max_turns}) reached")

    async def _asked(self) -> Answered:
        """What the model says to the conversation so far."""
        agent = self.agent
        system = joined(agent.parts, agent.tools.index())
        said = [Message("system", system), *self.messages] if system else self.messages
        answered: Answered | None = None
        async with aclosing(agent.model.stream(said, agent.tools.wire())) as events:
            async for event in events:
                if isinstance(event, Answered):
                    event = answered = event._replace(message=_with_ids(event.message, self.messages))
                agent.tell(event)
        if answered is None:
            raise ModelError(f"{agent.model.name} ended without an answer: ask again, or another model")
        self.messages.append(answered.message)
        self.usage = self.usage.plus(answered.usage)
        agent._last_input_tokens = answered.usage.input
        return answered

    async def _ran(self, calls: Sequence[Call]) -> None:
        """Run the calls of a turn, those that may, and answer the others with why not."""
        agent, self.results = self.agent, {}
        rejected, allowed = set[int](), []
        for place, call in enumerate(calls):
            refusal = await self._refusal(place, call)
            if refusal is None:
                allowed.append(place)
                continue
            rejected |= {place} if refusal.by_person else set()
            self._came(calls, place, Result(call.id, call.name, False, refusal.text))
        for place in allowed:
            agent.tell(Calling(calls[place], read_only=not self._may_write(calls[place])))
        if allowed:
            await agent.tools.run(
                [calls[place] for place in allowed],
                lambda number, result: self._came(calls, allowed[number], result),
            )
        self._answer_open_calls()
        # What a person has rejected may be asked for again; it is the person who has to put up with that.
        counted = [call for place, call in enumerate(calls) if place not in rejected]
        self.repeats.ran(counted, [calls[place] for place in allowed if self._may_write(calls[place])])

    async def _refusal(self, place: int, call: Call) -> Refusal | None:
        if place >= MAX_CALLS:
            return Refusal(f"not run: {MAX_CALLS} calls are the most that one turn may make", by_person=False)
        tool = self.agent.tools.get(call.name)
        if tool is None or self.agent.approval is None:  # of a tool that is not there, the registry tells
            return None
        return await self.agent.approval.check(call, tool, self.agent.tell)

    def _may_write(self, call: Call) -> bool:
        tool = self.agent.tools.get(call.name)
        return tool is not None and not tool.read_only

    def _came(self, calls: Sequence[Call], place: int, result: Result) -> None:
        if not self.is_over:
            self.results[place] = result
            self.agent.tell(Returned(calls[place], result))

    def _answer_open_calls(self) -> None:
        """Providers refuse a conversation in which a call has no result, whatever kept it from having one."""
        last = self.messages[-1]
        if last.calls:
            results = [
                self.results.get(place)
                or Result(call.id, call.name, False, "not run, or not to its end: look at the state before you go on")
                for place, call in enumerate(last.calls)
            ]
            self.results = {}
            self.messages.append(Message("tool", results=tuple(results)))

    def _outcome(self, end: str, detail: str = "") -> Outcome:
        last = next((message for message in reversed(self.messages) if message.role == "assistant"), None)
        text = last.text if last and end not in ("error", "cancelled") else ""
        return Outcome(end, text, detail, self.turns, self.usage)


def _with_ids(message: Message, before: Sequence[Message]) -> Message:
    """The message with an id for each call that no other of the conversation has.

    Some servers send none, or the same ones twice, or begin to count anew with every answer.
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
