"""What does it mean, without a model? Nothing: this embedder is the twin for tests, and is chosen by name only.

Texts that share words and parts of words come near each other, so tests of what uses vectors have neighbours to find.
As a layer of a search it would add noise to what words find already.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from zlib import crc32

from onhand.embed.embedder import Kind, accepted_texts, unit

DIMENSION = 256
MAX_CHARS = 65_536  # of a text; the rest says little more in a vector of hashes
GRAM = 3  # characters of the parts of a word


class HashingEmbedder:
    """Vectors of hashed words and parts of words: the same on every machine, from the standard library alone."""

    prompt_format = "plain"
    min_score: float | None = None
    in_process = True

    def __init__(self, dimension: int = DIMENSION) -> None:
        self.name = f"hashing-{dimension}"
        self.dimension = dimension

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """One vector for each text, in their order."""
        return [self._vector(text) for text in accepted_texts(texts, kind)]

    def _vector(self, text: str) -> "array[float]":
        sums = [0.0] * self.dimension
        for feature, count in Counter(_features(text[:MAX_CHARS])).items():
            hashed = crc32(feature.encode())
            sums[hashed % self.dimension] += count**0.5 if hashed & 0x8000_0000 else -(count**0.5)
        if not any(sums):  # no feature, or they cancel out
            sums[0] = 1.0
        return unit(sums, "a hashed text")


def _features(text: str) -> Iterator[str]:
    for word in re.findall(r"\w+", text.casefold()):
        yield word
        marked = f"<{word}>"
        for start in range(len(marked) - GRAM + 1):
            yield marked[start : start + GRAM]
