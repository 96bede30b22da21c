"""What models that onnxruntime runs have in common: verified weights, sessions, and one text per run."""

import os
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from onhand.embed.embedder import count_processors
from onhand.errors import EmbedderError, MissingExtra

MAX_WORKERS = 8  # texts that are embedded at the same time

_verified: set[tuple[str, int, int]] = set()  # weights with the right checksum: path, size, modification time


def import_onnxruntime(model: str) -> Any:
    """Return onnxruntime; MissingExtra if it is not installed."""
    # Some builds of onnxruntime report what they run to their maker, and keep an identifier in the user's home, unless
    # this is set before they are loaded (its pull request 27379). What a corpus is about stays here.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import numpy  # noqa: F401  # onnxruntime would report it missing without saying how to install it
        import onnxruntime
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{model} ({error.name})", "semantic") from error
    except ImportError as error:
        raise EmbedderError(f"{model} cannot be loaded: {error}. Reinstall its packages") from error
    return onnxruntime


def open_session(onnxruntime: Any, model: Callable[[], bytes | str], path: str) -> Any:
    """Return a session of the model, a graph or its path, whose weights are at `path`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # several texts run at once instead
    options.log_severity_level = 3  # errors only: standard error belongs to the user
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.path.dirname(path))
    try:
        return onnxruntime.InferenceSession(model(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EmbedderError(f"onnxruntime cannot load {path}: {error}. Install another version of it") from error


def embed_each(
    embed_one: "Callable[[str], array[float]]", texts: Sequence[str], threads: int | None
) -> "list[array[float]]":
    """Return one vector for each text, several texts at a time; an interrupt takes effect within one of them.

    Each text is a run of its own: in a batch, padding and the range of the activations would make a vector depend on
    the other texts.
    """
    workers = min(threads or count_processors(), MAX_WORKERS, len(texts))
    if workers <= 1:
        return [embed_one(text) for text in texts]
    from concurrent.futures import ThreadPoolExecutor  # imports logging

    with ThreadPoolExecutor(workers) as pool:
        try:
            return list(pool.map(embed_one, texts))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def check_weights(path: str, size: int, sha256: str, advice: str = "reinstall its package") -> None:
    """Raise an EmbedderError unless the file is the expected one. Checking it again is free."""
    import hashlib  # takes longer to import than everything else here

    try:
        found = os.stat(path)
        if (path, found.st_size, found.st_mtime_ns) in _verified:
            return
        with open(path, "rb") as file:
            right = found.st_size == size and hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError as error:
        raise EmbedderError(f"the weights of the model cannot be read: {error}. To get them, {advice}") from error
    if not right:
        raise EmbedderError(f"{path} is not the expected file and was not used: {advice}")
    _verified.add((path, found.st_size, found.st_mtime_ns))
