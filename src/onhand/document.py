"""The data types that all packages share: documents, sections, filters and matches.

They are Records, because importing `dataclasses` alone costs more than starting Python
(docs/adr/0007-fast-from-cold.md).
"""

from __future__ import annotations

from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any


class Section(Record):
    """A section of a page: a heading and the text below it."""

    heading: str  # "(intro)" for the text before the first heading
    heading_path: tuple[str, ...]  # outermost heading first, this section's own last
    text: str  # including the heading line
    first_line: int  # in the file, counted from 1
    last_line: int  # inclusive


class Document(Record):
    """Something that can be found: a mail, a page, a section, a tool."""

    id: str
    title: str = ""
    text: str = ""
    author: str = ""
    tags: tuple[str, ...] = ()
    scope: str = ""  # channel, project, workspace
    created_time: datetime | None = None  # with a time zone
    metadata: Mapping[str, Any] = {}  # any JSON object
    kind: str = "document"
    source_path: str = ""  # where it was read from


class Passage(Record):
    """The place of a passage in the text of a document."""

    first_line: int  # counted from 1
    last_line: int  # inclusive
    first_byte: int  # in UTF-8, counted from 0
    end_byte: int  # exclusive


class Filter(Record):
    """Which documents to search; an empty field or None does not restrict the search.

    An author matches by the full text, the address, the part before its @, or the name before the address, ignoring
    case. A single author, tag or scope may be a plain string, and a time an ISO 8601 string.
    """

    author: tuple[str, ...] = ()  # any of them
    tags: tuple[str, ...] = ()  # all of them
    created_after: datetime | None = None  # inclusive
    created_before: datetime | None = None  # exclusive
    scope: tuple[str, ...] = ()  # any of them


EVERYTHING = Filter()


class Contribution(Record):
    """The contribution of one term in one field; the contributions of a hit add up to its score."""

    term: str
    field: str
    score: float


class Match(Record):
    """A document that one layer found, and why."""

    id: str
    score: float
    contributions: tuple[Contribution, ...] = ()  # of terms; empty for semantic matches


def author_keys(author: str) -> tuple[str, ...]:
    """Return the normalized spellings by which a filter finds an author; `Sarah Chen <sarah@x.org>` has four."""
    whole = " ".join(author.split()).casefold()
    name, bracket, rest = whole.partition("<")
    address = rest.rstrip("> ") if bracket else whole
    local, at, _ = address.partition("@")
    keys = [whole, name.strip(' "') if bracket else "", address, local if at else ""]
    return tuple(dict.fromkeys(key for key in keys if key))


def filter_author_keys(filter: Filter) -> set[str]:
    """Return the authors of a filter, normalized as by `author_keys`."""
    return {" ".join(author.split()).casefold() for author in filter.author}


def to_microseconds(time: datetime) -> int:
    """Return an aware time as microseconds since 1970."""
    from datetime import UTC, datetime, timedelta

    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def from_microseconds(created_us: int) -> datetime:
    """Return the UTC time of a number of microseconds since 1970."""
    from datetime import UTC, datetime, timedelta

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=created_us)
