"""How are the matches of `search_tool_bm25` shown to a person? A status line and a short tree."""

from collections.abc import Mapping, Sequence
from typing import Any

from onhand.amounts import counted
from onhand.cli import terminal

COLLAPSED_MATCHES = 5
LABEL_CHARS = 72
DESCRIPTION_CHARS = 96

EMPTY_CORPUS = "No discoverable tools are currently loaded."
NO_MATCH = "No matching tools found."
FALLBACK = "Tool discovery completed"


def show(details: Mapping[str, Any] | None, text: str = "", expanded: bool = False) -> None:
    """Print a result; without details, its text as a warning."""
    for line in lines(details, text, expanded):
        terminal.say(line)


def lines(details: Mapping[str, Any] | None, text: str = "", expanded: bool = False) -> list[str]:
    """What is shown, line by line; everything in it may be a stranger's."""
    if not isinstance(details, Mapping):
        return [f"! {FALLBACK}", *(f"  {_cut(line, DESCRIPTION_CHARS)}" for line in text.splitlines() if line.strip())]
    found = details.get("tools")
    tools: Sequence[Mapping[str, Any]] = found if isinstance(found, list | tuple) else ()
    status = [_status(details, len(tools))]
    if not tools:
        return [*status, f"└─ {NO_MATCH if details.get('total_tools') else EMPTY_CORPUS}"]
    shown = tools if expanded else tools[:COLLAPSED_MATCHES]
    more = len(tools) - len(shown)
    for number, tool in enumerate(shown, 1):
        status += _item(tool, last=number == len(shown) and not more)
    return [*status, f"└─ … {more} more"] if more else status


def _status(details: Mapping[str, Any], matches: int) -> str:
    query = _cut(str(details.get("query") or "").strip(), LABEL_CHARS) or "(empty query)"
    activated = len(details.get("activated_tools") or ())
    total = details.get("total_tools", 0)
    return f"✓ SearchTools {query} · {counted(matches, 'match')} · {activated} activated · {total} total"


def _item(tool: Mapping[str, Any], last: bool) -> list[str]:
    parts = [_cut(str(tool.get("label") or tool.get("name") or ""), LABEL_CHARS)]
    if tool.get("server_name"):
        parts.append(_cut(str(tool["server_name"]), LABEL_CHARS))
    if tool.get("score") is not None:
        parts.append(f"{_number(tool['score']):.3f}")
    described = _cut(str(tool.get("description") or ""), DESCRIPTION_CHARS)
    branch, stem = ("└─", "   ") if last else ("├─", "│  ")
    return [f"{branch} {' · '.join(parts)}", *([f"{stem}{described}"] if described else [])]


def _number(score: Any) -> float:
    return float(score) if isinstance(score, int | float) else 0.0


def _cut(text: str, most: int) -> str:
    """On one line, cut, with nothing that a terminal would obey."""
    line = terminal.clean(" ".join(text[: 8 * most].split()))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
