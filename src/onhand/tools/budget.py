"""When are tools loaded: all of them before the first turn, or each when it is needed? A policy decides, and says why.

It knows numbers, but no tool and no prompt. What a text costs is for `tokens`, what was spent for `ledger`.
"""

import re

from onhand.errors import InputError
from onhand.record import Record

DEFAULT_WINDOW_TOKENS = 200_000


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
        spelling = _SPELLINGS[self.measure]
        return spelling.format(limit=f"{self.limit:g}")

    def decide(self, load: Load) -> Decision:
        """Eager or lazy for this load."""
        if self.measure in ("eager", "lazy"):
            return Decision(self.measure == "lazy", str(self), f"the policy is {self.measure}")
        measured, words = _MEASURES[self.measure](load)
        lazy = measured > self.limit if self.measure in _ABOVE else measured >= self.limit
        unit = "" if self.measure in _ABOVE else " %"
        verdict = "over" if lazy else "under"
        return Decision(lazy, str(self), f"{words}, {verdict} the limit of {self.limit:g}{unit}")


_ABOVE = frozenset({"count", "schema_tokens"})  # lazy above the limit; the shares of a window already at it
_SPELLINGS = {
    "eager": "eager",
    "lazy": "lazy",
    "definitions": "definitions>={limit}%",
    "conversation": "conversation>={limit}%",
    "count": "count>{limit}",
    "schema_tokens": "schema_tokens>{limit}",
}


def _definitions(load: Load) -> tuple[float, str]:
    share = _share(load.definition_tokens, load.window_tokens)
    return share, f"the definitions are {load.definition_tokens:,} tokens, {share:.1f} % of the window"


def _conversation(load: Load) -> tuple[float, str]:
    share = _share(load.conversation_tokens, load.window_tokens)
    return share, f"the conversation is {load.conversation_tokens:,} tokens, {share:.1f} % of the window"


def _count(load: Load) -> tuple[float, str]:
    return load.tool_count, f"there are {load.tool_count:,} tools"


def _schema_tokens(load: Load) -> tuple[float, str]:
    return load.definition_tokens, f"the definitions are {load.definition_tokens:,} tokens"


_MEASURES = {
    "definitions": _definitions,
    "conversation": _conversation,
    "count": _count,
    "schema_tokens": _schema_tokens,
}


def _share(tokens: int, window_tokens: int) -> float:
    return 100 * tokens / max(window_tokens, 1)


_FORM = re.compile(
    r"(?P<measure>[a-z_]+)\s*(?:(?P<sign>>=|≥|>)\s*(?P<limit>[0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(?P<unit>%?))?"
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
