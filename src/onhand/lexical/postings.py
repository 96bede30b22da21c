"""Where does each term occur? The inverted index of one field: term → the documents that have it, and how often.

It knows slots (small numbers that stand for documents) and counts; scores and texts are not its business.

A small corpus is inverted term by term, as terms are asked for: a command that starts, searches once and ends never
pays for the terms nobody asked about. A large one is inverted as it grows.
"""

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

# Asking for a term scans this many counts at most: 0.1 ms. Past it, a full inversion pays for itself.
INVERT_AT = 2000


class Posting(NamedTuple):
    """The documents that have a term, by ascending slot, and how often each has it."""

    slots: "array[int]"
    counts: "array[float]"


class Postings:
    """Term → Posting, kept current while documents come and go."""

    def __init__(self) -> None:
        self._postings: dict[str, Posting] = {}
        self._waiting: dict[int, Mapping[str, int]] | None = {}  # slot → its counts; None once all is inverted

    def add(self, slot: int, counts: Mapping[str, int]) -> None:
        """Enter a document; its slot must be free."""
        if self._waiting is None:
            self._enter(slot, counts, counts)
            return
        self._waiting[slot] = counts
        self._enter(slot, counts, self._postings.keys() & counts.keys())
        if len(self._waiting) >= INVERT_AT:
            self._invert()

    def remove(self, slot: int, counts: Mapping[str, int]) -> None:
        """Take a document out; `counts` are those it was entered with."""
        if self._waiting is not None:
            del self._waiting[slot]
        for term in counts:
            posting = self._postings.get(term)
            if posting is None:
                continue
            position = bisect_left(posting.slots, slot)
            del posting.slots[position], posting.counts[position]
            if not posting.slots:
                del self._postings[term]

    def get(self, term: str) -> Posting | None:
        """Where a term occurs; None when nowhere."""
        posting = self._postings.get(term)
        if posting is not None or self._waiting is None:
            return posting
        found = sorted((slot, counts[term]) for slot, counts in self._waiting.items() if term in counts)
        if not found:
            return None
        posting = Posting(array("I", (slot for slot, _ in found)), array("d", (count for _, count in found)))
        self._postings[term] = posting
        return posting

    def _invert(self) -> None:
        waiting, self._waiting = self._waiting or {}, None
        self._postings.clear()
        for slot in sorted(waiting):
            self._enter(slot, waiting[slot], waiting[slot])

    def _enter(self, slot: int, counts: Mapping[str, int], terms: "set[str] | Mapping[str, int]") -> None:
        postings = self._postings
        for term in terms:
            posting = postings.get(term)
            if posting is None:
                postings[term] = Posting(array("I", (slot,)), array("d", (counts[term],)))
            elif posting.slots[-1] < slot:
                posting.slots.append(slot)
                posting.counts.append(counts[term])
            else:
                position = bisect_left(posting.slots, slot)
                posting.slots.insert(position, slot)
                posting.counts.insert(position, counts[term])
