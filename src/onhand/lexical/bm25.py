"""Which documents match these words best? An index of weighted fields in memory.

Documents are added, replaced and removed at any time; nothing is ever rebuilt. Not safe for concurrent use: who shares
an index between threads holds a lock around it. Scores are the same to the last bit with and without numpy.
"""

from __future__ import annotations

from _operator import itemgetter  # what `operator` has, without its Python part
from itertools import chain
from math import inf

from onhand.document import Contribution, Match
from onhand.errors import InputError
from onhand.lexical.scan import length_of, occurrences
from onhand.lexical.scoring import BM25, Formula, Scoring, largest_first, query_weights
from onhand.lexical.tokenize import IdentifierTokenizer
from onhand.lexical.vocabulary import LearntVocabulary, ScannedVocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from onhand.lexical.numpy_impacts import NumpyImpacts
    from onhand.lexical.postings import Postings
    from onhand.lexical.tokenizer import Tokenizer

    # The slots that have a term, and what it adds to their scores: lists, or numpy arrays in a large corpus.
    Impact = tuple[Any, Any]
    Weighted = tuple[float, Impact]  # by a query

# Documents from which on it pays to learn the whole vocabulary and, where it is installed, to import numpy: a corpus of
# this size is searched by a process that stays.
LARGE = 2000
# Documents, and characters of their texts, up to which a first query looks through them. More are sorted by words as
# they come, and what a first query looked through is sorted by the second.
FEW, FEW_CHARS = 1000, 2**20
# Terms of a query from which on it pays to learn a small vocabulary too: a short word may stand in every other one.
LONG = 64


class LexicalIndex:
    """Ranks documents by the words they share with a query.

    `fields` gives each field's weight. With `per_field_length` a field is normalised by its own average length
    (BM25F); otherwise the weighted length of the whole document counts. A field of `alone` counts by itself too, that
    much, beside its part in the whole: then a term that a title shares with the text gains by being in both. With
    `count_repeats` a word that a query says twice counts twice. A field of `reading` has the words that this gives of
    its text; any other, all that the tokenizer finds.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | None = None,
        *,
        fields: Mapping[str, float] | None = None,
        formula: Formula = BM25,
        per_field_length: bool = False,
        alone: Mapping[str, float] | None = None,
        count_repeats: bool = False,
        reading: Mapping[str, Callable[[str], list[str]]] | None = None,
    ) -> None:
        self.tokenizer = tokenizer or IdentifierTokenizer()
        self.formula = formula
        self._fields = [
            Field(
                name,
                _positive(name, weight),
                _not_negative(name, (alone or {}).get(name, 0.0)),
                self.tokenizer,
                (reading or {}).get(name),
            )
            for name, weight in (fields or {"text": 1.0}).items()
        ]
        self._per_field_length = per_field_length
        self._count_repeats = count_repeats
        self._slots: dict[str, int] = {}
        self._ids: list[str] = []  # by slot; "" where a slot is free
        self._texts: list[tuple[str, ...] | None] = []  # by slot, one text per field; None: ask `_text_of` for them
        self._text_of: Callable[[str], Mapping[str, str]] = lambda document_id: {}  # nothing was restored
        self._free: list[int] = []
        self._is_sorted = False  # whether the postings have the words of all documents; if not, they have none
        self._unsorted: dict[int, Sequence[str]] = {}  # slot → its texts as they are looked through, if anybody did
        self._was_looked_through = False  # then the next query pays for sorting
        self._chars = 0  # of all texts
        # Good until the next change, because every score depends on how many documents there are and how long:
        self._vocabulary: ScannedVocabulary | LearntVocabulary | None = None  # a learnt one takes in changes itself
        self._impacts: dict[str, Impact] = {}  # of terms
        self._seen: dict[str, list[dict[int, int]]] = {}  # of terms that were looked for: `scan.occurrences`
        self._large: NumpyImpacts | None = None
        self._scores: Scoring | None = None
        self._asked: tuple[str, dict[str, float]] = "", {}  # the last query and its weights, as each hit is explained

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._slots

    def add(self, document_id: str, texts: str | Mapping[str, str]) -> None:
        """Enter a document, or replace the one of that id.

        A plain text is the first field's; what is given for a field that the index does not have is left out.
        """
        if isinstance(texts, str):
            texts = {self._fields[0].name: texts}
        self.add_all([(document_id, texts)])

    def add_all(self, documents: Iterable[tuple[str, Mapping[str, str]]]) -> None:
        """Enter documents, each in place of the one of its id; of two of one id the last is kept."""
        rows = {document_id: self._row(texts) for document_id, texts in documents}
        if not self._is_sorted and not self._stay_few(rows.values()):
            self._sort()
        if self._is_sorted:
            self._add_sorted(rows)
        else:
            self._add_unsorted(rows)
        self._forget()

    def remove(self, document_id: str) -> None:
        """Take a document out; one that is not there is an error (KeyError)."""
        slot = self._slots.pop(document_id)
        row = self._texts_of(slot, document_id)
        gone: set[str] = set()
        for field, text in zip(self._fields, row, strict=True):
            field.measure(slot, 0)
            if self._is_sorted:
                gone.update(field.postings.remove(slot, field.words(text)))
        self._chars -= sum(map(len, row))
        self._unsorted.pop(slot, None)
        if isinstance(self._vocabulary, LearntVocabulary):
            for word in gone:
                if not self._has_word(word):
                    self._vocabulary.forget(word)
        self._ids[slot], self._texts[slot] = "", ()
        self._free.append(slot)
        self._forget()

    def search(self, query: str, limit: int | None = 10, among: Collection[str] | None = None) -> list[Match]:
        """The best matches, by descending score, then id; without a limit, all of them.

        With `among`, only of documents of these ids; what their scores are depends on all.
        """
        if limit is not None and limit <= 0:
            return []
        weights = self._weights_of(query)
        if len(weights) > LONG and not isinstance(self._vocabulary, LearntVocabulary):
            self._learn()
        elif not self._is_sorted and not self._was_looked_through:
            self._look_through(weights)
        slots = None if among is None else [slot for slot in map(self._slots.get, among) if slot is not None]
        weighted = [(weight, self._impact(term)) for term, weight in weights.items()]
        large = self._in_numpy()
        scored = large.best(weighted, limit, slots) if large else self._sums(weighted, slots)
        ids = self._ids
        ranked = sorted([(-score, ids[slot]) for slot, score in scored])
        return [Match(document_id, -negative, ()) for negative, document_id in ranked[:limit]]

    def explain(self, query: str, document_id: str) -> tuple[Contribution, ...]:
        """What each term in each field added to a document's score, largest first; they add up to the score."""
        slot = self._slots[document_id]
        scoring = self._scoring()
        norm = scoring.norm([field.lengths[slot] for field in self._fields])
        contributions = []
        weights = self._weights_of(query)
        for term, often in self._counts(weights, slot, document_id).items():
            shares = [
                scoring.weight(number, field.lengths[slot]) * count if count else 0.0
                for number, (field, count) in enumerate(zip(self._fields, often, strict=True))
            ]
            frequency = sum(shares)
            idf = scoring.idf(len(self._impact(term)[0]))
            contributions += [
                Contribution(term, field.name, weights[term] * scoring.share(number, share, frequency, norm, idf))
                for number, (field, share) in enumerate(zip(self._fields, shares, strict=True))
                if share
            ]
        return largest_first(contributions)

    def telling(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        """How much each term of a query tells, and whether a document has it; one that none has tells most."""
        idf, slot = self._scoring().idf, self._slots[document_id]
        tells = {}
        for term, weight in self._weights_of(query).items():
            slots = self._impact(term)[0]
            tells[term] = weight * idf(len(slots)), slot in slots
        return tells

    def state(self) -> tuple[Any, ...]:
        """What `restore` takes beside the documents' texts, of types that marshal knows."""
        if len(self._slots) >= LARGE:  # whose first search would learn the vocabulary anyway
            self._learn()
        learnt = self._vocabulary.state() if isinstance(self._vocabulary, LearntVocabulary) else None
        fields = [(field.total, list(field.lengths)) for field in self._fields]
        postings = [field.postings.state() for field in self._fields] if self._is_sorted else None
        return self._ids, self._free, self._chars, fields, postings, learnt

    def restore(self, state: tuple[Any, ...], text_of: Callable[[str], Mapping[str, str]]) -> None:
        """Become what another was, with the same settings, whose state this is; `text_of` has its documents' texts,
        and is asked for one when it is explained or removed."""
        self._ids, self._free, self._chars, fields, postings, learnt = state
        self._slots = {document_id: slot for slot, document_id in enumerate(self._ids) if document_id}
        self._texts = [None] * len(self._ids)
        self._text_of = text_of
        for field, (total, lengths) in zip(self._fields, fields, strict=True):
            field.total, field.lengths = total, lengths
        self._unsorted, self._is_sorted = {}, postings is not None
        for field, kept in zip(self._fields, postings or (), strict=False):
            field.make_postings()
            field.postings.restore(kept)
        self._vocabulary = None
        if learnt is not None:
            self._vocabulary = LearntVocabulary(self.tokenizer.forms)
            self._vocabulary.restore(learnt)
        self._forget()

    def _texts_of(self, slot: int, document_id: str) -> tuple[str, ...]:
        texts = self._texts[slot]
        return self._row(self._text_of(document_id)) if texts is None else texts

    def _row(self, texts: Mapping[str, str]) -> tuple[str, ...]:
        return tuple([texts.get(field.name, "") for field in self._fields])

    def _words_in(self, row: Sequence[str]) -> list[list[str]]:
        return [field.words(text) for field, text in zip(self._fields, row, strict=True)]

    def _counts(self, terms: Collection[str], slot: int, document_id: str) -> dict[str, list[int]]:
        """How often those of some terms that a document has stand in each of its fields."""
        if all(term in self._seen for term in terms):
            counts = {term: [often.get(slot, 0) for often in self._seen[term]] for term in terms}
            return {term: often for term, often in counts.items() if any(often)}
        rows = self._words_in(self._texts_of(slot, document_id))
        said = [list(chain.from_iterable(map(self.tokenizer.forms, words))) for words in rows]
        return {term: [row.count(term) for row in said] for term in set().union(*said).intersection(terms)}

    def _spaced_in(self, row: Sequence[str]) -> list[str]:
        return [field.spaced(text) for field, text in zip(self._fields, row, strict=True)]

    def _stay_few(self, rows: Collection[tuple[str, ...]]) -> bool:
        """Whether a first query may still look through all texts if these come too."""
        chars = self._chars + sum([len(text) for row in rows for text in row])
        return chars <= FEW_CHARS and len(self._slots) + len(rows) <= FEW

    def _add_unsorted(self, rows: Mapping[str, tuple[str, ...]]) -> None:
        spaced = list(map(self._spaced_in, rows.values()))  # before anything changes: it may fail
        for (document_id, row), texts in zip(rows.items(), spaced, strict=True):
            slot = self._take_slot(document_id, row)
            self._unsorted[slot] = texts
            for field, text in zip(self._fields, texts, strict=True):
                field.measure(slot, length_of(text))

    def _add_sorted(self, rows: Mapping[str, tuple[str, ...]]) -> None:
        read = list(map(self._words_in, rows.values()))  # before anything changes: it may fail
        self._enter([self._take_slot(document_id, row) for document_id, row in rows.items()], read)

    def _sort(self) -> None:
        """Enter the words of all documents into the postings, which from now on are kept current."""
        for field in self._fields:
            field.make_postings()
        by_slot = sorted(self._slots.items(), key=itemgetter(1))
        spaced = [self._looked_through(slot, document_id) for document_id, slot in by_slot]
        self._enter([slot for _, slot in by_slot], [[text.split() for text in texts] for texts in spaced])
        self._unsorted = {}
        self._is_sorted = True

    def _looked_through(self, slot: int, document_id: str) -> Sequence[str]:
        return self._unsorted.get(slot) or self._spaced_in(self._texts_of(slot, document_id))

    def _enter(self, slots: Sequence[int], read: Sequence[list[list[str]]]) -> None:
        """Take the words of documents into the postings."""
        if isinstance(self._vocabulary, LearntVocabulary):
            written = chain.from_iterable(chain.from_iterable(read))
            self._vocabulary.learn(word for word in set(written) if not self._has_word(word))
        # Field by field, and none while others are still read: what one step works with then stays in the processor's
        # cache, which spares a tenth of the time.
        for number, field in enumerate(self._fields):
            for slot, words in zip(slots, read, strict=True):
                field.add(slot, words[number])

    def _take_slot(self, document_id: str, row: tuple[str, ...]) -> int:
        if document_id in self._slots:
            self.remove(document_id)
        self._chars += sum(map(len, row))
        if self._free:
            slot = self._free.pop()
            self._ids[slot], self._texts[slot] = document_id, row
        else:
            slot = len(self._ids)
            self._ids.append(document_id)
            self._texts.append(row)
        self._slots[document_id] = slot
        return slot

    def _has_word(self, word: str) -> bool:
        return any(word in field.postings for field in self._fields)

    def _words_of(self, term: str) -> list[str]:
        """The words, as they are written, that a term stands for."""
        if self._vocabulary is None:
            if len(self._slots) >= LARGE:
                return self._learn().words_of(term)
            self._vocabulary = ScannedVocabulary(self.tokenizer.forms, self._words())
        return self._vocabulary.words_of(term)

    def _learn(self) -> LearntVocabulary:
        if not self._is_sorted:
            self._sort()
        self._vocabulary = LearntVocabulary(self.tokenizer.forms)
        self._vocabulary.learn(self._words())
        return self._vocabulary

    def _words(self) -> set[str]:
        return set().union(*(field.postings.words() for field in self._fields))

    def _forget(self) -> None:
        if isinstance(self._vocabulary, ScannedVocabulary):
            self._vocabulary = None
        if self._impacts:
            self._impacts, self._seen = {}, {}
        self._large = self._scores = None

    def _weights_of(self, query: str) -> dict[str, float]:
        if self._asked[0] == query:
            return self._asked[1]
        weights = query_weights(self.tokenizer, query, self._count_repeats)
        self._asked = query, weights
        return weights

    def _scoring(self) -> Scoring:
        if self._scores is None:
            weights, alone, totals = zip(*((f.weight, f.alone, f.total) for f in self._fields), strict=True)
            self._scores = Scoring(self.formula, self._per_field_length, weights, alone, totals, len(self._slots))
        return self._scores

    def _impact(self, term: str) -> Impact:
        impact = self._impacts.get(term)
        if impact is None:
            if not self._is_sorted:
                self._sort()
            words = self._words_of(term)
            if not words:
                impact = (), ()
            elif large := self._in_numpy():
                impact = large.of(words)
            else:
                impact = self._impact_of([field.postings.counted(words) for field in self._fields])
            self._impacts[term] = impact
        return impact

    def _look_through(self, terms: Collection[str]) -> None:
        """Work out what these terms add, and sort nothing: a command asks once and ends."""
        rows = [(slot, self._looked_through(slot, document_id)) for document_id, slot in self._slots.items()]
        self._seen = occurrences(terms, rows, len(self._fields), self.tokenizer.forms)
        self._impacts = {term: self._impact_of(often) for term, often in self._seen.items()}
        self._was_looked_through = True

    def _sums(self, weighted: Iterable[Weighted], among: Collection[int] | None) -> Iterable[tuple[int, float]]:
        scores: dict[int, float] = {}
        for weight, impact in weighted:
            for slot, score in zip(*impact, strict=True):
                scores[slot] = scores.get(slot, 0.0) + weight * score
        return scores.items() if among is None else [(slot, scores[slot]) for slot in among if slot in scores]

    def _impact_of(self, counts: Sequence[Mapping[int, int]]) -> Impact:
        """What a term adds that stands so often in each slot, by field."""
        scoring = self._scoring()
        frequencies: dict[int, float] = {}
        alone: dict[int, float] = {}
        for number, field in enumerate(self._fields):
            for slot, count in counts[number].items():
                frequency = scoring.weight(number, field.lengths[slot]) * count
                frequencies[slot] = frequencies.get(slot, 0.0) + frequency
                if field.alone:
                    alone[slot] = alone.get(slot, 0.0) + field.alone * scoring.gain(frequency, self._norm_of(slot))
        idf = scoring.idf(len(frequencies))
        scores = [
            scoring.score(frequency, self._norm_of(slot), idf, alone.get(slot, 0.0))
            for slot, frequency in frequencies.items()
        ]
        return list(frequencies), scores

    def _norm_of(self, slot: int) -> float:
        if self._per_field_length:
            return self.formula.k1
        return float(self._scoring().norm([field.lengths[slot] for field in self._fields]))

    def _in_numpy(self) -> NumpyImpacts | None:
        """What works out impacts and sums in a large corpus, where numpy is installed."""
        if self._large is None and len(self._slots) >= LARGE and (impacts := _numpy_impacts()):
            self._large = impacts(self._scoring(), self._fields, len(self._ids))
        return self._large


def _positive(name: str, weight: float) -> float:
    if not 0 < weight < inf:
        raise InputError(f"the weight of field {name!r} must be above zero, not {weight!r}: leave the field out")
    return weight


def _not_negative(name: str, alone: float) -> float:
    if not 0 <= alone < inf:
        raise InputError(f"what field {name!r} counts alone must not be below zero, but is {alone!r}: leave it out")
    return alone


class Field:
    """One field of every document: where its terms occur and how long it is."""

    postings: Postings  # once the documents are sorted

    def __init__(
        self, name: str, weight: float, alone: float, tokenizer: Tokenizer, words: Callable[[str], list[str]] | None
    ) -> None:
        self.name = name
        self.weight = weight
        self.alone = alone
        self.words = words or tokenizer.words  # of a text
        self.spaced = (lambda text: " ".join(words(text))) if words else tokenizer.spaced  # for `scan`
        self.lengths: list[float] | array[float] = []  # by slot, in words
        self.total = 0.0

    def add(self, slot: int, words: list[str]) -> None:
        """Enter the words of a document."""
        self.measure(slot, len(words))
        self.postings.add(slot, words)

    def measure(self, slot: int, length: int) -> None:
        """Note how many words a document has now."""
        if slot == len(self.lengths):
            self.lengths.append(0.0)
        self.total += length - self.lengths[slot]
        self.lengths[slot] = length

    def make_postings(self) -> None:
        """Be ready for the words of documents, of which there may be many."""
        from array import array  # whose import costs as much as ten pages

        from onhand.lexical.postings import Postings

        self.postings = Postings()
        self.lengths = array("d", self.lengths)


_NUMPY: list[type[NumpyImpacts] | None] = []  # once somebody asked


def _numpy_impacts() -> type[NumpyImpacts] | None:
    """None without numpy; it costs more to import than a small search, so only large ones ask."""
    if not _NUMPY:
        try:
            from onhand.lexical.numpy_impacts import NumpyImpacts
        except ImportError:
            _NUMPY.append(None)
        else:
            _NUMPY.append(NumpyImpacts)
    return _NUMPY[0]
