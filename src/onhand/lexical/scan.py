"""How often does each text have the terms of a query? Looked up in the texts, which are not taken apart for it.

For a small corpus that is asked once: to sort the words of all texts would take several times as long. A text is what
`Tokenizer.spaced` made of it.
"""

from __future__ import annotations

from onhand.lexical.vocabulary import in_pieces, piece_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from onhand.lexical.vocabulary import Forms

_OUTLINE = bytes(0x20 if code == 0x20 else ord("x") for code in range(256))


def length_of(text: str) -> int:
    """How many words a text has."""
    if text.isascii():  # without making a string of each
        return (b" " + text.encode().translate(_OUTLINE)).count(b" x")
    return len(text.split())


def occurrences(
    terms: Collection[str], rows: Iterable[tuple[int, Sequence[str]]], fields: int, forms: Forms
) -> dict[str, list[dict[int, int]]]:
    """For each term and each field, the slots whose text there has it, and how often; a row is a slot and its texts."""
    found: dict[str, list[dict[int, int]]] = {term: [{} for _ in range(fields)] for term in terms}
    pieces = [(piece_of(term), term) for term in terms]
    for slot, texts in rows:
        for field, text in enumerate(texts):
            whole = in_pieces(text)
            for piece, term in pieces:
                if piece in whole:
                    often = sum([forms(word).count(term) for word in _words_having(piece, text, whole)])
                    if often:
                        found[term][field][slot] = often
    return found


def _words_having(piece: str, text: str, whole: str) -> Iterator[str]:
    """Every word of a text that has a piece, and perhaps others; `whole` is the text `in_pieces`."""
    lower = text.lower()
    if len(lower) != len(text) or lower.count(piece) < whole.count(piece):  # a part of it is in `read`, one in `_file`
        yield from text.split()
        return
    place = lower.find(piece)
    while place >= 0:
        end = text.find(" ", place)
        end = len(text) if end < 0 else end
        yield text[text.rfind(" ", 0, place) + 1 : end]
        place = lower.find(piece, end)
