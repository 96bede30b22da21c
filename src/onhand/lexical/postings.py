"""Where does each word occur? The inverted index of one field.

It knows slots (small numbers that stand for documents); scores and texts are not its business.

A posting has slots in ascending order, one for every occurrence: to enter a document is one append for each of its
words, and nothing has to be counted until somebody asks for the word. It is kept as bytes, which Python's collector of
garbage does not look through: there are tens of thousands of them.
"""

import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, KeysView
from itertools import accumulate, chain, count

SIZE = array("I").itemsize


class Postings:
    """Word → the slots that have it, kept current while documents come and go."""

    def __init__(self) -> None:
        self._postings: defaultdict[str, bytearray] = defaultdict(bytearray)
        self._highest = -1  # slot that was ever entered
        # What was restored, until something changes: the place of each word, where its posting ends, and all postings
        # one after the other. Most commands ask for a few words and end.
        self._kept: tuple[dict[str, int], array[int], array[int]] | None = None

    def add(self, slot: int, words: Iterable[str]) -> None:
        """Enter a document's words, repeats included; its slot must be free."""
        if self._kept is not None:
            self._take_apart()
        postings = self._postings
        own = slot.to_bytes(SIZE, sys.byteorder)
        if slot > self._highest:
            self._highest = slot
            for word in words:
                postings[word].extend(own)
        else:  # the slot of a document that was removed; all occurrences at once, as each insertion moves the rest
            from bisect import bisect_left

            for word, count in Counter(words).items():
                posting = postings[word]
                place = bisect_left(_slots(posting), slot) * SIZE
                posting[place:place] = own * count

    def remove(self, slot: int, words: Iterable[str]) -> list[str]:
        """Take a document out and give the words that nothing has any more; `words` are those it was entered with."""
        from bisect import bisect_left, bisect_right

        self._take_apart()
        gone = []
        for word in set(words):
            posting = self._postings[word]
            slots = _slots(posting)
            del posting[bisect_left(slots, slot) * SIZE : bisect_right(slots, slot) * SIZE]
            if not posting:
                del self._postings[word]
                gone.append(word)
        return gone

    def state(self) -> tuple[int, list[str], bytes, bytes]:
        """What `restore` takes, of types that marshal knows."""
        self._take_apart()
        ends = array("I", accumulate(len(posting) // SIZE for posting in self._postings.values()))
        return self._highest, list(self._postings), ends.tobytes(), b"".join(self._postings.values())

    def restore(self, state: tuple[int, list[str], bytes, bytes]) -> None:
        """Become what another was whose state this is."""
        self._highest, words, ends, slots = state
        self._postings.clear()
        self._kept = dict(zip(words, count())), array("I", ends), array("I", slots)

    def _take_apart(self) -> None:
        if self._kept is not None:
            (places, ends, slots), self._kept = self._kept, None
            self._postings.update({word: bytearray(_posting(place, ends, slots)) for word, place in places.items()})

    def __contains__(self, word: str) -> bool:
        return word in self.words()

    def words(self) -> KeysView[str]:
        """Every word that occurs."""
        return self._postings.keys() if self._kept is None else self._kept[0].keys()

    def counted(self, words: Iterable[str]) -> dict[int, int]:
        """The slots in which any of those words stands, and how often."""
        return Counter(chain.from_iterable(self.of(words)))

    def of(self, words: Iterable[str]) -> "list[array[int]]":
        """The postings of those words that occur."""
        if self._kept is None:
            return [_slots(posting) for word in words if (posting := self._postings.get(word)) is not None]
        places, ends, slots = self._kept
        return [_posting(places[word], ends, slots) for word in words if word in places]

    def together(self, words: Iterable[str]) -> tuple[bytes, int]:
        """The same one after the other, as native unsigned integers, and of how many words they are."""
        if self._kept is not None:
            kept = self.of(words)
            return b"".join(kept), len(kept)
        found = [posting for word in words if (posting := self._postings.get(word)) is not None]
        return b"".join(found), len(found)


def _slots(posting: bytearray) -> "array[int]":
    return array("I", posting)


def _posting(place: int, ends: "array[int]", slots: "array[int]") -> "array[int]":
    return slots[ends[place - 1] if place else 0 : ends[place]]
