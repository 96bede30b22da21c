"""How is a tool called, in one line? `create_issue(repo, title, body?, state: open|closed)`.

A hundredth of its schema, and in most calls all that a model needs. What comes out is one printable line, whatever a
stranger's server wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onhand.record import Record

MAX_ARGUMENTS = 24  # then an ellipsis says that there are more
MAX_VALUES = 8  # of an enum
MAX_WORD_CHARS = 40  # of a name or a value
# References and wrappings that are followed, of each argument that is shown: enough for a list of optional references.
# Each may branch MAX_VALUES times, in a schema that was made for that.
MAX_HOPS = 5

# What goes without saying: most arguments are texts.
_UNSAID = ("string", "str", "object", "dict", "any", None)
_SHORT = {"integer": "int", "number": "number", "boolean": "bool", "array": "list"}


class Argument(Record):
    """An argument of a tool, as a signature has it."""

    name: str
    required: bool
    form: str  # "open|closed", "int", "[int]"; "" where there is nothing to say

    def __str__(self) -> str:
        mark = "" if self.required else "?"
        return f"{self.name}{mark}: {self.form}" if self.form else f"{self.name}{mark}"


def signature(name: str, input_schema: Mapping[str, Any]) -> str:
    """A tool's name with its arguments, those that it needs first."""
    properties = input_schema.get("properties")
    named = properties if isinstance(properties, Mapping) else {}
    listed = input_schema.get("required")
    required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    names = sorted(named, key=lambda name: name not in required)
    arguments = [
        str(Argument(_word(one), one in required, _form(named[one], input_schema))) for one in names[:MAX_ARGUMENTS]
    ]
    more = ["…"] if len(names) > MAX_ARGUMENTS else []
    return f"{_word(name, 140)}({', '.join([*arguments, *more])})"


def _form(part: Any, root: Mapping[str, Any], hops: int = MAX_HOPS) -> str:
    """What an argument may be, in a word; nothing where that is any text or too much to say."""
    if not isinstance(part, Mapping) or hops == 0:
        return ""
    values = part.get("enum") if isinstance(part.get("enum"), list) else None
    if values is None and "const" in part:
        values = [part["const"]]
    if values:
        shown = [_word(value if isinstance(value, str) else _compact(value)) for value in values[:MAX_VALUES]]
        return "|".join([*shown, "…"] if len(values) > MAX_VALUES else shown)
    if isinstance(part.get("$ref"), str):
        return _form(_target(part["$ref"], root), root, hops - 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(part.get(key), list):
            return _one_of(part[key], root, hops)
    kind = part.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), None)
    if kind == "array":
        inner = _form(part.get("items"), root, hops - 1)
        return f"[{inner}]" if inner else "list"
    return "" if not isinstance(kind, str) or kind in _UNSAID else _SHORT.get(kind, _word(kind))


def _one_of(choices: list[Any], root: Mapping[str, Any], hops: int) -> str:
    """What one of several may be, where all but null say the same; else nothing."""
    forms = {_form(one, root, hops - 1) for one in choices[:MAX_VALUES] if one != {"type": "null"}}
    return forms.pop() if len(forms) == 1 else ""


def _compact(value: Any) -> str:
    """A value that is no text, as JSON has it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    """What stands at a reference within the schema."""
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def _word(text: str, most: int = MAX_WORD_CHARS) -> str:
    """A name or value on one line, cut, with what cannot be printed left out."""
    word = "".join(filter(str.isprintable, text[: 4 * most]))
    return word if len(word) <= most else f"{word[: most - 1]}…"
