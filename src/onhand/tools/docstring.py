"""What does a docstring say? Its first paragraph, and a line for each parameter in Google's or reST style."""

import re
from inspect import cleandoc

_SECTION = re.compile(r"(?:Args|Arguments|Parameters|Attributes):\s*$")
_ITEM = re.compile(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s+(.*)")
_FIELD = re.compile(r":param\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)")


def summary(doc: str | None) -> str:
    """The first paragraph, on one line; empty when it holds only fields or sections."""
    first = cleandoc(doc or "").split("\n\n", 1)[0]
    lines = first.split("\n")
    if lines and (_SECTION.match(lines[0]) or lines[0].startswith(":")):
        return ""
    end = next((i for i, line in enumerate(lines) if _SECTION.match(line) or line.startswith(":")), len(lines))
    return " ".join(" ".join(lines[:end]).split())


def parameters(doc: str | None) -> dict[str, str]:
    """What is said about each parameter; indented lines go on with the one before them."""
    found: dict[str, str] = {}
    name, item_indent, in_section = "", 0, False
    for line in cleandoc(doc or "").split("\n"):
        text, indent = line.strip(), len(line) - len(line.lstrip())
        field, item = _FIELD.match(text), _ITEM.match(text)
        if field:
            name, item_indent, in_section = field[1], indent, False
            found[name] = field[2]
        elif indent == 0:
            name, in_section = "", bool(_SECTION.match(text))
        elif in_section and item and (not name or indent <= item_indent):
            name, item_indent = item[1], indent
            found[name] = item[2]
        elif name and text and indent > item_indent:
            found[name] += " " + text
    return {name: " ".join(text.split()) for name, text in found.items() if text.strip()}
