"""How alike are vectors? For a map of vectors in memory; the store ranks those of documents."""

from collections.abc import Mapping, Sequence
from heapq import nsmallest
from math import isfinite
from operator import mul
from typing import NamedTuple

from onhand.errors import InputError

MANY = 500  # vectors, above which numpy saves more time than it takes to import
DECIMALS = 9  # what 32-bit numbers can tell apart, and more; so equal vectors are equal however they were added up


class Similar(NamedTuple):
    """The key of a vector and its cosine with the query."""

    key: str
    score: float


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """How alike two vectors point: 1 the same way, 0 across, -1 the other way."""
    if len(a) != len(b):
        raise InputError(f"vectors of {len(a)} and {len(b)} numbers cannot be compared: they are of different models")
    return _cosine(a, _length(a, "the first vector"), b, _length(b, "the second vector"))


def find_top_similar(query: Sequence[float], vectors: Mapping[str, Sequence[float]], limit: int = 10) -> list[Similar]:
    """The vectors that point most nearly where the query does: best first, then by key."""
    if limit < 1:
        raise InputError(f"the limit is {limit}: ask for at least one")
    length = _length(query, "the query")
    for key, vector in vectors.items():
        if len(vector) != len(query):
            raise InputError(
                f"the vector of {key!r} has {len(vector)} numbers and the query {len(query)}: "
                "they are of different models"
            )
    scores = (_scores_of_many if len(vectors) >= MANY else _scores)(query, length, vectors)
    found = (Similar(key, score) for key, score in zip(vectors, scores, strict=True))
    return nsmallest(limit, found, key=lambda one: (-one.score, one.key))


def _scores(query: Sequence[float], length: float, vectors: Mapping[str, Sequence[float]]) -> list[float]:
    return [_cosine(query, length, vector, _length(vector, f"{key!r}")) for key, vector in vectors.items()]


def _scores_of_many(query: Sequence[float], length: float, vectors: Mapping[str, Sequence[float]]) -> list[float]:
    try:
        import numpy as np
    except ModuleNotFoundError:
        return _scores(query, length, vectors)
    matrix = np.array([np.asarray(vector, np.float64) for vector in vectors.values()])
    lengths = np.sqrt((matrix * matrix).sum(axis=1))
    if not (np.isfinite(lengths).all() and lengths.all()):
        return _scores(query, length, vectors)  # which says whose vector it is
    cosines = (matrix @ np.asarray(query, np.float64)) / (lengths * length)
    return [round(float(score), DECIMALS) for score in cosines.clip(-1, 1)]


def _cosine(a: Sequence[float], a_length: float, b: Sequence[float], b_length: float) -> float:
    score: float = sum(map(mul, a, b)) / (a_length * b_length)
    return round(max(-1.0, min(1.0, score)), DECIMALS)


def _length(vector: Sequence[float], what: str) -> float:
    length: float = sum(map(mul, vector, vector)) ** 0.5
    if not isfinite(length) or not length:
        raise InputError(f"{what} has the length {length} and points nowhere: embed its text again")
    return length
