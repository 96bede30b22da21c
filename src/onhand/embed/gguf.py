"""GGUF models in this process: llama.cpp from the package xllamacpp, the headers of model files, and an embedder."""

import hashlib
import os
import re
import secrets
import struct
import tempfile
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from onhand.embed.embedder import (
    EMBEDDING_GEMMA,
    Kind,
    Prompts,
    default_threads,
    prompts_of,
    unit_vector,
    validate_texts,
)
from onhand.embed.hub import HUB, HubFile, Progress, fetch
from onhand.embed.models import MODELS, model_of_file
from onhand.errors import EmbedderError, InputError, MissingExtra, OnhandError

FIXED = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
WHOLE = {0, 1, 2, 3, 4, 5, 10, 11}
STRING, ARRAY = 8, 9
VERSIONS = (2, 3)
MAX_KEY_BYTES = 65_535  # by the format


class GgufHeader(NamedTuple):
    """The length of a model's vectors, and how many tokens it can read."""

    architecture: str
    dimension: int
    max_tokens: int


class _BadHeader(Exception):
    """The file is cut off or contains something impossible."""


def read_header(path: str) -> GgufHeader:
    """Read the header of a file; EmbedderError says why it cannot be read."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _header(file, size)
    except OSError as error:
        raise EmbedderError(f"{path} cannot be read: {error.strerror}. Use the path of a GGUF file") from None
    except (_BadHeader, struct.error) as error:
        raise EmbedderError(f"{path} is not a GGUF model that can embed: {error}. Download it again") from None


def _header(file: IO[bytes], size: int) -> GgufHeader:
    if file.read(4) != b"GGUF":
        raise _BadHeader("it does not start like one")
    version, _, entries = _number(file, "<I"), _number(file, "<Q"), _number(file, "<Q")
    if version not in VERSIONS:
        raise _BadHeader(f"its version is {version}")
    known: dict[str, int | str] = {}
    for _ in range(entries):
        key = _text(file, MAX_KEY_BYTES)
        value = _value(file, size, _number(file, "<I"))
        if value is not None:
            known[key] = value
        architecture = known.get("general.architecture")
        dimension, tokens = known.get(f"{architecture}.embedding_length"), known.get(f"{architecture}.context_length")
        if isinstance(dimension, int) and isinstance(tokens, int) and dimension > 0 and tokens > 0:
            return GgufHeader(str(architecture), dimension, tokens)
    raise _BadHeader("it does not state the length of its vectors and texts")


def _value(file: IO[bytes], size: int, kind: int) -> int | str | None:
    """Read a whole number or a text; skip anything else and return None."""
    if kind == STRING:
        return _text(file, size)
    if kind == ARRAY:
        _skip_array(file, size)
        return None
    if kind not in FIXED:
        raise _BadHeader(f"it has a value of the unknown type {kind}")
    value = _number(file, FIXED[kind])
    return value if kind in WHOLE else None


def _skip_array(file: IO[bytes], size: int) -> None:
    kind, count = _number(file, "<I"), _number(file, "<Q")
    if count > size:
        raise _BadHeader("a list in it is longer than the file")
    if kind in FIXED:
        file.seek(count * struct.calcsize(FIXED[kind]), os.SEEK_CUR)
    elif kind == STRING:
        for _ in range(count):
            _skip(file, size)
    else:
        raise _BadHeader(f"it has a list of the unknown type {kind}")


def _skip(file: IO[bytes], size: int) -> None:
    length = _number(file, "<Q")
    if length > size:
        raise _BadHeader("a text in it is longer than the file")
    file.seek(length, os.SEEK_CUR)


def _text(file: IO[bytes], longest: int) -> str:
    length = _number(file, "<Q")
    if length > longest:
        raise _BadHeader("a text in it is too long")
    return file.read(length).decode("utf-8", "replace")


def _number(file: IO[bytes], form: str) -> int:
    number: int
    (number,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return number


LLAMA_PACKAGES: tuple[str, ...] = ("xllamacpp",)
MAX_SOCKET_PATH = 100  # bytes; systems allow a few more


def import_llama(failure: type[OnhandError]) -> tuple[Any, Any]:
    """Return the server class of llama.cpp and its default settings; MissingExtra if it is not installed."""
    try:
        from xllamacpp import CommonParams, Server
    except ModuleNotFoundError as error:
        raise MissingExtra("a GGUF model", "gguf") from error
    except ImportError as error:
        raise failure(f"xllamacpp cannot be loaded: {error}. Reinstall it") from error
    return Server, CommonParams()


def start_llama_server(
    path: str, adjust: Callable[[Any], None], threads: int | None, failure: type[OnhandError]
) -> Any:
    """Start a server for a model file that nobody else can reach; `adjust` changes its settings."""
    server_type, params = import_llama(failure)
    params.model.path = path
    params.warmup = False
    params.verbosity = -1  # standard error belongs to the user; failures are raised
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads or default_threads()
    params.n_threads_http = 1
    params.endpoint_metrics = True
    params.api_keys = [secrets.token_hex(32)]  # it listens, but must not answer anybody
    adjust(params)
    try:
        with _unreachable(params):
            server = server_type(params)
    except RuntimeError:
        raise failure(f"llama.cpp cannot load {path}: download it again, or use another model") from None
    # Closing a server that has never had a task would block forever; this is a task.
    server.handle_metrics()
    return server


@contextmanager
def _unreachable(params: Any) -> Iterator[None]:
    """Let the server listen on a socket that is deleted at once; where that is impossible, only a key protects it."""
    with tempfile.TemporaryDirectory(prefix="onhand-") as directory:
        socket = os.path.join(directory, "model.sock")
        if os.name == "posix" and len(os.fsencode(socket)) < MAX_SOCKET_PATH:
            params.hostnames = [socket]
        yield


HUB_PREFIX = "hf:"
_DEFAULT_FILE = MODELS["embeddinggemma"].file
assert _DEFAULT_FILE is not None
DEFAULT_MODEL = HUB_PREFIX + _DEFAULT_FILE.address
MAX_TOKENS = 2048  # as many as embeddinggemma can read; more would only take memory
CHARS_PER_TOKEN = 8  # more than texts have; longer texts are cut before they are tokenized
SLACK = 0.95  # of the length that would just fit, because tokens differ in length
SAMPLE_BYTES = 65_536


class GgufEmbedder:
    """Vectors from a GGUF model: a path, or `hf:OWNER/REPOSITORY/FILE.gguf`, which is downloaded on first use.

    With a `dimension` below the model's own, the first numbers are normalized to length one again, which suits models
    that are trained for it, such as embeddinggemma.
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
        name = os.fspath(model)
        if not name or "\0" in name:
            raise InputError("the model must be a path or hf:OWNER/REPOSITORY/FILE.gguf")
        if dimension is not None and dimension < 1:
            raise InputError(f"the dimension is {dimension}: it must be at least 1")
        self._hub: HubFile | None = None
        known = None
        if name.startswith(HUB_PREFIX):
            address = name.removeprefix(HUB_PREFIX)
            known = model_of_file(address)
            self._hub = known.file if known else HubFile.parse(address)
        self._path = name
        trained_for = prompts_of(os.path.basename(name))
        self._prompts = prompts or trained_for
        if trained_for == EMBEDDING_GEMMA:
            known = MODELS["embeddinggemma"]
        self._requested_dimension = known.dimension if dimension is None and known else dimension
        self._threads = threads
        self._fetching = (cache, hub_url, on_progress)
        self._model: _GgufModel | None = None
        self._name: str | None = None
        self._turn = threading.RLock()

    @property
    def name(self) -> str:
        """The name of the file on the hub, or the name of a local file and a digest of samples of it."""
        if self._name is None:
            stem = os.path.splitext(os.path.basename(self._path))[0]
            self._name = f"{self._hub.repository}/{stem}" if self._hub else f"{stem}:{_digest_samples(self._path)}"
        return self._name

    @property
    def dimension(self) -> int:
        """The requested dimension, 256 for embeddinggemma, or the model's own, which is read from its file."""
        return self._requested_dimension or self._header().dimension

    @property
    def prompt_format(self) -> str:
        """How texts are prefixed for the model."""
        return self._prompts.name

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """Return one vector for each text; an interrupt takes effect between two of them."""
        texts = validate_texts(texts, kind)
        if not texts:
            return []
        with self._turn:
            model = self._load()
            return [_vector(model, self._prompts.add_prefix(text, kind), self._requested_dimension) for text in texts]

    def _file(self) -> str:
        if self._hub is None:
            return self._path
        cache, hub_url, on_progress = self._fetching
        return fetch(self._hub, cache, hub_url, on_progress)

    def _header(self) -> GgufHeader:
        with self._turn:
            return read_header(self._file())

    def _load(self) -> "_GgufModel":
        if self._model is None:
            import_llama(EmbedderError)  # fail before anything is downloaded
            path = self._file()
            header = read_header(path)
            if self._requested_dimension and self._requested_dimension > header.dimension:
                raise EmbedderError(f"{path} has vectors of {header.dimension} numbers: use at most that dimension")
            self._model = _load(path, header, self._threads)
        return self._model


class _GgufModel(NamedTuple):
    server: Any
    path: str
    max_tokens: int


def _load(path: str, header: GgufHeader, threads: int | None) -> _GgufModel:
    tokens = min(header.max_tokens, MAX_TOKENS)

    def adjust(params: Any) -> None:
        params.embedding = True
        params.n_ctx = params.n_batch = params.n_ubatch = tokens  # a text must be read in one piece

    return _GgufModel(start_llama_server(path, adjust, threads, EmbedderError), path, tokens)


def _vector(model: _GgufModel, text: str, dimension: int | None) -> "array[float]":
    numbers = _numbers(model, text[: model.max_tokens * CHARS_PER_TOKEN])
    return unit_vector(numbers[:dimension], f"the answer of {model.path}")


def _numbers(model: _GgufModel, text: str) -> list[float]:
    """Embed as much of the beginning of a text as the model can read."""
    while True:
        answer = model.server.handle_embeddings({"input": [text]})
        if "error" not in answer:
            break
        message = str(answer["error"].get("message", "no reason"))
        too_long = re.search(r"\((\d+) tokens\)", message)
        if not too_long or len(text) < 2:
            raise EmbedderError(f"llama.cpp cannot embed with {model.path}: {message[:300]}")
        fitting = int(len(text) * SLACK * model.max_tokens / int(too_long[1]))
        text = text[: max(1, min(fitting, len(text) - 1))]
    numbers = answer["data"][0]["embedding"]
    if not isinstance(numbers, list) or not numbers or isinstance(numbers[0], list):
        raise EmbedderError(f"{model.path} returns no vector for a whole text: use an embedding model")
    return numbers


def _digest_samples(path: str) -> str:
    """Return a short digest of the size, beginning, middle and end of a file."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            hashed = hashlib.sha256(str(size).encode())
            for place in (0, size // 2, max(0, size - SAMPLE_BYTES)):
                file.seek(place)
                hashed.update(file.read(SAMPLE_BYTES))
    except OSError as error:
        raise EmbedderError(f"{path} cannot be read: {error.strerror}. Use the path of a GGUF file") from None
    return hashed.hexdigest()[:8]
