"""What is a model told about a text? Some were trained with words before it that say what it is for."""

from typing import NamedTuple

from onhand.embed.embedder import Kind


class Prompts(NamedTuple):
    """What stands before a text of each kind; `name` is recorded with the vectors."""

    name: str
    query: str = ""
    document: str = ""
    similarity: str = ""

    def dressed(self, text: str, kind: Kind) -> str:
        """The text as the model is to read it."""
        return {"query": self.query, "document": self.document, "similarity": self.similarity}[kind] + text


PLAIN = Prompts("plain")
EMBEDDING_GEMMA = Prompts(  # from the model card
    "embeddinggemma",
    query="task: search result | query: ",
    document="title: none | text: ",
    similarity="task: sentence similarity | query: ",
)


def prompts_of(model: str) -> Prompts:
    """The prompts that a model of this name was trained with, as far as is known here."""
    return EMBEDDING_GEMMA if "embeddinggemma" in model.lower().replace("-", "").replace("_", "") else PLAIN
