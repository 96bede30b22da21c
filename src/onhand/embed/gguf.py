"""What does it mean, to a GGUF model in this process? llama.cpp as the package xllamacpp brings it."""

import os
import re
import threading
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from onhand.embed import llama
from onhand.embed.embedder import Kind, accepted_texts, unit
from onhand.embed.gguf_header import Header, header_of
from onhand.embed.hub import HUB, HubFile, Progress, fetch
from onhand.embed.prompts import EMBEDDING_GEMMA, Prompts, prompts_of
from onhand.errors import EmbedderError, InputError

HUB_PREFIX = "hf:"
DEFAULT = HubFile(
    "ggml-org/embeddinggemma-300M-GGUF",
    "embeddinggemma-300M-Q8_0.gguf",
    sha256="b5ce9d77a3fc4b3b39ccb5643c36777911cc4eb46a66962eadfa3f5f60490d63",
    size=333_590_944,
)
DEFAULT_MODEL = f"{HUB_PREFIX}{DEFAULT.repository}/{DEFAULT.file}"
DEFAULT_DIMENSION = 256  # of the 768 of embeddinggemma, which is trained so that the first numbers say most
MAX_TOKENS = 2048  # what embeddinggemma reads; a model that reads more would take memory for it
CHARS_PER_TOKEN = 8  # more than texts have; what is beyond is cut before it is taken apart
SPARE = 0.95  # of the length that would just fit, as tokens are not of equal length
SAMPLE_BYTES = 65_536


class GgufEmbedder:
    """Vectors of a GGUF model: a path, or `hf:OWNER/REPOSITORY/FILE.gguf`, which is downloaded when it is needed.

    A `dimension` below the model's own takes the first numbers and brings them to length one again; that is right for
    models that are trained for it, as embeddinggemma is. Nothing is read or downloaded before it is needed.
    """

    min_score: float | None = None

    def __init__(
        self,
        model: str | os.PathLike[str] = DEFAULT_MODEL,
        dimension: int | None = None,
        prompts: Prompts | None = None,
        threads: int | None = None,
        on_progress: Progress | None = None,
        cache: str | None = None,
        hub_url: str = HUB,
    ) -> None:
        given = os.fspath(model)
        if not given or "\0" in given:
            raise InputError("the model is a path, or hf:OWNER/REPOSITORY/FILE.gguf")
        if dimension is not None and dimension < 1:
            raise InputError(f"the dimension is {dimension}: ask for at least one number")
        hub = DEFAULT if given == DEFAULT_MODEL else None
        if hub is None and given.startswith(HUB_PREFIX):
            hub = HubFile.named(given.removeprefix(HUB_PREFIX))
        self._hub = hub
        self._path = given
        trained_for = prompts_of(os.path.basename(given))
        self._prompts = prompts or trained_for
        self._asked = DEFAULT_DIMENSION if dimension is None and trained_for == EMBEDDING_GEMMA else dimension
        self._threads = threads
        self._fetching = (cache, hub_url, on_progress)
        self._model: _Model | None = None
        self._name: str | None = None
        self._turn = threading.RLock()

    @property
    def name(self) -> str:
        """Of a hub's file its name there; of a path its name and what is in it."""
        if self._name is None:
            stem = os.path.splitext(os.path.basename(self._path))[0]
            self._name = f"{self._hub.repository}/{stem}" if self._hub else f"{stem}:{_sample(self._path)}"
        return self._name

    @property
    def dimension(self) -> int:
        """As asked for, or 256 for embeddinggemma; else the model's own, for which its file is looked at."""
        return self._asked or self._header().dimension

    @property
    def prompt_format(self) -> str:
        """How texts are dressed for the model."""
        return self._prompts.name

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """One vector for each text; an interrupt is noticed between two of them."""
        whole = accepted_texts(texts, kind)
        if not whole:
            return []
        with self._turn:
            model = self._loaded()
            return [_vector(model, self._prompts.dressed(text, kind), self._asked) for text in whole]

    def _file(self) -> str:
        if self._hub is None:
            return self._path
        cache, hub_url, on_progress = self._fetching
        return fetch(self._hub, cache, hub_url, on_progress)

    def _header(self) -> Header:
        with self._turn:
            return header_of(self._file())

    def _loaded(self) -> "_Model":
        if self._model is None:
            llama.parts(EmbedderError)  # before anything is downloaded
            path = self._file()
            header = header_of(path)
            if self._asked and self._asked > header.dimension:
                raise EmbedderError(f"{path} gives {header.dimension} numbers: ask for a dimension of at most that")
            self._model = _load(path, header, self._threads)
        return self._model


class _Model(NamedTuple):
    server: Any
    path: str
    max_tokens: int


def _load(path: str, header: Header, threads: int | None) -> _Model:
    tokens = min(header.max_tokens, MAX_TOKENS)

    def adjust(params: Any) -> None:
        params.embedding = True
        params.n_ctx = params.n_batch = params.n_ubatch = tokens  # a text is read in one piece, or means something else

    return _Model(llama.start(path, adjust, threads, EmbedderError), path, tokens)


def _vector(model: _Model, text: str, dimension: int | None) -> "array[float]":
    numbers = _numbers(model, text[: model.max_tokens * CHARS_PER_TOKEN])
    return unit(numbers[:dimension], f"what {model.path} gave")


def _numbers(model: _Model, text: str) -> list[float]:
    """What the model says of as much of the beginning of a text as it can read."""
    while True:
        answer = model.server.handle_embeddings({"input": [text]})
        if "error" not in answer:
            break
        message = str(answer["error"].get("message", "no reason"))
        too_long = re.search(r"\((\d+) tokens\)", message)
        if not too_long or len(text) < 2:
            raise EmbedderError(f"llama.cpp cannot embed with {model.path}: {message[:300]}")
        fitting = int(len(text) * SPARE * model.max_tokens / int(too_long[1]))
        text = text[: max(1, min(fitting, len(text) - 1))]
    numbers = answer["data"][0]["embedding"]
    if not isinstance(numbers, list) or not numbers or isinstance(numbers[0], list):
        raise EmbedderError(f"{model.path} gives no vector for a whole text: take an embedding model")
    return numbers


def _sample(path: str) -> str:
    """A few letters that differ where files do: their size, beginning, middle and end are looked at."""
    import hashlib

    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            hashed = hashlib.sha256(str(size).encode())
            for place in (0, size // 2, max(0, size - SAMPLE_BYTES)):
                file.seek(place)
                hashed.update(file.read(SAMPLE_BYTES))
    except OSError as error:
        raise EmbedderError(f"{path} cannot be read: {error.strerror}. Give the path of a GGUF file") from None
    return hashed.hexdigest()[:8]
