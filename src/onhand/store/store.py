"""What must a store be able to do? The seam between the Index and the places where documents live."""

from array import array
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from onhand.document import EVERYTHING, Document, Filter, Match
from onhand.store.entry import Damage, Entry, Head, Summary


class Store(Protocol):
    """Keeps documents and finds them. What is written is durable, all or nothing, when the call returns.

    A filter is part of the search, never applied to an already cut list. Equal scores are ordered by id.
    """

    def moment(self) -> AbstractContextManager[object]:
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

    def has_words(self, query: str) -> bool:
        """Whether a query has anything to look for."""

    def telling(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        """How much each term of a query tells, and whether a document has it.

        The fewer documents have a term, the more it tells; one that none has tells most. Nothing where there is no such
        document.
        """

    def nearest(
        self,
        vector: "array[float]",
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
