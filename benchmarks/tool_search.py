"""Tool search beside its peers: quality on judged sets, queries that fit nothing, names, and speed.

    python -m benchmarks.tool_search [DIRECTORY] [--sets a b] [--queries 400] [--embedder minilm] [--cache DIR]
                                     [--tools 5000] [--only quality|misses|speed]

DIRECTORY ($ONHAND_DATA when not given) has one folder for each set, as for benchmarks.quality; a set counts if its
corpus has tools (name, description, parameters). Peers that are not installed are named and left out: bm25s, and
fastmcp, whose search is asked as its server would ask it.

R@5 is the part of a query's tools that are among the first five. A query of one set is put to the catalogs of the
others to see what is found where nothing should fit; as catalogs overlap, that is an upper bound.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.quality import A_POINT, QuickStore, RememberingEmbedder
from onhand.embed.choose import chosen
from onhand.embed.embedder import Embedder
from onhand.search.index import Index
from onhand.tools.catalog import Catalog, CatalogTool
from onhand.tools.catalog_files import tools_in
from onhand.tools.catalog_tool import accepted_tool
from onhand.tools.relevance import tool_ranking

Search = Callable[[str], list[str]]  # a query → the ids of the five best
K = 5
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
        if rows and "parameters" in rows[0] and (not only or path.parent.name in only):
            found[path.parent.name] = _judged(path.parent, rows, most_queries)
    return found


def _judged(folder: Path, rows: list[dict[str, Any]], most_queries: int | None) -> Judged:
    tools = {str(row["id"]): accepted_tool(tools_in([_entry(row)]).tools[0]) for row in rows}
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, tool, gain = line.split("\t")
        if float(gain) > 0 and tool in tools:
            relevant.setdefault(query, set()).add(tools[tool].id)
    asked = [json.loads(line) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    queries = [(str(row["id"]), row["text"]) for row in asked if str(row["id"]) in relevant]
    if most_queries is not None and len(queries) > most_queries:
        queries = random.Random(1).sample(queries, most_queries)
    return Judged(tools, dict(queries), {query: frozenset(ids) for query, ids in relevant.items()})


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    """What a server would say of the tool. A server counts where ids are made of it, as names are not unique there."""
    own = {name: row.get(name) for name in ("name", "description", "parameters")}
    return {**own, "server": row["server"]} if row["id"] != row["name"] and row.get("server") else own


def recall(judged: Judged, search: Search) -> float:
    """R@5."""
    total = 0.0
    for query_id, query in judged.queries.items():
        wanted = judged.relevant[query_id]
        total += len(wanted & set(search(query)[:K])) / len(wanted)
    return total / len(judged.queries)


def searches(judged: Judged, embedder: Embedder | None) -> Iterator[tuple[str, Search]]:
    catalog = opened(judged.tools.values())
    yield "ours", ids_of(catalog)
    yield "seed profile", lambda query: _seed(catalog, query)
    with_bm25s = bm25s_search(list(judged.tools.values()))
    if with_bm25s:
        yield "bm25s", with_bm25s
    if embedder:
        fused = opened(judged.tools.values(), embedder)
        embedder.embed(list(judged.queries.values()), "query")
        yield (
            "meaning",
            lambda query: [hit.document_id for hit in fused._index.semantic(query, limit=K, min_score=None).hits],
        )
        yield "RRF", lambda query: [hit.document_id for hit in fused._index.fused(query, limit=K, method="rrf").hits]
        yield "ours, both", ids_of(fused)


def opened(tools: "Sequence[CatalogTool] | Any", embedder: Embedder | None = None) -> Catalog:
    catalog = Catalog(embedder=embedder)
    if embedder:
        catalog._index = Index(QuickStore(tool_ranking()), embedder)  # the same hits, sooner
    catalog.add(tools)
    return catalog


def ids_of(catalog: Catalog) -> Search:
    return lambda query: [hit.id for hit in catalog.search(query, limit=K).hits]


def _ids_in(search: Callable[[str], Any]) -> Search:
    return lambda query: [hit.document_id for hit in search(query).hits]


def _seed(catalog: Catalog, query: str) -> list[str]:
    return [hit.id for hit in catalog.search(query, limit=K, profile="seed").hits]


def text_of(tool: CatalogTool) -> str:
    """What a peer that has one field is given: the name, and all that is said of the tool and its arguments."""
    properties = tool.input_schema.get("properties")
    named = properties if isinstance(properties, dict) else {}
    said = [str(part.get("description", "")) for part in named.values() if isinstance(part, dict)]
    return " ".join([tool.name, tool.description, *named, *said])


def bm25s_search(tools: Sequence[CatalogTool]) -> Search | None:
    try:
        import bm25s
    except ImportError:
        return None
    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index(bm25s.tokenize([text_of(tool) for tool in tools], show_progress=False), show_progress=False)
    ids = [tool.id for tool in tools]

    def search(query: str) -> list[str]:
        tokens = bm25s.tokenize([query], show_progress=False, return_ids=False)
        found, scores = index.retrieve(tokens, k=min(K, len(ids)), show_progress=False, n_threads=0)
        return [ids[number] for number, score in zip(found[0], scores[0], strict=True) if score > 0]

    return search


def fastmcp_search(tools: Sequence[CatalogTool]) -> Search | None:
    """FastMCP's own BM25 search over tools of the same names, descriptions and schemas."""
    try:
        import asyncio

        from fastmcp.server.transforms.search import BM25SearchTransform
        from fastmcp.tools import Tool as FastTool
    except ImportError:
        return None
    theirs = [
        FastTool(
            name=tool.id.replace("/", "__"),
            description=tool.description,
            parameters=dict(tool.input_schema) or {"type": "object"},
        )
        for tool in tools
    ]
    transform = BM25SearchTransform(max_results=K)
    loop = asyncio.new_event_loop()

    def search(query: str) -> list[str]:
        return [tool.name for tool in loop.run_until_complete(transform._search(theirs, query))]

    return search


def quality(sets: Mapping[str, Judged], embedder: Embedder | None) -> dict[str, dict[str, float]]:
    """Print R@5 of every way of searching on every set."""
    table: dict[str, dict[str, float]] = {}
    for name, judged in sets.items():
        table[name] = {way: recall(judged, search) for way, search in searches(judged, embedder)}
        if len(table) == 1:
            print(f"\n{'R@5':<16}{'tools':>7}{'queries':>9}" + "".join(f"{way:>14}" for way in table[name]))
        mark = " !" if loses(table[name]) else ""
        values = "".join(f"{value:>14.4f}" for value in table[name].values())
        print(f"{name:<16}{len(judged.tools):>7,}{len(judged.queries):>9,}{values}{mark}", flush=True)
    if table:
        ways = next(iter(table.values()))
        mean = "".join(f"{sum(row[way] for row in table.values()) / len(table):>14.4f}" for way in ways)
        print(f"{'mean':<32}{mean}")
    return table


def loses(row: Mapping[str, float]) -> bool:
    """Whether both together are more than a point below the better of our own two."""
    return "ours, both" in row and row["ours, both"] < max(row["ours"], row["meaning"]) - A_POINT


def misses(sets: Mapping[str, Judged], embedder: Embedder | None) -> None:
    """Print how often a catalog finds something for queries that were written for another."""
    ways = {"words": None, **({"both": embedder} if embedder else {})}
    print(f"\n{'found for':<16}" + "".join(f"{'own, ' + way:>14}{'others, ' + way:>14}" for way in ways))
    for name, judged in sets.items():
        line = f"{name:<16}"
        others = [query for other in sets if other != name for query in _some(sets[other])]
        for own_embedder in ways.values():
            catalog = opened(judged.tools.values(), own_embedder)
            for queries in (_some(judged, STRANGERS * 4), others):
                line += f"{sum(bool(catalog.search(query).hits) for query in queries) / max(len(queries), 1):>14.3f}"
        print(line, flush=True)


def _some(judged: Judged, most: int = STRANGERS) -> list[str]:
    queries = list(judged.queries.values())
    return random.Random(2).sample(queries, most) if len(queries) > most else queries


def speed(sets: Mapping[str, Judged], size: int) -> None:
    """Print the CPU time of building, opening and searching a catalog of so many tools, as ratios to ours."""
    tools = _many(sets, size)
    queries = [query for judged in sets.values() for query in _some(judged)]
    print(f"\n{len(tools):,} tools, {len(queries):,} queries, ms of CPU")
    built, catalog = _timed(lambda: opened(tools))
    _print_speed("ours", built, lambda query: catalog.search(query), queries, None)
    _print_speed("ours, again", built, lambda query: catalog.search(query), queries, None)
    ours = _median(lambda query: catalog.search(query), queries)
    made, with_bm25s = _timed(lambda: bm25s_search(tools))
    if with_bm25s:
        _print_speed("bm25s", made, with_bm25s, queries, ours)
        print(f"  building: ours takes {built / made:.2f} × as long as bm25s")
    else:
        print("bm25s is not installed: left out")
    made, with_fastmcp = _timed(lambda: fastmcp_search(tools))
    if with_fastmcp:
        with_fastmcp(queries[0])
        _print_speed("fastmcp", made, with_fastmcp, queries[:40], ours)
    else:
        print("fastmcp is not installed: left out")
    _warm(tools)


def _warm(tools: Sequence[CatalogTool]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "tools.db"

        def build() -> None:
            with Catalog(path) as catalog:
                catalog.add(tools)

        def open_again() -> None:
            with Catalog(path) as catalog:
                catalog.search("send a message to a channel")

        cold, _ = _timed(build)
        warm = min(_timed(open_again)[0] for _ in range(5))
    print(f"in a file: built in {cold:.0f} ms; opened and searched in {warm:.0f} ms, {warm / cold:.1%} of that")


def _many(sets: Mapping[str, Judged], size: int) -> list[CatalogTool]:
    """So many real tools; where there are too few, again under the names of other servers."""
    real = [tool for judged in sets.values() for tool in judged.tools.values()]
    return [real[number % len(real)]._replace(server=f"s{number // len(real)}") for number in range(size)]


def _timed(do: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = do()
    return (time.process_time() - start) * 1000, result


def _median(search: Callable[[str], Any], queries: Sequence[str]) -> float:
    return _times(search, queries)[len(queries) // 2]


def _times(search: Callable[[str], Any], queries: Sequence[str]) -> list[float]:
    return sorted(_timed(lambda query=query: search(query))[0] for query in queries)  # type: ignore[misc]


def _print_speed(
    name: str, built: float, search: Callable[[str], Any], queries: Sequence[str], ours: float | None
) -> None:
    times = _times(search, queries)
    middle, late = times[len(times) // 2], times[int(len(times) * 0.99)]
    ratio = "" if ours is None else f"   {middle / ours:.1f} × ours"
    print(f"{name:<14}build {built:>8.0f}   p50 {middle:>8.2f}   p99 {late:>8.2f}{ratio}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=os.environ.get("ONHAND_DATA"), metavar="DIRECTORY")
    parser.add_argument("--sets", nargs="+", help="only these folders")
    parser.add_argument("--queries", type=int, help="at most this many of each set; all of them when not given")
    parser.add_argument("--embedder", help="compare meaning too, by this embedder")
    parser.add_argument("--cache", type=Path, help="a directory for its vectors, so that the next run is quick")
    parser.add_argument("--tools", type=int, default=5000, help="how many tools speed is measured at")
    parser.add_argument("--only", choices=("quality", "misses", "speed"), help="one table")
    options = parser.parse_args(argv)
    if not options.directory:
        print("no judged sets: name their directory, or set ONHAND_DATA; nothing was measured")
        return
    embedder, unavailable = chosen(options.embedder)
    if options.embedder and embedder is None:
        print(f"meaning is not compared: {unavailable}")
    remembering = RememberingEmbedder(embedder, options.cache) if embedder else None
    sets = judged_sets(Path(options.directory), options.queries, options.sets)
    if not sets:
        print("there is no set of tools in that directory; nothing was measured")
        return
    if options.only in (None, "quality"):
        quality(sets, remembering)
    if options.only in (None, "misses"):
        misses(sets, remembering)
    if options.only in (None, "speed"):
        speed(sets, options.tools)


if __name__ == "__main__":
    main(sys.argv[1:])
