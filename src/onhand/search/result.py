"""The result of a search: the hits, why each was found, and notes for the caller."""

from __future__ import annotations

from onhand.document import Contribution
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from onhand.store.store import Excerpt


class Layer(Record):
    """The rank and the score of a hit in one layer of a search."""

    name: str  # "keyword" or "semantic"
    rank: int  # from 1
    score: float  # BM25 or cosine
    share: float  # of the fused score, from 0 to 1
    terms: tuple[Contribution, ...] = ()  # the matching terms, in the keyword layer


class Hit(Record):
    """A document that was found, and why."""

    document_id: str
    title: str
    author: str
    tags: tuple[str, ...]
    scope: str
    created_time: datetime | None
    kind: str
    source_path: str
    score: float  # BM25, cosine, or fused, from 0 to 1; 0 if nothing was scored
    layers: tuple[Layer, ...]
    text: str  # the beginning of the document
    query: str
    excerpt: Excerpt | None = None  # the passage nearest in meaning, if meaning was compared

    @property
    def lines(self) -> tuple[int, int] | None:
        """The first and the last line of the passage nearest in meaning, if meaning was compared."""
        return None if self.excerpt is None else self.excerpt.lines

    @property
    def matching_text(self) -> str:
        """The text that shows why the document was found: that passage, or the beginning if words say more."""
        shares = {layer.name: layer.share for layer in self.layers}
        by_meaning = shares.get("semantic", 0.0) >= shares.get("keyword", 0.0)
        return self.excerpt.text if self.excerpt is not None and by_meaning else self.text

    @property
    def terms(self) -> tuple[Contribution, ...]:
        """What each term adds to the keyword score, if the search was by keyword and explained."""
        return next((layer.terms for layer in self.layers if layer.name == "keyword"), ())

    @property
    def snippet(self) -> str:
        """The passage of the text that matches the query best, as plain text without markup."""
        from onhand.lexical.scoring import get_ranking
        from onhand.lexical.snippet import best_window

        return best_window(self.matching_text, self.query, get_ranking().tokenizer)


class SearchResult(Record):
    """The hits of a search. `reason` says why there are none, `notes` what the caller should know."""

    hits: tuple[Hit, ...]
    reason: str | None = None
    notes: tuple[str, ...] = ()  # for example, that only words were compared, because there is no embedder
    min_score: float | None = None  # the least cosine of a hit, if the search was by meaning
    total: int | None = None  # the number of all hits, if it is known
    more: bool = False  # whether further hits follow

    def __iter__(self) -> Iterator[Hit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)
