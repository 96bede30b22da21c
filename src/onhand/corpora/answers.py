"""How is an answer about documents spelled? As JSON, within a number of bytes, and never half of it.

What documents say stands inside of JSON strings only, so that no document can forge a hit or a note. Characters that a
reader does not see are spelled out there.
"""

from __future__ import annotations

from onhand.corpora.parts import shortened
from onhand.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Any

    from onhand.corpora.documents import Answer, Reading
    from onhand.search.result import Hit, Layer

MAX_TITLE_CHARS = 200
MAX_NAME_CHARS = 200  # of an author or a scope
MAX_TERMS = 8  # of a hit: the most telling ones
DIGITS = 6  # of a score: more would only cost tokens

# Control characters, what turns the direction of text, and what hides text from a reader but not from a model: tags
# and the second set of variation selectors.
_UNSEEN = [
    *range(0x7F, 0xA0),
    *(0x061C, 0x200E, 0x200F),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xE0000, 0xE0080),
    *range(0xE0100, 0xE01F0),
]


def text_of(value: Any) -> str:
    """A value as compact JSON on one line, with everything spelled out that cannot be seen."""
    import json

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Only strings of a JSON text can hold these, and \uXXXX is how JSON spells them.
    return text if text.isascii() and "\x7f" not in text else text.translate(_spelled_out())


def answer_within(answer: Answer, max_bytes: int) -> dict[str, Any]:
    """The answer with as many whole hits as there is room for; what is left out is said, and is on the next page."""
    hits: list[dict[str, Any]] = []
    room = max_bytes
    for hit in answer.hits:  # one by one, because to find a snippet costs more than all the rest
        hits.append(hit_as_json(hit))
        room -= _size(hits[-1])
        if room < 0:
            break
    for kept in range(len(hits), -1, -1):
        value = _framed(answer.shortened(kept), hits[:kept], max_bytes)
        if _size(value) <= max_bytes:
            return value
    raise InputError(f"not even an empty answer fits into {max_bytes:,} bytes: raise documents.max_output_bytes")


def answer_as_json(answer: Answer, explain: bool = False) -> dict[str, Any]:
    """The whole answer; `explain` adds what every term added in every field."""
    return _framed(answer, [hit_as_json(hit, explain) for hit in answer.hits])


def hit_as_json(hit: Hit, explain: bool = False) -> dict[str, Any]:
    """A hit as every door shows it."""
    return {
        "document_id": hit.document_id,
        "title": short(hit.title, MAX_TITLE_CHARS),
        "snippet": hit.snippet,
        "score": round(hit.score, DIGITS),
        "author": short(hit.author, MAX_NAME_CHARS),
        "created_time": time_text(hit.created_time),
        "layers": {layer.name: _layer(layer, explain) for layer in hit.layers},
    }


def reading_within(reading: Reading, max_bytes: int) -> dict[str, Any]:
    """The document with as much of its text as there is room for, and how to go on."""
    head, notes = _bounded_head(reading, max_bytes)
    frame = _reading(reading, head, notes)
    # The places in the text can only get shorter, but a way to go on may have to be added.
    room = max_bytes - _size({**frame, "text": "", "next": {"first_line": 10**9, "last_line": 10**9}})
    part = shortened(reading.part, room, lambda text: _size(text) - 2)
    if reading.part.text and not part.text:
        raise InputError(f"nothing of the document fits into {max_bytes:,} bytes: raise documents.max_output_bytes")
    return _reading(reading._replace(part=part), head, notes)


def reading_as_json(reading: Reading) -> dict[str, Any]:
    """The whole document, or the whole of the part that was asked for."""
    document = reading.document
    head = {
        "document_id": document.id,
        "title": document.title,
        "author": document.author,
        "tags": list(document.tags),
        "scope": document.scope,
        "created_time": time_text(document.created_time),
        "metadata": dict(document.metadata),
    }
    return _reading(reading, head, [])


def time_text(time: datetime | None) -> str | None:
    """A time as RFC 3339 writes it, in UTC."""
    if time is None:
        return None
    from datetime import UTC

    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def short(text: str, max_chars: int) -> str:
    """At most so many characters; an ellipsis stands for the rest."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _framed(answer: Answer, hits: list[dict[str, Any]], max_bytes: int = 0) -> dict[str, Any]:
    notes = list(answer.notes)
    if answer.left_out:
        where = "the next page has them" if hits else "the next page begins behind the first of them"
        notes.append(f"left out {answer.left_out} more hits, for which {max_bytes:,} bytes have no room: {where}")
    value: dict[str, Any] = {"hits": hits}
    if answer.total is not None:
        value["total"] = answer.total
    if answer.by_meaning:
        value["min_score"] = answer.min_score
    if answer.next_page_token:
        value["next_page_token"] = answer.next_page_token
    if answer.left_out:
        value["left_out"] = answer.left_out
    if notes:
        value["notes"] = notes
    if answer.reason:
        value["reason"] = answer.reason
    return value


def _layer(layer: Layer, explain: bool) -> dict[str, Any]:
    value: dict[str, Any] = {"rank": layer.rank, "score": round(layer.score, DIGITS)}
    if layer.name == "keyword":
        value["terms"] = _terms(layer)
    if explain:
        value["share"] = round(layer.share, DIGITS)
        value["contributions"] = [
            {**contribution._asdict(), "score": round(contribution.score, DIGITS)} for contribution in layer.terms
        ]
    return value


def _terms(layer: Layer) -> list[str]:
    """The words that matched, the most telling first."""
    scores: dict[str, float] = {}
    for term, _, score in layer.terms:
        scores[term] = scores.get(term, 0.0) + score
    return sorted(scores, key=lambda term: (-scores[term], term))[:MAX_TERMS]


def _bounded_head(reading: Reading, max_bytes: int) -> tuple[dict[str, Any], list[str]]:
    """What stands before the text, in at most about a half of the room, and what was left out of it."""
    document, notes = reading.document, []
    tags = _as_many_as_fit(document.tags, max_bytes // 8)
    if len(tags) < len(document.tags):
        notes.append(f"left out {len(document.tags) - len(tags):,} more tags")
    metadata = dict(document.metadata)
    if _size(metadata) > max_bytes // 4:
        notes.append(f"left out the metadata, {_size(metadata):,} bytes, with {len(metadata):,} entries")
        metadata = {}
    head = {
        "document_id": document.id,
        "title": short(document.title, MAX_TITLE_CHARS),
        "author": short(document.author, MAX_NAME_CHARS),
        "tags": tags,
        "scope": short(document.scope, MAX_NAME_CHARS),
        "created_time": time_text(document.created_time),
        "metadata": metadata,
    }
    return head, notes


def _as_many_as_fit(texts: Iterable[str], room: int) -> list[str]:
    kept = []
    for text in texts:
        room -= _size(text) + 2
        if room < 0:
            break
        kept.append(text)
    return kept


def _reading(reading: Reading, head: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    part = reading.part
    place = {
        "lines": [part.first_line, part.last_line],
        "of_lines": part.lines,
        "bytes": [part.first_byte, part.end_byte],
        "of_bytes": part.bytes,
    }
    value: dict[str, Any] = {**head, "text": part.text, "part": place}
    if part.next:
        value["next"] = part.next
    if notes:
        value["notes"] = notes
    return value


def _size(value: Any) -> int:
    """How many bytes a value takes, as text for a model or as JSON with spaces for a program, whichever is more."""
    import json

    return max(len(text_of(value).encode()), len(json.dumps(value, ensure_ascii=False).encode()))


_spelled: dict[int, str] = {}


def _spelled_out() -> dict[int, str]:
    if not _spelled:
        import json

        _spelled.update({code: json.dumps(chr(code))[1:-1] for code in _UNSEEN})
        _spelled[0x7F] = "\\u007f"  # which JSON need not spell out
    return _spelled
