"""Compare vectors of length one exactly: in plain Python, or with numpy where many are compared and it is loaded.

`mmap_vectors` searches very many vectors with numpy alone.
"""

from __future__ import annotations

import sys
from _operator import mul  # what `operator` exports, without its Python part
from math import isfinite

from onhand.errors import EmbedderError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Iterable, Sequence
    from typing import TypeVar

    from onhand.document import Passage

    Key = TypeVar("Key", int, str)

MANY_VECTORS = 100  # from this number on, handing vectors to numpy is faster than comparing them in Python


def join_vectors(vectors: Sequence[array[float]]) -> array[float]:
    """Return vectors one after the other."""
    if len(vectors) == 1:
        return vectors[0]
    joined = vectors[0][:]
    for vector in vectors[1:]:
        joined.extend(vector)
    return joined


def split_vectors(vector: array[float], count: int) -> list[array[float]]:
    """Return the vectors of the passages of a document, which follow each other."""
    if count <= 1:
        return [vector]
    size = len(vector) // count
    return [vector[start : start + size] for start in range(0, size * count, size)]


def cosines(query: array[float], rows: Sequence[array[float]]) -> list[float]:
    """Return the dot product of the query with each row, at least -1 and at most 1."""
    products: Iterable[float]
    if len(rows) >= MANY_VECTORS and "numpy" in sys.modules:  # most embedders have loaded it
        import numpy

        matrix = numpy.frombuffer(b"".join(rows), dtype=numpy.float32).reshape(len(rows), -1)
        products = (matrix.astype(numpy.float64) @ numpy.array(query, dtype=numpy.float64)).tolist()
    else:
        products = (float(sum(map(mul, query, row))) for row in rows)
    # The length of a stored vector differs from one by the rounding of a 32-bit float.
    return [max(-1.0, min(1.0, product)) for product in products]


def nearest_rows(
    query: array[float],
    rows: Iterable[tuple[int, bytes]],
    allowed: Collection[int] | None = None,
    limit: int = 10,
    min_score: float | None = None,
) -> list[tuple[int, float]]:
    """Return the top-k docnums and their largest cosines in descending order, including all ties with the last one.

    The rows are docnums and little-endian floats: of one vector or of several that follow each other.
    """
    permitted = None if allowed is None else set(map(int, allowed))
    docnums, vectors = [], []
    for docnum, data in rows:
        if permitted is None or docnum in permitted:
            count = count_vectors(docnum, data, len(query))
            docnums += [docnum] * count
            vectors += split_vectors(decode_vector(data), count)
    found = best_of_each(zip(docnums, cosines(query, vectors), strict=True))
    if min_score is not None:
        found = [hit for hit in found if hit[1] >= min_score]
    found.sort(key=lambda hit: (-hit[1], hit[0]))
    if not 0 < limit < len(found):
        return found if limit > 0 else []
    return [hit for hit in found if hit[1] >= found[limit - 1][1]]


def check_query(query: array[float], dimension: int) -> None:
    """Raise EmbedderError if the query cannot be compared with vectors of this dimension."""
    if len(query) != dimension:
        raise EmbedderError(
            f"The query vector has {len(query)} numbers, but the stored vectors have {dimension}. "
            "Use the model that the index was made with."
        )
    if not all(map(isfinite, query)):
        raise EmbedderError("The query vector is not finite, so its model cannot be used. Choose another model.")


def find_nearest_passage(query: array[float], joined: array[float], passages: Sequence[Passage]) -> Passage:
    """Return the passage whose vector has the largest cosine; of several, the first."""
    scores = cosines(query, split_vectors(joined, len(passages)))
    return passages[scores.index(max(scores))]


def best_of_each(scored: Iterable[tuple[Key, float]]) -> list[tuple[Key, float]]:
    """Return each key once, with the largest of its scores."""
    best: dict[Key, float] = {}
    for key, score in scored:
        if score > best.get(key, -2.0):
            best[key] = score
    return list(best.items())


def count_vectors(docnum: int, data: bytes, dimension: int) -> int:
    """Return how many vectors of this dimension the bytes are; raise StoreError if they are none."""
    count, rest = divmod(len(data), dimension * 4)
    if rest or not count:
        raise StoreError(
            f"The vector of docnum {docnum} has {len(data)} bytes, not a multiple of {dimension * 4}. "
            "Run `onhand docs reembed`."
        )
    return count


def encode_vector(vector: array[float]) -> bytes:
    """Return the numbers as little-endian floats."""
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector.tobytes()


def decode_vector(data: bytes) -> array[float]:
    """Return the numbers that `encode_vector` wrote."""
    from array import array  # here, because a search by words alone does not need it

    vector = array("f", data)
    if sys.byteorder == "big":
        vector.byteswap()
    return vector
