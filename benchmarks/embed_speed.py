"""What the packaged embedder costs when it multiplies integers, beside the same model in floats: times, memory, cosine.

    python -m benchmarks.embed_speed [--pages 64] [--rounds 4]

Pages have 200 words, queries about eight. Each row is a process of its own; the best of all rounds counts. The last
columns are what 100,000 pages would take with all processors that this process may use, extrapolated from these pages:
by the clock of this run, which other programs slow down, and by its CPU time divided by the processors, which is what a
machine without other work would take.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.lexical import made_up_corpus
from onhand.embed.embedder import cosine, count_processors
from onhand.embed.minilm import MiniLmEmbedder

PAGE_WORDS = 200


def make_texts(pages: int) -> tuple[list[str], list[str]]:
    """Return pages of 200 words and short queries, the same in every process."""
    sentences, queries = made_up_corpus(40 * pages, 32)
    words = " ".join(sentences).split()
    return [" ".join(words[at * PAGE_WORDS : (at + 1) * PAGE_WORDS]) for at in range(pages)], queries


def measure(as_integers: bool, pages: int, rounds: int) -> dict[str, Any]:
    """Return the costs of one of the two graphs, in this process."""
    texts, queries = make_texts(pages)
    start = time.process_time()
    one = MiniLmEmbedder(threads=1, as_integers=as_integers)
    one.embed(queries[:1])
    first_ms = (time.process_time() - start) * 1000
    many = MiniLmEmbedder(as_integers=as_integers)
    many.embed(texts[:2])
    return {
        "first_ms": first_ms,
        "page_ms": least(rounds, time.process_time, lambda: one.embed(texts)) / pages,
        "query_ms": least(rounds, time.process_time, lambda: [one.embed([query]) for query in queries]) / len(queries),
        "bulk_ms": least(rounds, time.perf_counter, lambda: many.embed(texts)) / pages,
        "bulk_cpu_ms": least(rounds, time.process_time, lambda: many.embed(texts)) / pages,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def least(rounds: int, clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Return the least number of milliseconds that the work takes."""

    def run() -> float:
        start = clock()
        work()
        return (clock() - start) * 1000

    return min(run() for _ in range(rounds))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", choices=("integers", "floats"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.only:
        print(json.dumps(measure(options.only == "integers", options.pages, options.rounds)))
        return 0
    rows = {}
    for only in ("floats", "integers"):
        command = [sys.executable, "-m", "benchmarks.embed_speed", "--only", only]
        command += ["--pages", str(options.pages), "--rounds", str(options.rounds)]
        rows[only] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    processors = count_processors()
    print(f"{'':10} {'first ms':>9} {'query ms':>9} {'page ms':>8} {f'page ms, {processors} threads':>19} {'MiB':>5}")
    for only, row in rows.items():
        print(
            f"{only:10} {row['first_ms']:9.0f} {row['query_ms']:9.2f} {row['page_ms']:8.1f} {row['bulk_ms']:19.1f} "
            f"{row['mib']:5.0f}   100,000 pages, extrapolated: {row['bulk_ms'] * 100 / 60:.0f} min by the clock, "
            f"{row['bulk_cpu_ms'] / processors * 100 / 60:.0f} min by CPU time"
        )
    ratios = [rows["floats"][cost] / rows["integers"][cost] for cost in rows["floats"]]
    print(f"{'ratio':10} {ratios[0]:9.1f} {ratios[2]:9.1f} {ratios[1]:8.1f} {ratios[3]:19.1f} {ratios[5]:5.1f}")
    texts, queries = make_texts(options.pages)
    vectors = [MiniLmEmbedder(as_integers=as_integers).embed([*texts, *queries]) for as_integers in (True, False)]
    similarities = [cosine(one, other) for one, other in zip(*vectors, strict=True)]
    print(
        f"cosine of the two: {sum(similarities) / len(similarities):.4f} on average, {min(similarities):.4f} at least"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
