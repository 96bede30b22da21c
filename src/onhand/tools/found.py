"""How is an answer of the catalog told to a program? As JSON of one shape, through every door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from onhand.tools.signature import signature

if TYPE_CHECKING:
    from onhand.tools.catalog import Found, ToolHit
    from onhand.tools.catalog_tool import CatalogTool


class ToolShape(TypedDict):
    """What a program is told of every tool."""

    name: str
    server: str
    description: str
    signature: str


class ToolHitShape(ToolShape):
    """Of one that was found, also why."""

    score: float
    terms: dict[str, float]


class UnknownName(TypedDict):
    """A name that no tool has, and those that are near it."""

    name: str
    nearest: list[str]


class FoundAnswer(TypedDict):
    """Of a search for tools."""

    query: str
    form: str
    hits: list[ToolHitShape]
    total_tools: int
    reason: str | None
    unknown: NotRequired[list[UnknownName]]
    notes: NotRequired[list[str]]
    left_out: NotRequired[int]


class Definition(TypedDict):
    """All that is needed to call a tool."""

    name: str
    description: str
    input_schema: dict[str, Any]
    notes: NotRequired[list[str]]


def found_as_json(found: Found, max_description_chars: int | None = None) -> FoundAnswer:
    """A whole answer; what is unknown or to be noted only where there is something."""
    answer: FoundAnswer = {
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


def tool_as_json(tool: CatalogTool, max_description_chars: int | None = None) -> ToolShape:
    """What a program is told of every tool."""
    return {
        "name": tool.name,
        "server": tool.server,
        "description": tool.description[:max_description_chars],
        "signature": signature(tool.name, tool.input_schema),
    }


def _hit_as_json(hit: ToolHit, max_description_chars: int | None) -> ToolHitShape:
    terms: dict[str, float] = {}
    for term, _, score in hit.terms:
        terms[term] = terms.get(term, 0.0) + score
    return {**tool_as_json(hit.tool, max_description_chars), "score": hit.score, "terms": terms}
