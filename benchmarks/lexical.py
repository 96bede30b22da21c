"""Lexical search against bm25s and rank-bm25: build and search, in one run, as ratios.

    python -m benchmarks.lexical [--documents 5000 50000] [--queries 300]

Documents are made here from a seeded Zipf vocabulary of ordinary and identifier-like words. Every engine gets the
same texts and queries as strings: tokenizing is part of the work. CPU time of the process; lower is better.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from onhand.lexical.index import LexicalIndex
from onhand.lexical.scoring import Ranking
from onhand.lexical.tokenizer import FUNCTION_WORDS, IdentifierTokenizer, PlainTokenizer, Tokenizer

Search = Callable[[str], object]


def made_up_corpus(documents: int, queries: int, seed: int = 7) -> tuple[list[str], list[str]]:
    """Short texts of 8-40 words, about every thirtieth an identifier, and queries of 2-6 words."""
    chance = random.Random(seed)
    syllables = ["ba", "co", "di", "fu", "ge", "hi", "jo", "ka", "lu", "me", "no", "pi", "qu", "ra", "se", "ti", "vo"]
    vocabulary = sorted({"".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(30_000)})
    chance.shuffle(vocabulary)
    weights = [1 / (rank + 2.7) for rank in range(len(vocabulary))]

    def words(count: int) -> list[str]:
        return chance.choices(vocabulary, weights=weights, k=count)

    def text() -> str:
        chosen = words(chance.randint(8, 40))
        for position in range(len(chosen)):
            if chance.random() < 1 / 30:
                chosen[position] = chosen[position] + chance.choice(["_", "-", ""]) + chance.choice(vocabulary).title()
        return " ".join(chosen)

    texts = [text() for _ in range(documents)]
    return texts, [" ".join(words(chance.randint(2, 6))) for _ in range(queries)]


def with_index(index: LexicalIndex, texts: Sequence[str]) -> Search:
    for number, text in enumerate(texts):
        index.add(str(number), text)
    return lambda query: index.search(query, 10)


def ranked_by(tokenizer: Tokenizer) -> Ranking:
    return Ranking("benchmark", tokenizer, {"text": 1.0})


def ours(texts: Sequence[str]) -> Search:
    return with_index(LexicalIndex(ranked_by(IdentifierTokenizer())), texts)


def ours_with_stems(texts: Sequence[str]) -> Search:
    return with_index(LexicalIndex(ranked_by(IdentifierTokenizer(stems=True, stop_words=FUNCTION_WORDS))), texts)


def ours_plain(texts: Sequence[str]) -> Search:
    return with_index(LexicalIndex(ranked_by(PlainTokenizer())), texts)


def with_bm25s(texts: Sequence[str]) -> Search:
    import bm25s

    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    k = min(10, len(texts))

    def search(query: str) -> object:
        tokens = bm25s.tokenize([query], show_progress=False, return_ids=False)
        return index.retrieve(tokens, k=k, show_progress=False, n_threads=0)

    return search


def with_rank_bm25(texts: Sequence[str]) -> Search:
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([text.lower().split() for text in texts])
    numbers = list(range(len(texts)))
    return lambda query: index.get_top_n(query.lower().split(), numbers, n=10)


ENGINES: dict[str, Callable[[Sequence[str]], Search]] = {
    "onhand": ours,
    "onhand, with stems": ours_with_stems,
    "onhand, plain tokens": ours_plain,
    "bm25s": with_bm25s,
    "rank-bm25": with_rank_bm25,
}


def measure(build: Callable[[Sequence[str]], Search], texts: Sequence[str], queries: Sequence[str]) -> dict[str, float]:
    """Build until the first answer, p50 and p99 of a search, in CPU milliseconds; all are the best of three builds."""
    builds, times = [], []
    search: Any = None
    for _ in range(3):
        del search
        start = time.process_time()
        search = build(texts)
        search(queries[0])  # what is put off until somebody searches is part of the build
        builds.append(time.process_time() - start)
        times.append([measure_query(search, query) for query in queries])
    least = list(map(min, zip(*times, strict=True)))
    hundredths = statistics.quantiles(least, n=100)
    return {"build": min(builds) * 1000, "p50": statistics.median(least) * 1000, "p99": hundredths[98] * 1000}


def measure_query(search: Search, query: str) -> float:
    """Return the CPU seconds of a search."""
    start = time.process_time()
    search(query)
    return time.process_time() - start


def main(argv: Sequence[str] | None = None) -> None:
    import numpy  # noqa: F401  # loaded before anything is timed, as its threads take a while to settle

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[5000, 50_000])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="bm25s is always among them"
    )
    options = parser.parse_args(argv)
    for documents in options.documents:
        texts, queries = made_up_corpus(documents, options.queries)
        print(f"\n{documents:,} short documents, {len(queries)} queries (CPU ms; in brackets: multiple of bm25s)")
        print(f"{'engine':<22}{'build':>18}{'search p50':>18}{'search p99':>18}")
        results = {
            name: measure(build, texts, queries)
            for name, build in ENGINES.items()
            if name in (*options.engines, "bm25s")
        }
        for name, result in results.items():
            cells = [f"{value:.3f} ({value / results['bm25s'][key]:.2f}×)" for key, value in result.items()]
            print(f"{name:<22}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
