"""What turns a text into a vector? The seam between the Index and the models."""

from array import array
from collections.abc import Iterable, Sequence
from math import hypot, isfinite
from typing import Literal, Protocol, get_args

from onhand.errors import EmbedderError, InputError
from onhand.text import whole

Kind = Literal["query", "document", "similarity"]  # some models are told what a text is for
KINDS: tuple[Kind, ...] = get_args(Kind)
SMALLEST_LENGTH = 1e-9  # of what a model gave; less is a vector of zeros, and points nowhere
ROUNDING = 1e-6  # what a vector of 32-bit numbers may be longer or shorter than one


class Embedder(Protocol):
    """Turns texts into vectors of length one whose products say how alike the texts are.

    `name` and `prompt_format` say all that decides which vectors can be compared: an index made by one embedder is
    never searched by another. Asking for `name` or `dimension` may have to look at the model, and fail as `embed` does.
    Any text has a vector, an empty one too; of a text longer than the model reads, its beginning counts. One that works
    in this process and waits for nobody may say so (`is_in_process`): it cannot hang, and nobody watches it.
    """

    @property
    def name(self) -> str:
        """Of the model and of the weights it has."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    @property
    def prompt_format(self) -> str:
        """How texts are dressed for the model; "plain" when they are not."""

    @property
    def min_score(self) -> float | None:
        """The cosine below which this model's neighbours mean little; None: nobody measured it."""

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """One vector of 32-bit floats for each text, in their order."""


def is_in_process(embedder: Embedder) -> bool:
    """Whether an embedder says that it waits for no server, no other process and no person."""
    return getattr(embedder, "in_process", False) is True


def accepted_texts(texts: Sequence[str], kind: str) -> list[str]:
    """The texts, each of them whole, or an error when they or their kind cannot be embedded."""
    if kind not in KINDS:
        raise InputError(f"a text is embedded as {', '.join(KINDS)}, not as {kind!r:.60}")
    if isinstance(texts, str):
        raise InputError("embed takes a list of texts: put the one text into a list")
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"embed takes texts, not {type(text).__name__}")
    return [whole(text) for text in texts]


def unit(numbers: Iterable[float], what: str) -> "array[float]":
    """The numbers as a vector of length one, or an error when they point nowhere. What is one stays as it is."""
    is_vector = isinstance(numbers, array) and numbers.typecode == "f"
    try:
        values = numbers if is_vector else [float(number) for number in numbers]
        length = hypot(*values)
    except (TypeError, ValueError, OverflowError):
        raise EmbedderError(f"{what} is no vector: it has values that are no numbers") from None
    if not isfinite(length) or length < SMALLEST_LENGTH:
        raise EmbedderError(f"{what} is no vector: its length is {length}")
    if is_vector and abs(length - 1) <= ROUNDING:
        return array("f", values)
    return array("f", [value / length for value in values])
