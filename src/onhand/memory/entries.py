"""Which answers are kept, and which goes when there are too many? The least recently used one.

One question has one answer in a scope. It knows neither time nor versions, and counts nothing but what went. Not safe
between threads: the cache holds a lock.
"""

from array import array
from collections.abc import Iterator
from unicodedata import normalize

from onhand.memory.entry import Entry
from onhand.memory.shelf import Shelf, VectorShelf, WordShelf

# Of a question that is compared by meaning. A model reads the beginning of a text only: of two long questions that
# begin alike it would say that they are the same.
MAX_COMPARED_CHARS = 1000


class Entries:
    """Entries by question, and those that are similar to one. `by_words` compares words instead of vectors."""

    def __init__(self, max_entries: int, by_words: bool) -> None:
        self._max_entries = max_entries
        self._by_words = by_words
        self._entries: dict[int, Entry] = {}  # the least recently used first
        self._ids: dict[tuple[str, str], int] = {}  # scope and question → id
        self._shelves: dict[str, Shelf] = {}  # by scope
        self._compared: set[int] = set()
        self.dimension = 0  # of the vectors; 0: there are none
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    @property
    def compared(self) -> int:
        """How many can be found by a similar question."""
        return len(self._compared)

    def exact(self, scope: str, query: str) -> Entry | None:
        """The entry of the very same question."""
        id = self._ids.get((scope, normal(query)))
        return None if id is None else self._entries[id]

    def near(
        self, scope: str, query: str, vector: "array[float] | None", floor: float, margin: float
    ) -> list[tuple[Entry, float]]:
        """The most similar entry and, if it reaches `floor`, all within `margin` of it, with their similarities."""
        shelf = self._shelves.get(scope)
        if shelf is None:
            return []
        return [(self._entries[one.number], one.similarity) for one in shelf.near(query, vector, floor, margin)]

    def put(self, entry: Entry, stamp: str) -> None:
        """Take an entry in; with a vector of the embedder that `stamp` names, a similar question will find it."""
        if not self._max_entries:
            return
        before = self.exact(entry.scope, entry.query)
        if before is not None:
            self.remove(before.id)
        while len(self._entries) >= self._max_entries:
            self.remove(next(iter(self._entries)))
            self.evicted += 1
        self._entries[entry.id] = entry
        self._ids[entry.scope, normal(entry.query)] = entry.id
        if self._is_comparable(entry, stamp):
            self._shelf(entry.scope).put(entry.id, entry.query, entry.vector)
            self._compared.add(entry.id)
            self.dimension = len(entry.vector or ())

    def use(self, entry: Entry) -> Entry:
        """The entry, used once more: the last to go, if it is still there."""
        known = self._entries.pop(entry.id, None)
        now = known or entry  # others may have used it since it was looked up
        used = now._replace(hit_count=now.hit_count + 1)
        if known is not None:
            self._entries[entry.id] = used
        return used

    def remove(self, id: int) -> None:
        """Take an entry out, if it is there."""
        entry = self._entries.pop(id, None)
        if entry is None:
            return
        del self._ids[entry.scope, normal(entry.query)]
        if id in self._compared:
            self._compared.remove(id)
            shelf = self._shelves[entry.scope]
            shelf.remove(id)
            if not len(shelf):  # scopes come and go with every change of a prompt
                del self._shelves[entry.scope]
            self.dimension = self.dimension if self._compared else 0

    def _is_comparable(self, entry: Entry, stamp: str) -> bool:
        if len(entry.query) > MAX_COMPARED_CHARS:
            return False
        if self._by_words:
            return True
        if entry.vector is None or not stamp or entry.embedder != stamp:
            return False
        return self.dimension in (0, len(entry.vector))

    def _shelf(self, scope: str) -> Shelf:
        if scope not in self._shelves:
            self._shelves[scope] = WordShelf() if self._by_words else VectorShelf()
        return self._shelves[scope]


def normal(query: str) -> str:
    """What two questions have in common that differ in white space, or in how accents are encoded, alone."""
    return " ".join((query if query.isascii() else normalize("NFC", query)).split())
