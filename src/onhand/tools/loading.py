"""Count what tools cost in tokens, and decide whether they are loaded at once or when they are needed.

`TokenCounter` counts, `LoadingPolicy` decides and gives the reason, `LoadingMode` applies the decision over a
conversation, and `Ledger` records the costs. Every request sends the whole prompt again, so the text in it is paid for
in every request, and a search result in every request after it.
"""

import re
from collections.abc import Callable

from onhand.errors import InputError
from onhand.record import Record
from onhand.text import quantity

BYTES_PER_TOKEN = 4  # of UTF-8; within about 5 % of common vocabularies for English prose


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a prose text, rounded up. This is cheap and never decreases with the length."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


class TokenCounter(Record):
    """A way to count tokens, and how far its counts may differ from those that a provider bills."""

    name: str
    tokens: Callable[[str], int]
    error: str


# The tokens per piece of text, fitted by least squares to the vocabularies o200k, cl100k and the one that Anthropic
# once published, for names, indexes, descriptions and compact definitions of five public tool sets. A quarter of the
# bytes would be 19 % too many for compact JSON and 27 % too few for lists of identifiers.
_WORD = 0.88
_LETTER_BEYOND_SIX = 0.11
_DIGITS = 0.66  # a group of up to three digits
_PUNCTUATION = 1.1  # a run of it, since vocabularies have tokens such as `":{"`
_PUNCTUATION_BEYOND_ONE = 0.07
_BYTE_BEYOND_ASCII = 0.27
_SPACE = 1.5  # any but a single blank, which is part of the next word


def piecewise_tokens(text: str) -> int:
    """Estimate the tokens of a text of identifiers, JSON and descriptions."""
    words = len(re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text))
    long = re.findall(r"[A-Z]?[a-z]{7,}|[A-Z]{7,}", text)
    marks = re.findall(r"[!-/:-@\[-`{-~]+", text)
    spaces = len(re.findall(r"\s{2,}|[\n\r\t\f\v]", text))
    beyond_ascii = 0 if text.isascii() else len(text.encode("utf-8", "replace")) - sum(map(str.isascii, text))
    return round(
        _WORD * words
        + _LETTER_BEYOND_SIX * (sum(map(len, long)) - 6 * len(long))
        + _DIGITS * len(re.findall(r"[0-9]{1,3}", text))
        + _PUNCTUATION * len(marks)
        + _PUNCTUATION_BEYOND_ONE * (sum(map(len, marks)) - len(marks))
        + _BYTE_BEYOND_ASCII * beyond_ascii
        + _SPACE * spaces
    )


ESTIMATE = TokenCounter(
    "estimate",
    piecewise_tokens,
    "within 12 % of o200k, cl100k and Anthropic's published vocabulary for definitions of a hundred tools, and within "
    "a third for plain lists of names; the newest vocabularies may count up to 2.7 times as many tokens, for "
    "definitions and index alike",
)


def open_token_counter(name: str) -> TokenCounter:
    """Return the estimate, or an exact counter: `tiktoken:NAME` or `tokenizers:FILE`, from packages that you install.

    Neither package contains a vocabulary. tiktoken downloads it unless TIKTOKEN_CACHE_DIR has it; tokenizers reads the
    tokenizer.json that comes with most open models.
    """
    kind, _, which = name.partition(":")
    if name == ESTIMATE.name:
        return ESTIMATE
    if kind not in _EXACT or not which:
        raise InputError(f"there is no tokenizer '{name}': use estimate, tiktoken:NAME or tokenizers:FILE")
    try:
        return TokenCounter(name, _EXACT[kind](which), "exact for this vocabulary")
    except ImportError:
        raise InputError(f"the tokenizer '{name}' needs a package: pip install {kind}; or use estimate") from None
    except Exception as error:  # each package raises its own errors: unknown name, missing file, no network
        raise InputError(
            f"the tokenizer '{name}' cannot be opened ({type(error).__name__}): check its name, and that its "
            "vocabulary is on this machine; or use estimate"
        ) from None


def _open_tiktoken(which: str) -> Callable[[str], int]:
    from importlib import import_module

    encoding = import_module("tiktoken").get_encoding(which)
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def _open_tokenizers(which: str) -> Callable[[str], int]:
    from importlib import import_module

    model = import_module("tokenizers").Tokenizer.from_file(which)
    return lambda text: len(model.encode(text, add_special_tokens=False).ids)


_EXACT = {"tiktoken": _open_tiktoken, "tokenizers": _open_tokenizers}

DEFAULT_WINDOW_TOKENS = 200_000
MAX_PLACES = 3  # decimals of a limit: with twelve digits before the point, a float has no more


class ToolLoad(Record):
    """The cost of what could be loaded, and the size of the window."""

    definition_tokens: int  # of the tools that may be deferred
    tool_count: int
    conversation_tokens: int = 0
    window_tokens: int = DEFAULT_WINDOW_TOKENS


class LoadingDecision(Record):
    """Whether tools are loaded lazily, by which policy, and why."""

    lazy: bool
    policy: str
    reason: str


class LoadingPolicy(Record):
    """A rule that decides how tools are loaded; `parse_policy` reads one."""

    measure: str
    limit: float = 0

    def __str__(self) -> str:
        return _SPELLINGS[self.measure].format(limit=_format_limit(self.limit))

    def decide(self, load: ToolLoad) -> LoadingDecision:
        """Decide whether to load eagerly or lazily."""
        if self.measure in ("eager", "lazy"):
            return LoadingDecision(self.measure == "lazy", str(self), f"the policy is {self.measure}")
        measured, words = _MEASURES[self.measure](load, self.limit)
        lazy = measured > self.limit if self.measure in _ABOVE else measured >= self.limit
        unit = "" if self.measure in _ABOVE else " %"
        verdict = "over" if measured > self.limit else "at" if measured == self.limit else "under"
        return LoadingDecision(
            lazy, str(self), f"{words}, {verdict} the limit of {_format_limit(self.limit, ',')}{unit}"
        )


_ABOVE = frozenset({"count", "schema_tokens"})  # these are lazy above the limit, the shares of the window also at it
_SPELLINGS = {
    "eager": "eager",
    "lazy": "lazy",
    "definitions": "definitions>={limit}%",
    "conversation": "conversation>={limit}%",
    "count": "count>{limit}",
    "schema_tokens": "schema_tokens>{limit}",
}


def _measure_definitions(load: ToolLoad, limit: float) -> tuple[float, str]:
    share, text = _share(load.definition_tokens, load.window_tokens, limit)
    return share, f"the definitions are {load.definition_tokens:,} tokens, {text}"


def _measure_conversation(load: ToolLoad, limit: float) -> tuple[float, str]:
    share, text = _share(load.conversation_tokens, load.window_tokens, limit)
    return share, f"the conversation is {load.conversation_tokens:,} tokens, {text}"


def _measure_count(load: ToolLoad, _: float) -> tuple[float, str]:
    verb = "is" if load.tool_count == 1 else "are"
    return load.tool_count, f"there {verb} {quantity(load.tool_count, 'tool')}"


def _measure_schema_tokens(load: ToolLoad, _: float) -> tuple[float, str]:
    return load.definition_tokens, f"the definitions are {load.definition_tokens:,} tokens"


_MEASURES = {
    "definitions": _measure_definitions,
    "conversation": _measure_conversation,
    "count": _measure_count,
    "schema_tokens": _measure_schema_tokens,
}


def _share(tokens: int, window_tokens: int, limit: float) -> tuple[float, str]:
    """Return the percentage of the window, and its text with enough decimals to differ from the limit."""
    share = 100 * tokens / max(window_tokens, 1)
    places = 1
    while f"{share:.{places}f}" == f"{limit:.{places}f}" and share != limit and places < 9:
        places += 1
    return share, f"{share:,.{places}f} % of the window"


def _format_limit(limit: float, thousands: str = "") -> str:
    """Return a limit as `parse_policy` reads it, without trailing zeros."""
    return f"{limit:{thousands}.{MAX_PLACES}f}".rstrip("0").rstrip(".")


_FORM = re.compile(
    r"(?P<measure>[a-z_]+)\s*(?:(?P<sign>>=|≥|>)\s*(?P<limit>[0-9]{1,12}(?:\.[0-9]{1,3})?)\s*(?P<unit>%?))?"
)


def parse_policy(text: str) -> LoadingPolicy:
    """Read `eager`, `lazy`, `definitions>=10%`, `conversation>=10%`, `count>40` or `schema_tokens>16000`."""
    form = _FORM.fullmatch(text.strip().casefold())
    if form and form["measure"] in _SPELLINGS:
        policy = LoadingPolicy(form["measure"], float(form["limit"] or 0))
        comparison = (form["sign"] or "").replace("≥", ">=") + "{limit}" * bool(form["limit"]) + (form["unit"] or "")
        if _SPELLINGS[policy.measure] == policy.measure + comparison:
            return policy
    raise InputError(
        f"there is no policy {text[:60]!r}: use eager, lazy, definitions>=10%, conversation>=10%, count>40 or "
        "schema_tokens>16000, with any number"
    )


DEFAULT_POLICY = LoadingPolicy("definitions", 10)  # the default of Claude Code's automatic mode

MODES = ("off", "mcp-only", "all")  # each defers more than the one before it


class LoadingMode:
    """The mode of a session. With `auto`, a policy decides once; later the mode may defer more, but never less."""

    def __init__(self, mode: str, policy: LoadingPolicy) -> None:
        self.is_auto = mode == "auto"
        self.current: str | None = None if self.is_auto else mode
        self.decision = LoadingDecision(mode != "off", f"mode={mode}", f"the mode is {mode}")
        self._policy = policy
        self._loads: tuple[ToolLoad, ...] = ()  # of all tools that may be deferred, and of those that are not MCP tools

    def resume(self, mode: str) -> None:
        """Continue in the mode of an earlier session if the mode is automatic."""
        if self.is_auto:
            self.current = mode
            self.decision = LoadingDecision(mode != "off", "resumed", f"the session began in mode {mode}")

    def measure(self, everything: ToolLoad, without_mcp: ToolLoad) -> None:
        """Record the cost of what could be loaded, and decide unless that has been done."""
        self._loads = everything, without_mcp
        if self.current is None:
            self.current, self.decision = self._decide(0)

    def reconsider(self, conversation_tokens: int) -> bool:
        """Decide again at the start of a turn; return whether more tools are deferred from now on."""
        if not self.is_auto or self.current == MODES[-1]:
            return False
        mode, decision = self._decide(conversation_tokens)
        defers_more = MODES.index(mode) > MODES.index(self.current or "off")
        if defers_more or mode == self.current:
            self.current, self.decision = mode, decision
        return defers_more

    def _decide(self, conversation_tokens: int) -> tuple[str, LoadingDecision]:
        """Return the mode that defers as little as possible while the rest stays within the limit of the policy."""
        everything, without_mcp = (
            self._policy.decide(load._replace(conversation_tokens=conversation_tokens)) for load in self._loads
        )
        if not everything.lazy:
            return "off", everything
        return ("all" if without_mcp.lazy else "mcp-only"), everything


KINDS = ("search", "schema", "describe", "retry")


class LedgerEntry(Record):
    """A text that entered the conversation: a search result, a definition, or the answer to a wrong call."""

    kind: str
    name: str
    tokens: int


class LedgerTurn(Record):
    """The size of the tools' part of one request, and of the prefix that it shares with the request before."""

    tokens: int
    stable_tokens: int  # of the shared prefix, which a prompt cache can serve
    stable_bytes: int


class Balance(Record):
    """The cost of eager loading compared with the actual cost, in tokens."""

    eager_tokens: int  # the definitions of all tools, in every request
    first_tokens: int  # of the tools' part of the first request
    spent: dict[str, int]  # by kind, on what entered the conversation
    searches: int
    turns: int
    stable_share: float  # the share of the tools' part of later requests that a prompt cache can serve
    break_even_searches: int | None  # the number of searches after which eager loading would be cheaper

    @property
    def saved_share(self) -> float:
        """The saving of the first request as a share of eager loading, from 0 to 1."""
        return 1 - self.first_tokens / self.eager_tokens if self.eager_tokens else 0.0


class Ledger:
    """Records the costs of one session. Not thread-safe: its owner holds a lock."""

    def __init__(self, tokenizer: TokenCounter = ESTIMATE) -> None:
        self.tokenizer = tokenizer
        self.entries: list[LedgerEntry] = []
        self.turns: list[LedgerTurn] = []
        self._last = ""

    def enter(self, kind: str, name: str, text: str) -> LedgerEntry:
        """Record a text that a search, a description or a corrected call put into the conversation."""
        entry = LedgerEntry(kind, name, self.tokenizer.tokens(text))
        self.entries.append(entry)
        return entry

    def turn(self, prompt: str) -> LedgerTurn:
        """Record the tools' part of a request."""
        if prompt == self._last and self.turns:  # the usual case, without counting again
            turn = self.turns[-1]._replace(stable_tokens=self.turns[-1].tokens, stable_bytes=len(prompt.encode()))
        else:
            stable = prompt[: _common_prefix_chars(self._last, prompt)]
            count = self.tokenizer.tokens
            turn = LedgerTurn(count(prompt), count(stable) if stable else 0, len(stable.encode("utf-8", "replace")))
        self.turns.append(turn)
        self._last = prompt
        return turn

    def balance(self, eager_tokens: int) -> Balance:
        """Compare the actual cost with that of loading all tools for `eager_tokens`."""
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


def _common_prefix_chars(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def break_even(eager_tokens: int, lazy_tokens: int, tokens_per_search: float) -> int | None:
    """Return how many searches cost as much as a prompt without definitions saves; None if they cost nothing."""
    if tokens_per_search <= 0:
        return None
    return max(int((eager_tokens - lazy_tokens) / tokens_per_search), 0)
