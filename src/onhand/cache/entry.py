"""Cache entries: answered questions with everything that decides who may be served, and for how long.

Entries can be stored in a file, which is always replaced as a whole.
"""

import json
import os
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from unicodedata import normalize

from onhand.cache.details import normalize_white_space
from onhand.embed.embedder import unit_vector
from onhand.errors import InputError, OnhandError, StoreError
from onhand.fsio import describe_fault, make_directories, open_regular, write_atomic
from onhand.hidden_characters import is_ignorable, repair_surrogates
from onhand.tools.tool import copy_json

MAX_QUERY_CHARS = 1_000_000
MAX_LABELS = 10_000  # tags or documents of an entry
FILE_FORMAT = 2
FILE_MODE = 0o600  # answers may be private
MAX_FILE_BYTES = 1024 * 1024 * 1024

Documents = Mapping[str, str] | Sequence[str]


class Scope(NamedTuple):
    """Everything that must be equal for an answer to be served. Each field may be any JSON value."""

    model: Any = ""
    system: Any = ""  # the system prompt, including pinned context
    tools: Any = ()  # what `Registry.wire` returns
    user: Any = ""
    filter: Any = ""
    index_generation: Any = ""  # changes with the documents that answers are based on

    @property
    def key(self) -> str:
        """A digest of the scope."""
        value = copy_json(self._asdict(), "scope", text=lambda part, _: part)
        return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class CacheEntry(NamedTuple):
    """An answered question."""

    id: int
    query: str
    response: Any  # text, or another JSON value
    scope: str  # the key of a Scope
    cached_at_ms: int  # since 1970
    hit_count: int = 0
    vector: "array[float] | None" = None
    embedder: str = ""  # the fingerprint of the vector's embedder; only vectors of one embedder are compared
    tags: tuple[str, ...] = ()
    documents: Mapping[str, str] = {}  # id → the version that the answer is based on, or ""

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a JSON object."""
        return {
            **self._asdict(),
            "vector": None if self.vector is None else _encode_vector(self.vector),
            "tags": list(self.tags),
            "documents": dict(self.documents),
        }

    def copy(self) -> "CacheEntry":
        """Return the entry with a copy of the response, which the caller may change."""
        return (
            self if isinstance(self.response, str) else self._replace(response=copy_json(self.response, "the response"))
        )


class Computed(NamedTuple):
    """A response with more about it, which a computation may return instead of the response alone."""

    response: Any
    tags: Sequence[str] = ()
    documents: Documents = ()  # that it cites, with their versions if known
    keep: bool = True  # whether to cache it; not, for instance, if it was cut off


def normalize_query(query: str) -> str:
    """Return the question with normalized white space and accents, by which equal questions are recognized."""
    return normalize_white_space(query if query.isascii() else normalize("NFC", query))


def validate_query(query: object) -> str:
    """Return a question without lone surrogates. Raise InputError if it is not a question."""
    if not isinstance(query, str) or all(letter.isspace() or is_ignorable(letter) for letter in query):
        raise InputError(f"the question must be a text that is not empty, not {query!r:.60}")
    if len(query) > MAX_QUERY_CHARS:
        raise InputError(f"the question has more than {MAX_QUERY_CHARS:,} characters: shorten it")
    return repair_surrogates(query)


def validate_response(response: object) -> Any:
    """Return a response that can be stored: text, or a copy of a JSON value. Raise InputError for anything else."""
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
    """Return document ids with their versions, or "" for an unknown version."""
    if isinstance(documents, Mapping):
        versions = {name: documents[name] for name in validate_labels(tuple(documents), "documents")}
        if not all(isinstance(version, str) for version in versions.values()):
            raise InputError("the versions of documents must be texts")
        return versions
    return dict.fromkeys(validate_labels(documents, "documents"), "")


def validate_entry(value: object) -> CacheEntry:
    """Return the entry that `to_json` serialized. Raise InputError with the reason if it is invalid."""
    if isinstance(value, CacheEntry):
        value = value.to_json()
    try:
        if not isinstance(value, Mapping):
            raise InputError(f"it is a {type(value).__name__}, not an object")
        return CacheEntry(
            _whole_number(value["id"], "id"),
            validate_query(value["query"]),
            validate_response(value["response"]),
            str(value["scope"]),
            _whole_number(value["cached_at_ms"], "cached_at_ms"),
            _whole_number(value.get("hit_count", 0), "hit_count"),
            _decode_vector(value.get("vector")),
            str(value.get("embedder", "")),
            validate_labels(value.get("tags", ()), "tags"),
            validate_documents(value.get("documents", {})),
        )
    except KeyError as error:
        raise InputError(f"a cached entry cannot be used: it has no {error}") from None
    except OnhandError as error:
        raise InputError(f"a cached entry cannot be used: {error}") from None


def _whole_number(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:  # also rejects NaN
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


def read_entries(path: str) -> list[Any]:
    """Return the entries in a cache file, or none if it does not exist. They are not validated."""
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read ({error.strerror}): change its permissions, or use another file"
        ) from None
    with file:
        if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
            raise StoreError(f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB: delete it, or use another file")
        try:
            content = json.load(file)
        except (ValueError, RecursionError):
            content = None
    if not isinstance(content, dict) or not isinstance(content.get("entries"), list):
        raise StoreError(f"{path} is not a cache file and was left unchanged: delete it, or use another file")
    if content.get("onhand_cache") != FILE_FORMAT:
        raise StoreError(f"{path} was written by another version of onhand: delete it, or use another file")
    entries: list[Any] = content["entries"]
    return entries


def write_entries(path: str, entries: list[dict[str, Any]]) -> None:
    """Replace a cache file, which only its owner can read."""
    data = json.dumps({"onhand_cache": FILE_FORMAT, "entries": entries}).encode()
    try:
        make_directories(os.path.dirname(path))
        write_atomic(path, data, FILE_MODE)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {describe_fault(error)}") from None
