"""What goes into a store, and what comes out besides documents?"""

from __future__ import annotations

from onhand.errors import StoreError
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

    from onhand.document import Document

HEAD_CHARS = 100_000  # of a text: what a snippet is looked for in
TALLIED = 10  # values of a field that a summary names


class Entry(Record):
    """A document to be kept, and what it means to the embedder, if there is one."""

    document: Document
    vector: array[float] | None = None  # of type code "f", of length one


class Head(Record):
    """What a list of hits shows of a document: no metadata, and a long text only as far as HEAD_CHARS."""

    id: str
    title: str
    text: str
    author: str
    tags: tuple[str, ...]
    scope: str
    created_us: int | None  # microseconds since 1970
    kind: str
    source_path: str


class Tally(Record):
    """How often the values of a field occur."""

    most: tuple[tuple[str, int], ...] = ()  # up to TALLIED values with their counts, by count, then by value
    distinct: int = 0  # how many different values there are


class Summary(Record):
    """What is in a store, as a whole. A document without an author, tag or scope counts for none."""

    documents: int = 0
    authors: Tally = Tally()
    tags: Tally = Tally()
    scopes: Tally = Tally()
    earliest_us: int | None = None  # of the times of creation, in microseconds since 1970
    latest_us: int | None = None


class Damage(Record):
    """Something in a store that is not as it was written."""

    what: str
    advice: str  # what to do about it


def head_of(document: Document) -> Head:
    """What a list of hits shows of a document."""
    from onhand.document import microseconds

    created = document.created_time
    return Head(
        document.id,
        document.title,
        document.text[:HEAD_CHARS],
        document.author,
        document.tags,
        document.scope,
        None if created is None else microseconds(created),
        document.kind,
        document.source_path,
    )


def content_hash(document: Document) -> str:
    """The same for two documents only if nothing in them differs."""
    import json

    from onhand.digest import digest
    from onhand.document import microseconds

    created = document.created_time
    spelled = {**document._asdict(), "created_time": None if created is None else microseconds(created)}
    return digest(json.dumps(spelled, sort_keys=True).encode())


def refuse_contradiction(noted: Mapping[str, str], facts: Mapping[str, str]) -> None:
    """Refuse facts of which others were noted, so that two writers never mix what must not be mixed."""
    for name, value in facts.items():
        if noted.get(name, value) != value:
            raise StoreError(
                f"{name} is {noted[name]!r} here, not {value!r}: nothing was written; "
                "run `onhand docs reembed` to change it, or open the index with the other"
            )
