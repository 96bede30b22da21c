"""The events of a run: immutable records for listeners that print, trace or forward them."""

from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from onhand.formats.message import Message, as_mapping, as_text
from onhand.tools.arguments import shorten
from onhand.tools.registry import Call, Result

# How a model's turn ends: with an answer, with calls, out of room, with a refusal, or to be continued.
STOPS = ("end", "calls", "max_tokens", "context_full", "refusal", "pause")
# How a run ends.
ENDS = (
    *("answer", "max_turns", "token_budget", "repeated", "cancelled"),
    *("max_tokens", "context_full", "refusal", "error"),
)


class Usage(NamedTuple):
    """Tokens as the provider counts them; `cached` and `written` are parts of `input`."""

    input: int = 0
    output: int = 0
    cached: int = 0  # read from the provider's prompt cache
    written: int = 0  # into it

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of both."""
        return Usage(*(one + more for one, more in zip(self, other, strict=True)))

    @property
    def total(self) -> int:
        """Input and output."""
        return self.input + self.output


class PromptPart(NamedTuple):
    """A part of the system prompt, and about how many tokens it costs in every request."""

    name: str
    text: str
    tokens: int


class Outcome(NamedTuple):
    """How a run ended: one of ENDS, the last words of the model, and a sentence for people if it is not an answer."""

    end: str
    text: str = ""
    detail: str = ""
    turns: int = 0
    usage: Usage = Usage()


class Limits(NamedTuple):
    """When a run ends without an answer."""

    max_turns: int = 25
    max_tokens: int | None = None  # of all requests together, as the provider counts them
    max_repeats: int = 3  # of one call with equal arguments, while nothing is changed


class Began(NamedTuple):
    """A run begins."""

    goal: str
    parts: tuple[PromptPart, ...] = ()
    limits: Limits = Limits()


class Text(NamedTuple):
    """A piece of what the model says."""

    text: str


class Thought(NamedTuple):
    """A piece of the model's visible reasoning."""

    text: str


class Retrying(NamedTuple):
    """The request is repeated, and what the model has said in this turn does not count."""

    reason: str
    wait_s: float


class Answered(NamedTuple):
    """Everything that the model said in a turn, and why it stopped: one of STOPS."""

    message: Message
    stop: str = "end"
    usage: Usage = Usage()


class Asked(NamedTuple):
    """A person has decided about a call that needs approval."""

    call: Call
    reason: str
    answer: str


class Calling(NamedTuple):
    """A call is about to run."""

    call: Call
    read_only: bool = False


class Returned(NamedTuple):
    """A call has its result, whether it ran or was refused."""

    call: Call
    result: Result


class Ended(NamedTuple):
    """A run is over."""

    outcome: Outcome


class Nested(NamedTuple):
    """An event of the sub-agent with this name."""

    agent: str
    event: Any


Event = Began | Text | Thought | Retrying | Answered | Asked | Calling | Returned | Ended | Nested
ModelEvent = Text | Thought | Retrying | Answered
Listener = Callable[[Event], None]
Stream = AsyncGenerator[ModelEvent, None]

MAX_ARGUMENTS_CHARS = 400  # a trace has all of them
MAX_NAME_CHARS = 128  # no tool has a longer name, but a model may call anything


def render_event(event: Event) -> str:
    """Return an event as a line for an operator, or an empty text if it is of no interest."""
    if isinstance(event, Nested):
        inner = render_event(event.event)
        return f"{shorten(event.agent, 60)}: {inner}" if inner else ""
    if isinstance(event, Returned):
        arguments = shorten(as_text(as_mapping(event.call.arguments)), MAX_ARGUMENTS_CHARS)
        name = shorten(event.call.name, MAX_NAME_CHARS)
        return f"> {name} {arguments} -> {'ok' if event.result.ok else 'err'}"
    if isinstance(event, Asked):
        return f"? {event.call.name}: {event.answer.replace('_', ' ')}"
    if isinstance(event, Retrying):
        return f"# the model {event.reason}: trying again in {event.wait_s:g} s"
    if isinstance(event, Ended) and event.outcome.end != "answer":
        return f"# {event.outcome.detail}"
    return ""
