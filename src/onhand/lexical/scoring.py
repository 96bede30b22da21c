"""What is it worth that a document has a term? The BM25 family, with what it takes from all documents.

Every searcher scores by these lines, whether it has lists, files or numpy arrays; it knows neither where terms stand
nor which documents there are.

Sources: Robertson & Zaragoza 2009 (BM25, BM25F), Lv & Zhai 2011 (BM25+).
"""

from __future__ import annotations

from _operator import mul  # what `operator` has, without its Python part
from math import log

from onhand.document import Contribution
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from onhand.lexical.tokenizer import Tokenizer

# Different terms of a query from which on it is a text, whose repetitions tell what it is about: half or twice as many
# rank public sets alike (benchmarks/quality.py).
A_TEXT = 64


class Formula(Record):
    """The constants of BM25."""

    k1: float  # how soon more occurrences of a term stop counting
    b: float  # how far a long document is held against it: 0 not at all, 1 in full
    delta: float = 0.0  # what a term is worth for being there at all (BM25+)


BM25 = Formula(k1=1.5, b=0.75)
BM25_PLUS = Formula(k1=1.2, b=0.75, delta=1.0)


class Scoring(Record):
    """The formula, with what it takes from all documents. Lengths and frequencies may be floats or numpy arrays; the
    operations and their order are the same for both."""

    formula: Formula
    per_field_length: bool
    weights: tuple[float, ...]  # of the fields
    alone: tuple[float, ...]  # what each field counts by itself, beside its part in the whole
    totals: tuple[float, ...]  # how many words each field has in all documents
    documents: int

    def idf(self, having: int) -> float:
        """How much a term tells: the fewer documents have it, the more."""
        return log(1 + (self.documents - having + 0.5) / (having + 0.5))

    def weight(self, field: int, length: Any) -> Any:
        """What one occurrence in a field of that length counts."""
        if not self.per_field_length:
            return self.weights[field]
        b = self.formula.b
        return self.weights[field] / (1 - b + b * (length / (self.totals[field] / self.documents or 1.0)))

    def norm(self, lengths: Sequence[Any]) -> Any:
        """What a term's weighted frequency is measured against in a document with fields of those lengths."""
        k1, b, _ = self.formula
        if self.per_field_length:
            return k1
        average = sum(map(mul, self.weights, self.totals)) / self.documents or 1.0
        return k1 * (1 - b + b * (sum(map(mul, self.weights, lengths)) / average))

    def gain(self, frequency: Any, norm: Any) -> Any:
        """How much a weighted frequency counts: the more, the less each further occurrence adds."""
        return frequency * (self.formula.k1 + 1) / (frequency + norm)

    def score(self, frequency: Any, norm: Any, idf: float, alone: Any = 0.0) -> Any:
        """What a term with that weighted frequency adds; `alone` is what its fields count by themselves."""
        return idf * (self.gain(frequency, norm) + (alone + self.formula.delta))

    def share(self, field: int, own: Any, frequency: Any, norm: Any, idf: float) -> Any:
        """What a field has of a term's score, if it has `own` of the weighted frequency."""
        whole = (self.gain(frequency, norm) + self.formula.delta) * (own / frequency)
        return idf * (whole + self.alone[field] * self.gain(own, norm))


def largest_first(contributions: Iterable[Contribution]) -> tuple[Contribution, ...]:
    """Contributions in the order in which a hit has them."""
    return tuple(sorted(contributions, key=lambda one: (-one.score, one.term, one.field)))


def query_weights(tokenizer: Tokenizer, query: str, count_repeats: bool = False) -> dict[str, float]:
    """The terms of a query and what each weighs. A question says a word twice by chance, so each counts once; the
    further it goes beyond A_TEXT different terms, the more nearly a word counts as often as it is said."""
    most: dict[str, float] = {}
    said: dict[str, float] = {}
    for term, weight in tokenizer.query_terms(query):
        most[term] = max(most.get(term, 0.0), weight)
        said[term] = said.get(term, 0.0) + weight
    if count_repeats:
        return said
    if len(most) <= A_TEXT:
        return most
    telling = 1 - A_TEXT / len(most)
    return {term: weight * (said[term] / weight) ** telling for term, weight in most.items()}
