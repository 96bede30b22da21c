"""bge-small-en-v1.5 in this process: BERT with twelve layers, of which the vector of the first token is taken."""

import threading
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from onhand.embed.embedder import Kind, unit_vector, validate_texts
from onhand.embed.hub import HUB, Progress, fetch
from onhand.embed.minilm import WordPiece, read_vocabulary
from onhand.embed.models import MODELS, KnownModel
from onhand.embed.onnx import check_weights, embed_each, import_onnxruntime, open_session
from onhand.errors import EmbedderError

BGE_PACKAGES: tuple[str, ...] = ("numpy", "onnxruntime")
BGE = MODELS["bge-small"]


class BgeEmbedder:
    """Embeds the first 512 tokens of a text as 384 numbers, with the model at `path` or, without one, from a hub.

    The file is downloaded, if need be, and loaded with the first text. It must be the pinned one.
    """

    min_score: float | None = None

    def __init__(
        self,
        path: str | None = None,
        model: KnownModel = BGE,
        threads: int | None = None,
        on_progress: Progress | None = None,
        cache: str | None = None,
        hub_url: str = HUB,
    ) -> None:
        assert model.file is not None
        self._path = path
        self._known, self._file = model, model.file
        self._threads = threads
        self._fetching = (cache, hub_url, on_progress)
        self._model: _BgeModel | None = None
        self._loading = threading.Lock()

    @property
    def name(self) -> str:
        """The model and the beginning of the checksum of its weights."""
        return f"{self._file.repository.partition('/')[2]}:{(self._file.sha256 or '')[:8]}"

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self._known.dimension

    @property
    def prompt_format(self) -> str:
        """How texts are prefixed for the model."""
        return self._known.prompts.name

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """Return one vector for each text; an interrupt takes effect within one of them."""
        texts = validate_texts(texts, kind)
        if not texts:
            return []
        model = self._load()
        prefixed = [self._known.prompts.add_prefix(text, kind) for text in texts]
        return embed_each(lambda text: self._embed_one(model, text), prefixed, self._threads)

    def _embed_one(self, model: "_BgeModel", text: str) -> "array[float]":
        import numpy as np

        ids = np.array([model.tokenizer.ids(text, self._known.max_tokens)], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        try:
            (states,) = model.session.run(["last_hidden_state"], inputs)
        except Exception as error:
            raise EmbedderError(f"onnxruntime failed on a text of {ids.size} tokens: {error}") from error
        return unit_vector(array("f", states[0, 0].astype(np.float32).tobytes()), "what the model returned")

    def _load(self) -> "_BgeModel":
        with self._loading:
            if self._model is None:
                onnxruntime = import_onnxruntime(self._known.name)  # fail before anything is downloaded
                cache, hub_url, on_progress = self._fetching
                path = self._path or fetch(self._file, cache, hub_url, on_progress)
                advice = f"use hf:{self._file.address}" if self._path else "delete it, and it is downloaded again"
                check_weights(path, self._file.size or 0, self._file.sha256 or "", advice)
                session = open_session(onnxruntime, lambda: path, path)
                self._model = _BgeModel(session, WordPiece(read_vocabulary()))
            return self._model


class _BgeModel(NamedTuple):
    session: Any
    tokenizer: WordPiece
