"""What happened, for later? Every event of a run as a line of JSON, and the same run again from these lines.

A trace has no times of day and no addresses: a replay of it writes the same bytes. In a replay no model is asked, no
tool is run and nobody is asked for approval.
"""

import json
import os
from asyncio import CancelledError
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO, Any, TypeVar

from onhand.agent.approval import Refusal
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
    Part,
    Retrying,
    Returned,
    Stream,
    Text,
    Thought,
    Usage,
)
from onhand.agent.loop import Agent, Tell
from onhand.errors import InputError, ModelError
from onhand.formats.message import Message
from onhand.regular import open_file
from onhand.tools.registry import Call, Result
from onhand.tools.tool import MAX_DEPTH, Tool

MAX_TRACE_BYTES = 256 << 20
MAX_LEVELS = 2 * MAX_DEPTH  # of an event: its own, and those of arguments that a tool would take
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
_LISTS: dict[str, Any] = {"calls": Call, "results": Result, "parts": Part}
_TEXTS = {"goal", "text", "name", "id", "reason", "answer", "stop", "end", "detail", "agent"}
_ROLES = ("system", "user", "assistant", "tool")
Kind = TypeVar("Kind")


class Trace:
    """A listener that writes a file, anew, and readable for its owner alone: a trace has what tools returned."""

    def __init__(self, path: str) -> None:
        try:
            # Not through a link that somebody else has put there.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise InputError(f"the trace {path} cannot be written: {error.strerror}") from None
        # Half a character, which a model's JSON may have in it, is spelled as JSON spells it.
        self._file: IO[str] = open(descriptor, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115

    def __call__(self, event: Event) -> None:
        """Write an event; it is in the file when this returns, whatever happens next."""
        self._file.write(line_of(event))
        self._file.flush()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def line_of(event: Event) -> str:
    """An event as a line of JSON."""
    return json.dumps(_as_json(event), ensure_ascii=False) + "\n"


def read_trace(path: str) -> list[Event]:
    """The events of a trace; InputError names the line that is none."""
    try:
        with open_file(path) as file:
            raw = file.read(MAX_TRACE_BYTES + 1)
    except OSError as error:
        raise InputError(f"the trace {path} cannot be read: {error.strerror}") from None
    if len(raw) > MAX_TRACE_BYTES:
        raise InputError(f"the trace {path} has more than {MAX_TRACE_BYTES >> 20} MiB: replay a shorter run")
    return [event_of(line, f"{path}, line {number}") for number, line in enumerate(raw.splitlines(), 1)]


async def replay(recorded: Sequence[Event], listeners: Sequence[Listener] = ()) -> Outcome:
    """The runs of a trace again; InputError when the loop now does something else than it did then."""
    past = _Past(recorded, listeners)
    agent: Agent | None = None
    outcome: Outcome | None = None
    while began := past.next(Began):
        agent = agent or Agent(past, past, began.parts, approval=past, limits=began.limits, listeners=listeners)
        outcome = await agent.run(began.goal)
        ended = past.next(Ended)
        if ended is None or ended.outcome != outcome:
            raise InputError(f"the replay ends otherwise ({outcome.end}: {outcome.detail}): was the trace changed?")
    if outcome is None:
        raise InputError("the trace has no run in it: give a file that --trace has written")
    return outcome


class _Past:
    """Stands in for the model, the tools and the person of runs that are over: what they did, one after the other."""

    name = "replay"

    def __init__(self, recorded: Sequence[Event], listeners: Sequence[Listener]) -> None:
        self._ahead = deque(recorded)
        self._read_only = {event.call.name: event.read_only for event in recorded if isinstance(event, Calling)}
        self._listeners = listeners

    def next(self, kind: type[Kind], call: Call | None = None) -> Kind | None:
        """The next event, if it is of this kind and about this call."""
        event = self._ahead[0] if self._ahead else None
        if not isinstance(event, kind) or (call and getattr(event, "call", call).id != call.id):
            return None
        self._ahead.popleft()
        return event

    async def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """What the model said then, and how it failed if it did."""
        while self._ahead and isinstance(self._ahead[0], Text | Thought | Retrying):
            yield self._ahead.popleft()  # type: ignore[misc]  # it is one of these
        answered = self.next(Answered)
        if answered:
            yield answered
            return
        end = self._ahead[0] if self._ahead else None
        if isinstance(end, Ended) and end.outcome.end == "error":
            raise ModelError(end.outcome.detail)
        raise CancelledError

    def begin(self, conversation_tokens: int = 0) -> None:
        """Nothing has to be made ready."""

    def wire(self) -> list[dict[str, object]]:
        """Nobody reads it."""
        return []

    def index(self) -> str:
        """Nobody reads it."""
        return ""

    def get(self, name: str) -> Tool | None:
        """Something that stands for the tool of that name, and is never run."""
        only_reads = self._read_only.get(name, True)
        return Tool("replayed", "It is never run.", {"type": "object"}, lambda _: "", read_only=only_reads)

    async def check(self, call: Call, tool: Tool, tell: Listener) -> Refusal | None:
        """What was decided then."""
        asked = self.next(Asked, call)
        if asked:
            tell(asked)
        returned = self.next(Returned, call)
        return Refusal(returned.result.text, by_person=asked is not None) if returned else None

    async def run(self, calls: Sequence[Call], tell: Tell) -> list[Result]:
        """What the tools returned then, in the order in which they did."""
        places = {call.id: place for place, call in enumerate(calls)}
        results: dict[str, Result] = {}
        while self.next(Returned):  # of calls that were one too many
            pass
        while self.next(Calling):
            pass
        while len(results) < len(calls):
            nested, returned = self.next(Nested), self.next(Returned)
            for listener in self._listeners if nested else ():
                listener(nested)  # type: ignore[arg-type]  # it is one
            if returned and returned.call.id in places:
                results[returned.call.id] = returned.result
                tell(places[returned.call.id], returned.result)
            elif not nested:
                raise CancelledError
        return [results[call.id] for call in calls]


def _as_json(value: Any, levels_left: int = MAX_LEVELS) -> Any:
    if isinstance(value, list | tuple | Mapping) and not levels_left:
        return "…"  # no call of a model that goes so deep is ever run
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named = {name: _as_json(getattr(value, name), levels_left - 1) for name in value._fields}
        return {"kind": type(value).__name__.lower(), **named} if type(value) in _KINDS.values() else named
    if isinstance(value, list | tuple):
        return [_as_json(one, levels_left - 1) for one in value]
    if isinstance(value, Mapping):
        return {name: _as_json(one, levels_left - 1) for name, one in value.items()}
    return value


def event_of(line: bytes, where: str) -> Event:
    """The event of a line; InputError if it is none."""
    try:
        made: Event = _made(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{where}: this is no event of a trace; give a file that --trace has written") from None
    return made


def _made(said: dict[str, Any]) -> Any:
    return _inner(_KINDS[said.pop("kind")], said)


def _field(name: str, value: Any) -> Any:
    if name in _TEXTS and not isinstance(value, str):
        raise TypeError(name)
    if name == "role" and value not in _ROLES:
        raise ValueError(name)
    if name == "arguments" and not isinstance(value, dict | str | None):
        raise TypeError(name)
    if name == "event":
        return _made(value)
    if name in _FIELDS:
        return _inner(_FIELDS[name], value)
    if name in _LISTS:
        return tuple(_inner(_LISTS[name], one) for one in value)
    return tuple(value) if name == "kept" else value


def _inner(kind: Any, said: dict[str, Any]) -> Any:
    return kind(**{name: _field(name, value) for name, value in said.items()})
