"""Entries of a cache, found by the same question or by a similar one, as long as they are fresh.

The same question is tried first, which needs no embedder, and then the most similar one, which must agree in its
particulars and stand clear of all others (`guards`). `CacheEntries` is thread-safe.
"""

import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from onhand.cache.entry import (
    CacheEntry,
    Computed,
    normalize_query,
    validate_documents,
    validate_labels,
    validate_response,
)
from onhand.cache.guards import Candidate, Criteria, decide
from onhand.cache.similarity import MAX_COMPARED_CHARS, SimilarityIndex, VectorIndex, WordIndex
from onhand.embed.embedder import Embedder, unit_vector
from onhand.errors import EmbedderError, InputError

Vector: TypeAlias = "array[float]"


class Question(NamedTuple):
    """A question in a scope."""

    text: str
    scope: str  # the key of a Scope

    @property
    def key(self) -> tuple[str, str]:
        """What identifies equal questions."""
        return self.scope, normalize_query(self.text)


class Lookup(NamedTuple):
    """The result of looking a question up, with the reason for the hit or miss."""

    hit: bool
    reason: str
    entry: CacheEntry | None = None
    kind: str = ""  # of a hit: "exact", "semantic" or "lexical"
    similarity: float = 0.0
    runner_up: float | None = None  # the similarity of the next question that could be meant, if it is close
    lookup_ms: float = 0.0


class CacheStats(NamedTuple):
    """The contents of a cache, and counts since it was created or cleared."""

    entries: int
    hits: int
    misses: int
    shared: int  # answers that another caller was already computing
    hit_rate: float
    avg_similarity: float  # of hits
    by_kind: Mapping[str, int]  # hits
    by_reason: Mapping[str, int]  # misses
    evicted: int
    not_compared: int  # entries that only the same question finds: too long, or without a vector of this embedder
    persist_error: str | None  # of the last automatic persist


class _QuestionEmbedder:
    """Embeds questions. If the embedder fails, a hit may be lost, but never an answer."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self.compares_words = embedder is None

    @property
    def fingerprint(self) -> str:
        """The name and prompts of the embedder, whose vectors can be compared; "" if there is none or it fails."""
        if self._embedder is None:
            return ""
        try:
            return f"{self._embedder.name} {self._embedder.prompt_format}"
        except Exception:  # of any embedder
            return ""

    def embed(self, text: str, dimension: int) -> "tuple[Vector | None, str | None]":
        """Return the vector of a question and why it cannot be compared; without an embedder, neither."""
        if len(text) > MAX_COMPARED_CHARS:
            return None, "the question is too long to be compared with others"
        if self._embedder is None:
            return None, None
        try:
            (numbers,) = self._embedder.embed([text], "similarity")
            vector = unit_vector(numbers, "what the embedder returned")
            if dimension not in (0, len(vector)):
                raise EmbedderError("the embedder returned a vector of another length than before")
            return vector, None
        except Exception as error:  # of any embedder
            return None, f"the question could not be embedded: {type(error).__name__}"


class Freshness(NamedTuple):
    """Decides whether an entry may still be served: young enough, and based on the current versions of documents."""

    ttl_s: float
    clock: Callable[[], float]
    version_of: Callable[[str], str | None] | None

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return max(0, int(self.clock() * 1000))

    def is_expired(self, entry: CacheEntry) -> bool:
        """Return whether an entry is too old. After the clock was set back, an entry does not live longer either."""
        return abs(self.now_ms() - entry.cached_at_ms) >= self.ttl_s * 1000

    def is_fresh(self, entry: CacheEntry) -> bool:
        """Return whether an entry may be served."""
        if self.is_expired(entry):
            return False
        if self.version_of is None:
            return True
        return all(self._version(document) == version for document, version in entry.documents.items())

    def current_versions(self, documents: Mapping[str, str]) -> dict[str, str]:
        """Return the documents, with their current versions where none was given."""
        return {document: version or self._version(document) or "" for document, version in documents.items()}

    def _version(self, document: str) -> str | None:
        try:
            return self.version_of(document) if self.version_of else ""
        except Exception:  # of the caller's function; an answer that cannot be checked is not served
            return None


class _Counters:
    """Counts hits and misses. Not thread-safe: `CacheEntries` holds a lock."""

    def __init__(self) -> None:
        self.by_kind: Counter[str] = Counter()
        self.by_reason: Counter[str] = Counter()
        self.similarities = 0.0
        self.shared = 0

    def count(self, lookup: Lookup) -> None:
        if lookup.hit:
            self.by_kind[lookup.kind] += 1
            self.similarities += lookup.similarity
        else:
            self.by_reason[lookup.reason] += 1


class EntryTable:
    """Entries by id, by question and by similarity. The least recently used entry is evicted first.

    A question has at most one entry per scope. Not thread-safe: `CacheEntries` holds a lock.
    """

    def __init__(self, max_entries: int, *, by_words: bool) -> None:
        self._max_entries = max_entries
        self._by_words = by_words
        self.next_id = 1
        self.clear()

    def clear(self) -> None:
        """Remove every entry, and reset the count of evictions."""
        self._entries: dict[int, CacheEntry] = {}  # the least recently used first
        self._ids: dict[tuple[str, str], int] = {}  # scope and question → id
        self._indexes: dict[str, SimilarityIndex] = {}  # by scope
        self._comparable: set[int] = set()
        self.dimension = 0  # of the vectors; 0 if there are none
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CacheEntry]:
        return iter(list(self._entries.values()))

    @property
    def not_compared(self) -> int:
        """The number of entries that only the same question can find."""
        return len(self._entries) - len(self._comparable)

    def get(self, scope: str, query: str) -> CacheEntry | None:
        """Return the entry of exactly this question, or None."""
        id = self._ids.get((scope, normalize_query(query)))
        return None if id is None else self._entries[id]

    def find_near(
        self, scope: str, query: str, vector: "array[float] | None", floor: float, reach: float
    ) -> list[tuple[CacheEntry, float]]:
        """Return the most similar entry and, if it is at least `floor`, the next one and all in reach (`find_near`)."""
        index = self._indexes.get(scope)
        near = index.find_near(query, vector, floor, reach) if index is not None else []
        return [(self._entries[one.number], one.similarity) for one in near]

    def add(self, entry: CacheEntry, embedder: str) -> bool:
        """Add an entry and return True, or return False if the cache holds no entries at all.

        Similar questions find it only if its vector was made by `embedder`.
        """
        self.next_id = max(self.next_id, entry.id + 1)
        if not self._max_entries:
            return False
        replaced = self.get(entry.scope, entry.query)
        if replaced is not None:
            self.remove(replaced.id)
        while len(self._entries) >= self._max_entries:
            self.remove(next(iter(self._entries)))
            self.evicted += 1
        self._entries[entry.id] = entry
        self._ids[entry.scope, normalize_query(entry.query)] = entry.id
        if self._is_comparable(entry, embedder):
            self._index_of(entry.scope).put(entry.id, entry.query, entry.vector)
            self._comparable.add(entry.id)
            self.dimension = len(entry.vector or ())
        return True

    def use(self, entry: CacheEntry) -> CacheEntry:
        """Count a hit of an entry and, if it is still there, make it the last one to be evicted."""
        current = self._entries.pop(entry.id, None)
        latest = current or entry  # other threads may have used it since it was looked up
        used = latest._replace(hit_count=latest.hit_count + 1)
        if current is not None:
            self._entries[entry.id] = used
        return used

    def remove(self, id: int) -> None:
        """Remove an entry, if it exists."""
        entry = self._entries.pop(id, None)
        if entry is None:
            return
        del self._ids[entry.scope, normalize_query(entry.query)]
        if id in self._comparable:
            self._comparable.remove(id)
            index = self._indexes[entry.scope]
            index.remove(id)
            if not len(index):  # every change of a prompt makes a new scope
                del self._indexes[entry.scope]
            self.dimension = self.dimension if self._comparable else 0

    def _is_comparable(self, entry: CacheEntry, embedder: str) -> bool:
        if len(entry.query) > MAX_COMPARED_CHARS:
            return False
        if self._by_words:
            return True
        if entry.vector is None or not embedder or entry.embedder != embedder:
            return False
        return self.dimension in (0, len(entry.vector))

    def _index_of(self, scope: str) -> SimilarityIndex:
        if scope not in self._indexes:
            self._indexes[scope] = WordIndex() if self._by_words else VectorIndex()
        return self._indexes[scope]


class CacheEntries:
    """The entries of a cache, with everything that decides whether they are found, served, removed and counted."""

    def __init__(self, embedder: Embedder | None, criteria: Criteria, freshness: Freshness, max_entries: int) -> None:
        self._embedder = _QuestionEmbedder(embedder)
        self._criteria = criteria
        self._freshness = freshness
        self._lock = Lock()
        self._table = EntryTable(max_entries, by_words=embedder is None)
        self._counters = _Counters()
        self.invalidations = 0  # an answer whose computation began before one of them is not stored after it

    def look_up(self, question: Question) -> "tuple[Lookup, Vector | None]":
        """Return what was found and, if the question had to be embedded, its vector."""
        began = time.perf_counter()
        with self._lock:
            same = self._table.get(question.scope, question.text)
        if same is not None and self._is_servable(same):
            return self._count(Lookup(True, "the same question", same, "exact", 1.0), began), None
        vector, why_not = self._embedder.embed(question.text, self._table.dimension)
        found = Lookup(False, why_not) if why_not else self._find_similar(question, vector)
        if same is not None and not found.hit:
            found = found._replace(reason="the stored answer is too old, or a document it cites has changed")
        return self._count(found, began), vector

    def embed(self, question: Question) -> "Vector | None":
        """Return the vector of a question, or None if it has none."""
        return self._embedder.embed(question.text, self._table.dimension)[0]

    def add(self, question: Question, computed: Computed, vector: "Vector | None") -> CacheEntry | None:
        """Add an answer in place of an earlier one to the same question; return None if the cache holds no entries."""
        response = validate_response(computed.response)
        tags = validate_labels(computed.tags, "tags")
        documents = self.current_versions(computed)
        embedder = self._embedder.fingerprint
        with self._lock:
            entry = CacheEntry(
                self._table.next_id,
                question.text,
                response,
                question.scope,
                self._freshness.now_ms(),
                vector=vector,
                embedder=embedder if vector is not None else "",
                tags=tags,
                documents=documents,
            )
            return entry.copy() if self._table.add(entry, embedder) else None

    def add_initial(self, entries: Sequence[CacheEntry]) -> None:
        """Add entries of an earlier cache, unless they have expired."""
        if len({entry.id for entry in entries}) < len(entries):
            raise InputError("a cached entry cannot be used: two initial entries have the same id")
        embedder = self._embedder.fingerprint if entries else ""
        for entry in entries:
            if not self._freshness.is_expired(entry):
                self._table.add(entry, embedder)

    def current_versions(self, computed: Computed) -> dict[str, str]:
        """Return the documents of an answer, with their current versions where none was given."""
        return self._freshness.current_versions(validate_documents(computed.documents))

    def invalidate(self, tags: Set[str], document_ids: Set[str]) -> int:
        """Remove every entry with one of these tags or documents, and return how many there were."""
        with self._lock:
            self.invalidations += 1
        return self._remove_if(
            lambda entry: not tags.isdisjoint(entry.tags) or not document_ids.isdisjoint(entry.documents)
        )

    def clear_expired(self) -> int:
        """Remove every entry that is too old to be served, and return how many there were."""
        return self._remove_if(self._freshness.is_expired)

    def clear(self) -> None:
        """Remove every entry, and reset all counts."""
        with self._lock:
            self.invalidations += 1
            self._table.clear()
            self._counters = _Counters()

    def count_shared(self) -> None:
        """Count an answer that another caller was already computing."""
        with self._lock:
            self._counters.shared += 1

    def stats(self, persist_error: str | None) -> CacheStats:
        """Return the contents and counts."""
        with self._lock:
            counters, table = self._counters, self._table
            hits, misses = counters.by_kind.total(), counters.by_reason.total()
            return CacheStats(
                entries=len(table),
                hits=hits,
                misses=misses,
                shared=counters.shared,
                hit_rate=hits / (hits + misses) if hits + misses else 0.0,
                avg_similarity=counters.similarities / hits if hits else 0.0,
                by_kind=dict(counters.by_kind),
                by_reason=dict(counters.by_reason),
                evicted=table.evicted,
                not_compared=table.not_compared,
                persist_error=persist_error,
            )

    def to_json(self) -> list[dict[str, Any]]:
        """Return all entries as JSON objects, the least recently used first."""
        with self._lock:
            entries = list(self._table)
        return [entry.to_json() for entry in entries]

    def _find_similar(self, question: Question, vector: "Vector | None") -> Lookup:
        near = self._near_entries(question, vector)
        candidates = [Candidate(similarity, entry.query, entry.response) for entry, similarity in near]
        hit, reason, runner_up = decide(question.text, candidates, self._criteria)
        similarity = candidates[0].similarity if candidates else 0.0
        kind = "lexical" if self._embedder.compares_words else "semantic"
        return Lookup(hit, reason, near[0][0] if hit else None, kind if hit else "", similarity, runner_up)

    def _near_entries(self, question: Question, vector: "Vector | None") -> list[tuple[CacheEntry, float]]:
        """Return the most similar servable entry and those close to it; if none is similar enough, the best one."""
        while True:
            with self._lock:
                floor, reach = self._criteria.floor, self._criteria.max_lead
                near = self._table.find_near(question.scope, question.text, vector, floor, reach)
            if not near or near[0][1] < floor:
                return near
            if self._is_servable(near[0][0]):
                return near[:1] + [one for one in near[1:] if self._is_servable(one[0])]

    def _is_servable(self, entry: CacheEntry) -> bool:
        """Return whether an entry is fresh, and remove it if not."""
        if self._freshness.is_fresh(entry):
            return True
        with self._lock:
            self._table.remove(entry.id)
        return False

    def _count(self, found: Lookup, began: float) -> Lookup:
        with self._lock:
            self._counters.count(found)
            entry = self._table.use(found.entry).copy() if found.entry is not None else None
        return found._replace(entry=entry, lookup_ms=(time.perf_counter() - began) * 1000)

    def _remove_if(self, is_outdated: Callable[[CacheEntry], bool]) -> int:
        with self._lock:
            ids = [entry.id for entry in self._table if is_outdated(entry)]
            for id in ids:
                self._table.remove(id)
        return len(ids)
