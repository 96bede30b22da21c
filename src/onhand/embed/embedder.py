"""Embedders turn texts into vectors: the protocol, prompts, similarity, and a deterministic embedder for tests."""

import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from math import hypot, isfinite
from operator import mul
from typing import Literal, NamedTuple, Protocol, get_args
from zlib import crc32

from onhand.errors import EmbedderError, InputError
from onhand.hidden_characters import repair_surrogates

Kind = Literal["query", "document", "similarity"]  # some models take different prompts for them
KINDS: tuple[Kind, ...] = get_args(Kind)
SMALLEST_LENGTH = 1e-9  # a shorter vector has no direction
ROUNDING = 1e-6  # by how much the length of a unit vector of 32-bit numbers may differ from one


class Embedder(Protocol):
    """Turns texts into vectors of length one whose dot products say how similar the texts are.

    `name` and `prompt_format` decide which vectors can be compared: an index made by one embedder is never searched by
    another. Reading `name` or `dimension` may have to open the model, and fail as `embed` does. Any text has a vector,
    even an empty one; of a text that is longer than the model can read, only the beginning counts.
    """

    @property
    def name(self) -> str:
        """The name of the model and its weights."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    @property
    def prompt_format(self) -> str:
        """How texts are prefixed for the model; "plain" if they are not."""

    @property
    def min_score(self) -> float | None:
        """The cosine below which this model's neighbours mean little; None: unknown."""

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """Return one vector of 32-bit floats for each text, in their order."""


def validate_texts(texts: Sequence[str], kind: str) -> list[str]:
    """Return the texts without lone surrogates; InputError when they or their kind cannot be embedded."""
    if kind not in KINDS:
        raise InputError(f"the kind must be one of {', '.join(KINDS)}, not {kind!r:.60}")
    if isinstance(texts, str):
        raise InputError("embed takes a list of texts: put the text in a list")
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"embed takes texts, not {type(text).__name__}")
    return [repair_surrogates(text) for text in texts]


def unit_vector(numbers: Iterable[float], what: str) -> "array[float]":
    """Return the numbers as a vector of length one; EmbedderError when they have no direction."""
    is_vector = isinstance(numbers, array) and numbers.typecode == "f"
    try:
        values = numbers if is_vector else [float(number) for number in numbers]
        length = hypot(*values)
    except (TypeError, ValueError, OverflowError):
        raise EmbedderError(f"{what} is not a vector: some of its values are not numbers") from None
    if not isfinite(length) or length < SMALLEST_LENGTH:
        raise EmbedderError(f"{what} is not a vector: its length is {length}")
    if is_vector and abs(length - 1) <= ROUNDING:
        return array("f", values)
    return array("f", [value / length for value in values])


class Prompts(NamedTuple):
    """The prefix for each kind of text; `name` is stored with the vectors."""

    name: str
    query: str = ""
    document: str = ""
    similarity: str = ""

    def add_prefix(self, text: str, kind: Kind) -> str:
        """Return the text as the model expects it."""
        return {"query": self.query, "document": self.document, "similarity": self.similarity}[kind] + text


PLAIN = Prompts("plain")
EMBEDDING_GEMMA = Prompts(  # from the model card
    "embeddinggemma",
    query="task: search result | query: ",
    document="title: none | text: ",
    similarity="task: sentence similarity | query: ",
)


E5 = Prompts("e5", query="query: ", document="passage: ", similarity="query: ")  # from the model card, as the next one
BGE_ENGLISH = Prompts("bge-en", query="Represent this sentence for searching relevant passages: ")
TRAINED_WITH = (  # what the names of models look like, without "-" and "_"
    ("embeddinggemma", EMBEDDING_GEMMA),
    (r"(?:^|[^a-z]|multilingual)e5(?:small|base|large)(?!.*instruct)", E5),
    (r"bge(?:small|base|large)en", BGE_ENGLISH),
)


def prompts_of(model: str) -> Prompts:
    """Return the prompts that the model with this name was trained with, as far as they are known."""
    name = model.lower().replace("-", "").replace("_", "")
    return next((prompts for pattern, prompts in TRAINED_WITH if re.search(pattern, name)), PLAIN)


MAX_THREADS = 4  # a single text does not benefit from more


def default_threads() -> int:
    """Return half of the processors that this process may use: two are often one core, and using both is no faster."""
    return max(1, min(count_processors() // 2, MAX_THREADS))


def count_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


MANY_VECTORS = 500  # above this, numpy saves more time than it takes to import
DECIMALS = 9  # so that equal vectors are equally similar, in whatever order their products are added up


class Similar(NamedTuple):
    """The key of a vector and its cosine with the query."""

    key: str
    score: float


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the cosine of two vectors: 1 for the same direction, 0 for a right angle, -1 for the opposite."""
    if len(a) != len(b):
        raise InputError(
            f"vectors of {len(a)} and {len(b)} numbers cannot be compared: they come from different models"
        )
    return _cosine(a, _length(a, "the first vector"), b, _length(b, "the second vector"))


def find_top_similar(query: Sequence[float], vectors: Mapping[str, Sequence[float]], limit: int = 10) -> list[Similar]:
    """Return the vectors with the largest cosine, best first, then by key."""
    if limit < 1:
        raise InputError(f"the limit is {limit}: it must be at least 1")
    length = _length(query, "the query")
    for key, vector in vectors.items():
        if len(vector) != len(query):
            raise InputError(
                f"the vector of {key!r} has {len(vector)} numbers and the query {len(query)}: "
                "they come from different models"
            )
    scores = (_scores_of_many if len(vectors) >= MANY_VECTORS else _scores)(query, length, vectors)
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
        raise InputError(f"{what} has the length {length} and no direction: embed its text again")
    return length


HASHING_DIMENSION = 256
MAX_HASHED_CHARS = 65_536  # of a text; the rest would hardly change the vector
GRAM = 3  # characters of the parts of a word


class HashingEmbedder:
    """Vectors of hashed words and trigrams, the same on every machine, without a model.

    Texts with common words are close to each other, so that tests have neighbours to find. It must be chosen by name:
    in a real search it would add only noise to the keyword layer.
    """

    prompt_format = "plain"
    min_score: float | None = None

    def __init__(self, dimension: int = HASHING_DIMENSION) -> None:
        self.name = f"hashing-{dimension}"
        self.dimension = dimension

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """Return one vector for each text, in their order."""
        return [self._vector(text) for text in validate_texts(texts, kind)]

    def _vector(self, text: str) -> "array[float]":
        sums = [0.0] * self.dimension
        for feature, count in Counter(_features(text[:MAX_HASHED_CHARS])).items():
            hashed = crc32(feature.encode())
            sums[hashed % self.dimension] += count**0.5 if hashed & 0x8000_0000 else -(count**0.5)
        if not any(sums):  # no feature, or they cancel out
            sums[0] = 1.0
        return unit_vector(sums, "a hashed text")


def _features(text: str) -> Iterator[str]:
    for word in re.findall(r"\w+", text.casefold()):
        yield word
        marked = f"<{word}>"
        for start in range(len(marked) - GRAM + 1):
            yield marked[start : start + GRAM]
