"""What does a program get of an answer about documents? The schemas of what `answers` spells.

They promise what is always there and name what may be; a program must bear what it does not know.
"""

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_SPAN: Schema = {"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2}


def _object(properties: Schema, *optional: str) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


_LAYER = _object({"rank": _COUNT, "score": {"type": "number"}, "terms": _TEXTS}, "terms")
_HIT = _object(
    {
        "document_id": _TEXT,
        "title": _TEXT,
        "snippet": _TEXT,
        "score": {"type": "number"},
        "author": _TEXT,
        "created_time": _TEXT_OR_NULL,
        "layers": {"type": "object", "additionalProperties": _LAYER},
    }
)
_MAYBE = ("total", "min_score", "next_page_token", "left_out", "notes", "reason")
ANSWER = _object(
    {
        "hits": {"type": "array", "items": _HIT},
        "total": _COUNT,
        "min_score": {"type": ["number", "null"]},
        "next_page_token": _TEXT,
        "left_out": _COUNT,
        "notes": _TEXTS,
        "reason": _TEXT,
    },
    *_MAYBE,
)
READING = _object(
    {
        "document_id": _TEXT,
        "title": _TEXT,
        "author": _TEXT,
        "tags": _TEXTS,
        "scope": _TEXT,
        "created_time": _TEXT_OR_NULL,
        "metadata": {"type": "object"},
        "text": _TEXT,
        "part": _object({"lines": _SPAN, "of_lines": _COUNT, "bytes": _SPAN, "of_bytes": _COUNT}),
        "next": {"type": "object"},
        "notes": _TEXTS,
    },
    "next",
    "notes",
)
