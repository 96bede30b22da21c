"""Forecast what a catalog would cost in tokens, loaded at once or found as needed, by opening a session and searching.

The searches use the descriptions of tools spread evenly over the catalog, so the answers have realistic sizes and are
the same every time. Nothing is printed.
"""

import json
from collections.abc import Sequence

from onhand.record import Record
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.loading import (
    DEFAULT_POLICY,
    DEFAULT_WINDOW_TOKENS,
    ESTIMATE,
    LoadingDecision,
    LoadingPolicy,
    TokenCounter,
    break_even,
)
from onhand.tools.search_tools import DEFAULT_LIMIT, render_search
from onhand.tools.session import Session

SEARCHES = 20  # enough that the mean moves by a few per cent at most
QUERY_CHARS = 80


class Forecast(Record):
    """Both ways of loading, in tokens of one request."""

    tools: int
    servers: int
    eager_tokens: int
    lazy_tokens: int
    search_tokens: int  # of a search's answer, on average
    schema_tokens: int  # of the definitions that a search loads, on average
    break_even_searches: int | None
    stable_bytes: int  # at the head of every request, equal until the catalog changes
    decision: LoadingDecision  # of the policy that was asked about
    tokenizer: str
    error: str
    output_schema_tokens: int = 0  # of what tools say of their answers: no provider is sent it, a host may show it
    of_servers: int = 0  # tools that are a server's
    left_out: int = 0  # tools of a name that no model can call, or that a tool of ours has

    @property
    def saved_tokens(self) -> int:
        """How much less a request has at the first turn."""
        return self.eager_tokens - self.lazy_tokens

    @property
    def saved_share(self) -> float:
        """The same as a share of eager loading, from 0 to 1; below 0 where the index costs more than it saves."""
        return self.saved_tokens / self.eager_tokens if self.eager_tokens else 0.0


def forecast(
    catalog: Catalog,
    policy: LoadingPolicy = DEFAULT_POLICY,
    window_tokens: int = DEFAULT_WINDOW_TOKENS,
    tokenizer: TokenCounter = ESTIMATE,
    conversation_tokens: int = 0,
) -> Forecast:
    """Return what this catalog costs and what the policy would decide at that point; nothing is changed."""
    asked = Session(catalog, policy=policy, window_tokens=window_tokens, essentials=(), hidden=(), tokenizer=tokenizer)
    asked.begin_turn(conversation_tokens)
    session = asked.child(mode="all", state=None)
    section = session.begin_turn()
    balance = session.balance()
    answers, schemas = _mean_search_tokens(session, tokenizer)
    return Forecast(
        len(session.deferred()),
        len(session.servers()),
        balance.eager_tokens,
        balance.first_tokens,
        round(answers),
        round(schemas),
        break_even(balance.eager_tokens, balance.first_tokens, answers + schemas),
        len(section.head.encode()),
        asked.decision,
        tokenizer.name,
        tokenizer.error,
        sum(_output_tokens(tool, tokenizer) for tool in session.deferred()),
        sum(server.tools for server in session.servers()),
        len(catalog) - len(session.deferred()),
    )


def _output_tokens(tool: CatalogTool, tokenizer: TokenCounter) -> int:
    if not tool.output_schema:
        return 0
    return tokenizer.tokens(json.dumps(tool.output_schema, ensure_ascii=False, separators=(",", ":")))


def _mean_search_tokens(session: Session, tokenizer: TokenCounter) -> tuple[float, float]:
    """Return the mean cost of an answer and of the definitions that it loads; each search starts from scratch."""
    tools = [tool for tool in session.deferred() if any(map(str.isalnum, _query(tool)))]
    asked = tools[:: max(len(tools) // SEARCHES, 1)][:SEARCHES]
    answers = 0
    for tool in asked:
        answers += tokenizer.tokens(render_search(session.search(_query(tool), DEFAULT_LIMIT), session))
        session.deactivate([active.id for active in session.active()])
    return answers / max(len(asked), 1), session.balance().spent["schema"] / max(len(asked), 1)


def _query(tool: CatalogTool) -> str:
    words: Sequence[str] = (tool.description or tool.leaf)[: 4 * QUERY_CHARS].split()
    return " ".join(words)[:QUERY_CHARS].strip()
