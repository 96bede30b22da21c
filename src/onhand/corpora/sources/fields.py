"""Map the fields of a record to those of a document, by the names that people give them.

A record is a line of JSON, a row of a table or the front matter of a page. Fields without a place in a document go into
its metadata, as do values that cannot be used in their place.
"""

from collections.abc import Callable, Mapping
from typing import Any

from onhand.document import Document
from onhand.errors import InputError
from onhand.search.validation import parse_time, time_of_epoch

# Of the names for one field, the first that has a value counts; the others become metadata.
NAMES = {
    "id": ("id", "_id", "document_id", "doc_id"),
    "title": ("title", "subject", "name"),
    "text": ("text", "body", "content", "html", "description"),
    "author": ("author", "from", "authors", "sender"),
    "tags": ("tags", "labels"),
    "scope": ("scope", "channel", "project"),
    "created_time": ("created_time", "created_at", "created", "date", "timestamp"),
    "kind": ("kind",),
}
_FIELDS = {name: field for field, names in NAMES.items() for name in names}
ABOUT = ("title", "author", "tags", "scope", "created_time")  # what a page may state about itself
MAX_QUOTED_CHARS = 60


def document_of(
    record: Mapping[str, Any], defaults: Document, fields: tuple[str, ...] = tuple(NAMES)
) -> tuple[Document, list[str]]:
    """Return the document that a record describes, and notes on values that cannot be used.

    `defaults` supplies the fields that the record does not have.
    """
    names = {_plain(key): key for key in reversed(list(record)) if not _is_empty(record[key])}
    found: dict[str, str] = {}  # field → the first of its names
    for name in _FIELDS.keys() & names.keys():
        field = _FIELDS[name]
        if field not in found or NAMES[field].index(name) < NAMES[field].index(found[field]):
            found[field] = name
    values: dict[str, Any] = {}
    used: set[str] = set()
    notes: list[str] = []
    for field in fields:
        if field not in found:
            continue
        name = found[field]
        key = names[name]
        try:
            values[field] = _READERS[name if name == "html" else field](record[key])
            used.add(key)
        except (InputError, TypeError) as error:
            notes.append(f"{key[:MAX_QUOTED_CHARS]}: {error}; kept in the metadata")
    return defaults._replace(**values, metadata=_metadata(record, used, defaults.metadata)), notes


def names_content(keys: list[str]) -> bool:
    """Return whether one of these names stands for a title or a text."""
    return any(_plain(key) in (*NAMES["title"], *NAMES["text"]) for key in keys)


def _metadata(record: Mapping[str, Any], used: set[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in record.items() if key not in used and not _is_empty(value)}
    inner = rest.pop("metadata") if isinstance(rest.get("metadata"), dict) else {}
    return {**defaults, **inner, **rest}


def _plain(key: str) -> str:
    """Return the normal form of a name: `Created At` and `created-at` mean created_at."""
    return key.strip().lower().replace(" ", "_").replace("-", "_")


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or value in ([], {}, ())


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    return _line(value)


def _html(value: Any) -> str:
    from onhand.html_text import extract_text

    return extract_text(_text(value)).text


def _line(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"expected a text, not {_shorten(value)}")
    return str(value).strip()


def _author(value: Any) -> str:
    return ", ".join(map(_person, value)) if isinstance(value, list) else _person(value)


def _person(value: Any) -> str:
    if not isinstance(value, dict):
        return _line(value)
    name, address = value.get("name") or "", value.get("email") or value.get("address") or ""
    if not name and not address:
        raise TypeError("an author needs a name or an email")
    return f"{_line(name)} <{_line(address)}>" if name and address else _line(name or address)


def _tags(value: Any) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(tag for tag in map(_line, listed) if tag))


def _scope(value: Any) -> str:
    return _line(value.get("name")) if isinstance(value, dict) else _line(value)


def _time(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        # In front matter, a year and a date without dashes are the numbers 2026 and 20260628.
        return parse_time(str(value)) if value in range(1000, 10_000) or _is_date(value) else time_of_epoch(value)
    return parse_time(_line(value))


def _is_date(number: float) -> bool:
    return number in range(1900_01_01, 2100_01_01) and 1 <= number % 100 <= 31 and 1 <= number // 100 % 100 <= 12


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_QUOTED_CHARS else text[: MAX_QUOTED_CHARS - 1] + "…"


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "id": _line,
    "title": _line,
    "text": _text,
    "html": _html,
    "author": _author,
    "tags": _tags,
    "scope": _scope,
    "created_time": _time,
    "kind": _line,
}
