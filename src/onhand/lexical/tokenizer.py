"""What turns text into terms? The seam between an index and the tokenizers."""

from typing import Protocol


class Tokenizer(Protocol):
    """Turns text into words, and words into terms."""

    def spaced(self, text: str) -> str:
        """The words of a text with space between them, which are quicker to look through than to take apart."""

    def words(self, text: str) -> list[str]:
        """The words of a text as an index keeps them, repeats included; their number is the text's length."""

    def forms(self, word: str) -> tuple[str, ...]:
        """The terms by which a word is found."""

    def terms(self, text: str) -> list[str]:
        """The forms of all words of a text."""

    def query_terms(self, query: str) -> list[tuple[str, float]]:
        """The terms to look up for a query and what each weighs, in its order, repeats included."""
