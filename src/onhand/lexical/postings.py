"""Where does each word occur? The inverted index of one field.

It knows slots (small numbers that stand for documents); scores and texts are not its business.

A posting is an ascending array of slots in which a slot stands once for every occurrence: to enter a document is one
append for each of its words, and nothing has to be counted until somebody asks for the word.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, KeysView
from itertools import accumulate, chain, count


class Postings:
    """Word → the slots that have it, kept current while documents come and go."""

    def __init__(self) -> None:
        self._postings: defaultdict[str, array[int]] = defaultdict(array("I").__copy__)  # the quickest empty one
        self._highest = -1  # slot that was ever entered
        # What was restored, until something changes: the place of each word, where its posting ends, and all postings
        # one after the other. Most commands ask for a few words and end.
        self._kept: tuple[dict[str, int], array[int], array[int]] | None = None

    def add(self, slot: int, words: Iterable[str]) -> None:
        """Enter a document's words, repeats included; its slot must be free."""
        self._take_apart()
        postings = self._postings
        if slot > self._highest:
            self._highest = slot
            for word in words:
                postings[word].append(slot)
        else:  # the slot of a document that was removed; all occurrences at once, as each insertion moves the rest
            from bisect import bisect_left

            for word, count in Counter(words).items():
                posting = postings[word]
                place = bisect_left(posting, slot)
                posting[place:place] = array("I", [slot]) * count

    def remove(self, slot: int, words: Iterable[str]) -> list[str]:
        """Take a document out and give the words that nothing has any more; `words` are those it was entered with."""
        from bisect import bisect_left, bisect_right

        self._take_apart()
        gone = []
        for word in set(words):
            posting = self._postings[word]
            del posting[bisect_left(posting, slot) : bisect_right(posting, slot)]
            if not posting:
                del self._postings[word]
                gone.append(word)
        return gone

    def state(self) -> tuple[int, list[str], bytes, bytes]:
        """What `restore` takes, of types that marshal knows."""
        self._take_apart()
        ends = array("I", accumulate(map(len, self._postings.values())))
        return self._highest, list(self._postings), ends.tobytes(), b"".join(self._postings.values())

    def restore(self, state: tuple[int, list[str], bytes, bytes]) -> None:
        """Become what another was whose state this is."""
        self._highest, words, ends, slots = state
        self._postings.clear()
        self._kept = dict(zip(words, count())), array("I", ends), array("I", slots)

    def _take_apart(self) -> None:
        if self._kept is not None:
            (places, ends, slots), self._kept = self._kept, None
            self._postings.update({word: _posting(place, ends, slots) for word, place in places.items()})

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
            return [posting for word in words if (posting := self._postings.get(word)) is not None]
        places, ends, slots = self._kept
        return [_posting(places[word], ends, slots) for word in words if word in places]


def _posting(place: int, ends: "array[int]", slots: "array[int]") -> "array[int]":
    return slots[ends[place - 1] if place else 0 : ends[place]]
