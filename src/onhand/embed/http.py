"""What does it mean, to a model elsewhere? Any endpoint that speaks OpenAI's /v1/embeddings.

The key is known by the name of its variable alone, read when a request is made, and in no message.
"""

import time
from array import array
from collections.abc import Callable, Sequence
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlunsplit
from urllib.request import Request

from onhand.embed.embedder import Kind, accepted_texts, unit
from onhand.embed.prompts import Prompts, prompts_of
from onhand.endpoint import (
    PASSING,
    USER_AGENT,
    Redirects,
    accept_key_name,
    accepted_url,
    is_loopback,
    key_of,
    opener,
    retry_after_s,
    said_in,
)
from onhand.errors import EmbedderError, InputError

BATCH = 64
TIMEOUT_S = 60.0
RETRIES = 4
FIRST_WAIT_S = 0.5  # doubled each time
MAX_WAIT_S = 30.0  # a server that asks for more is not waited for
MAX_CHARS = 8_000  # of a text, some 2,000 tokens: what the common models read; many servers refuse more
MAX_ANSWER_BYTES = 64 << 20


class HttpEmbedder:
    """Vectors of an OpenAI-compatible endpoint; `api_key_env` is the name of the variable that holds the key.

    Without a `dimension` the first answer says which one the model has. Texts are cut at `max_chars`.
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
        retries: int = RETRIES,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = accepted_url(base_url)
        if not model:
            raise InputError("say which model the endpoint is to use: its vectors are not those of another")
        if api_key_env is not None:
            accept_key_name(api_key_env)
            if parts.scheme != "https" and not is_loopback(parts):
                raise InputError(f"a key is not sent unencrypted to {parts.hostname}: use https")
        for name, number in (("batch", batch), ("max_chars", max_chars), ("timeout_s", timeout_s)):
            if number <= 0:
                raise InputError(f"{name} is {number}: it is above zero")
        if dimension is not None and dimension < 1:
            raise InputError(f"the dimension is {dimension}: ask for at least one number")
        self.name = model
        self.min_score = min_score
        self._address = _Address(urlunsplit(parts._replace(path=_path(parts.path), fragment="")), api_key_env)
        self._asked = dimension
        self._learnt = dimension
        self._prompts = prompts or prompts_of(model)
        self._batch, self._max_chars = batch, max_chars
        self._patience = _Patience(timeout_s, retries, wait)

    @property
    def dimension(self) -> int:
        """As asked for, or as the endpoint answers."""
        if self._learnt is None:
            self.embed([" "])
        assert self._learnt is not None
        return self._learnt

    @property
    def prompt_format(self) -> str:
        """How texts are dressed for the model."""
        return self._prompts.name

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        """One vector for each text, in their order; an interrupt is noticed at once."""
        dressed = [self._prompts.dressed(text, kind)[: self._max_chars] for text in accepted_texts(texts, kind)]
        vectors: list[array[float]] = []
        for start in range(0, len(dressed), self._batch):
            vectors += self._embedded(dressed[start : start + self._batch])
        return vectors

    def _embedded(self, texts: Sequence[str]) -> "list[array[float]]":
        # Many servers refuse an empty text.
        wanted: dict[str, Any] = {"model": self.name, "input": [text or " " for text in texts]}
        wanted["encoding_format"] = "float"
        if self._asked is not None:
            wanted["dimensions"] = self._asked
        found = _in_order(_answer(self._address, wanted, self._patience), len(texts))
        for numbers in found:
            self._learnt = self._learnt or len(numbers)
            if len(numbers) != self._learnt:
                raise EmbedderError(
                    f"{self._address.url} gave {len(numbers)} numbers and not {self._learnt}: "
                    "leave the dimension out, or ask for the one that the model has"
                )
        return [unit(numbers, f"what {self._address.url} gave") for numbers in found]


class _Address(NamedTuple):
    url: str
    api_key_env: str | None


class _Patience(NamedTuple):
    timeout_s: float
    retries: int
    wait: Callable[[float], None]


class _Later(Exception):
    """It may work in a moment; after how many seconds, if the server said so."""

    def __init__(self, message: str, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s


def _path(path: str) -> str:
    """The endpoint below a base such as https://host, https://host/v1 or its own address."""
    bare = path.rstrip("/")
    return bare if bare.endswith("/embeddings") else f"{bare or '/v1'}/embeddings"


def _answer(address: _Address, wanted: dict[str, Any], patience: _Patience) -> Any:
    """What the endpoint says, asked again as long as it says "later"."""
    import json

    body = json.dumps(wanted).encode()
    for attempt in range(patience.retries + 1):
        try:
            raw = _asked(address, body, patience.timeout_s)
            break
        except _Later as later:
            wait_s = FIRST_WAIT_S * 2**attempt if later.after_s is None else later.after_s
            if attempt == patience.retries or wait_s > MAX_WAIT_S:
                said = "" if later.after_s is None else f" It asks to wait for {later.after_s:.0f} s."
                raise EmbedderError(f"{address.url} {later}.{said} Try again later") from None
            patience.wait(wait_s)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise EmbedderError(f"{address.url} did not answer with JSON: is it an embeddings endpoint?") from None


def _asked(address: _Address, body: bytes, timeout_s: float) -> bytes:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": USER_AGENT}
    key = key_of(address.api_key_env, EmbedderError)
    if key:
        headers["Authorization"] = f"Bearer {key}"
    parts = accepted_url(address.url)
    request = Request(address.url, body, headers)  # noqa: S310  # http and https only
    deadline = time.monotonic() + timeout_s
    try:
        # A redirect would carry the key to wherever it points.
        with opener(parts, Redirects(False, parts)).open(request, timeout=timeout_s) as response:
            return _read(response, deadline)
    except HTTPError as error:
        with error:
            raise _refusal(error, address, key, deadline) from None
    except TimeoutError:
        raise EmbedderError(f"{address.url} did not answer within {timeout_s:g} s: give it more time") from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise EmbedderError(f"{address.url} did not answer within {timeout_s:g} s: give it more time") from None
        if isinstance(error.reason, ConnectionResetError):
            raise _Later("broke the connection off") from None
        raise EmbedderError(f"{address.url} cannot be reached ({error.reason}): check that it runs") from None
    except (HTTPException, ConnectionError):
        raise _Later("broke the connection off") from None


def _read(response: Any, deadline: float) -> bytes:
    """The body, unless it is endless or comes in drops."""
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise EmbedderError(f"the endpoint sent more than {MAX_ANSWER_BYTES >> 20} MiB: ask for smaller batches")
        if time.monotonic() > deadline:
            raise TimeoutError
    if response.length:
        raise ConnectionError("the answer is not whole")
    return b"".join(pieces)


def _refusal(error: HTTPError, address: _Address, key: str | None, deadline: float) -> Exception:
    """What a status other than 200 means, with the server's words."""
    if 300 <= error.code < 400:
        return EmbedderError(f"{address.url} answered {error.code}, a redirect: give the address that it leads to")
    try:
        said = said_in(_read(error, deadline))
    except (OSError, HTTPException, EmbedderError):
        said = ""
    said = said.replace(key, "…") if key else said
    message = f"answered {error.code}" + (f": {said}" if said else "")
    if error.code in PASSING:
        return _Later(message, retry_after_s(error.headers.get("Retry-After", "")))
    if error.code in (401, 403) and address.api_key_env is None:
        message += ". Give api_key_env, the name of the variable that holds the key"
    return EmbedderError(f"{address.url} {message}")


def _in_order(answer: Any, count: int) -> list[list[float]]:
    """The numbers for each text, by the index that the endpoint gave them."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        raise EmbedderError("the endpoint's answer has no list `data`: is it an embeddings endpoint?")
    if len(data) != count:
        raise EmbedderError(f"the endpoint gave {len(data)} vectors for {count} texts: nothing was kept")
    places = [one.get("index", place) for place, one in enumerate(data)]
    if set(map(repr, places)) != set(map(repr, range(count))):
        raise EmbedderError("the endpoint's answer does not say which vector is whose: nothing was kept")
    ordered = [one.get("embedding") for _, one in sorted(zip(places, data, strict=True), key=lambda pair: pair[0])]
    for numbers in ordered:
        if not isinstance(numbers, list) or not numbers or not all(type(number) in (int, float) for number in numbers):
            raise EmbedderError("the endpoint's answer has an embedding that is no list of numbers: nothing was kept")
    return ordered
