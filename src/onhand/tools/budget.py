"""When are tools loaded: all of them before the first turn, or each when it is needed? A policy decides, and says why.

It knows numbers, but no tool and no prompt. What a text costs is for `tokens`, what was spent for `ledger`.
"""

import re

from onhand.amounts import counted
from onhand.errors import InputError
from onhand.record import Record

DEFAULT_WINDOW_TOKENS = 200_000
MAX_PLACES = 3  # behind the point of a limit: with twelve digits before it, all that a float can tell apart


class Load(Record):
    """What there is to load, and the room for it."""

    definition_tokens: int  # of the tools that may be deferred
    tool_count: int
    conversation_tokens: int = 0
    window_tokens: int = DEFAULT_WINDOW_TOKENS


class Decision(Record):
    """Whether tools wait until they are searched for, by which policy, and why."""

    lazy: bool
    policy: str
    reason: str


class Policy(Record):
    """A rule for loading tools; `policy(text)` reads one."""

    measure: str
    limit: float = 0

    def __str__(self) -> str:
        return _SPELLINGS[self.measure].format(limit=_spelled(self.limit))

    def decide(self, load: Load) -> Decision:
        """Eager or lazy for this load."""
        if self.measure in ("eager", "lazy"):
            return Decision(self.measure == "lazy", str(self), f"the policy is {self.measure}")
        measured, words = _MEASURES[self.measure](load, self.limit)
        lazy = measured > self.limit if self.measure in _ABOVE else measured >= self.limit
        unit = "" if self.measure in _ABOVE else " %"
        verdict = "over" if measured > self.limit else "at" if measured == self.limit else "under"
        return Decision(lazy, str(self), f"{words}, {verdict} the limit of {_spelled(self.limit, ',')}{unit}")


_ABOVE = frozenset({"count", "schema_tokens"})  # lazy above the limit; the shares of a window already at it
_SPELLINGS = {
    "eager": "eager",
    "lazy": "lazy",
    "definitions": "definitions>={limit}%",
    "conversation": "conversation>={limit}%",
    "count": "count>{limit}",
    "schema_tokens": "schema_tokens>{limit}",
}


def _definitions(load: Load, limit: float) -> tuple[float, str]:
    share, shown = _share(load.definition_tokens, load.window_tokens, limit)
    return share, f"the definitions are {load.definition_tokens:,} tokens, {shown}"


def _conversation(load: Load, limit: float) -> tuple[float, str]:
    share, shown = _share(load.conversation_tokens, load.window_tokens, limit)
    return share, f"the conversation is {load.conversation_tokens:,} tokens, {shown}"


def _count(load: Load, _: float) -> tuple[float, str]:
    verb = "is" if load.tool_count == 1 else "are"
    return load.tool_count, f"there {verb} {counted(load.tool_count, 'tool')}"


def _schema_tokens(load: Load, _: float) -> tuple[float, str]:
    return load.definition_tokens, f"the definitions are {load.definition_tokens:,} tokens"


_MEASURES = {
    "definitions": _definitions,
    "conversation": _conversation,
    "count": _count,
    "schema_tokens": _schema_tokens,
}


def _share(tokens: int, window_tokens: int, limit: float) -> tuple[float, str]:
    """How many per cent of the window, and that in words: 9.98 %, which is under 10 %, is not shown as 10.0 %."""
    share = 100 * tokens / max(window_tokens, 1)
    places = 1
    while f"{share:.{places}f}" == f"{limit:.{places}f}" and share != limit and places < 9:
        places += 1
    return share, f"{share:,.{places}f} % of the window"


def _spelled(limit: float, thousands: str = "") -> str:
    """A limit as `policy` reads it: all digits, and no more places than it has."""
    return f"{limit:{thousands}.{MAX_PLACES}f}".rstrip("0").rstrip(".")


_FORM = re.compile(
    r"(?P<measure>[a-z_]+)\s*(?:(?P<sign>>=|≥|>)\s*(?P<limit>[0-9]{1,12}(?:\.[0-9]{1,3})?)\s*(?P<unit>%?))?"
)


def policy(text: str) -> Policy:
    """Read `eager`, `lazy`, `definitions>=10%`, `conversation>=10%`, `count>40` or `schema_tokens>16000`."""
    form = _FORM.fullmatch(text.strip().casefold())
    if form and form["measure"] in _SPELLINGS:
        found = Policy(form["measure"], float(form["limit"] or 0))
        spelled = (form["sign"] or "").replace("≥", ">=") + "{limit}" * bool(form["limit"]) + (form["unit"] or "")
        if _SPELLINGS[found.measure] == found.measure + spelled:
            return found
    raise InputError(
        f"there is no policy {text[:60]!r}: use eager, lazy, definitions>=10%, conversation>=10%, count>40 or "
        "schema_tokens>16000, with a number of your own"
    )


DEFINITIONS = Policy("definitions", 10)  # what Claude Code compares by default in its automatic mode
