"""What was found, why, and what was not looked at?"""

from __future__ import annotations

from onhand.document import Contribution
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


class Layer(Record):
    """How one way of searching saw a hit."""

    name: str  # "keyword" or "semantic"
    rank: int  # from 1
    score: float  # as that way of searching counts it: BM25, cosine
    share: float  # from 0 to 1: what was fused
    terms: tuple[Contribution, ...] = ()  # which words matched, of keyword


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
    score: float  # BM25, cosine, or what was fused, from 0 to 1; 0 where nothing was scored
    layers: tuple[Layer, ...]
    text: str  # the beginning of the document, which the snippet is cut from
    query: str

    @property
    def terms(self) -> tuple[Contribution, ...]:
        """What each word added, where words were compared and that was explained."""
        return next((layer.terms for layer in self.layers if layer.name == "keyword"), ())

    @property
    def snippet(self) -> str:
        """The stretch of the text that shows best why it was found: plain text, never markup."""
        from onhand.lexical.scoring import get_ranking
        from onhand.lexical.snippet import best_window

        return best_window(self.text, self.query, get_ranking().tokenizer)


class Result(Record):
    """The hits of one search; `reason` says why there are none, `notes` what the searcher should know."""

    hits: tuple[Hit, ...]
    reason: str | None = None
    notes: tuple[str, ...] = ()  # such as: there is no embedder, so only words were compared
    min_score: float | None = None  # the cosine that was asked of a hit, where meaning was compared
    total: int | None = None  # how many there are in all, where that is known
    more: bool = False  # whether there are hits behind these

    def __iter__(self) -> Iterator[Hit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)
