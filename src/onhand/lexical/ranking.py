"""How are words counted? The settings of a ranking, under a name, so that every index that uses one agrees."""

from __future__ import annotations

from onhand.errors import InputError
from onhand.lexical.bm25 import LexicalIndex
from onhand.lexical.scoring import BM25, Formula
from onhand.lexical.tokenize import FUNCTION_WORDS, IdentifierTokenizer, PlainTokenizer
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from onhand.lexical.tokenizer import Tokenizer


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

    def new_index(self) -> LexicalIndex:
        """An empty index in memory that ranks so."""
        _, tokenizer, fields, formula, per_field_length, alone, count_repeats, _, reading = self
        return LexicalIndex(
            tokenizer,
            fields=fields,
            formula=formula,
            per_field_length=per_field_length,
            alone=alone,
            count_repeats=count_repeats,
            reading=reading,
        )

    def readers(self) -> list[Callable[[str], list[str]]]:
        """What gives the words of each field, in their order."""
        return [self.reading.get(name, self.tokenizer.words) for name in self.fields]

    def reads_metadata(self) -> bool:
        """Whether a field stands in the metadata of documents."""
        return any(name not in DOCUMENT_FIELDS for name in self.fields)

    def texts(self, title: str, text: str, metadata: Mapping[str, Any]) -> dict[str, str]:
        """What each field has of a document; nothing where its metadata has no text of that name."""
        further = self.fields_of(metadata) if self.fields_of else metadata.get("fields") if metadata else None
        known = {**(further if isinstance(further, dict) else {}), "title": title, "text": text}
        return {name: found if isinstance(found := known.get(name), str) else "" for name in self.fields}


_MADE: dict[str, Ranking] = {}  # by name: its tokenizer remembers words


def ranking(name: str = "default") -> Ranking:
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
