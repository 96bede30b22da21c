"""In which order are documents listed? `created_time desc, title`, as AIP-132 spells it."""

from __future__ import annotations

from onhand.errors import InputError
from onhand.record import Record

FIELDS = ("created_time", "title", "author", "scope", "document_id")


class Key(Record):
    """A field to order by."""

    field: str
    descending: bool


def parse_order(order_by: str) -> list[Key]:
    """The fields to order by; the last is always the id, so that no two documents are equal."""
    if not isinstance(order_by, str):
        raise InputError(f"order_by is a text such as 'created_time desc', not a {type(order_by).__name__}")
    keys = [_key(part) for part in order_by.split(",")] if order_by.strip() else [Key("created_time", True)]
    named = [key.field for key in keys]
    twice = next((field for field in named if named.count(field) > 1), None)
    if twice:
        raise InputError(f"order_by names {twice} twice", "order_by")
    return keys if "document_id" in named else [*keys, Key("document_id", False)]


def _key(part: str) -> Key:
    words = part.split()
    if not words or words[0] not in FIELDS or words[1:] not in ([], ["asc"], ["desc"]):
        raise InputError(
            f"cannot order by {part.strip()[:100]!r}: name {', '.join(FIELDS[:-1])} or {FIELDS[-1]}, "
            "each with ' desc' behind it where the largest comes first",
            "order_by",
        )
    return Key(words[0], words[1:] == ["desc"])
