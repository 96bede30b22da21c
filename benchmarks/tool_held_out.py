"""Do the constants of tool search hold where they were not chosen? Each set is left out while the others choose.

    python -m benchmarks.tool_held_out [DIRECTORY] [--queries 250] [--embedder minilm] [--cache DIR]

*Ranking*: of a small grid of constants, those with the best mean R@5 on the other sets, and what they reach on the set
that was left out, beside what ships and bm25s. *Floor*: how many queries of other sets find something, if a threshold
may cost so many points of R@5 on the sets that choose it; the last column is what it costs the set that was left out.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from benchmarks.quality import RememberingEmbedder, ids_in
from benchmarks.tool_sets import Judged, K, bm25s_search, ids_of, judged_sets, opened, recall, some
from onhand.embed.choose import choose_embedder
from onhand.embed.embedder import Embedder
from onhand.lexical.scoring import Formula
from onhand.tools import ranking as tool_ranking
from onhand.tools.catalog import Catalog
from onhand.tools.ranking import shared_weight

BUDGETS = (0.1, 0.3, 1.0, 3.0)  # points of R@5


class Constants(NamedTuple):
    """What was chosen on public sets."""

    k1: float
    b: float
    arguments: float
    names_alone: float
    part_share: float

    def put_into(self, catalog: Catalog) -> None:
        """Let a catalog rank by these: its postings are the same under any, so that nothing is indexed anew."""
        words = catalog._index.store._text  # type: ignore[attr-defined]
        names, _, arguments = words._fields
        words.formula, names.alone, arguments.weight = Formula(self.k1, self.b), self.names_alone, self.arguments
        words._forget()
        tool_ranking.PART_SHARE = self.part_share


GRID = [
    Constants(*values) for values in product((1.2, 1.5, 2.0), (0.35, 0.5, 0.65), (0.35, 0.5), (0.25, 0.5), (0.3, 0.6))
]
SHIPPED = Constants(1.5, 0.5, 0.5, 0.5, 0.6)


def reached(judged: Judged, catalog: Catalog, constants: Constants) -> float:
    """R@5 of a set under some constants."""
    constants.put_into(catalog)
    try:
        return recall(judged, ids_of(catalog))
    finally:
        SHIPPED.put_into(catalog)


def ranking(sets: Mapping[str, Judged], embedder: Embedder | None) -> dict[str, dict[str, float]]:
    """Print, for each set, what the others choose and what that reaches there."""
    catalogs = {name: opened(judged.tools.values()) for name, judged in sets.items()}
    by_constants = {one: {name: reached(judged, catalogs[name], one) for name, judged in sets.items()} for one in GRID}
    table: dict[str, dict[str, float]] = {}
    for name, judged in sets.items():
        others = [other for other in sets if other != name]
        best = max(GRID, key=lambda one: sum(by_constants[one][other] for other in others))
        row = {"held out": by_constants[best][name], "shipped": by_constants[SHIPPED][name]}
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
            print(f"\n{'R@5':<14}" + "".join(f"{way:>16}" for way in row) + "   chosen by the others")
        table[name] = row
        print(f"{name:<14}" + "".join(f"{value:>16.4f}" for value in row.values()) + f"   {tuple(best)}", flush=True)
    ways = next(iter(table.values()))
    mean = "".join(f"{sum(row[way] for row in table.values()) / len(table):>16.4f}" for way in ways)
    print(f"{'mean':<14}{mean}")
    return table


class Evidence(NamedTuple):
    """Of a set: what a right answer and a stranger's query have, and what each right answer is worth."""

    own: Sequence[tuple[float, float]]  # evidence, R@5
    strangers: Sequence[float]

    def loss(self, least: float) -> float:
        return 100 * sum(worth for evidence, worth in self.own if evidence < least) / len(self.own)

    def found(self, least: float) -> float:
        return sum(evidence >= least for evidence in self.strangers) / len(self.strangers)


def floor(sets: Mapping[str, Judged], embedder: Embedder | None) -> None:
    """Print the trade-off between hiding right answers and answering strangers, for thresholds that others chose."""
    ways: dict[str, tuple[Embedder | None, Callable[[Catalog, str], float]]] = {"words: share": (None, _share)}
    if embedder:
        ways["meaning: cosine"] = embedder, _cosine
    print(f"\n{'floor':<18}{'budget':>8}{'strangers found':>18}{'of which each':>42}{'R@5 lost':>10}{'most':>7}")
    for way, (own_embedder, evidence) in ways.items():
        known = {name: _evidence(sets, name, own_embedder, evidence) for name in sets}
        marks = sorted({mark for one in known.values() for mark in [*one.strangers, *(mark for mark, _ in one.own)]})
        marks = marks[:: max(len(marks) // 400, 1)]
        for budget in BUDGETS:
            chosen_by = {
                name: _highest(marks, [known[other] for other in sets if other != name], budget) for name in sets
            }
            found = [known[name].found(least) for name, least in chosen_by.items()]
            lost = [known[name].loss(least) for name, least in chosen_by.items()]
            each = " ".join(f"{share:.2f}" for share in found)
            mean_found, mean_lost = sum(found) / len(found), sum(lost) / len(lost)
            print(f"{way:<18}{budget:>8}{mean_found:>18.3f}{each:>42}{mean_lost:>10.2f}{max(lost):>7.2f}", flush=True)


def _highest(marks: Sequence[float], others: Sequence[Evidence], budget: float) -> float:
    """The highest threshold that costs the others no more than the budget, on average."""
    return max((mark for mark in marks if sum(one.loss(mark) for one in others) / len(others) <= budget), default=0.0)


def _evidence(
    sets: Mapping[str, Judged], name: str, embedder: Embedder | None, evidence: Callable[[Catalog, str], float]
) -> Evidence:
    judged = sets[name]
    catalog = opened(judged.tools.values(), embedder)
    own = []
    for query_id, query in judged.queries.items():
        wanted = judged.relevant[query_id]
        found = {hit.id for hit in catalog.search(query, limit=K).hits}
        own.append((evidence(catalog, query), len(wanted & found) / len(wanted)))
    strangers = [query for other in sets if other != name for query in some(sets[other])]
    return Evidence(own, [evidence(catalog, query) for query in strangers])


def _share(catalog: Catalog, query: str) -> float:
    ranked = catalog._index.rank(query).ranked
    return shared_weight(catalog._index, query, ranked[0].id, len(catalog))[0] if ranked else 0.0


def _cosine(catalog: Catalog, query: str) -> float:
    hits = catalog._index.semantic(query, limit=1, min_score=None).hits
    return hits[0].score if hits else 0.0


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=os.environ.get("ONHAND_DATA"), metavar="DIRECTORY")
    parser.add_argument("--queries", type=int, default=250, help="at most this many of each set (250)")
    parser.add_argument("--embedder", help="compare meaning too, by this embedder")
    parser.add_argument("--cache", type=Path, help="a directory for its vectors, so that the next run is quick")
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
    ranking(sets, remembering)
    floor(sets, remembering)


if __name__ == "__main__":
    main(sys.argv[1:])
