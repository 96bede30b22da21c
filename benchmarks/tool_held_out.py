"""Do the constants of tool search hold where they were not chosen? Each set is left out while the others choose.

    python -m benchmarks.tool_held_out [DIRECTORY] [--queries 250] [--embedder minilm] [--cache DIR]

*Ranking*: of a small grid of constants, those with the best mean R@5 on the other sets, and what they reach on the set
that was left out, beside what ships and bm25s. Each set counts twice: with its own tools, and with a few of them, cut
to one sentence, among the tools of MCP servers. *Unrelated requests*: those of other sets and, with --documents, of
sets of documents. How many are called weak by a threshold that loses so many percent of a set's own requests, on
average over the other sets; and how many of its own that loses.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from math import log
from pathlib import Path
from typing import NamedTuple

from benchmarks.quality import RememberingEmbedder, ids_in, load
from benchmarks.tool_sets import (
    Judged,
    K,
    among_others,
    bm25s_search,
    ids_of,
    judged_sets,
    opened,
    recall,
    some,
)
from onhand.embed.choose import choose_embedder
from onhand.embed.embedder import Embedder
from onhand.lexical.scoring import Formula
from onhand.search.index import Rank
from onhand.tools.catalog import Catalog
from onhand.tools.ranking import COSINE_EVIDENCE, DEPTH, EVIDENCE_PER_LOG, term_share

BUDGETS = (1.0, 1.5, 2.0)  # percent of a set's own requests
FROM_DOCUMENTS = 12  # requests of each set of documents
CHOOSING = 100  # queries of each set that choose


class Constants(NamedTuple):
    """What was chosen on public sets."""

    k1: float
    b: float
    arguments: float
    names_alone: float

    def put_into(self, catalog: Catalog) -> None:
        """Let a catalog rank by these: its postings are the same under any, so that nothing is indexed anew."""
        words = catalog._index.store._lexical  # type: ignore[attr-defined]
        words._begin_change()  # keeps the postings, and forgets the scores
        words.ranking = words.ranking._replace(
            fields={**words.ranking.fields, "arguments": self.arguments},
            formula=Formula(self.k1, self.b),
            alone={"names": self.names_alone},
        )


GRID = [Constants(*values) for values in product((1.5,), (0.5, 0.75, 0.9), (0.35, 0.5), (0.25, 0.5, 0.75))]
SHIPPED = Constants(1.5, 0.75, 0.5, 0.5)


def reached(judged: Judged, catalog: Catalog, constants: Constants) -> float:
    """R@5 of a set under some constants."""
    constants.put_into(catalog)
    try:
        return recall(judged, ids_of(catalog))
    finally:
        SHIPPED.put_into(catalog)


def choose_constants(sets: Mapping[str, Judged]) -> dict[str, Constants]:
    """For each set, the constants that are best on the others, by the mean of R@5 with all and with short tools."""
    sampled = {name: _sample(judged) for name, judged in {**sets, **among_others(sets)}.items()}
    scores = {}
    for name, judged in sampled.items():
        catalog = opened(judged.tools.values())
        scores[name] = {one: reached(judged, catalog, one) for one in GRID}
    chosen = {}
    for left_out in sets:
        others = [name for name in scores if name.split()[-1] != left_out]
        chosen[left_out] = max(GRID, key=lambda one: sum(scores[other][one] for other in others))
    return chosen


def _sample(judged: Judged) -> Judged:
    texts = {text: query for query, text in judged.queries.items()}
    return judged._replace(queries={texts[text]: text for text in some(judged, CHOOSING)})


def ranking(sets: Mapping[str, Judged], embedder: Embedder | None) -> dict[str, dict[str, float]]:
    """Print, for each set, what the others choose and what that reaches there."""
    chosen = choose_constants(sets)
    table: dict[str, dict[str, float]] = {}
    for name, judged in {**sets, **among_others(sets)}.items():
        best = chosen[name.split()[-1]]
        catalog = opened(judged.tools.values())
        row = {"held out": reached(judged, catalog, best), "shipped": reached(judged, catalog, SHIPPED)}
        with_bm25s = bm25s_search(list(judged.tools.values()))
        if with_bm25s:
            row["bm25s"] = recall(judged, with_bm25s)
        if embedder:
            embedder.embed(list(judged.queries.values()), "query")
            fused = opened(judged.tools.values(), embedder)
            row |= {
                "meaning": recall(judged, ids_in(partial(fused._index.semantic, limit=K, min_score=None))),
                "both, held out": reached(judged, fused, best),
                "both, shipped": reached(judged, fused, SHIPPED),
            }
        if not table:
            print(f"\n{'R@5':<22}" + "".join(f"{way:>16}" for way in row) + "   chosen by the others")
        table[name] = row
        print(f"{name:<22}" + "".join(f"{value:>16.4f}" for value in row.values()) + f"   {tuple(best)}", flush=True)
    for label, names in (("mean", sets.keys()), ("mean of short", table.keys() - sets.keys())):
        rows = [table[name] for name in names]
        ways = rows[0] if rows else ()
        print(f"{label:<22}" + "".join(f"{sum(row[way] for row in rows) / len(rows):>16.4f}" for way in ways))
    return table


class Evidence(NamedTuple):
    """What a catalog has in common with the requests that are meant for it, and with others."""

    own: Sequence[float]
    unrelated: Sequence[float]


def abstention(sets: Mapping[str, Judged], embedder: Embedder | None, others: Mapping[str, Sequence[str]]) -> None:
    """Print the trade-off between losing true requests and answering unrelated ones, for thresholds of other sets."""
    ways: dict[str, Embedder | None] = {"words": None, **({"both": embedder} if embedder else {})}
    print(f"\n{'judged by':<10}{'unrelated':<12}{'budget':>7}{'least':>11}{'lost':>7}{'most':>7}{'rejected':>10}  each")
    for way, own_embedder in ways.items():
        for source in ("tools", "documents"):
            known = {}
            for name, judged in sets.items():
                strangers = others if source == "documents" else {one: some(sets[one]) for one in sets if one != name}
                catalog = opened(judged.tools.values(), own_embedder)
                texts = [*judged.queries.values(), *(text for queries in strangers.values() for text in queries)]
                if own_embedder:
                    own_embedder.embed(texts, "query")
                found = [_evidence(catalog, text) for text in texts]
                known[name] = Evidence(found[: len(judged.queries)], found[len(judged.queries) :])
            if any(one.unrelated for one in known.values()):
                _print_trade_off(way, source, known)


def _print_trade_off(way: str, source: str, known: Mapping[str, Evidence]) -> None:
    marks = sorted({mark for one in known.values() for mark in one.own})
    marks = marks[:: max(len(marks) // 1000, 1)]
    lost = {name: [_below(one.own, mark) for mark in marks] for name, one in known.items()}

    def highest(names: Sequence[str], budget: float) -> float:
        means = (sum(lost[name][place] for name in names) / len(names) for place in range(len(marks)))
        return max((mark for mark, mean in zip(marks, means, strict=True) if mean <= budget), default=marks[0])

    for budget in BUDGETS:
        chosen = {name: highest([other for other in known if other != name], budget) for name in known}
        own = [_below(known[name].own, mark) for name, mark in chosen.items()]
        rejected = [_below(known[name].unrelated, mark) for name, mark in chosen.items()]
        print(
            f"{way:<10}{source:<12}{budget:>6}%{highest(list(known), budget):>11.3f}{sum(own) / len(own):>6.2f}%"
            f"{max(own):>6.1f}%{sum(rejected) / len(rejected):>9.1f}%  " + " ".join(f"{one:.0f}" for one in rejected),
            flush=True,
        )


def _below(evidence: Sequence[float], mark: float) -> float:
    return 100 * sum(one < mark for one in evidence) / len(evidence)


def _evidence(catalog: Catalog, query: str) -> float:
    """What the thresholds of the ranking are compared with, as for a catalog of one tool."""
    index, tools = catalog._index, len(catalog)
    ranked = index.rank(query, DEPTH).ranked
    if not ranked:
        return 0.0
    share = term_share(index, query, max(ranked, key=partial(_score, "keyword")).id, tools)
    if index.embedder is None:
        return share
    cosine = max(_score("semantic", rank) for rank in ranked) / (index.embedder.min_score or 1.0)
    return share + COSINE_EVIDENCE * cosine - EVIDENCE_PER_LOG * log(tools)


def _score(layer: str, rank: Rank) -> float:
    return next((one.score for one in rank.layers if one.name == layer), -1.0)


def requests_of_documents(directory: Path) -> dict[str, list[str]]:
    """A sample of the queries of each set that is not of tools."""
    found = {}
    for path in sorted(directory.glob("*/qrels.tsv")):
        judged = load(path.parent, None)
        if "name" not in json.loads((path.parent / "corpus.jsonl").open(encoding="utf-8").readline()):
            found[path.parent.name] = random.Random(2).sample(sorted(judged.queries.values()), FROM_DOCUMENTS)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=os.environ.get("ONHAND_DATA"), metavar="DIRECTORY")
    parser.add_argument("--queries", type=int, default=250, help="at most this many of each set (250)")
    parser.add_argument("--embedder", help="compare meaning too, by this embedder")
    parser.add_argument("--cache", type=Path, help="a directory for its vectors, so that the next run is quick")
    parser.add_argument("--documents", action="store_true", help="count requests for documents as unrelated too")
    parser.add_argument("--only", choices=("ranking", "abstention"), help="one table")
    options = parser.parse_args(argv)
    if not options.directory:
        print("no judged sets: name their directory, or set ONHAND_DATA; nothing was measured")
        return
    embedder, unavailable = choose_embedder(options.embedder)
    if options.embedder and embedder is None:
        print(f"meaning is not compared: {unavailable}")
    remembering = RememberingEmbedder(embedder, options.cache) if embedder else None
    sets = judged_sets(Path(options.directory), options.queries)
    if len(sets) < 3:
        parser.error(f"{options.directory} has fewer than three sets of tools: name a directory that has them")
    if options.only != "abstention":
        ranking(sets, remembering)
    if options.only != "ranking":
        abstention(sets, remembering, requests_of_documents(Path(options.directory)) if options.documents else {})


if __name__ == "__main__":
    main(sys.argv[1:])
