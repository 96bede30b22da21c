"""What may enter? Documents and filters from outside are checked here, once, before anything is kept or searched."""

from __future__ import annotations

from math import isfinite

from onhand.document import Document, Filter
from onhand.errors import EmbedderError, InputError
from onhand.text import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping
    from typing import Any

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
    if not _are_texts(given.tags):
        raise InputError(f"{where}: tags are a list of texts, not {_shown(document.tags)}")
    if len(document.tags) > MAX_TAGS:
        raise InputError(f"{where} has {len(document.tags):,} tags: at most {MAX_TAGS:,} fit")
    return Document(
        whole(document.id),
        whole(document.title),
        whole(document.text),
        whole(document.author),
        tuple(dict.fromkeys(map(whole, document.tags))),
        whole(document.scope),
        _zoned(document.created_time, f"{where}: created_time"),
        _json(document.metadata, where),
        whole(document.kind),
        whole(document.source_path),
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
        and (all(map(str.isascii, texts)) or all(whole(text) is text for text in texts))
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
    return whole(document_id)


def accepted_filter(filter: Filter) -> Filter:
    """The filter with whole text, or an error that names what cannot be asked for."""
    if not isinstance(filter, Filter):
        raise InputError(f"a filter is an onhand.Filter, not {_shown(filter)}")
    for field in ("author", "tags", "scope"):
        values = getattr(filter, field)
        if not _are_texts(values):
            raise InputError(f"the filter's {field} is a list of texts, not {_shown(values)}", f"filter.{field}")
        if len(values) > MAX_FILTER_VALUES:
            raise InputError(
                f"the filter names {len(values):,} values for {field}: at most {MAX_FILTER_VALUES:,}",
                f"filter.{field}",
            )
    after = _zoned(filter.created_after, "the filter's created_after")
    before = _zoned(filter.created_before, "the filter's created_before")
    return Filter(
        tuple(map(whole, filter.author)),
        tuple(map(whole, filter.tags)),
        after,
        before,
        tuple(map(whole, filter.scope)),
    )


def accepted_query(query: str) -> str:
    """The query as whole text, or an error when it is no question."""
    if not isinstance(query, str):
        raise InputError(f"a query is a text, not {_shown(query)}", "query")
    if len(query) > MAX_QUERY_CHARS:
        raise InputError(f"the query has {len(query):,} characters: use at most {MAX_QUERY_CHARS:,}", "query")
    return whole(query)


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


def _zoned(time: Any, what: str) -> Any:
    if time is None:
        return None
    from datetime import UTC, datetime

    if not isinstance(time, datetime):
        raise InputError(f"{what} is a datetime, not {_shown(time)}")
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
        plain = json.loads(whole(json.dumps(metadata, allow_nan=False, ensure_ascii=False)))
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
