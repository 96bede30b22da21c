"""How does a cache do? What was counted since it was made or cleared."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class Stats(NamedTuple):
    """What is in a cache and how it did."""

    entries: int
    hits: int
    misses: int
    shared: int  # answers of a computation that another caller had begun
    hit_rate: float
    avg_similarity: float  # of hits
    by_kind: Mapping[str, int]  # hits
    by_reason: Mapping[str, int]  # misses
    evicted: int
    not_compared: int  # entries that only the very same question finds: too long, or no vector of this embedder
    persist_error: str | None  # of the last automatic one


class Tally:
    """Counts hits and misses. Not safe between threads: the cache holds a lock."""

    def __init__(self) -> None:
        self._by_kind: Counter[str] = Counter()
        self._by_reason: Counter[str] = Counter()
        self._similarities = 0.0
        self._shared = 0

    def hit(self, kind: str, similarity: float) -> None:
        self._by_kind[kind] += 1
        self._similarities += similarity

    def miss(self, reason: str) -> None:
        self._by_reason[reason] += 1

    def share(self) -> None:
        self._shared += 1

    def stats(self, entries: int, evicted: int, not_compared: int, persist_error: str | None) -> Stats:
        hits, misses = self._by_kind.total(), self._by_reason.total()
        return Stats(
            entries,
            hits,
            misses,
            self._shared,
            hits / (hits + misses) if hits + misses else 0.0,
            self._similarities / hits if hits else 0.0,
            dict(self._by_kind),
            dict(self._by_reason),
            evicted,
            not_compared,
            persist_error,
        )
