"""What turns a text into a vector? The seam between the Index and the models."""

from array import array
from collections.abc import Sequence
from typing import Literal, Protocol

Kind = Literal["query", "document", "similarity"]  # some models are told what a text is for


class Embedder(Protocol):
    """Turns texts into vectors of length one whose products say how alike the texts are.

    `name` and `prompt_format` say all that decides which vectors can be compared: an index made by one embedder is
    never searched by another.
    """

    name: str  # of the model and of the weights it has
    dimension: int
    prompt_format: str  # how texts are dressed for the model; "plain" when they are not
    min_score: float | None  # the cosine below which this model's neighbours mean little; None: nobody measured it

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """One vector of 32-bit floats for each text, in their order."""
