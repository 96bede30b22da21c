"""Cache entries: an answered question with everything that decides to whom and for how long it may be served."""

import json
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from unicodedata import normalize

from onhand.embed.embedder import unit_vector
from onhand.errors import InputError, OnhandError
from onhand.text import repair_surrogates
from onhand.tools.tool import copy_json

MAX_QUERY_CHARS = 1_000_000
MAX_LABELS = 10_000  # tags or documents of an entry

Documents = Mapping[str, str] | Sequence[str]


class Scope(NamedTuple):
    """Whom an answer is for: no hit ever crosses any of these. Each may be any JSON value and is compared in full."""

    model: Any = ""
    system: Any = ""  # the system prompt, pinned context included
    tools: Any = ()  # what `Registry.wire` returns
    user: Any = ""
    filter: Any = ""
    index_generation: Any = ""  # changes with the documents that answers are drawn from

    @property
    def key(self) -> str:
        """The scope as one short string."""
        value = copy_json(self._asdict(), "scope", text=lambda part, _: part)
        return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class CacheEntry(NamedTuple):
    """A question that was answered, and its answer."""

    id: int
    query: str
    response: Any  # text, or another JSON value
    scope: str  # the key of a Scope
    cached_at_ms: int  # since 1970
    hit_count: int = 0
    vector: "array[float] | None" = None
    embedder: str = ""  # what made the vector; only vectors of the same embedder are compared
    tags: tuple[str, ...] = ()
    documents: Mapping[str, str] = {}  # id → the version that the answer was drawn from; "": unknown

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a JSON object."""
        return {
            **self._asdict(),
            "vector": None if self.vector is None else _encode_vector(self.vector),
            "tags": list(self.tags),
            "documents": dict(self.documents),
        }

    def copy(self) -> "CacheEntry":
        """Return the entry with a response that the receiver may change."""
        return (
            self if isinstance(self.response, str) else self._replace(response=copy_json(self.response, "the response"))
        )


class Computed(NamedTuple):
    """What a computation may return instead of a bare response, when it knows more about it."""

    response: Any
    tags: Sequence[str] = ()
    documents: Documents = ()  # that it cites; with their versions if they are known
    keep: bool = True  # False: do not cache it, for instance because it was cut off


def normalize_query(query: str) -> str:
    """Return what two questions have in common that differ only in white space or in how accents are encoded."""
    return " ".join((query if query.isascii() else normalize("NFC", query)).split())


def validate_query(query: object) -> str:
    """Return a question without lone surrogates; InputError when it is not a question."""
    if not isinstance(query, str) or not query.strip():
        raise InputError(f"the question must be a text that is not empty, not {query!r:.60}")
    if len(query) > MAX_QUERY_CHARS:
        raise InputError(f"the question has more than {MAX_QUERY_CHARS:,} characters: shorten it")
    return repair_surrogates(query)


def validate_response(response: object) -> Any:
    """Return a response that can be served again: text, or a copy of a JSON value; InputError when it cannot."""
    if isinstance(response, str) and response.strip():
        return repair_surrogates(response)
    if response is None or isinstance(response, str):
        raise InputError("the answer is empty")
    return copy_json(response, "the response")


def validate_labels(labels: object, what: str) -> tuple[str, ...]:
    """Return tags or document ids, each once."""
    if isinstance(labels, str) or not isinstance(labels, Sequence | set | frozenset) or len(labels) > MAX_LABELS:
        raise InputError(f"{what} must be a list of at most {MAX_LABELS:,} texts, not {labels!r:.60}")
    for label in labels:
        if not isinstance(label, str) or not label:
            raise InputError(f"{what} must be texts that are not empty, not {label!r:.60}")
    return tuple(dict.fromkeys(labels))


def validate_documents(documents: object) -> dict[str, str]:
    """Return document ids with their versions, "" where a version is unknown."""
    if isinstance(documents, Mapping):
        versions = {name: documents[name] for name in validate_labels(tuple(documents), "documents")}
        if not all(isinstance(version, str) for version in versions.values()):
            raise InputError("the versions of documents must be texts")
        return versions
    return dict.fromkeys(validate_labels(documents, "documents"), "")


def validate_entry(given: object) -> CacheEntry:
    """Return the entry that `to_json` was called on; InputError says what is wrong with it."""
    if isinstance(given, CacheEntry):
        given = given.to_json()
    try:
        if not isinstance(given, Mapping):
            raise InputError(f"it is a {type(given).__name__}, not an object")
        return CacheEntry(
            _whole_number(given["id"], "id"),
            validate_query(given["query"]),
            validate_response(given["response"]),
            str(given["scope"]),
            _whole_number(given["cached_at_ms"], "cached_at_ms"),
            _whole_number(given.get("hit_count", 0), "hit_count"),
            _decode_vector(given.get("vector")),
            str(given.get("embedder", "")),
            validate_labels(given.get("tags", ()), "tags"),
            validate_documents(given.get("documents", {})),
        )
    except KeyError as error:
        raise InputError(f"a cached entry cannot be used: it has no {error}") from None
    except OnhandError as error:
        raise InputError(f"a cached entry cannot be used: {error}") from None


def _whole_number(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:  # also refuses NaN
        raise InputError(f"{what} must be a number of at least 0, not {value!r:.60}")
    return int(value)


def _encode_vector(vector: "array[float]") -> str:
    return b64encode(_to_little_endian(vector).tobytes()).decode("ascii")


def _decode_vector(text: object) -> "array[float] | None":
    if text is None:
        return None
    numbers = array("f")
    try:
        numbers.frombytes(b64decode(text, validate=True))  # type: ignore[arg-type]
    except (ValueError, TypeError):
        raise InputError("its vector is not base64 of 32-bit numbers") from None
    return unit_vector(_to_little_endian(numbers), "its vector")


def _to_little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "little":
        return numbers
    swapped = array("f", numbers)
    swapped.byteswap()
    return swapped
