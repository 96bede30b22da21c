"""Traces: every event of a run as a line of JSON, and the replay of runs from these lines.

A trace contains no times and no memory addresses, so a replay writes the same bytes. A replay sends no request to a
model, asks nobody for approval, and runs no tool.
"""

import json
import os
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, TypeVar

from onhand.agent.approval import CallRefusal
from onhand.agent.events import (
    Answered,
    Asked,
    Began,
    Calling,
    Ended,
    Event,
    Limits,
    Listener,
    Nested,
    Outcome,
    PromptPart,
    Retrying,
    Returned,
    Stream,
    Text,
    Thought,
    Usage,
)
from onhand.agent.loop import Agent
from onhand.errors import InputError, ModelError
from onhand.formats.message import Message
from onhand.fsio import open_regular
from onhand.tools.registry import Call, Result
from onhand.tools.tool import MAX_DEPTH, Tool

MAX_TRACE_BYTES = 256 << 20
MAX_LEVELS = 2 * MAX_DEPTH  # of an event with its arguments
_KINDS: dict[str, Any] = {
    kind.__name__.lower(): kind
    for kind in (Began, Text, Thought, Retrying, Answered, Asked, Calling, Returned, Ended, Nested)
}
_FIELDS: dict[str, Any] = {
    "call": Call,
    "result": Result,
    "message": Message,
    "usage": Usage,
    "outcome": Outcome,
    "limits": Limits,
}
_LISTS: dict[str, Any] = {"calls": Call, "results": Result, "parts": PromptPart}
_TEXTS = {"goal", "text", "name", "id", "reason", "answer", "stop", "end", "detail", "agent"}
_ROLES = ("system", "user", "assistant", "tool")
Kind = TypeVar("Kind")


class Trace:
    """A listener that writes a new file. Only its owner can read it, because it contains what tools returned."""

    def __init__(self, path: str) -> None:
        try:
            # A link that someone else has put there is not followed.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise InputError(f"the trace {path} cannot be written: {error.strerror}") from None
        # A model's JSON may contain a lone surrogate, which is escaped as in JSON.
        self._file: IO[str] = open(descriptor, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115

    def __call__(self, event: Event) -> None:
        """Write an event to the file at once."""
        self._file.write(serialize_event(event))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def serialize_event(event: Event) -> str:
    """Return an event as a line of JSON."""
    return json.dumps(_to_json(event), ensure_ascii=False) + "\n"


def read_trace(path: str) -> list[Event]:
    """Return the events of a trace. Raise InputError with the number of the first line that is not an event."""
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_TRACE_BYTES + 1)
    except OSError as error:
        raise InputError(f"the trace {path} cannot be read: {error.strerror}") from None
    if len(raw) > MAX_TRACE_BYTES:
        raise InputError(f"the trace {path} is larger than {MAX_TRACE_BYTES >> 20} MiB: replay a shorter run")
    return [parse_event(line, f"{path}, line {number}") for number, line in enumerate(raw.splitlines(), 1)]


async def replay(recorded: Sequence[Event], listeners: Sequence[Listener] = ()) -> Outcome:
    """Replay the runs of a trace. Raise InputError if the loop does anything else than it did when recorded."""
    recording = _Recording(recorded, listeners)
    agent: Agent | None = None
    outcome: Outcome | None = None
    while began := recording.next(Began):
        agent = agent or Agent(
            recording, recording, began.parts, approval=recording, limits=began.limits, listeners=listeners
        )
        outcome = await agent.run(began.goal)
        ended = recording.next(Ended)
        if ended is None or ended.outcome != outcome:
            raise InputError(f"the replay ended differently ({outcome.end}: {outcome.detail}): was the trace edited?")
    if outcome is None:
        raise InputError("the trace contains no run: use a file that --trace wrote")
    return outcome


class _Recording:
    """Stands in for the model, the tools and the person of recorded runs, and repeats what they did."""

    name = "replay"

    def __init__(self, recorded: Sequence[Event], listeners: Sequence[Listener]) -> None:
        self._events = deque(recorded)
        self._read_only = {event.call.name: event.read_only for event in recorded if isinstance(event, Calling)}
        self._listeners = listeners

    def next(self, kind: type[Kind], call: Call | None = None) -> Kind | None:
        """Take the next event if it is of this kind and about this call; otherwise return None."""
        event = self._events[0] if self._events else None
        if not isinstance(event, kind) or (call and getattr(event, "call", call).id != call.id):
            return None
        self._events.popleft()
        return event

    async def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """Yield the recorded events of the model, and fail as it did."""
        while self._events and isinstance(self._events[0], Text | Thought | Retrying):
            yield self._events.popleft()  # type: ignore[misc]  # it is one of these
        answer = self.next(Answered)
        if answer:
            yield answer
            return
        end = self._events[0] if self._events else None
        if isinstance(end, Ended) and end.outcome.end == "error":
            raise ModelError(end.outcome.detail)
        raise CancelledError

    def begin(self, conversation_tokens: int = 0) -> None:
        """Do nothing: a replay needs no preparation."""

    def wire(self) -> list[dict[str, object]]:
        """Return no tools, because no model reads them."""
        return []

    def index(self) -> str:
        """Return no index, because no model reads it."""
        return ""

    def get(self, name: str) -> Tool | None:
        """Return a stand-in for the tool with this name."""
        only_reads = self._read_only.get(name, True)
        return Tool("replayed", "Stand-in for a recorded tool.", {"type": "object"}, lambda _: "", read_only=only_reads)

    async def check(self, call: Call, tool: Tool, notify: Listener) -> CallRefusal | None:
        """Return the recorded decision about a call."""
        decision = self.next(Asked, call)
        if decision:
            notify(decision)
        returned = self.next(Returned, call)
        return CallRefusal(returned.result.text, by_person=decision is not None) if returned else None

    async def run(self, calls: Sequence[Call], on_result: Callable[[int, Result], None]) -> list[Result]:
        """Return the recorded results, after passing them to `on_result` in the recorded order."""
        places = {call.id: place for place, call in enumerate(calls)}
        results: dict[str, Result] = {}
        while self.next(Returned):  # the refusals of calls beyond the limit of a turn
            pass
        while self.next(Calling):
            pass
        while len(results) < len(calls):
            nested, returned = self.next(Nested), self.next(Returned)
            for listener in self._listeners if nested else ():
                listener(nested)  # type: ignore[arg-type]  # it is one
            if returned and returned.call.id in places:
                results[returned.call.id] = returned.result
                on_result(places[returned.call.id], returned.result)
            elif not nested:
                raise CancelledError
        return [results[call.id] for call in calls]


def _to_json(value: Any, levels_left: int = MAX_LEVELS) -> Any:
    if isinstance(value, list | tuple | Mapping) and not levels_left:
        return "…"  # the registry rejects arguments that are nested so deeply
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named = {name: _to_json(getattr(value, name), levels_left - 1) for name in value._fields}
        return {"kind": type(value).__name__.lower(), **named} if type(value) in _KINDS.values() else named
    if isinstance(value, list | tuple):
        return [_to_json(one, levels_left - 1) for one in value]
    if isinstance(value, Mapping):
        return {name: _to_json(one, levels_left - 1) for name, one in value.items()}
    return value


def parse_event(line: bytes, where: str) -> Event:
    """Return the event in a line of a trace. Raise InputError if it is not one."""
    try:
        event: Event = _parse_event_record(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{where}: this is not an event of a trace; use a file that --trace wrote") from None
    return event


def _parse_event_record(fields: dict[str, Any]) -> Any:
    return _parse_record(_KINDS[fields.pop("kind")], fields)


def _parse_field(name: str, value: Any) -> Any:
    if name in _TEXTS and not isinstance(value, str):
        raise TypeError(name)
    if name == "role" and value not in _ROLES:
        raise ValueError(name)
    if name == "arguments" and not isinstance(value, dict | str | None):
        raise TypeError(name)
    if name == "event":
        return _parse_event_record(value)
    if name in _FIELDS:
        return _parse_record(_FIELDS[name], value)
    if name in _LISTS:
        return tuple(_parse_record(_LISTS[name], one) for one in value)
    return tuple(value) if name == "kept" else value


def _parse_record(kind: Any, fields: dict[str, Any]) -> Any:
    return kind(**{name: _parse_field(name, value) for name, value in fields.items()})
