"""What did finding tools cost, and what would loading all of them have cost? Every token has an entry.

It counts what it is given: it knows neither sessions nor providers. A request sends its whole prompt again, so what
stands in a prompt is paid in every request, and what a search answers is paid from then on.
"""

from onhand.record import Record
from onhand.tools.tokens import ESTIMATE, Tokenizer

KINDS = ("search", "schema", "describe", "retry")


class Entry(Record):
    """Something that entered the conversation: an answer to a search, a definition, an error that was answered."""

    kind: str
    name: str
    tokens: int


class Turn(Record):
    """The tools' part of one request: how much of it there was, and how much was as it had been."""

    tokens: int
    stable_tokens: int  # at the beginning, equal to the request before: what a prompt cache can give back
    stable_bytes: int


class Balance(Record):
    """Eager loading beside what was done, in tokens."""

    eager_tokens: int  # the definitions of all tools, in every request
    first_tokens: int  # what the first request had instead
    spent: dict[str, int]  # by kind, what entered the conversation
    searches: int
    turns: int
    stable_share: float  # of what requests after the first had in them of tools, the part that a cache can give back
    break_even_searches: int | None  # after so many searches like these, loading all would have been cheaper

    @property
    def saved_share(self) -> float:
        """How much less than eager loading the first request had, from 0 to 1."""
        return 1 - self.first_tokens / self.eager_tokens if self.eager_tokens else 0.0


class Ledger:
    """Keeps count over one session. Not safe between threads: its owner holds a lock."""

    def __init__(self, tokenizer: Tokenizer = ESTIMATE) -> None:
        self.tokenizer = tokenizer
        self.entries: list[Entry] = []
        self.turns: list[Turn] = []
        self._last = ""

    def enter(self, kind: str, name: str, text: str) -> Entry:
        """Note what a search, a description or a mended call put into the conversation."""
        entry = Entry(kind, name, self.tokenizer.tokens(text))
        self.entries.append(entry)
        return entry

    def turn(self, prompt: str) -> Turn:
        """Note the tools' part of a request, as the bytes that are sent."""
        if prompt == self._last and self.turns:  # the usual case costs no count
            turn = self.turns[-1]._replace(stable_tokens=self.turns[-1].tokens, stable_bytes=len(prompt.encode()))
        else:
            stable = prompt[: _common_chars(self._last, prompt)]
            count = self.tokenizer.tokens
            turn = Turn(count(prompt), count(stable) if stable else 0, len(stable.encode("utf-8", "replace")))
        self.turns.append(turn)
        self._last = prompt
        return turn

    def balance(self, eager_tokens: int) -> Balance:
        """What it came to, against loading all tools for so many tokens."""
        spent = {kind: sum(entry.tokens for entry in self.entries if entry.kind == kind) for kind in KINDS}
        searches = sum(entry.kind == "search" for entry in self.entries)
        first = self.turns[0].tokens if self.turns else 0
        later = self.turns[1:]
        sent = sum(turn.tokens for turn in later)
        return Balance(
            eager_tokens,
            first,
            spent,
            searches,
            len(self.turns),
            sum(turn.stable_tokens for turn in later) / sent if sent else 1.0,
            break_even(eager_tokens, first, sum(spent.values()) / searches) if searches else None,
        )


def _common_chars(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def break_even(eager_tokens: int, lazy_tokens: int, tokens_per_search: float) -> int | None:
    """How many searches use up what a prompt without the definitions saves; None when nothing is used up."""
    if tokens_per_search <= 0:
        return None
    return max(int((eager_tokens - lazy_tokens) / tokens_per_search), 0)
