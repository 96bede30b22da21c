"""An embedder behind any endpoint that speaks OpenAI's /v1/embeddings.

Only the name of the variable with the API key is stored. The key is read for each request and never part of a message.
"""

import json
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlunsplit

from onhand.embed.embedder import Kind, Prompts, prompts_of, unit_vector, validate_texts
from onhand.errors import EmbedderError, InputError
from onhand.http_client import JsonEndpoint, RetryLater, RetryPolicy, parse_url

BATCH = 64
TIMEOUT_S = 60.0
RETRIES = RetryPolicy(4, first_wait_s=0.5, max_wait_s=30.0, after_timeouts=False)
MAX_CHARS = 8_000  # of a text, about 2,000 tokens: what common models read; many servers refuse more
MAX_ANSWER_BYTES = 64 << 20


class HttpEmbedder:
    """Vectors from an OpenAI-compatible endpoint; `api_key_env` is the name of the variable that holds the key.

    Without a `dimension` the first answer determines it. Texts are cut at `max_chars`.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key_env: str | None = None,
        dimension: int | None = None,
        prompts: Prompts | None = None,
        min_score: float | None = None,
        batch: int = BATCH,
        max_chars: int = MAX_CHARS,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES.retries,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = parse_url(base_url)
        if not model:
            raise InputError("name the model that the endpoint should use: vectors of two models cannot be compared")
        for name, number in (("batch", batch), ("max_chars", max_chars), ("dimension", dimension)):
            if number is not None and number < 1:
                raise InputError(f"{name} is {number}: it must be at least 1")
        self.name = model
        self.min_score = min_score
        self._endpoint = JsonEndpoint(
            urlunsplit(parts._replace(path=_endpoint_path(parts.path), fragment="")),
            api_key_env,
            EmbedderError,
            timeout_s=timeout_s,
            answer_timeout_s=timeout_s,
            policy=RETRIES._replace(retries=retries),
        )
        self._requested_dimension = dimension
        self._known_dimension = dimension
        self._prompts = prompts or prompts_of(model)
        self._batch, self._max_chars = batch, max_chars
        self._wait = wait

    @property
    def dimension(self) -> int:
        """The requested dimension, or the one that the endpoint answers with."""
        if self._known_dimension is None:
            self.embed([" "])
        assert self._known_dimension is not None
        return self._known_dimension

    @property
    def prompt_format(self) -> str:
        """How texts are prefixed for the model."""
        return self._prompts.name

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """Return one vector for each text, in their order."""
        prefixed = [self._prompts.add_prefix(text, kind)[: self._max_chars] for text in validate_texts(texts, kind)]
        vectors: list[array[float]] = []
        for start in range(0, len(prefixed), self._batch):
            vectors += self._embed_batch(prefixed[start : start + self._batch])
        return vectors

    def _embed_batch(self, texts: Sequence[str]) -> "list[array[float]]":
        # Many servers refuse an empty text.
        request: dict[str, Any] = {"model": self.name, "input": [text or " " for text in texts]}
        request["encoding_format"] = "float"
        if self._requested_dimension is not None:
            request["dimensions"] = self._requested_dimension
        rows = _sort_embeddings(self._post(request), len(texts))
        for numbers in rows:
            self._known_dimension = self._known_dimension or len(numbers)
            if len(numbers) != self._known_dimension:
                raise EmbedderError(
                    f"{self._endpoint.url} returned {len(numbers)} numbers instead of {self._known_dimension}: "
                    "leave the dimension out, or use the one that the model has"
                )
        return [unit_vector(numbers, f"the answer of {self._endpoint.url}") for numbers in rows]

    def _post(self, request: dict[str, Any]) -> Any:
        attempt = 0
        while True:
            try:
                return self._post_once(request)
            except RetryLater as later:
                self._wait(self._endpoint.wait_s(attempt, later))
                attempt += 1

    def _post_once(self, request: dict[str, Any]) -> Any:
        key = self._endpoint.read_key()
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        with self._endpoint.post(request, headers, key) as response:
            raw = _read_body(response)
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            raise EmbedderError(
                f"{self._endpoint.url} did not answer with JSON: is it an embeddings endpoint?"
            ) from None


def _endpoint_path(path: str) -> str:
    """Return the path of the endpoint below a base such as https://host, https://host/v1 or its own address."""
    bare = path.rstrip("/")
    return bare if bare.endswith("/embeddings") else f"{bare or '/v1'}/embeddings"


def _read_body(response: Any) -> bytes:
    """Read a body, unless it is endless."""
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise EmbedderError(f"the endpoint sent more than {MAX_ANSWER_BYTES >> 20} MiB: use smaller batches")
    if response.length:
        raise ConnectionError("the response is incomplete")
    return b"".join(pieces)


def _sort_embeddings(answer: Any, count: int) -> list[list[float]]:
    """Return the numbers for each text, by the index that the endpoint gave them."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        raise EmbedderError("the endpoint's answer has no list `data`: is it an embeddings endpoint?")
    if len(data) != count:
        raise EmbedderError(f"the endpoint returned {len(data)} vectors for {count} texts: none was used")
    places = [one.get("index", place) for place, one in enumerate(data)]
    if set(map(repr, places)) != set(map(repr, range(count))):
        raise EmbedderError("the endpoint's answer does not say which vector belongs to which text: none was used")
    ordered = [one.get("embedding") for _, one in sorted(zip(places, data, strict=True), key=lambda pair: pair[0])]
    for numbers in ordered:
        if not isinstance(numbers, list) or not numbers or not all(type(number) in (int, float) for number in numbers):
            raise EmbedderError("the endpoint's answer has an embedding that is not a list of numbers: none was used")
    return ordered
