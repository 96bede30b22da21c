"""Rankings and scores: the BM25 family, and the settings with which an index uses it.

Both searchers compute scores here, on floats or on numpy arrays. Nothing here knows where terms occur.

Sources: Robertson & Zaragoza 2009 (BM25, BM25F), Lv & Zhai 2011 (BM25+).
"""

from __future__ import annotations

from _operator import mul  # what `operator` exports, without its Python part
from math import inf, log

from onhand.document import Contribution, to_microseconds
from onhand.errors import InputError
from onhand.lexical.tokenizer import FUNCTION_WORDS, IdentifierTokenizer, PlainTokenizer
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from onhand.document import Filter
    from onhand.lexical.tokenizer import Tokenizer

# A query with more different terms is treated as a text, in which repeated words matter. With twice as many, abstracts
# are ranked worse by two points, and no public data set better by more than noise (benchmarks/quality.py).
MAX_QUESTION_TERMS = 32


class Formula(Record):
    """The constants of BM25."""

    k1: float  # how slowly further occurrences of a term saturate
    b: float  # length normalization: 0 none, 1 full
    delta: float = 0.0  # a constant for every matching term (BM25+)


BM25 = Formula(k1=1.5, b=0.75)
# A document answers a question by having all of its words; that it repeats one of them says less. Whichever public data
# set is left out, this k1 is the best of 0.6 to 1.5 on the others (benchmarks/quality.py).
EARLY_SATURATION = Formula(k1=0.8, b=0.75)
BM25_PLUS = Formula(k1=1.2, b=0.75, delta=1.0)


class Scoring(Record):
    """The formula with the statistics of all documents.

    Lengths and frequencies may be floats or numpy arrays; the operations and their order are the same for both.
    """

    formula: Formula
    per_field_length: bool
    weights: tuple[float, ...]  # of the fields
    alone: tuple[float, ...]  # how much each field also counts by itself
    totals: tuple[float, ...]  # the number of words of each field in all documents
    documents: int

    def idf(self, having: int) -> float:
        """Return the inverse document frequency of a term that `having` documents have."""
        return log(1 + (self.documents - having + 0.5) / (having + 0.5))

    def weight(self, field: int, length: Any) -> Any:
        """Return the weight of one occurrence in a field of this length."""
        if not self.per_field_length:
            return self.weights[field]
        b = self.formula.b
        return self.weights[field] / (1 - b + b * (length / (self.totals[field] / self.documents or 1.0)))

    def norm(self, lengths: Sequence[Any]) -> Any:
        """Return the length norm of a document with fields of these lengths."""
        k1, b, _ = self.formula
        if self.per_field_length:
            return k1
        average = sum(map(mul, self.weights, self.totals)) / self.documents or 1.0
        return k1 * (1 - b + b * (sum(map(mul, self.weights, lengths)) / average))

    def gain(self, frequency: Any, norm: Any) -> Any:
        """Return the saturated value of a weighted frequency."""
        return frequency * (self.formula.k1 + 1) / (frequency + norm)

    def score(self, frequency: Any, norm: Any, idf: float, alone: Any = None) -> Any:
        """Return the score of a term with this weighted frequency; `alone` is what its fields count by themselves."""
        gain = self.gain(frequency, norm)
        if alone is not None:
            gain = gain + alone
        if self.formula.delta:
            gain = gain + self.formula.delta
        return idf * gain

    def share(self, field: int, own: Any, frequency: Any, norm: Any, idf: float) -> Any:
        """Return the part of a term's score that a field with the weighted frequency `own` contributes."""
        whole = (self.gain(frequency, norm) + self.formula.delta) * (own / frequency)
        return idf * (whole + self.alone[field] * self.gain(own, norm))


def scoring_of(ranking: Ranking, totals: Iterable[float], documents: int) -> Scoring:
    """Return the scoring of a ranking for an index with this many documents and words in each field."""
    weights = tuple(ranking.fields.values())
    alone = tuple(ranking.alone.get(name, 0.0) for name in ranking.fields)
    return Scoring(ranking.formula, ranking.per_field_length, weights, alone, tuple(totals), documents)


def time_bounds(filter: Filter) -> tuple[int | None, int | None]:
    """Return the earliest and the first excluded time of a filter, in microseconds since 1970."""
    after, before = filter.created_after, filter.created_before
    return None if after is None else to_microseconds(after), None if before is None else to_microseconds(before)


def largest_first(contributions: Iterable[Contribution]) -> tuple[Contribution, ...]:
    """Sort contributions by descending score, then by term and field."""
    return tuple(sorted(contributions, key=lambda one: (-one.score, one.term, one.field)))


def query_weights(tokenizer: Tokenizer, query: str, count_repeats: bool = False) -> dict[str, float]:
    """Return the terms of a query and their weights.

    A question repeats a word by chance, so each word counts once. The more different terms a query has beyond
    MAX_QUESTION_TERMS, the more nearly a word counts as often as it occurs.
    """
    terms = tokenizer.query_terms(query)
    largest: dict[str, float] = {}
    for term, weight in terms:
        if weight > largest.get(term, 0.0):
            largest[term] = weight
    if len(largest) <= MAX_QUESTION_TERMS and not count_repeats:
        return largest
    total: dict[str, float] = {}
    for term, weight in terms:
        total[term] = total.get(term, 0.0) + weight
    if count_repeats:
        return total
    exponent = 1 - MAX_QUESTION_TERMS / len(largest)
    return {term: weight * (total[term] / weight) ** exponent for term, weight in largest.items()}


DOCUMENT_FIELDS = ("title", "text")  # all other fields of a ranking are in the metadata of a document


class Ranking(Record):
    """A tokenizer, the weights of the fields, and the formula.

    The fields "title" and "text" are those of a document. Any other field is taken from its metadata["fields"], or
    from what `fields_of` returns for its metadata, when the document is indexed.
    """

    name: str  # changes with anything that affects the terms of an index, so that files are re-indexed
    tokenizer: Tokenizer
    fields: Mapping[str, float]
    formula: Formula = BM25
    per_field_length: bool = False
    alone: Mapping[str, float] = {}
    count_repeats: bool = False
    fields_of: Callable[[Mapping[str, Any]], Any] | None = None
    reading: Mapping[
        str, Callable[[str], list[str]]
    ] = {}  # field → the function that splits its text, if not the tokenizer

    def check(self) -> None:
        """Raise InputError if a weight is not usable."""
        for name, weight in self.fields.items():
            alone = self.alone.get(name, 0.0)
            if not 0 < weight < inf:
                raise InputError(
                    f"The weight of field {name!r} must be above 0, not {weight!r}. To ignore the field, leave it out."
                )
            if not 0 <= alone < inf:
                raise InputError(f"The weight of field {name!r} alone must be at least 0, not {alone!r}.")

    def most_per_word(self, documents: int) -> float:
        """Return the most that a word can add to a score in one field: it is rare, and often repeated."""
        return (self.formula.k1 + 1) * log(documents + 2)

    def readers(self) -> list[Callable[[str], list[str]]]:
        """Return for each field the function that splits its text into words."""
        return [self.reading.get(name, self.tokenizer.words) for name in self.fields]

    def spacers(self) -> list[Callable[[str], str]]:
        """Return for each field the function that returns its words separated by spaces."""
        return [
            (lambda text, read=self.reading[name]: " ".join(read(text)))  # type: ignore[misc]
            if name in self.reading
            else self.tokenizer.space_words
            for name in self.fields
        ]

    def reads_metadata(self) -> bool:
        """Return whether a field is taken from the metadata of documents."""
        return any(name not in DOCUMENT_FIELDS for name in self.fields)

    def texts(self, title: str, text: str, metadata: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the text of each field of a document, "" if its metadata has no such text."""
        further = self.fields_of(metadata) if self.fields_of else metadata.get("fields") if metadata else None
        texts = {**(further if isinstance(further, dict) else {}), "title": title, "text": text}
        return tuple([found if isinstance(found := texts.get(name), str) else "" for name in self.fields])


_RANKINGS: dict[str, Ranking] = {}  # by name; shared, because a tokenizer caches words


def get_ranking(name: str = "default") -> Ranking:
    """Return the ranking with this name: "default", or "seed", which is plain BM25 over the text alone."""
    if name not in _RANKINGS:
        _RANKINGS[name] = _build_ranking(name)
    return _RANKINGS[name]


def _build_ranking(name: str) -> Ranking:
    if name == "seed":
        return Ranking("seed-2", PlainTokenizer(), {"text": 1.0}, count_repeats=True)
    if name != "default":
        raise InputError(f"ranking is 'default' or 'seed', not {name!r}")
    # A title says more than a sentence, and a short field must not be drowned by a long one. For weights of the title
    # alone between 0.5 and 1, no data set of benchmarks/quality.py differs by more than noise.
    tokenizer = IdentifierTokenizer(stems=True, stop_words=FUNCTION_WORDS)
    fields = {"title": 1.0, "text": 1.0}
    return Ranking("default-3", tokenizer, fields, EARLY_SATURATION, per_field_length=True, alone={"title": 0.75})
