"""How is an answer of the catalog told to a program? As JSON of one shape, through every door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onhand.tools.signature import signature

if TYPE_CHECKING:
    from onhand.tools.catalog import Found, ToolHit
    from onhand.tools.catalog_tool import CatalogTool


def found_as_json(found: Found, max_description_chars: int | None = None) -> dict[str, Any]:
    """A whole answer; what is unknown or to be noted only where there is something."""
    answer: dict[str, Any] = {
        "query": found.query,
        "form": found.form,
        "hits": [_hit_as_json(hit, max_description_chars) for hit in found.hits],
        "total_tools": found.total_tools,
        "reason": found.reason,
    }
    if found.unknown:
        answer["unknown"] = [{"name": name, "nearest": list(nearest)} for name, nearest in found.unknown]
    if found.notes:
        answer["notes"] = list(found.notes)
    return answer


def tool_as_json(tool: CatalogTool, max_description_chars: int | None = None) -> dict[str, Any]:
    """What a program is told of every tool."""
    return {
        "name": tool.name,
        "server": tool.server,
        "description": tool.description[:max_description_chars],
        "signature": signature(tool.name, tool.input_schema),
    }


def _hit_as_json(hit: ToolHit, max_description_chars: int | None) -> dict[str, Any]:
    terms: dict[str, float] = {}
    for term, _, score in hit.terms:
        terms[term] = terms.get(term, 0.0) + score
    return {**tool_as_json(hit.tool, max_description_chars), "score": hit.score, "terms": terms}
