"""How often does each text have the terms of a query? Looked up in the texts, which are not taken apart for it.

For a small corpus that is asked once: to sort the words of all texts would take several times as long. A text is what
`Tokenizer.spaced` made of it.
"""

from __future__ import annotations

from onhand.lexical.vocabulary import joined, piece_of

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
    pieces = sorted({piece_of(term) for term in terms}, key=len)
    sought = [(piece_of(term), term) for term in terms]
    # With each piece, those that are in it: where one of these is missing, it need not be looked for.
    within = [(piece, frozenset(short for short in pieces if short in piece and short != piece)) for piece in pieces]
    for slot, texts in rows:
        for field, text in enumerate(texts):
            lower = text.lower() if text.isascii() else text.casefold()
            whole = joined(lower)
            there: set[str] = set()
            for piece, shorter in within:
                if shorter <= there and piece in whole:
                    there.add(piece)
            if there:
                for piece, term in sought:
                    if piece in there:
                        often = sum([forms(word).count(term) for word in _words_having(piece, text, lower, whole)])
                        if often:
                            found[term][field][slot] = often
    return found


def _words_having(piece: str, text: str, lower: str, whole: str) -> Iterator[str]:
    """Every word of a text that has a piece, and perhaps others; `whole` is `lower` with its parts `joined`."""
    if len(lower) != len(text) or lower.count(piece) < whole.count(piece):  # some of it is in `read`, some in `_file`
        yield from text.split()
        return
    place = lower.find(piece)
    while place >= 0:
        end = text.find(" ", place)
        end = len(text) if end < 0 else end
        yield text[text.rfind(" ", 0, place) + 1 : end]
        place = lower.find(piece, end)
