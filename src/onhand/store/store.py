"""The Store protocol, and the records that go into a store and come out of it.

A filter and an order mean the same in every store: `passes` and `parse_order` define them; a store may work them out
faster.
"""

from __future__ import annotations

from onhand.document import EVERYTHING, author_keys, filter_author_keys
from onhand.errors import InputError, StoreError
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Protocol

    from onhand.document import Contribution, Document, Filter, Match
else:
    Protocol = object  # a search from cold does without `typing`

HEAD_CHARS = 100_000  # of a text: what a snippet is looked for in
TALLIED = 10  # values of a field that a summary names


class Entry(Record):
    """A document to be kept, and what it means to the embedder, if there is one."""

    document: Document
    vector: array[float] | None = None  # of type code "f", of length one


class Head(Record):
    """What a list of hits shows of a document: no metadata, and a long text only as far as HEAD_CHARS."""

    id: str
    title: str
    text: str
    author: str
    tags: tuple[str, ...]
    scope: str
    created_us: int | None  # microseconds since 1970
    kind: str
    source_path: str


class Tally(Record):
    """How often the values of a field occur."""

    most: tuple[tuple[str, int], ...] = ()  # up to TALLIED values with their counts, by count, then by value
    distinct: int = 0  # how many different values there are


class Summary(Record):
    """What is in a store, as a whole. A document without an author, tag or scope counts for none."""

    documents: int = 0
    authors: Tally = Tally()
    tags: Tally = Tally()
    scopes: Tally = Tally()
    earliest_us: int | None = None  # of the times of creation, in microseconds since 1970
    latest_us: int | None = None


class Damage(Record):
    """Something in a store that is not as it was written."""

    what: str
    advice: str  # what to do about it


def head_of(document: Document) -> Head:
    """What a list of hits shows of a document."""
    from onhand.document import to_microseconds

    created = document.created_time
    return Head(
        document.id,
        document.title,
        document.text[:HEAD_CHARS],
        document.author,
        document.tags,
        document.scope,
        None if created is None else to_microseconds(created),
        document.kind,
        document.source_path,
    )


def content_hash(document: Document) -> str:
    """The same for two documents only if nothing in them differs."""
    import json

    from onhand.document import to_microseconds
    from onhand.text import digest

    created = document.created_time
    spelled = {**document._asdict(), "created_time": None if created is None else to_microseconds(created)}
    return digest(json.dumps(spelled, sort_keys=True).encode())


def refuse_contradiction(noted: Mapping[str, str], facts: Mapping[str, str]) -> None:
    """Refuse facts of which others were noted, so that two writers never mix what must not be mixed."""
    for name, value in facts.items():
        if noted.get(name, value) != value:
            raise StoreError(
                f"{name} is {noted[name]!r} here, not {value!r}: nothing was written; "
                "run `onhand docs reembed` to change it, or open the index with the other"
            )


def passes(document: Document, filter: Filter) -> bool:
    """Whether a document is by one of the authors, has all of the tags, lies in one of the scopes and in the time."""
    created = document.created_time
    return (
        (not filter.author or not filter_author_keys(filter).isdisjoint(author_keys(document.author)))
        and set(filter.tags).issubset(document.tags)
        and (not filter.scope or document.scope in filter.scope)
        and (filter.created_after is None or (created is not None and created >= filter.created_after))
        and (filter.created_before is None or (created is not None and created < filter.created_before))
    )


FIELDS = ("created_time", "title", "author", "scope", "document_id")


class Key(Record):
    """A field to order by."""

    field: str
    descending: bool


def parse_order(order_by: str) -> list[Key]:
    """The fields to order by; the last is always the id, so that no two documents are equal."""
    if not isinstance(order_by, str):
        raise InputError(f"order_by is a text such as 'created_time desc', not a {type(order_by).__name__}")
    keys = [_key(part) for part in order_by.split(",")] if order_by.strip() else [Key("created_time", True)]
    named = [key.field for key in keys]
    twice = next((field for field in named if named.count(field) > 1), None)
    if twice:
        raise InputError(f"order_by names {twice} twice", "order_by")
    return keys if "document_id" in named else [*keys, Key("document_id", False)]


def _key(part: str) -> Key:
    words = part.split()
    if not words or words[0] not in FIELDS or words[1:] not in ([], ["asc"], ["desc"]):
        raise InputError(
            f"cannot order by {part.strip()[:100]!r}: name {', '.join(FIELDS[:-1])} or {FIELDS[-1]}, "
            "each with ' desc' behind it where the largest comes first",
            "order_by",
        )
    return Key(words[0], words[1:] == ["desc"])


class Store(Protocol):
    """Keeps documents and finds them. What is written is durable, all or nothing, when the call returns.

    A filter is part of the search, never applied to an already cut list. Equal scores are ordered by id.
    """

    def snapshot(self) -> AbstractContextManager[object]:
        """While it is entered, every question is answered as of one moment, whatever others write."""

    def upsert(
        self,
        entries: Sequence[Entry],
        facts: Mapping[str, str] | None = None,
        *,
        only_unchanged: bool = False,
        more: bool = False,
    ) -> None:
        """Keep documents, each in place of the one of its id, and note facts about the whole.

        Facts of which others were noted are refused, and nothing is written. With `only_unchanged` an entry counts only
        if its document is there and the same, as it was when somebody began to work out its vector. With `more`, others
        follow at once: what makes searches fast may wait for them.
        """

    def delete(self, ids: Collection[str]) -> int:
        """Take documents out; how many there were."""

    def get(self, document_id: str) -> Document | None:
        """A document in full."""

    def heads(self, ids: Sequence[str]) -> list[Head]:
        """What a list of hits shows of those documents that are there, in the order of the ids."""

    def known(self, documents: Sequence[Document]) -> dict[str, bool]:
        """Of those documents whose ids are there: whether they are there just so."""

    def keyword(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = 10,
        among: Collection[str] | None = None,
        *,
        explain: bool = True,
    ) -> list[Match]:
        """The documents that share the most telling words with the query; with `among`, only of these ids.

        Without `explain` they come without contributions, which cost more than all the rest.
        """

    def keyword_scores(self, query: str, ids: Collection[str]) -> list[Match]:
        """Return the scores by words of those of some documents that have any, without ranking others."""

    def explain(self, query: str, ids: Collection[str]) -> dict[str, tuple[Contribution, ...]]:
        """Return, for those of some documents that match, what each word of a query added to their scores."""

    def cosines(self, vector: array[float], ids: Collection[str]) -> list[Match]:
        """Return the cosines of those of some documents that have a vector, without ranking others."""

    def has_words(self, query: str) -> bool:
        """Whether a query has anything to look for."""

    def term_weights(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        """How much each term of a query tells, and whether a document has it.

        The fewer documents have a term, the more it tells; one that none has tells most. Nothing where there is no such
        document.
        """

    def nearest(
        self,
        vector: array[float],
        filter: Filter = EVERYTHING,
        limit: int = 10,
        min_score: float | None = None,
        among: Collection[str] | None = None,
    ) -> list[Match]:
        """The documents whose vectors have the largest cosine with this one, at least `min_score`; with `among`, only
        of these ids."""

    def scan(
        self, filter: Filter = EVERYTHING, order_by: str = "created_time desc", limit: int = 10, offset: int = 0
    ) -> list[str]:
        """The ids of the documents that the filter lets through, in order."""

    def count(self, filter: Filter = EVERYTHING) -> int:
        """How many documents the filter lets through."""

    def summary(self) -> Summary:
        """What is in the store as a whole: how much, by whom, of which tags and scopes, from when to when."""

    def vectors(self) -> int:
        """How many documents have a vector."""

    def without_vector(self, limit: int, filter: Filter = EVERYTHING) -> list[str]:
        """The ids of documents that the filter lets through and that have no vector, in order."""

    def clear_vectors(self, facts: Mapping[str, str]) -> None:
        """Forget every vector, and note who will make the next ones."""

    def facts(self) -> dict[str, str]:
        """What was noted about the whole."""

    def generation(self) -> str:
        """What differs after every write, whoever made it: for whoever remembers something of the store."""

    def check(self) -> list[Damage]:
        """What is not as it was written; an empty list when all is well."""

    def rebuild(self) -> None:
        """Make everything that is derived from the documents anew."""

    def close(self) -> None:
        """Let go of files; the store cannot be used afterwards."""
