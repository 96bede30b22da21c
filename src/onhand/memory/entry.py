"""What does a cache keep? An answered question with all that decides to whom and how long it may be served."""

import json
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from onhand.embed.embedder import unit
from onhand.errors import InputError, OnhandError
from onhand.memory.age import Moment
from onhand.text import whole
from onhand.tools.tool import plain

MAX_QUERY_CHARS = 1_000_000
MAX_LABELS = 10_000  # tags or documents of an entry


class Scope(NamedTuple):
    """For whom an answer holds: no hit ever crosses any of these. Each may be any JSON value; nothing is left out."""

    model: Any = ""
    system: Any = ""  # the system prompt, pinned context included
    tools: Any = ()  # what `Registry.wire` gives
    user: Any = ""
    filter: Any = ""
    index_generation: Any = ""  # changes with the documents that answers are drawn from

    @property
    def key(self) -> str:
        """One short text for all of it."""
        value = plain(self._asdict(), "scope", text=lambda part, _: part)
        return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class Entry(NamedTuple):
    """A question that was answered, and its answer."""

    id: int
    query: str
    response: Any  # text, or another JSON value
    scope: str  # the key of a Scope
    born: Moment
    hit_count: int = 0
    vector: "array[float] | None" = None
    embedder: str = ""  # what made the vector: others are not compared with it
    tags: tuple[str, ...] = ()
    documents: Mapping[str, str] = {}  # id → the version that the answer was drawn from; "": not known

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON can say it."""
        return {
            "id": self.id,
            "query": self.query,
            "response": self.response,
            "scope": self.scope,
            "cached_at_ms": self.born.wall_ms,
            "ticks_s": self.born.ticks_s,
            "boot": self.born.boot,
            "hit_count": self.hit_count,
            "vector": None if self.vector is None else _packed(self.vector),
            "embedder": self.embedder,
            "tags": list(self.tags),
            "documents": dict(self.documents),
        }


class Computed(NamedTuple):
    """What a computation may give instead of a bare response, when it knows more about it."""

    response: Any
    tags: Sequence[str] = ()
    documents: "Mapping[str, str] | Sequence[str]" = ()  # that it cites; with their versions if it knows them
    keep: bool = True  # False: an answer for now, such as one that was cut off


def copied(entry: Entry) -> Entry:
    """The entry with a response that the receiver may change."""
    return entry if isinstance(entry.response, str) else entry._replace(response=plain(entry.response, "the response"))


def accepted_query(query: object) -> str:
    """A question with its halves of characters joined; InputError when there is none."""
    if not isinstance(query, str) or not query.strip():
        raise InputError(f"the question must be a text that is not empty, not {query!r:.60}")
    if len(query) > MAX_QUERY_CHARS:
        raise InputError(f"the question has more than {MAX_QUERY_CHARS:,} characters: ask something shorter")
    return whole(query)


def accepted_response(response: object) -> Any:
    """A response that can be given again: text, or a copy of a JSON value; InputError when it cannot."""
    if isinstance(response, str) and response.strip():
        return whole(response)
    if response is None or isinstance(response, str):
        raise InputError("an empty answer is not kept")
    return plain(response, "the response")


def accepted_labels(labels: object, what: str) -> tuple[str, ...]:
    """Tags or ids of documents."""
    if isinstance(labels, str) or not isinstance(labels, Sequence | set | frozenset) or len(labels) > MAX_LABELS:
        raise InputError(f"{what} must be a list of at most {MAX_LABELS:,} texts, not {labels!r:.60}")
    for label in labels:
        if not isinstance(label, str) or not label:
            raise InputError(f"{what} must be texts that are not empty, not {label!r:.60}")
    return tuple(dict.fromkeys(labels))


def accepted_documents(documents: object) -> dict[str, str]:
    """Documents with their versions, "" where none is known."""
    if isinstance(documents, Mapping):
        versions = {name: documents[name] for name in accepted_labels(tuple(documents), "documents")}
        if not all(isinstance(version, str) for version in versions.values()):
            raise InputError("the versions of documents must be texts")
        return versions
    return dict.fromkeys(accepted_labels(documents, "documents"), "")


def accepted_entry(given: object) -> Entry:
    """An entry out of what `as_json` gave; InputError says what is wrong with it."""
    if isinstance(given, Entry):
        given = given.as_json()
    try:
        if not isinstance(given, Mapping):
            raise InputError(f"it is a {type(given).__name__}, not an object")
        born = Moment(
            int(_number(given["cached_at_ms"], "cached_at_ms")),
            _number(given.get("ticks_s", 0), "ticks_s", -(2**53)),  # below 0: before the machine was started
            str(given.get("boot", "")),
        )
        return Entry(
            int(_number(given["id"], "id")),
            accepted_query(given["query"]),
            accepted_response(given["response"]),
            str(given["scope"]),
            born,
            int(_number(given.get("hit_count", 0), "hit_count")),
            _unpacked(given.get("vector")),
            str(given.get("embedder", "")),
            accepted_labels(given.get("tags", ()), "tags"),
            accepted_documents(given.get("documents", {})),
        )
    except KeyError as error:
        raise InputError(f"a cached entry cannot be used: it has no {error}") from None
    except OnhandError as error:
        raise InputError(f"a cached entry cannot be used: {error}") from None


def _number(value: object, what: str, least: float = 0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 2**53:  # which NaN is not
        raise InputError(f"{what} must be a number of at least {least}, not {value!r:.60}")
    return value


def _packed(vector: "array[float]") -> str:
    return b64encode(_little_endian(vector).tobytes()).decode("ascii")


def _unpacked(text: object) -> "array[float] | None":
    if text is None:
        return None
    numbers = array("f")
    try:
        numbers.frombytes(b64decode(text, validate=True))  # type: ignore[arg-type]
    except (ValueError, TypeError):
        raise InputError("its vector is not base64 of 32-bit numbers") from None
    return unit(_little_endian(numbers), "its vector")


def _little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "little":
        return numbers
    swapped = array("f", numbers)
    swapped.byteswap()
    return swapped
