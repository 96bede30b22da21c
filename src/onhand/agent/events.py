"""Events of a run: immutable records for listeners, which print, trace or forward them."""

from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from onhand.formats.message import Message, as_mapping, as_text
from onhand.tools.arguments import shorten
from onhand.tools.registry import Call, Result

# Why a model stops: it answered, made calls, ran out of tokens or context, refused, or paused to be continued.
STOPS = ("end", "calls", "max_tokens", "context_full", "refusal", "pause")
# How a run ends.
ENDS = (
    *("answer", "max_turns", "token_budget", "repeated", "cancelled"),
    *("max_tokens", "context_full", "refusal", "error"),
)


class Usage(NamedTuple):
    """Tokens as the provider counts them. `cached` and `written` are included in `input`."""

    input: int = 0
    output: int = 0
    cached: int = 0  # read from the provider's prompt cache
    written: int = 0  # to the provider's prompt cache

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of both."""
        return Usage(*map(sum, zip(self, other, strict=True)))

    @property
    def total(self) -> int:
        """The tokens of input and output together."""
        return self.input + self.output


class PromptPart(NamedTuple):
    """A part of the system prompt, and the approximate number of tokens that it costs in every request."""

    name: str
    text: str
    tokens: int


class Outcome(NamedTuple):
    """How a run ended: one of ENDS, the model's last text and, if that is not an answer, an explanation for people."""

    end: str
    text: str = ""
    detail: str = ""
    turns: int = 0
    usage: Usage = Usage()


class Limits(NamedTuple):
    """The limits at which a run ends without an answer."""

    max_turns: int = 25
    max_tokens: int | None = None  # of all requests together, as the provider counts them
    max_repeats: int = 3  # of one call with the same arguments while nothing changes


class Began(NamedTuple):
    """A run begins."""

    goal: str
    parts: tuple[PromptPart, ...] = ()
    limits: Limits = Limits()


class Text(NamedTuple):
    """A piece of the model's text."""

    text: str


class Thought(NamedTuple):
    """A piece of the model's visible reasoning."""

    text: str


class Retrying(NamedTuple):
    """The request is repeated, and the text that the model has sent in this turn is discarded."""

    reason: str
    wait_s: float


class Answered(NamedTuple):
    """The model's complete answer in a turn, and why it stopped: one of STOPS."""

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
    """An event of a sub-agent, by the name of that agent."""

    agent: str
    event: Any


Event = Began | Text | Thought | Retrying | Answered | Asked | Calling | Returned | Ended | Nested
ModelEvent = Text | Thought | Retrying | Answered
Listener = Callable[[Event], None]
Stream = AsyncGenerator[ModelEvent, None]

MAX_ARGUMENTS_CHARS = 400  # in a line for the operator; a trace has them in full
MAX_NAME_CHARS = 128  # tools have no longer names, but a model may call anything


def render_event(event: Event) -> str:
    """Return an event as a line for the operator, or "" if the operator does not need to see it."""
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
        return f"# the model's server {event.reason}: trying again in {event.wait_s:g} s"
    if isinstance(event, Ended) and event.outcome.end != "answer":
        return f"# {event.outcome.detail}"
    return ""
