"""Which tokens of BERT's vocabulary is this text? The uncased WordPiece that MiniLM was trained with.

Texts are never instructions: a text that says "[SEP]" is taken for a bracket and a word.
"""

import os
from unicodedata import category, normalize

MAX_WORD_CHARS = 100  # of a word that is looked into; a longer one is unknown as a whole, as in BERT
MAX_CHARS = 65_536  # of a text; some two hundred tokens are a small part of that, and no text takes long
MAX_KNOWN_CHARACTERS = 20_000  # what is remembered about characters, whatever a text is made of

INVISIBLE = {"Cc", "Cf", "Co", "Cs"}  # control, format, private and half characters; unassigned ones are unknown words

# What BERT takes for ideographs, each of them a word of its own. Kana and Hangul are not among them.
IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Texts as token ids."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._ids = vocabulary
        self._unknown = vocabulary["[UNK]"]
        self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._characters = _Characters()

    def ids(self, text: str, max_tokens: int) -> list[int]:
        """The first tokens of a text, between the two that mark its ends."""
        ids = [self._first]
        for word in text[:MAX_CHARS].translate(self._characters).split():
            if len(ids) >= max_tokens - 1:
                break
            ids += self._pieces(word)
        return [*ids[: max_tokens - 1], self._last]

    def _pieces(self, word: str) -> list[int]:
        """The longest known beginning of a word, then of the rest, and so on."""
        if len(word) > MAX_WORD_CHARS:
            return [self._unknown]
        pieces: list[int] = []
        start, mark = 0, ""
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = self._ids.get(mark + word[start:end])
                if piece is not None:
                    break
            else:
                return [self._unknown]
            pieces.append(piece)
            start, mark = end, "##"
        return pieces


class _Characters(dict[int, str]):
    """What `str.translate` asks for each character: gone, a space, plain letters, or apart from its neighbours.

    Each character is decomposed for itself: putting long runs of accents into order first would take quadratic time.
    """

    def __missing__(self, code: int) -> str:
        plain = _plain(code)
        if len(self) < MAX_KNOWN_CHARACTERS:
            self[code] = plain
        return plain


def _plain(code: int) -> str:
    character = chr(code)
    if character in "\t\n\r":
        return " "
    kind = category(character)
    if kind in INVISIBLE or code == 0xFFFD:
        return ""
    if kind[0] == "Z":
        return " "
    letters = (letter for letter in normalize("NFD", character) if category(letter) != "Mn")
    plain = "".join(f" {letter} " if _is_punctuation(letter) else letter.lower() for letter in letters)
    return f" {plain} " if any(first <= code <= last for first, last in IDEOGRAPHS) else plain


def _is_punctuation(character: str) -> bool:
    """All signs of ASCII are punctuation to BERT, such as $, + and ^."""
    return category(character)[0] == "P" or (
        character.isascii() and character.isprintable() and not character.isalnum()
    )


def packaged_vocabulary() -> dict[str, int]:
    """The 30,522 tokens of BERT's uncased vocabulary, by id."""
    path = os.path.join(os.path.dirname(__file__), "minilm_vocab.txt")
    with open(path, encoding="utf-8", newline="\n") as file:
        tokens = file.read().split("\n")  # not splitlines: odd line ends are tokens too
    return {token: place for place, token in enumerate(tokens) if token}
