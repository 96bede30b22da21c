"""How does an answer for programs fit into a number of bytes? With less in it, and never with half of its JSON.

Lists end earlier and texts are cut, as far as it takes; whatever its shape names is still there, so what validated
before does after. It knows nothing of what an answer means.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

SHARE = 8  # every part but the main one may have an eighth of the room
FLOOR_BYTES = 64  # nothing is cut to less: it would say nothing, and a pair of line numbers has to stay a pair
MIN_ITEM_BYTES = 256  # less of a thing than this is not worth its place in a list
MARKER_BYTES = 64  # for saying how much of a text was cut
NOTE_BYTES = 160  # for a note that says what there was no room for


def fitted(answer: Mapping[str, Any], max_bytes: int, main: str, *others: str) -> dict[str, Any]:
    """The answer within so many bytes, and notes of what is not in it: `others` give way first, then `main`.

    `left_out` counts the items of the main list that are not there.
    """
    value = dict(answer)
    if json_bytes(value) <= max_bytes:
        return value
    notes: list[str] = []
    for name in filter(value.__contains__, others):
        value[name] = within(value[name], max_bytes // SHARE)
        notes += _lost(name, answer[name], value[name], max_bytes)
    if json_bytes(value) + len(notes) * NOTE_BYTES > max_bytes:
        frame = json_bytes({**value, main: ""}) + (len(notes) + 2) * NOTE_BYTES
        value[main] = within(value[main], max_bytes - frame)
        notes += _lost(main, answer[main], value[main], max_bytes)
        if isinstance(value[main], list):
            value["left_out"] = len(answer[main]) - len(value[main])
    return {**value, "notes": [*value.get("notes", ()), *notes]}


def within(value: Any, max_bytes: int) -> Any:
    """As much of a value as fits into so many bytes of JSON: of a list the first items, of a text its beginning."""
    max_bytes = max(max_bytes, FLOOR_BYTES)
    if json_bytes(value) <= max_bytes:
        return value
    if isinstance(value, str):
        return _beginning(value, max_bytes)
    if isinstance(value, list):
        return _first_items(value, max_bytes)
    return _smaller(value, max_bytes) if isinstance(value, dict) else value


def json_bytes(value: Any) -> int:
    """What a value takes as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _beginning(text: str, max_bytes: int) -> str:
    start = text[:max_bytes]  # no character takes less than a byte
    room = max(max_bytes - MARKER_BYTES, 2)
    kept = start[: bisect_right(range(len(start) + 1), room, key=lambda chars: json_bytes(start[:chars])) - 1]
    left_off = len(text[len(kept) :].encode("utf-8", "surrogatepass"))
    return f"{kept}\n\n[truncated: {left_off} more bytes]"


def _first_items(items: list[Any], max_bytes: int) -> list[Any]:
    kept: list[Any] = []
    room = max_bytes - 2
    for item in items:
        size = json_bytes(item) + 2
        if size > room:
            # A text in a list is a name, and half of a name is another one.
            cut = within(item, room - 2) if isinstance(item, dict) and room >= MIN_ITEM_BYTES else item
            return [*kept, cut] if json_bytes(cut) + 2 <= room else kept
        kept.append(item)
        room -= size
    return kept


def _smaller(value: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """The object with its largest parts cut; of a map of numbers, such as what each word added, the first entries."""
    if all(isinstance(part, int | float) for part in value.values()):
        return _first_entries(value, max_bytes)
    for name in sorted(value, key=lambda name: json_bytes(value[name]), reverse=True):
        excess = json_bytes(value) - max_bytes
        if excess <= 0:
            break
        value = {**value, name: within(value[name], json_bytes(value[name]) - excess)}
    return value


def _first_entries(value: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    room = max_bytes
    for count, (name, part) in enumerate(value.items()):
        room -= json_bytes({name: part})
        if room < 0:
            return dict(list(value.items())[:count])
    return value


def _lost(name: str, before: Any, after: Any, max_bytes: int) -> list[str]:
    if before == after:
        return []
    missing = len(before) - len(after) if isinstance(before, list) else 0
    what = f"left out {missing:,} of {len(before):,} {name}" if missing else f"{name}: cut"
    return [f"{what}; there is no room for more in {max_bytes:,} bytes"]
