"""Ranking quality on judged sets: recall@5 and nDCG@10 of our rankings beside bm25s, set by set.

    python -m benchmarks.quality [DIRECTORY] [--sets a b] [--queries 400]

DIRECTORY ($ONHAND_DATA when not given) has one folder for each set, with corpus.jsonl (id, title, text),
queries.jsonl (id, text) and qrels.tsv (query-id, corpus-id, score, under a header line).
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from onhand.lexical.bm25 import BM25, BM25_PLUS, Formula, LexicalIndex
from onhand.lexical.tokenize import FUNCTION_WORDS, IdentifierTokenizer, PlainTokenizer
from onhand.lexical.tokenizer import Tokenizer

Search = Callable[[str], list[str]]  # a query → the ids of the ten best


class JudgedSet(NamedTuple):
    documents: list[dict[str, str]]
    queries: dict[str, str]
    relevant: dict[str, dict[str, float]]  # query id → document id → gain


def load(directory: Path, most_queries: int) -> JudgedSet:
    documents = [json.loads(line) for line in (directory / "corpus.jsonl").read_text("utf-8").splitlines()]
    relevant: dict[str, dict[str, float]] = {}
    for line in (directory / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, gain = line.split("\t")
        if float(gain) > 0:
            relevant.setdefault(query, {})[document] = float(gain)
    rows = [json.loads(line) for line in (directory / "queries.jsonl").read_text("utf-8").splitlines()]
    judged = [(str(row["id"]), row["text"]) for row in rows if str(row["id"]) in relevant]
    return JudgedSet(documents, dict(judged[:most_queries]), relevant)


def ours(documents: list[dict[str, str]], index: LexicalIndex) -> Search:
    for document in documents:
        index.add(str(document["id"]), {"heading": document.get("title") or "", "text": document.get("text") or ""})
    return lambda query: [match.id for match in index.search(query, 10)]


def default(documents: list[dict[str, str]]) -> Search:
    return fielded(documents, IdentifierTokenizer(stems=True, stop_words=FUNCTION_WORDS))


def without_stems(documents: list[dict[str, str]]) -> Search:
    return fielded(documents, IdentifierTokenizer(stop_words=FUNCTION_WORDS))


def all_words(documents: list[dict[str, str]]) -> Search:
    return fielded(documents, IdentifierTokenizer(stems=True))


def plus(documents: list[dict[str, str]]) -> Search:
    return fielded(documents, IdentifierTokenizer(stems=True, stop_words=FUNCTION_WORDS), BM25_PLUS)


def fielded(documents: list[dict[str, str]], tokenizer: Tokenizer, formula: Formula = BM25) -> Search:
    index = LexicalIndex(tokenizer, fields={"heading": 2.0, "text": 1.0}, formula=formula, per_field_length=True)
    return ours(documents, index)


def seed(documents: list[dict[str, str]]) -> Search:
    return ours(documents, LexicalIndex(PlainTokenizer(), fields={"heading": 1.0, "text": 1.0}, count_repeats=True))


def with_bm25s(documents: list[dict[str, str]]) -> Search:
    import bm25s

    index = bm25s.BM25(k1=1.5, b=0.75)
    texts = [f"{document.get('title') or ''} {document.get('text') or ''}" for document in documents]
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    ids = [str(document["id"]) for document in documents]

    def search(query: str) -> list[str]:
        tokens = bm25s.tokenize([query], show_progress=False, return_ids=False)
        found, scores = index.retrieve(tokens, k=min(10, len(ids)), show_progress=False, n_threads=0)
        return [ids[number] for number, score in zip(found[0], scores[0], strict=True) if score > 0]

    return search


RANKINGS = {
    "default": default,
    "without stems": without_stems,
    "function words too": all_words,
    "BM25+": plus,
    "seed": seed,
    "bm25s": with_bm25s,
}


def measure(judged: JudgedSet, search: Search) -> tuple[float, float]:
    """Mean recall@5 and nDCG@10."""
    recall = ndcg = 0.0
    for query_id, query in judged.queries.items():
        gains = judged.relevant[query_id]
        found = search(query)
        recall += len(gains.keys() & set(found[:5])) / len(gains)
        reached = sum(gains.get(document, 0.0) / math.log2(place + 2) for place, document in enumerate(found))
        best = sorted(gains.values(), reverse=True)[:10]
        ndcg += reached / sum(gain / math.log2(place + 2) for place, gain in enumerate(best))
    return recall / len(judged.queries), ndcg / len(judged.queries)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=os.environ.get("ONHAND_DATA"), metavar="DIRECTORY")
    parser.add_argument("--sets", nargs="+", help="only these folders")
    parser.add_argument("--queries", type=int, default=400, help="at most this many of each set")
    options = parser.parse_args(argv)
    if not options.directory:
        print("no judged sets: name their directory, or set ONHAND_DATA; nothing was measured")
        return
    folders = sorted(path.parent for path in Path(options.directory).glob("*/qrels.tsv"))
    chosen = [folder for folder in folders if not options.sets or folder.name in options.sets]
    print(f"{'recall@5 / nDCG@10':<22}" + "".join(f"{name:>20}" for name in RANKINGS))
    totals = dict.fromkeys(RANKINGS, (0.0, 0.0))
    for folder in chosen:
        judged = load(folder, options.queries)
        results = {name: measure(judged, build(judged.documents)) for name, build in RANKINGS.items()}
        for name, (recall, ndcg) in results.items():
            totals[name] = (totals[name][0] + recall, totals[name][1] + ndcg)
        print(f"{folder.name:<22}" + "".join(f"{recall:>12.3f} / {ndcg:.3f}" for recall, ndcg in results.values()))
    count = len(chosen) or 1
    print(
        f"{'mean':<22}" + "".join(f"{recall / count:>12.3f} / {ndcg / count:.3f}" for recall, ndcg in totals.values())
    )


if __name__ == "__main__":
    main(sys.argv[1:])
