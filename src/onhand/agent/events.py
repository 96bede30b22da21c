"""What happens while an agent works? Immutable events, for whoever prints, traces or passes them on.

The loop tells; listeners only listen. Nothing here knows a door.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from onhand.formats.message import Message
from onhand.tools.registry import Call, Result

# How a model ends: it has said all, it wants calls run, it ran out of room, it refuses, or it wants to be asked again.
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
        """Both together."""
        return Usage(*(one + more for one, more in zip(self, other, strict=True)))

    @property
    def total(self) -> int:
        """Input and output."""
        return self.input + self.output


class Part(NamedTuple):
    """A part of the prompt, and about how many tokens it costs in every request."""

    name: str
    text: str
    tokens: int


class Outcome(NamedTuple):
    """How a run ended: one of ENDS, the last words of the model, and a sentence for people when it was no answer."""

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
    parts: tuple[Part, ...] = ()
    limits: Limits = Limits()


class Text(NamedTuple):
    """Some of what the model says."""

    text: str


class Thought(NamedTuple):
    """Some of what the model thinks aloud."""

    text: str


class Retrying(NamedTuple):
    """The model is asked again, and what it has said in this turn does not count."""

    reason: str
    wait_s: float


class Answered(NamedTuple):
    """All that the model said in a turn, and why it stopped: one of STOPS."""

    message: Message
    stop: str = "end"
    usage: Usage = Usage()


class Asked(NamedTuple):
    """Somebody decided about a call that needs approval."""

    call: Call
    reason: str
    answer: str


class Calling(NamedTuple):
    """A call is about to run, of a tool that only reads or not."""

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
    """Something that happened to a sub-agent of this name."""

    agent: str
    event: Any


Event = Began | Text | Thought | Retrying | Answered | Asked | Calling | Returned | Ended | Nested
ModelEvent = Text | Thought | Retrying | Answered
Listener = Callable[[Event], None]
Stream = AsyncGenerator[ModelEvent, None]
