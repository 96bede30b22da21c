"""Tool search beside its peers: quality on judged sets, queries that fit nothing, speed, and tokens.

    python -m benchmarks.tool_search [DIRECTORY] [--sets a b] [--queries 400] [--embedder minilm] [--cache DIR]
                                     [--tools 5000] [--peers DIR] [--only quality|misses|forged|speed|tokens]
                                     [--tokenizer tiktoken:o200k_base]

DIRECTORY ($ONHAND_DATA when not given) has one folder for each set, as for benchmarks.quality; a set counts if its
corpus has tools (name, description, parameters). bm25s is left out where it is not installed. FastMCP and pydantic-ai
are asked as they are, each in an environment of its own under the directory of --peers ($ONHAND_PEERS when not given).

R@5 is the part of a query's tools that are among the first five. *Held out* is R@5 with the constants that the other
sets choose (benchmarks.tool_held_out). A query of one set is put to the catalogs of the
others to see what is found where nothing should fit; as catalogs overlap, that is an upper bound. A forged tool has
each telling word of the query once in its name, once in its description, or in both, and nothing to do with it.

Times are CPU. Each query is put to us twice: first with words that nobody has asked for yet, then again. Ours and bm25s
are built in turns; times are medians, and so is the ratio of each turn. The first build of a process, which has yet to
learn the words, is told too, by the median of several processes; each waits until the threads that numpy starts for
bm25s are at rest, whose CPU would count as ours. What the benchmark itself holds is kept from the garbage collector.
"""

import argparse
import gc
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.quality import A_POINT, RememberingEmbedder, ids_in
from benchmarks.tool_held_out import Constants, choose_constants
from benchmarks.tool_peers import PACKAGES, SHOWN, Answers, asked
from benchmarks.tool_sets import (
    STRANGERS,
    Judged,
    K,
    Search,
    bm25s_search,
    ids_of,
    judged_sets,
    opened,
    recall,
    recalled,
    some,
)
from onhand.embed.choose import choose_embedder
from onhand.embed.embedder import Embedder
from onhand.lexical.tokenizer import FUNCTION_WORDS
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import MAX_NAME_CHARS, CatalogTool
from onhand.tools.loading import ESTIMATE, TokenCounter, open_token_counter
from onhand.tools.ranking import ASKING_WORDS
from onhand.tools.session import Session, forecast

TABLES = ("quality", "misses", "forged", "speed", "tokens")
BUILDS = 7
FIRSTS = 7  # processes that build once
AT_REST_S = 1.0  # in which what bm25s starts has become idle
PEER_QUERIES = 40  # that the speed of a peer is measured by
FORGED_QUERIES = 80  # of each set
MIN_FORGED = 4  # telling words: of fewer, nobody can tell a forged tool from one that does what it says
HUNDRED = 100  # tools, of which the tokens are counted
SAMPLES = 10
CALLS = 200


def searches(
    judged: Judged, embedder: Embedder | None, constants: Constants | None = None
) -> Iterator[tuple[str, Search]]:
    catalog = opened(judged.tools.values())
    yield "ours", ids_of(catalog)
    if constants:
        held_out = opened(judged.tools.values())
        constants.put_into(held_out)
        yield "held out", ids_of(held_out)
    yield "seed profile", ids_of(catalog, "seed")
    with_bm25s = bm25s_search(list(judged.tools.values()))
    if with_bm25s:
        yield "bm25s", with_bm25s
    if embedder:
        fused = opened(judged.tools.values(), embedder)
        embedder.embed(list(judged.queries.values()), "query")
        yield "meaning", ids_in(partial(fused._index.semantic, limit=K, min_score=None))
        yield "RRF", ids_in(partial(fused._index.fused, limit=K, method="rrf", explain=False))
        yield "ours, both", ids_of(fused)


def quality(
    sets: Mapping[str, Judged],
    embedder: Embedder | None = None,
    peers: Path | None = None,
    held_out: bool = False,
) -> dict[str, dict[str, float]]:
    """Print R@5 of every way of searching on every set."""
    table: dict[str, dict[str, float]] = {}
    chosen = choose_constants(sets) if held_out and len(sets) > 2 else {}
    for name, judged in sets.items():
        row = {way: recall(judged, search) for way, search in searches(judged, embedder, chosen.get(name))}
        for peer in PACKAGES if peers else ():
            row[peer] = recalled(
                judged, _of_peer(peer, list(judged.tools.values()), list(judged.queries.values()), peers).found
            )
        if not table:
            print(f"\n{'R@5':<16}{'tools':>7}{'queries':>9}" + "".join(f"{way:>14}" for way in row))
        table[name] = row
        mark = " !" if loses(row) else ""
        values = "".join(f"{value:>14.4f}" for value in row.values())
        print(f"{name:<16}{len(judged.tools):>7,}{len(judged.queries):>9,}{values}{mark}", flush=True)
    if table:
        ways = next(iter(table.values()))
        mean = "".join(f"{sum(row[way] for row in table.values()) / len(table):>14.4f}" for way in ways)
        print(f"{'mean':<32}{mean}")
    return table


def loses(row: Mapping[str, float]) -> bool:
    """Whether both together are more than a point below the better of our own two."""
    return "ours, both" in row and max(row["ours"], row["meaning"]) - row["ours, both"] > A_POINT + 1e-9


def misses(sets: Mapping[str, Judged], embedder: Embedder | None) -> None:
    """Print how often a catalog finds something, and calls it weak, for its own queries and for those of others."""
    ways = {"words": None, **({"both": embedder} if embedder else {})}
    print(
        f"\n{'found for':<16}"
        + "".join(f"{who + ', ' + way:>14}{'weak':>7}" for way in ways for who in ("own", "others"))
    )
    for name, judged in sets.items():
        line = f"{name:<16}"
        others = [query for other in sets if other != name for query in some(sets[other])]
        for own_embedder in ways.values():
            catalog = opened(judged.tools.values(), own_embedder)
            for queries in (some(judged, STRANGERS * 4), others):
                found = [catalog.search(query, limit=K) for query in queries]
                line += f"{_mean(bool(one.hits) for one in found):>14.3f}{_mean(one.weak for one in found):>7.3f}"
        print(line, flush=True)


def _mean(values: Iterable[bool]) -> float:
    counted = list(values)
    return sum(counted) / max(len(counted), 1)


def forged(sets: Mapping[str, Judged], embedder: Embedder | None) -> None:
    """Print how often a tool that was made of a query's own words comes first for it."""
    ways = {"words": None, **({"both": embedder} if embedder else {})}
    print(f"\n{'forged is first':<16}" + "".join(f"{place + ', ' + way:>25}" for way in ways for place in FORGED))
    for name, judged in sets.items():
        line = f"{name:<16}"
        queries = {
            query: words for query in some(judged, FORGED_QUERIES) if len(words := _telling(query)) >= MIN_FORGED
        }
        for own_embedder in ways.values():
            catalog = opened(judged.tools.values(), own_embedder)
            for make in FORGED.values():
                won = sum(_wins(catalog, make(words), query) for query, words in queries.items())
                line += f"{won / max(len(queries), 1):>25.3f}"
        print(line, flush=True)


def _wins(catalog: Catalog, tool: CatalogTool, query: str) -> bool:
    catalog.add([tool])
    first = catalog.search(query, limit=1).hits
    catalog.remove([tool.id])
    return bool(first) and first[0].id == tool.id


def _telling(query: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+", query.lower())
    return [word for word in dict.fromkeys(words) if word not in FUNCTION_WORDS | ASKING_WORDS]


def _name(words: Sequence[str]) -> str:
    return "_".join(words)[:MAX_NAME_CHARS].rstrip("_")


FORGED: Mapping[str, Callable[[Sequence[str]], CatalogTool]] = {
    "name": lambda words: CatalogTool(_name(words), server="forged"),
    "description": lambda words: CatalogTool("helper", " ".join(words), server="forged"),
    "name+description": lambda words: CatalogTool(_name(words), " ".join(words), server="forged"),
}


def speed(sets: Mapping[str, Judged], size: int, peers: Path | None = None) -> None:
    """Print the CPU time of building, opening and searching a catalog of so many tools, as ratios to ours."""
    tools = _many(sets, size)
    queries = [query for judged in sets.values() for query in some(judged)]
    print(f"\n{len(tools):,} tools, {len(queries):,} queries, ms of CPU")
    _, *turns = _builds(tools, BUILDS + 1)
    built, made = (median(times) for times in zip(*turns, strict=True))
    catalog, with_bm25s = opened(tools), bm25s_search(tools)
    learnt, _ = _timed(partial(catalog.search, queries[0]))
    first = _times(catalog.search, queries)
    again = _times(catalog.search, queries)
    _print_speed("ours, new words", built, first)
    _print_speed("ours, again", built, again)
    print(f"  the first search of a catalog takes {learnt:.0f}: it learns the forms of all words")
    if with_bm25s:
        _print_speed("bm25s", made, _times(with_bm25s, queries), again)
        firsts = [pair for _ in range(FIRSTS) for pair in _in_a_new_process(_builds, tools, 1)]
        ratio, first_ratio = (median(ours / theirs for ours, theirs in pairs) for pairs in (turns, firsts))
        print(f"  building: ours takes {ratio:.2f} × as long as bm25s, the first time {first_ratio:.2f} ×")
    for peer in PACKAGES if peers else ():
        answers = _of_peer(peer, tools, queries[:PEER_QUERIES], peers)
        _print_speed(peer, answers.build_ms, sorted(answers.search_ms), again)
    for form in ("+slack send", "+get user data", f"server:{tools[0].server} get user data"):
        times = _times(catalog.search, [form] * PEER_QUERIES)
        among = len(catalog.search(form.split()[0], limit=len(tools)).hits)
        print(f"  {form}: p50 {median(times):.3f}, among {among:,} tools")
    _warm(tools)
    for number in (HUNDRED, len(tools)):
        _print_session(tools[:number])


def tokens(sets: Mapping[str, Judged], peers: Path | None = None, counter: TokenCounter = ESTIMATE) -> None:
    """Print what the first request and a search cost, in tokens, for a hundred tools of each set; how much the first
    request saves of ten other hundreds; and how far the estimate is from an exact count of definitions and names."""
    ways = ["ours", *(PACKAGES if peers else ())]
    compared = "" if counter is ESTIMATE else f"{'estimate':>10}{'of names':>10}"
    print(f"\ncounted by {counter.name}: {counter.error}")
    print(f"{'tokens':<16}{'eager':>9}{compared}{'ten hundreds':>18}", end="")
    print("".join(f"{way + ', first':>20}{'a search':>10}" for way in ways))
    for name, judged in sets.items():
        tools = list(judged.tools.values())[:HUNDRED]
        cost = forecast(opened(tools), tokenizer=counter)
        eager = f"{cost.eager_tokens:>9,}"
        if compared:
            names = ", ".join(tool.name for tool in judged.tools.values())
            eager += f"{forecast(opened(tools)).eager_tokens / cost.eager_tokens - 1:>+10.1%}"
            eager += f"{ESTIMATE.tokens(names) / counter.tokens(names) - 1:>+10.1%}"
        line = f"{cost.lazy_tokens:>12,} ({cost.saved_share:.1%}){cost.search_tokens + cost.schema_tokens:>10,}"
        for peer in PACKAGES if peers else ():
            shown = _of_peer(peer, tools, some(judged)[:SHOWN], peers)
            first = counter.tokens(shown.listed)
            search = sum(map(counter.tokens, shown.shown)) / len(shown.shown)
            line += f"{first:>12,} ({1 - first / cost.eager_tokens:.1%}){search:>10,.0f}"
        print(f"{name:<16}{eager}{_saved(list(judged.tools.values()), counter):>18}{line}", flush=True)


def _saved(tools: Sequence[CatalogTool], counter: TokenCounter) -> str:
    """The least and the most that the first request saves, of ten samples of a hundred tools."""
    samples = [random.Random(seed).sample(tools, min(HUNDRED, len(tools))) for seed in range(SAMPLES)]
    shares = [forecast(opened(sample), tokenizer=counter).saved_share for sample in samples]
    return f"{min(shares):.1%} to {max(shares):.1%}"


def _print_session(tools: Sequence[CatalogTool]) -> None:
    """What a session costs to open, and what it then costs where nothing is activated."""
    catalog = opened(tools)
    gc.collect()  # which would fall into one of two runs otherwise, and take a fifth of this
    begun, session = _timed(partial(_begun, catalog))
    turns, refusals = (_times(do, [tools[0].name] * CALLS) for do in (lambda _: session.begin_turn(), session.refusal))
    print(
        f"a session over {len(tools):,} tools: begun in {begun:.0f} ms; then a turn takes "
        f"{1000 * median(turns):.0f} µs and a call that is not loaded {1000 * median(refusals):.0f} µs"
    )


def _begun(catalog: Catalog) -> Session:
    session = Session(catalog, mode="all")
    session.begin_turn()
    return session


def _of_peer(peer: str, tools: Sequence[CatalogTool], queries: Sequence[str], peers: Path | None) -> Answers:
    """What a peer does with tools, by their ids."""
    names = {tool.id.replace("/", "__"): tool for tool in tools}
    described = [
        {"name": name, "description": tool.description, "schema": dict(tool.input_schema)}
        for name, tool in names.items()
    ]
    answers = asked(peer, described, queries, peers or Path())
    return answers._replace(found=[[names[name].id for name in found] for found in answers.found])


def _warm(tools: Sequence[CatalogTool]) -> None:
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


def _builds(tools: Sequence[CatalogTool], times: int) -> list[tuple[float, float]]:
    """What building takes us and bm25s, in turns."""
    bm25s_search(tools[:10])  # so that what it imports counts for neither
    time.sleep(AT_REST_S)
    gc.collect()
    gc.freeze()
    return [(_built(lambda: opened(tools)), _built(lambda: bm25s_search(tools))) for _ in range(times)]


def _in_a_new_process(do: Callable[..., Any], *given: Any) -> Any:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(do, *given).result()


def _timed(do: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = do()
    return (time.process_time() - start) * 1000, result


def _built(do: Callable[[], Any]) -> float:
    gc.collect()  # so that nobody pays for what others left
    return _timed(do)[0]


def _times(search: Callable[[str], Any], queries: Sequence[str]) -> list[float]:
    return sorted(_timed(partial(search, query))[0] for query in queries)


def _print_speed(name: str, built: float, times: Sequence[float], ours: Sequence[float] = ()) -> None:
    middle, late = times[len(times) // 2], times[int(len(times) * 0.99)]
    ratio = f"   {middle / ours[len(ours) // 2]:.1f} × ours" if ours else ""
    print(f"{name:<16}build {built:>8.0f}   p50 {middle:>8.3f}   p99 {late:>8.3f}{ratio}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=os.environ.get("ONHAND_DATA"), metavar="DIRECTORY")
    parser.add_argument("--sets", nargs="+", help="only these folders")
    parser.add_argument("--queries", type=int, help="at most this many of each set; all of them when not given")
    parser.add_argument("--embedder", help="compare meaning too, by this embedder")
    parser.add_argument("--cache", type=Path, help="a directory for its vectors, so that the next run is quick")
    parser.add_argument("--tools", type=int, default=5000, help="how many tools speed is measured at")
    parser.add_argument(
        "--peers", type=Path, default=os.environ.get("ONHAND_PEERS"), help="where their environments are"
    )
    parser.add_argument("--tokenizer", default=ESTIMATE.name, help="how to count, as for `onhand tools tokens`")
    parser.add_argument("--only", choices=TABLES, help="one table")
    options = parser.parse_args(argv)
    if not options.directory:
        print("no judged sets: name their directory, or set ONHAND_DATA; nothing was measured")
        return
    counter = open_token_counter(options.tokenizer)
    embedder, unavailable = choose_embedder(options.embedder)
    if options.embedder and embedder is None:
        print(f"meaning is not compared: {unavailable}")
    remembering = RememberingEmbedder(embedder, options.cache) if embedder else None
    sets = judged_sets(Path(options.directory), options.queries, options.sets)
    if not sets:
        parser.error(f"{options.directory} has no such set of tools: name a directory that has one, or other --sets")
    peers = Path(options.peers) if options.peers else None
    if peers is None:
        print("FastMCP and pydantic-ai are left out: name a directory for their environments with --peers")
    tables: dict[str, Callable[[], object]] = {
        "quality": lambda: quality(sets, remembering, peers, held_out=True),
        "misses": lambda: misses(sets, remembering),
        "forged": lambda: forged(sets, remembering),
        "tokens": lambda: tokens(sets, peers, counter),
        "speed": lambda: speed(sets, options.tools, peers),
    }
    for table, measure in tables.items():
        if options.only in (None, table):
            measure()


if __name__ == "__main__":
    main(sys.argv[1:])
