"""What does the model get to read? A value as text, safe to encode and capped between characters."""

import json
from typing import Any, NamedTuple

from onhand.errors import ToolError
from onhand.text import whole
from onhand.tools.tool import Output, Tool, plain

MAX_ERROR_BYTES = 4096  # an error is advice; longer is a handler that put its data into a message
MAX_MARKER_BYTES = 128  # what the two markers below may add to a capped text


class Capped(NamedTuple):
    """A text within its cap and how many bytes of UTF-8 were left off."""

    text: str
    truncated_bytes: int


def cap(text: str, max_bytes: int) -> Capped:
    """At most max_bytes of UTF-8, never half a character; a marker follows when something was left off."""
    text = whole(text)
    if len(text) * 4 <= max_bytes:
        return Capped(text, 0)
    raw = text.encode()
    if len(raw) <= max_bytes:
        return Capped(text, 0)
    kept = raw[:max_bytes].decode(errors="ignore")  # only the last character can be incomplete
    left_off = len(raw) - len(kept.encode())
    return Capped(f"{kept}\n\n[truncated: {left_off} more bytes]", left_off)


def presented(tool: Tool, value: object) -> tuple[Capped, Any]:
    """A handler's value as text for the model and JSON for programs, both within the tool's cap.

    JSON that is too large is left out whole, since half of it would not be JSON, and the text says so.
    """
    output = _output(tool, value)
    capped = cap(output.text, tool.max_output_bytes)
    if output.structured is None:
        return capped, None
    structured = _json(output.structured, f"the structured output of {tool.name}")
    size = len(json.dumps(structured, ensure_ascii=False).encode())
    if size <= tool.max_output_bytes:
        return capped, structured
    marker = f"\n\n[structured output left out: {size} bytes, more than {tool.max_output_bytes}]"
    return Capped(capped.text + marker, capped.truncated_bytes), None


def _output(tool: Tool, value: object) -> Output:
    if isinstance(value, str):
        return Output(value)
    if isinstance(value, Output):
        if not isinstance(value.text, str):
            raise ToolError(f"{tool.name} gave a {type(value.text).__name__} as its text; its handler must give a str")
        return value
    if value is None:
        return Output("(no output)")
    structured = _json(value, f"the output of {tool.name}")
    return Output(json.dumps(structured, ensure_ascii=False), structured)


def _json(value: object, where: str) -> Any:
    return plain(value, where, text=lambda part, _: whole(part))
