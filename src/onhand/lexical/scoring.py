"""Rankings and scores: the BM25 family, and the settings under which an index uses it.

Both searchers score by these lines, on floats or on numpy arrays. Nothing here knows where terms occur.

Sources: Robertson & Zaragoza 2009 (BM25, BM25F), Lv & Zhai 2011 (BM25+).
"""

from __future__ import annotations

from _operator import mul  # what `operator` has, without its Python part
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


def scoring_of(ranking: Ranking, totals: Iterable[float], documents: int) -> Scoring:
    """Return the formula of a ranking for an index with this many documents and words in each field."""
    weights = tuple(ranking.fields.values())
    alone = tuple(ranking.alone.get(name, 0.0) for name in ranking.fields)
    return Scoring(ranking.formula, ranking.per_field_length, weights, alone, tuple(totals), documents)


def time_bounds(filter: Filter) -> tuple[int | None, int | None]:
    """Return from when and until when a filter lets documents through, in microseconds since 1970."""
    after, before = filter.created_after, filter.created_before
    return None if after is None else to_microseconds(after), None if before is None else to_microseconds(before)


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


DOCUMENT_FIELDS = ("title", "text")  # every other field of a ranking stands in the metadata of a document


class Ranking(Record):
    """A tokenizer, the weights of the fields, and the formula.

    The fields "title" and "text" are a document's own; one of another name is the text of that name in its
    metadata["fields"], or in what `fields_of` makes of its metadata whenever the document is indexed.
    """

    name: str  # changes with anything that decides which terms an index has: files of another name are indexed anew
    tokenizer: Tokenizer
    fields: Mapping[str, float]
    formula: Formula = BM25
    per_field_length: bool = False
    alone: Mapping[str, float] = {}
    count_repeats: bool = False
    fields_of: Callable[[Mapping[str, Any]], Any] | None = None
    reading: Mapping[str, Callable[[str], list[str]]] = {}  # of fields of which not every word counts: those that do

    def check(self) -> None:
        """Refuse weights that no score can be made of."""
        for name, weight in self.fields.items():
            alone = self.alone.get(name, 0.0)
            if not 0 < weight < inf:
                raise InputError(f"The weight of field {name!r} must be above 0, not {weight!r}. Leave the field out.")
            if not 0 <= alone < inf:
                raise InputError(f"The weight that field {name!r} has alone must not be below zero, not {alone!r}.")

    def readers(self) -> list[Callable[[str], list[str]]]:
        """Return for each field the function that splits its text into words."""
        return [self.reading.get(name, self.tokenizer.words) for name in self.fields]

    def spacers(self) -> list[Callable[[str], str]]:
        """Return for each field the function that gives its words separated by spaces."""
        return [
            (lambda text, read=self.reading[name]: " ".join(read(text)))  # type: ignore[misc]
            if name in self.reading
            else self.tokenizer.spaced
            for name in self.fields
        ]

    def reads_metadata(self) -> bool:
        """Return whether a field stands in the metadata of documents."""
        return any(name not in DOCUMENT_FIELDS for name in self.fields)

    def texts(self, title: str, text: str, metadata: Mapping[str, Any]) -> dict[str, str]:
        """Return the text of each field of a document; "" where its metadata has no text of that name."""
        further = self.fields_of(metadata) if self.fields_of else metadata.get("fields") if metadata else None
        known = {**(further if isinstance(further, dict) else {}), "title": title, "text": text}
        return {name: found if isinstance(found := known.get(name), str) else "" for name in self.fields}


_MADE: dict[str, Ranking] = {}  # by name: its tokenizer remembers words


def get_ranking(name: str = "default") -> Ranking:
    """The ranking of that name: "default", or "seed", which is plain BM25 over the text alone."""
    if name not in _MADE:
        _MADE[name] = _made(name)
    return _MADE[name]


def _made(name: str) -> Ranking:
    if name == "seed":
        return Ranking("seed-2", PlainTokenizer(), {"text": 1.0}, count_repeats=True)
    if name != "default":
        raise InputError(f"ranking is 'default' or 'seed', not {name!r}")
    # A title tells more than a sentence does, and a short field must not be drowned by a long one. Between 0.5 and 1
    # for the title by itself, no set of benchmarks/quality.py differs by more than its own noise.
    tokenizer = IdentifierTokenizer(stems=True, stop_words=FUNCTION_WORDS)
    fields = {"title": 1.0, "text": 1.0}
    return Ranking("default-3", tokenizer, fields, per_field_length=True, alone={"title": 0.75})
