"""Render the value of a handler as text and JSON, within a number of bytes.

Of a record that is too large, lists are shortened and texts are cut, but the JSON keeps its shape. If the record has a
field `left_out`, it counts the items that the first list lost; if it has `notes`, these get a sentence for every field
that was cut. Text is sanitized, cut between characters, and can always be encoded.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from onhand.errors import ToolError
from onhand.hidden_characters import repair_surrogates, sanitize, sanitize_json
from onhand.record import to_json
from onhand.tools.tool import Output, Tool, copy_json

SHARE = 8  # every field but the largest may take an eighth of the budget
FLOOR_BYTES = 64  # nothing is cut to less, which would be useless; a pair of line numbers must stay a pair
MIN_ITEM_BYTES = 256  # a smaller part of an item is not worth listing
MARKER_BYTES = 64  # of the marker that says how much of a text was cut
NOTE_BYTES = 160  # of a note that says what was cut
MAX_ATTEMPTS = 4  # to cut a record whose text is longer than its JSON


class FittedRecord(NamedTuple):
    """A record within its budget, its text, and a note for each cut field if the record has no field for that."""

    record: Any
    text: str
    notes: tuple[str, ...] = ()


def fit_record(record: Any, max_bytes: int) -> FittedRecord:
    """Cut a record until both its JSON and its text take at most max_bytes."""
    text = render_record(record)
    if json_bytes(record) <= max_bytes and _utf8_bytes(text) <= max_bytes:
        return FittedRecord(record, text)
    budget = max_bytes
    for _ in range(MAX_ATTEMPTS):
        cut, notes = _cut_fields(record, budget, max_bytes)
        text = render_record(cut)
        size = _utf8_bytes(text)
        if size <= max_bytes:
            break
        budget = min(budget * max_bytes // size, json_bytes(cut)) - 1
    return FittedRecord(cut, text, tuple(notes) if {"notes", "left_out"}.isdisjoint(record._fields) else ())


def fits(record: Any, max_bytes: int) -> bool:
    """Return whether both the JSON and the text of a record take at most max_bytes."""
    return json_bytes(record) <= max_bytes and _utf8_bytes(render_record(record)) <= max_bytes


def render_record(record: Any) -> str:
    """Return the text of a record for the model: its `to_text()` or, if it has none, its JSON."""
    if hasattr(record, "to_text"):
        text: str = record.to_text()
        return text
    return json.dumps(to_json(record), ensure_ascii=False)


def _cut_fields(record: Any, budget: int, max_bytes: int) -> tuple[Any, list[str]]:
    """Cut every field but the largest to its share, then the largest to the remaining room."""
    fields = record._asdict()
    main = max(fields, key=lambda name: (json_bytes(fields[name]), name))
    has_notes = "notes" in fields
    cut, notes = dict(fields), list[str]()
    for name in fields:
        if name != main and json_bytes(cut) > budget:
            cut[name] = cut_value(fields[name], budget // SHARE)
            notes += _describe_cut(name, fields[name], cut[name], max_bytes)
    if json_bytes(cut) + has_notes * len(notes) * NOTE_BYTES > budget:
        frame = json_bytes({**cut, main: ""}) + has_notes * (len(notes) + 2) * NOTE_BYTES
        cut[main] = cut_value(fields[main], budget - frame)
        notes += _describe_cut(main, fields[main], cut[main], max_bytes)
    listed = next((name for name in fields if _is_list(fields[name])), None)
    if "left_out" in fields and listed is not None:
        cut["left_out"] = fields["left_out"] + len(fields[listed]) - len(cut[listed])
    if has_notes:
        cut["notes"] = type(fields["notes"])([*cut["notes"], *notes])
    return record._replace(**cut), notes


def cut_value(value: Any, max_bytes: int) -> Any:
    """Cut a value to max_bytes of JSON: a list to its first items, a text to its beginning."""
    max_bytes = max(max_bytes, FLOOR_BYTES)
    if json_bytes(value) <= max_bytes:
        return value
    if isinstance(value, str):
        return _cut_text(value, max_bytes)
    if hasattr(value, "_fields"):
        return value._replace(**_cut_largest(value._asdict(), max_bytes))
    if isinstance(value, list | tuple):
        return type(value)(_first_items(value, max_bytes))
    return _cut_object(value, max_bytes) if isinstance(value, Mapping) else value


def json_bytes(value: Any) -> int:
    """Return the size of a value as JSON."""
    return len(json.dumps(to_json(value), ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) and not hasattr(value, "_fields")


def _cut_text(text: str, max_bytes: int) -> str:
    start = text[:max_bytes]  # every character takes at least one byte
    room = max(max_bytes - MARKER_BYTES, 2)
    kept = start[: bisect_right(range(len(start) + 1), room, key=lambda chars: json_bytes(start[:chars])) - 1]
    cut_bytes = _utf8_bytes(text[len(kept) :])
    return f"{kept}\n\n[truncated: {cut_bytes} more bytes]"


def _first_items(items: Sequence[Any], max_bytes: int) -> Iterator[Any]:
    room = max_bytes - 2
    for item in items:
        size = json_bytes(item) + 2
        if size > room:
            # A text in a list is a name, and half of a name is a different one.
            if room >= MIN_ITEM_BYTES and (isinstance(item, Mapping) or hasattr(item, "_fields")):
                cut = cut_value(item, room - 2)
                if json_bytes(cut) + 2 <= room:
                    yield cut
            return
        yield item
        room -= size


def _cut_object(value: Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    """Cut the largest parts of an object. A map of numbers, such as term weights, keeps its first entries."""
    if all(isinstance(part, int | float) for part in value.values()):
        return _first_entries(value, max_bytes)
    return _cut_largest(value, max_bytes)


def _cut_largest(value: Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    cut = dict(value)
    for name in sorted(cut, key=lambda name: json_bytes(cut[name]), reverse=True):
        excess = json_bytes(cut) - max_bytes
        if excess <= 0:
            break
        cut[name] = cut_value(cut[name], json_bytes(cut[name]) - excess)
    return cut


def _first_entries(value: Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    room = max_bytes
    kept = {}
    for name, part in value.items():
        room -= json_bytes({name: part})
        if room < 0:
            break
        kept[name] = part
    return kept


def _describe_cut(name: str, before: Any, after: Any, max_bytes: int) -> list[str]:
    if before == after:
        return []
    missing = len(before) - len(after) if _is_list(before) else 0
    what = f"left out {missing:,} of {len(before):,} {name}" if missing else f"{name}: cut"
    return [f"{what}; there is no room for more in {max_bytes:,} bytes"]


MAX_ERROR_BYTES = 4096  # of an error, which is advice; a longer one is probably data in a message
MAX_MARKER_BYTES = 128  # that the two markers below may add to a capped text


class CappedText(NamedTuple):
    """A text within its limit, and how many bytes of UTF-8 were cut off."""

    text: str
    truncated_bytes: int


def cap_text(text: str, max_bytes: int) -> CappedText:
    """Sanitize a text and cut it to max_bytes of UTF-8 between characters; a marker says how much was cut off."""
    text = sanitize(repair_surrogates(text))
    if len(text) * 4 <= max_bytes:
        return CappedText(text, 0)
    raw = text.encode()
    if len(raw) <= max_bytes:
        return CappedText(text, 0)
    kept = raw[:max_bytes].decode(errors="ignore")  # only the last character can be incomplete
    cut_bytes = len(raw) - len(kept.encode())
    return CappedText(f"{kept}\n\n[truncated: {cut_bytes} more bytes]", cut_bytes)


def present(tool: Tool, value: object) -> tuple[CappedText, Any]:
    """Return a handler's value as text for the model and as JSON for programs, both sanitized and within the limit.

    A record is cut to fit. Any other JSON that is too large is left out entirely, and the text says so.
    """
    limit = tool.max_output_bytes
    value = sanitize_json(value)  # before it is measured
    if isinstance(value, Output):
        output = _check_output(tool, value)
        if hasattr(output.structured, "_fields") and json_bytes(output.structured) > limit:
            output = Output(output.text, _cut_fields(output.structured, limit, limit)[0])
    elif isinstance(value, str):
        output = Output(value)
    elif value is None:
        output = Output("(no output)")
    elif hasattr(value, "_fields"):
        record, text, notes = fit_record(value, limit)
        output = Output("\n\n".join([text, *(f"[{note}]" for note in notes)]), record)
    else:
        structured = _copy_as_json(value, f"the output of {tool.name}")
        output = Output(json.dumps(structured, ensure_ascii=False), structured)
    return _apply_limit(output, f"the structured output of {tool.name}", limit)


def _apply_limit(output: Output, where: str, limit: int) -> tuple[CappedText, Any]:
    capped = cap_text(output.text, limit)
    if output.structured is None:
        return capped, None
    structured = _copy_as_json(output.structured, where)
    size = len(json.dumps(structured, ensure_ascii=False).encode())
    if size <= limit:
        return capped, structured
    marker = f"\n\n[structured output left out: {size} bytes, more than {limit}]"
    return CappedText(capped.text + marker, capped.truncated_bytes), None


def _check_output(tool: Tool, output: Output) -> Output:
    if not isinstance(output.text, str):
        raise ToolError(f"{tool.name} returned a {type(output.text).__name__} as text; its handler must return a str")
    return output


def _copy_as_json(value: object, where: str) -> Any:
    return sanitize_json(copy_json(to_json(value), where, text=lambda part, _: repair_surrogates(part)))
