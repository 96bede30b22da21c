"""Validate documents, ids, filters, queries, times and vectors where they enter, once.

A time without a zone counts as UTC, a plain date as its midnight.
"""

from __future__ import annotations

from math import isfinite

from onhand.document import Document, Filter
from onhand.errors import EmbedderError, InputError
from onhand.text import repair_surrogates

TYPE_CHECKING = False

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

MAX_CHARS = 100
EXAMPLES = "2026-06-28, 2026-06-28T14:30:00+02:00, Sun, 28 Jun 2026 14:30:00 +0200 or seconds since 1970"

# A number of seconds below the first is before the year 5138; as milliseconds the same number is in 1973.
_UNITS = ((10**11, 10**6), (10**14, 10**3), (10**17, 1))


def parse_time(text: str) -> datetime:
    """The time that a text names: ISO 8601, the date of a mail, or seconds, milliseconds or microseconds since 1970."""
    spelled = text.strip()
    if not spelled or len(spelled) > MAX_CHARS:
        raise _no_time(text)
    try:
        return _zoned(_read(spelled))
    except (ValueError, TypeError, IndexError, OverflowError):
        raise _no_time(text) from None


def time_of_epoch(number: float) -> datetime:
    """The time that a number of seconds, milliseconds or microseconds since 1970 stands for; its size says which."""
    from fractions import Fraction

    from onhand.document import from_microseconds

    try:
        exact = Fraction(number)
        unit = next(microseconds for limit, microseconds in _UNITS if abs(exact) < limit)
        return from_microseconds(round(exact * unit))
    except (ValueError, OverflowError, StopIteration):
        raise _no_time("a number of this size") from None


def _read(text: str) -> datetime:
    import re
    from datetime import datetime

    if text.isdecimal() and text.isascii():
        return _read_digits(text)
    if re.fullmatch(r"-?[0-9]++(?:\.[0-9]++)?", text, re.ASCII):
        return time_of_epoch(float(text))
    iso = f"{text[:-4]}+00:00" if text.endswith((" UTC", " GMT")) else text
    try:
        return datetime.fromisoformat(iso.upper())
    except ValueError:
        return _read_other(text)


def _read_digits(text: str) -> datetime:
    from datetime import datetime

    match len(text):
        case 4:
            return datetime(int(text), 1, 1)
        case 8:
            return datetime.fromisoformat(text)
        case 14 if text[:2] in ("19", "20"):  # 20260628143000; as milliseconds it would be after the year 2500
            return datetime.fromisoformat(f"{text[:8]}T{text[8:]}")
        case size if size >= 9:
            return time_of_epoch(int(text))
        case _:
            raise ValueError("too short for seconds since 1970, and no date")


def _read_other(text: str) -> datetime:
    from datetime import datetime
    from email.utils import parsedate_to_datetime

    if len(text) == 7 and text[4] == "-":  # 2026-06
        return datetime.fromisoformat(f"{text}-01")
    if ":" in text:
        return parsedate_to_datetime(text)
    return parsedate_to_datetime(f"{text} 00:00:00 +0000")


def _zoned(time: datetime) -> datetime:
    from datetime import UTC

    zoned = time if time.utcoffset() is not None else time.replace(tzinfo=UTC)
    zoned.astimezone(UTC)  # raises for a time that is outside of the years 1 to 9999 in UTC
    return zoned


def _no_time(text: str) -> InputError:
    shown = text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
    return InputError(f"{shown!r} is no time: write it like {EXAMPLES}")


MAX_ID_CHARS = 10_000  # any path fits; a text that was taken for an id does not
MAX_TEXT_CHARS = 50_000_000
MAX_TAGS = 1000
MAX_QUERY_CHARS = 50_000  # a task with what belongs to it: ranking costs time for every different word
MAX_FILTER_VALUES = 1000


def accepted(document: Document) -> Document:
    """The document with whole text, or an error that names what cannot be kept."""
    if not isinstance(document, Document):
        raise InputError(f"a document is an onhand.Document, not a {type(document).__name__}")
    given: Any = document  # what its fields are, nobody has checked
    if _is_plain(given):
        return tuple.__new__(Document, (*given[:7], _texts(given.metadata), *given[8:])) if given.metadata else document
    if not isinstance(given.id, str) or not document.id.strip() or len(document.id) > MAX_ID_CHARS:
        raise InputError(f"a document's id is a text of 1 to {MAX_ID_CHARS:,} characters, not {_shown(document.id)}")
    where = f"document {document.id!r}"
    for field in ("title", "text", "author", "scope", "kind", "source_path"):
        if not isinstance(getattr(document, field), str):
            raise InputError(f"{where}: {field} is a text, not {_shown(getattr(document, field))}")
    if len(document.text) > MAX_TEXT_CHARS:
        raise InputError(f"{where}: the text has {len(document.text):,} characters; split it: {MAX_TEXT_CHARS:,} fit")
    if isinstance(given.tags, str):
        document = document._replace(tags=(given.tags,))
        given = document
    if not _are_texts(given.tags):
        raise InputError(f"{where}: tags are a list of texts, not {_shown(document.tags)}")
    if len(document.tags) > MAX_TAGS:
        raise InputError(f"{where} has {len(document.tags):,} tags: at most {MAX_TAGS:,} fit")
    return Document(
        repair_surrogates(document.id),
        repair_surrogates(document.title),
        repair_surrogates(document.text),
        repair_surrogates(document.author),
        tuple(dict.fromkeys(map(repair_surrogates, document.tags))),
        repair_surrogates(document.scope),
        _accept_zoned(document.created_time, f"{where}: created_time"),
        _json(document.metadata, where),
        repair_surrogates(document.kind),
        repair_surrogates(document.source_path),
    )


def _is_plain(document: Any) -> bool:
    """Whether there is nothing to check, as of most documents: the same as below, only faster."""
    document_id, title, text, author, tags, scope, created_time, metadata, kind, source_path = document
    texts = (document_id, title, text, author, scope, kind, source_path)
    return (
        tags == ()
        and created_time is None
        and type(document_id) is type(title) is type(text) is type(author) is str
        and type(scope) is type(kind) is type(source_path) is str
        and (all(map(str.isascii, texts)) or all(repair_surrogates(text) is text for text in texts))
        and 0 < len(document_id) <= MAX_ID_CHARS
        and not document_id.isspace()
        and len(text) <= MAX_TEXT_CHARS
        and type(metadata) is dict
        and _is_plain_texts(metadata)
    )


def accepted_id(document_id: str) -> str:
    """The id to look for as whole text, or an error when it is no text."""
    if not isinstance(document_id, str):
        raise InputError(f"a document's id is a text, not {_shown(document_id)}", "document_id")
    return repair_surrogates(document_id)


def accepted_filter(filter: Filter) -> Filter:
    """The filter with whole text, or an error that names what cannot be asked for."""
    if not isinstance(filter, Filter):
        raise InputError(f"a filter is an onhand.Filter, not {_shown(filter)}")
    for field in ("author", "tags", "scope"):
        values = getattr(filter, field)
        if isinstance(values, str):
            values = (values,)
            filter = Filter(**{**filter._asdict(), field: values})
        if not _are_texts(values):
            raise InputError(f"the filter's {field} is a list of texts, not {_shown(values)}", f"filter.{field}")
        if len(values) > MAX_FILTER_VALUES:
            raise InputError(
                f"the filter names {len(values):,} values for {field}: at most {MAX_FILTER_VALUES:,}",
                f"filter.{field}",
            )
    after = _accept_zoned(filter.created_after, "the filter's created_after")
    before = _accept_zoned(filter.created_before, "the filter's created_before")
    return Filter(
        tuple(map(repair_surrogates, filter.author)),
        tuple(map(repair_surrogates, filter.tags)),
        after,
        before,
        tuple(map(repair_surrogates, filter.scope)),
    )


def accepted_query(query: str) -> str:
    """The query as whole text, or an error when it is no question."""
    if not isinstance(query, str):
        raise InputError(f"a query is a text, not {_shown(query)}", "query")
    if len(query) > MAX_QUERY_CHARS:
        raise InputError(f"the query has {len(query):,} characters: use at most {MAX_QUERY_CHARS:,}", "query")
    return repair_surrogates(query)


def accepted_vector(vector: array[float], dimension: int, what: str) -> array[float]:
    """The vector, of length one, or an error: a bad vector would be ranked like a good one."""
    vector = _floats(vector, what)
    if len(vector) != dimension:
        raise EmbedderError(f"the embedder gave {len(vector)} numbers for {what}, not {dimension}: nothing was kept")
    length = sum(number * number for number in vector) ** 0.5
    if not isfinite(length):
        raise EmbedderError(f"the embedder gave numbers that are not finite for {what}: nothing was kept")
    if length < 1e-6:
        raise EmbedderError(f"the embedder gave a vector of zeros for {what}: nothing was kept")
    return vector if abs(length - 1) < 1e-3 else _floats([number / length for number in vector], what)


def _floats(vector: Any, what: str) -> array[float]:
    from array import array

    if isinstance(vector, array) and vector.typecode == "f":
        return vector
    try:
        return array("f", vector)
    except (TypeError, OverflowError):
        raise EmbedderError(f"the embedder gave {_shown(vector)} for {what}, not numbers: nothing was kept") from None


def _are_texts(values: Any) -> bool:
    return isinstance(values, list | tuple | set | frozenset) and all(isinstance(value, str) for value in values)


def _accept_zoned(time: Any, what: str) -> Any:
    if time is None:
        return None
    from datetime import UTC, datetime

    if isinstance(time, str):
        try:
            time = parse_time(time)
        except InputError as error:
            raise InputError(f"{what} is a datetime or an ISO 8601 text: {error}") from None
    if not isinstance(time, datetime):
        raise InputError(f"{what} is a datetime or an ISO 8601 text, not {_shown(time)}")
    if time.tzinfo is None or time.utcoffset() is None:
        raise InputError(f"{what} is {time.isoformat()}, and nobody knows where: add a time zone, as in +00:00")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise InputError(f"{what} is {time.isoformat()}, which is no year from 1 to 9999 in UTC") from None


def _json(metadata: Any, where: str) -> Mapping[str, Any]:
    if type(metadata) is dict and _is_plain_texts(metadata):
        return _texts(metadata)
    import json

    try:
        plain = json.loads(repair_surrogates(json.dumps(metadata, allow_nan=False, ensure_ascii=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: metadata is what JSON can say: {str(error)[:200]}") from None
    if not isinstance(plain, dict):
        raise InputError(f"{where}: metadata is a mapping of names to values, not {_shown(metadata)}")
    return plain


def _texts(metadata: dict[str, Any]) -> dict[str, Any]:
    """A copy of texts, or texts by their names."""
    return {name: dict(value) if type(value) is dict else value for name, value in metadata.items()}


def _is_plain_texts(metadata: dict[Any, Any]) -> bool:
    """Whether it is of texts, or texts by their names, with nothing in them to check."""
    for name, value in metadata.items():
        if type(name) is not str or not name.isascii():
            return False
        if type(value) is dict:
            for key, own in value.items():
                if type(key) is not str or type(own) is not str or not (key.isascii() and own.isascii()):
                    return False
        elif type(value) is not str or not value.isascii():
            return False
    return True


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 100 else shown[:97] + "..."
