"""Validate documents, ids, filters, queries, times and vectors once, where they enter.

A time without a zone is in UTC, and a date stands for its midnight.
"""

from __future__ import annotations

from math import isfinite

from onhand.document import Document, Filter, from_microseconds
from onhand.errors import EmbedderError, InputError
from onhand.hidden_characters import repair_surrogates

TYPE_CHECKING = False

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

MAX_TIME_CHARS = 100
EXAMPLES = "2026-06-28, 2026-06-28T14:30:00+02:00, Sun, 28 Jun 2026 14:30:00 +0200 or seconds since 1970"

# Upper bounds and microseconds per unit. The first bound is the year 5138 in seconds, and 1973 in milliseconds.
_UNITS = ((10**11, 10**6), (10**14, 10**3), (10**17, 1))


def parse_time(text: str) -> datetime:
    """Parse ISO 8601, the date of an e-mail, or seconds, milliseconds or microseconds since 1970."""
    stripped = text.strip()
    if not stripped or len(stripped) > MAX_TIME_CHARS:
        raise _invalid_time(text)
    try:
        return _add_zone(_parse(stripped))
    except (ValueError, TypeError, IndexError, OverflowError):
        raise _invalid_time(text) from None


def time_of_epoch(number: float) -> datetime:
    """Return the time of a number of seconds, milliseconds or microseconds since 1970; its size decides the unit."""
    from fractions import Fraction

    try:
        exact = Fraction(number)
        unit = next(microseconds for limit, microseconds in _UNITS if abs(exact) < limit)
        return from_microseconds(round(exact * unit))
    except (ValueError, OverflowError, StopIteration):
        raise InputError(f"The number is not a time. Write it like {EXAMPLES}.") from None


def _parse(text: str) -> datetime:
    import re
    from datetime import datetime

    if text.isdecimal() and text.isascii():
        return _parse_digits(text)
    if re.fullmatch(r"-?[0-9]++(?:\.[0-9]++)?", text, re.ASCII):
        return time_of_epoch(float(text))
    iso = f"{text[:-4]}+00:00" if text.endswith((" UTC", " GMT")) else text
    try:
        return datetime.fromisoformat(iso.upper())
    except ValueError:
        return _parse_other(text)


def _parse_digits(text: str) -> datetime:
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
            raise ValueError("too short for seconds since 1970, and not a date")


def _parse_other(text: str) -> datetime:
    from datetime import datetime
    from email.utils import parsedate_to_datetime

    if len(text) == 7 and text[4] == "-":  # 2026-06
        return datetime.fromisoformat(f"{text}-01")
    if ":" in text:
        return parsedate_to_datetime(text)
    return parsedate_to_datetime(f"{text} 00:00:00 +0000")


def _add_zone(time: datetime) -> datetime:
    from datetime import UTC

    zoned = time if time.utcoffset() is not None else time.replace(tzinfo=UTC)
    zoned.astimezone(UTC)  # raises OverflowError outside of the years 1 to 9999 in UTC
    return zoned


def _invalid_time(text: str) -> InputError:
    shortened = text if len(text) <= MAX_TIME_CHARS else text[: MAX_TIME_CHARS - 1] + "…"
    return InputError(f"{shortened!r} is not a time. Write it like {EXAMPLES}.")


MAX_ID_CHARS = 10_000  # enough for any path, but not for a text that was passed as an id
MAX_TEXT_CHARS = 50_000_000
MAX_TAGS = 1000
MAX_QUERY_CHARS = 50_000  # enough for a task with its context; every different word costs time
MAX_FILTER_VALUES = 1000


def validate_document(document: Document) -> Document:
    """Return the document without lone surrogates; raise InputError if it cannot be stored."""
    if not isinstance(document, Document):
        raise InputError(f"A document must be an onhand.Document, not {type(document).__name__}.")
    fields: Any = document  # whose types are not validated yet
    if _is_plain(fields):
        return (
            tuple.__new__(Document, (*fields[:7], _copy_metadata(fields.metadata), *fields[8:]))
            if fields.metadata
            else document
        )
    validate_id(fields.id)
    where = f"document {document.id!r}"
    for field in ("title", "text", "author", "scope", "kind", "source_path"):
        if not isinstance(getattr(document, field), str):
            raise InputError(f"{where}: {field} must be a string, not {_abbreviate(getattr(document, field))}.")
    if len(document.text) > MAX_TEXT_CHARS:
        raise InputError(
            f"{where}: the text has {len(document.text):,} characters, more than {MAX_TEXT_CHARS:,}. Split it."
        )
    if isinstance(fields.tags, str):
        document = document._replace(tags=(fields.tags,))
        fields = document
    if not _are_strings(fields.tags):
        raise InputError(f"{where}: tags must be a list of strings, not {_abbreviate(document.tags)}.")
    if len(document.tags) > MAX_TAGS:
        raise InputError(f"{where} has {len(document.tags):,} tags. Use at most {MAX_TAGS:,}.")
    return Document(
        repair_surrogates(document.id),
        repair_surrogates(document.title),
        repair_surrogates(document.text),
        repair_surrogates(document.author),
        tuple(dict.fromkeys(map(repair_surrogates, document.tags))),
        repair_surrogates(document.scope),
        _validate_time(document.created_time, f"{where}: created_time"),
        _validate_metadata(document.metadata, where),
        repair_surrogates(document.kind),
        repair_surrogates(document.source_path),
    )


def _is_plain(document: Any) -> bool:
    """Return whether a document needs no repair. This is a fast path for most documents."""
    document_id, title, text, author, tags, scope, created_time, metadata, kind, source_path = document
    texts = (document_id, title, text, author, scope, kind, source_path)
    return (
        tags == ()
        and created_time is None
        and type(document_id) is type(title) is type(text) is type(author) is str
        and type(scope) is type(kind) is type(source_path) is str
        and (all(map(str.isascii, texts)) or all(repair_surrogates(text) is text for text in texts))
        and _is_id(document_id)
        and len(text) <= MAX_TEXT_CHARS
        and type(metadata) is dict
        and _is_plain_metadata(metadata)
    )


def validate_id(document_id: Any) -> str:
    """Return the id without lone surrogates; raise InputError if no document can have it."""
    if not isinstance(document_id, str) or not _is_id(document_id):
        raise InputError(
            f"A document id must be a string of 1 to {MAX_ID_CHARS:,} characters, not blank and without NUL: "
            f"{_abbreviate(document_id)} cannot be one.",
            "document_id",
        )
    return repair_surrogates(document_id)


def _is_id(text: str) -> bool:
    return 0 < len(text) <= MAX_ID_CHARS and not text.isspace() and "\0" not in text


def validate_filter(filter: Filter) -> Filter:
    """Return the filter without lone surrogates; raise InputError if it is not valid."""
    if not isinstance(filter, Filter):
        raise InputError(f"A filter must be an onhand.Filter, not {_abbreviate(filter)}.")
    for field in ("author", "tags", "scope"):
        values = getattr(filter, field)
        if isinstance(values, str):
            values = (values,)
            filter = Filter(**{**filter._asdict(), field: values})
        if not _are_strings(values):
            raise InputError(
                f"The filter's {field} must be a list of strings, not {_abbreviate(values)}.", f"filter.{field}"
            )
        if len(values) > MAX_FILTER_VALUES:
            raise InputError(
                f"The filter has {len(values):,} values for {field}. Use at most {MAX_FILTER_VALUES:,}.",
                f"filter.{field}",
            )
    after = _validate_time(filter.created_after, "The filter's created_after")
    before = _validate_time(filter.created_before, "The filter's created_before")
    return Filter(
        tuple(map(repair_surrogates, filter.author)),
        tuple(map(repair_surrogates, filter.tags)),
        after,
        before,
        tuple(map(repair_surrogates, filter.scope)),
    )


def validate_query(query: str) -> str:
    """Return the query without lone surrogates; raise InputError if it is too long or not a string."""
    if not isinstance(query, str):
        raise InputError(f"A query must be a string, not {_abbreviate(query)}.", "query")
    if len(query) > MAX_QUERY_CHARS:
        raise InputError(f"the query has {len(query):,} characters: use at most {MAX_QUERY_CHARS:,}", "query")
    return repair_surrogates(query)


def validate_vector(vector: array[float], dimension: int, what: str) -> array[float]:
    """Return the vector with length one; raise EmbedderError for a bad one, which would be ranked like any other."""
    vector = _to_floats(vector, what)
    if len(vector) != dimension:
        raise EmbedderError(
            f"The embedder returned {len(vector)} numbers for {what}, not {dimension}. Nothing was written."
        )
    length = sum(number * number for number in vector) ** 0.5
    if not isfinite(length):
        raise EmbedderError(f"The embedder returned numbers that are not finite for {what}. Nothing was written.")
    if length < 1e-6:
        raise EmbedderError(f"The embedder returned a vector of zeros for {what}. Nothing was written.")
    return vector if abs(length - 1) < 1e-3 else _to_floats([number / length for number in vector], what)


def _to_floats(vector: Any, what: str) -> array[float]:
    from array import array

    if isinstance(vector, array) and vector.typecode == "f":
        return vector
    try:
        return array("f", vector)
    except (TypeError, OverflowError):
        raise EmbedderError(
            f"The embedder returned {_abbreviate(vector)} for {what}, not numbers. Nothing was written."
        ) from None


def _are_strings(values: Any) -> bool:
    return isinstance(values, list | tuple | set | frozenset) and all(isinstance(value, str) for value in values)


def _validate_time(time: Any, what: str) -> Any:
    if time is None:
        return None
    from datetime import UTC, datetime

    if isinstance(time, str):
        try:
            time = parse_time(time)
        except InputError as error:
            raise InputError(f"{what} must be a datetime or an ISO 8601 string: {error}") from None
    if not isinstance(time, datetime):
        raise InputError(f"{what} must be a datetime or an ISO 8601 string, not {_abbreviate(time)}.")
    if time.tzinfo is None or time.utcoffset() is None:
        raise InputError(f"{what} is {time.isoformat()}, without a time zone. Add one, as in +00:00.")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise InputError(f"{what} is {time.isoformat()}, which is not in the years 1 to 9999 in UTC.") from None


def _validate_metadata(metadata: Any, where: str) -> Mapping[str, Any]:
    if type(metadata) is dict and _is_plain_metadata(metadata):
        return _copy_metadata(metadata)
    import json

    try:
        plain = json.loads(repair_surrogates(json.dumps(metadata, allow_nan=False, ensure_ascii=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: metadata must be serialisable as JSON: {str(error)[:200]}") from None
    if not isinstance(plain, dict):
        raise InputError(f"{where}: metadata must be a mapping, not {_abbreviate(metadata)}.")
    return plain


def _copy_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Copy metadata of strings and of mappings from string to string."""
    return {name: dict(value) if type(value) is dict else value for name, value in metadata.items()}


def _is_plain_metadata(metadata: dict[Any, Any]) -> bool:
    """Return whether metadata has only ASCII strings and mappings from ASCII string to ASCII string."""
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


def _abbreviate(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


def check_min_score(min_score: object, least: float, most: float | None = None) -> float:
    """Return a minimum score; raise InputError if it is not a number in the range of scores."""
    if isinstance(min_score, bool) or not isinstance(min_score, int | float):
        raise InputError(f"min_score must be a number or None, not {min_score!r:.60}.", "min_score")
    if not (least <= min_score and (most is None or min_score <= most)):
        allowed = f"at least {least:g}" if most is None else f"from {least:g} to {most:g}"
        raise InputError(f"min_score must be {allowed}, not {min_score}.", "min_score")
    return float(min_score)
