"""Where does each term occur? The inverted index of one field.

It knows slots (small numbers that stand for documents); scores and texts are not its business.

A posting is an ascending array of slots in which a slot stands once for every occurrence: to enter a document is one
append for each of its words, and nothing has to be counted until somebody asks for the term.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import partial


class Postings:
    """Term → the slots that have it, kept current while documents come and go."""

    def __init__(self) -> None:
        self._postings: defaultdict[str, array[int]] = defaultdict(partial(array, "I"))
        self._highest = -1  # slot that was ever entered

    def add(self, slot: int, terms: Iterable[str]) -> None:
        """Enter a document's terms, repeats included; its slot must be free."""
        postings = self._postings
        if slot > self._highest:
            self._highest = slot
            for term in terms:
                postings[term].append(slot)
        else:  # the slot of a document that was removed; all occurrences at once, as each insertion moves the rest
            for term, count in Counter(terms).items():
                posting = postings[term]
                place = bisect_left(posting, slot)
                if count == 1:  # nearly all
                    posting.insert(place, slot)
                else:
                    posting[place:place] = array("I", [slot]) * count

    def remove(self, slot: int, terms: Iterable[str]) -> None:
        """Take a document out; `terms` are those it was entered with."""
        for term in set(terms):
            posting = self._postings[term]
            del posting[bisect_left(posting, slot) : bisect_right(posting, slot)]
            if not posting:
                del self._postings[term]

    def get(self, term: str) -> "array[int] | None":
        """The slots that have a term, once for every occurrence; None when there are none."""
        return self._postings.get(term)
