"""Which tools should a query find? Public sets of tools with judged queries, and how many of them a search finds."""

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.quality import QuickStore, load, with_bm25s
from onhand.embed.embedder import Embedder
from onhand.search.index import Index
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_files import tools_in
from onhand.tools.catalog_tool import CatalogTool, validate_tool
from onhand.tools.ranking import tool_ranking

Search = Callable[[str], Sequence[str]]  # a query → the ids of the five best
K = 5
OTHERS = "livemcpbench"  # the set whose tools surround the shortened ones
SHORT_TOOLS = 45
STRANGERS = 100  # queries of each other set that are put to a catalog


class Judged(NamedTuple):
    tools: Mapping[str, CatalogTool]  # id in the set → tool
    queries: Mapping[str, str]
    relevant: Mapping[str, frozenset[str]]  # query → ids of the catalog


def judged_sets(
    directory: Path, most_queries: int | None = None, only: Sequence[str] | None = None
) -> dict[str, Judged]:
    """Every set of a directory that is of tools; of a large one a sample of its queries, always the same."""
    found = {}
    for path in sorted(directory.glob("*/qrels.tsv")):
        rows = [json.loads(line) for line in (path.parent / "corpus.jsonl").read_text("utf-8").splitlines()]
        if rows and {"name", "description"} <= rows[0].keys() and (not only or path.parent.name in only):
            found[path.parent.name] = _judged(path.parent, rows, most_queries)
    return found


def _judged(folder: Path, rows: list[dict[str, Any]], most_queries: int | None) -> Judged:
    tools = {str(row["id"]): validate_tool(tools_in([_entry(row)]).tools[0]) for row in rows}
    judged = load(folder, None)
    relevant = {
        query: frozenset(tools[tool].id for tool in gains if tool in tools) for query, gains in judged.relevant.items()
    }
    queries = [(query, text) for query, text in judged.queries.items() if relevant[query]]
    if most_queries is not None and len(queries) > most_queries:
        queries = random.Random(1).sample(queries, most_queries)
    return Judged(tools, dict(queries), relevant)


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a server would say of the tool. Where names are not unique, ids are made of server and name."""
    parameters = row.get("parameters")
    if isinstance(parameters, list):  # as an OpenAPI document lists them
        properties = {one["name"]: {"type": one["type"], "description": one["description"]} for one in parameters}
        parameters = {"type": "object", "properties": properties}
    name = str(row["name"]).replace("/", "_").replace(" ", "")  # such as "GET /movie/{id}", which no server may use
    own = {"name": name, "description": row.get("description"), "parameters": parameters}
    return {**own, "server": row["server"]} if row["id"] != row["name"] and row.get("server") else own


def among_others(sets: Mapping[str, Judged]) -> dict[str, Judged]:
    """A few tools of each other set, cut to one sentence, among all tools of MCP servers, which say more.

    This is what a catalog looks like when some servers describe their tools briefly.
    """
    others = sets.get(OTHERS)
    return {f"short {name}": _shorten(judged, others) for name, judged in sets.items() if others and name != OTHERS}


def _shorten(judged: Judged, others: Judged) -> Judged:
    by_id = {tool.id: tool for tool in judged.tools.values()}
    chosen: dict[str, CatalogTool] = {}
    queries = {}
    for query, text in random.Random(3).sample(sorted(judged.queries.items()), len(judged.queries)):
        wanted = judged.relevant[query]
        if len(chosen.keys() | wanted) <= SHORT_TOOLS:
            queries[query] = text
            chosen |= {tool_id: _first_sentence(by_id[tool_id]) for tool_id in wanted}
    rest = {tool.id: tool for tool in others.tools.values()}
    return Judged({**rest, **chosen}, queries, judged.relevant)


def _first_sentence(tool: CatalogTool) -> CatalogTool:
    """Return a tool with the first sentence of its description and the names of its arguments."""
    sentence = re.split(r"(?<=[.!?])\s|\n", tool.description, maxsplit=1)[0]
    named = tool.input_schema.get("properties")
    schema = {"type": "object", "properties": {name: {} for name in named}} if isinstance(named, dict) else {}
    return tool._replace(description=sentence, summary="", input_schema=schema)


def recall(judged: Judged, search: Search) -> float:
    """R@5: the part of a query's tools that are among the first five, on average."""
    return recalled(judged, [search(query) for query in judged.queries.values()])


def recalled(judged: Judged, found: Sequence[Sequence[str]]) -> float:
    """The same, of what was found for each query."""
    total = 0.0
    for query_id, ids in zip(judged.queries, found, strict=True):
        wanted = judged.relevant[query_id]
        total += len(wanted & set(ids[:K])) / len(wanted)
    return total / len(judged.queries)


def opened(tools: Iterable[CatalogTool], embedder: Embedder | None = None) -> Catalog:
    """A catalog of tools; with an embedder, over a store that has the same hits sooner."""
    catalog = Catalog(embedder=embedder)
    if embedder:
        catalog._index = Index(QuickStore(tool_ranking()), embedder)
    catalog.add(tools)
    return catalog


def ids_of(catalog: Catalog, profile: str = "default") -> Search:
    """What a catalog finds."""
    return lambda query: [hit.id for hit in catalog.search(query, limit=K, profile=profile).hits]


def bm25s_search(tools: Sequence[CatalogTool]) -> Search | None:
    """What bm25s finds, where it is installed."""
    try:
        return with_bm25s([tool.id for tool in tools], [text_of(tool) for tool in tools], K)
    except ImportError:
        return None


def text_of(tool: CatalogTool) -> str:
    """What a peer that has one field is given: the name, and all that is said of the tool and its arguments."""
    properties = tool.input_schema.get("properties")
    named = properties if isinstance(properties, dict) else {}
    said = [str(part.get("description", "")) for part in named.values() if isinstance(part, dict)]
    return " ".join([tool.name, tool.description, *named, *said])


def some(judged: Judged, most: int = STRANGERS) -> list[str]:
    """A sample of a set's queries, always the same."""
    queries = list(judged.queries.values())
    return random.Random(2).sample(queries, most) if len(queries) > most else queries
