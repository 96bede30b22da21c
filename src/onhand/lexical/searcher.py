"""Which documents of some segments match these words best? Postings are fetched when a query asks for their term.

Scores are those of LexicalIndex over the same documents, to the last bit. A searcher is one moment of an index: after
a change there is another. Not safe for concurrent use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from onhand.document import Contribution, Filter, microseconds
from onhand.lexical.ranking import Ranking
from onhand.lexical.scoring import Scoring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    # kind, term → size and data of the posting of each segment that has the term, in the order of the segments
    Fetch = Callable[[int, str], Sequence[tuple[int, bytes]]]

    class Searcher(Protocol):
        """What both ways of searching can do."""

        documents: int
        last_slot: int

        def search(self, query: str, limit: int, allowed: Any = None) -> list[tuple[int, float]]:
            """Slots and scores of the best matches, and of all that are as good as the last of them; best first."""

        def explain(self, query: str, slots: Sequence[int]) -> list[tuple[Contribution, ...]]:
            """What each term in each field added to the scores of these documents."""

        def telling(self, query: str, slot: int) -> dict[str, tuple[float, bool]]:
            """How much each term of a query tells, and whether a document has it; one that none has tells most."""

        def allowed(self, filter: Filter) -> Any:
            """The documents that a filter lets through, for `search`."""

        def among(self, allowed: Any, slots: Iterable[int]) -> Any:
            """Only those of some allowed documents (None: all) that are among these slots."""

        def count(self, allowed: Any) -> int:
            """How many documents are allowed."""

        def slots(self, allowed: Any) -> Any:
            """The slots of the documents that are allowed, ascending."""

        def gone(self) -> Any:
            """The slots up to the last in which there is no document, ascending."""


def scoring_of(ranks: Ranking, totals: Iterable[float], documents: int) -> Scoring:
    """The formula over so many documents."""
    weights = tuple(ranks.fields.values())
    alone = tuple(ranks.alone.get(name, 0.0) for name in ranks.fields)
    return Scoring(ranks.formula, ranks.per_field_length, weights, alone, tuple(totals), documents)


def time_bounds(filter: Filter) -> tuple[int | None, int | None]:
    """From when on and until when a filter lets documents through, in microseconds."""
    after, before = filter.created_after, filter.created_before
    return None if after is None else microseconds(after), None if before is None else microseconds(before)
