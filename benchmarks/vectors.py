"""Nearest vectors against a plain numpy scan: time, recall and filters, in one run, as ratios.

    OMP_NUM_THREADS=1 python -m benchmarks.vectors                    100,000 vectors
    OMP_NUM_THREADS=1 python -m benchmarks.vectors --size 1000000     a million; 1.2 GB of disk and 3 GB of memory

The plain scan is `matrix @ query` and argpartition, over a matrix in memory. Under a filter it takes the cheaper of
`matrix[allowed] @ query` and a scan of all. Two kinds of vectors: `clustered`, mixed from a few thousand centres whose
directions are weighed unevenly, as those of texts are, and `random`, the hardest, without any structure. With
`--base FILE.npy ...` the clustered ones are mixed from vectors of your own. CPU time of one thread; lower is better.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for both sides; it has to stand before numpy is loaded

import argparse
import statistics
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onhand.store.mmap_vectors import MappedVectors

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
LIMIT = 10
CHUNK = 50_000


class Timed(NamedTuple):
    """What was found, and how long it took."""

    found: list[set[int]]
    p50_ms: float


def of_length_one(rows: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= lengths
    return rows


def random_vectors(size: int, dimension: int, chance: np.random.Generator) -> Floats:
    rows = np.empty((size, dimension), np.float32)
    for start in range(0, size, CHUNK):
        some = rows[start : start + CHUNK]
        some[...] = of_length_one(chance.standard_normal(some.shape, dtype=np.float32))
    return rows


def centres(dimension: int, chance: np.random.Generator) -> Floats:
    """Points with a common direction and a spectrum that falls off."""
    weights = (1 / np.sqrt(1 + np.arange(dimension) / 8)).astype(np.float32)
    points = chance.standard_normal((5000, dimension), dtype=np.float32) * weights
    return of_length_one(points + weights * np.float32(0.5))


def clustered_vectors(size: int, base: Floats, chance: np.random.Generator) -> Floats:
    """Each between two of the base, nearer to one of them, and a little off the line."""
    dimension = base.shape[1]
    rows = np.empty((size, dimension), np.float32)
    for start in range(0, size, CHUNK):
        some = rows[start : start + CHUNK]
        one, other = chance.integers(0, len(base), (2, len(some)))
        share = chance.uniform(0, 0.4, (len(some), 1)).astype(np.float32)
        off = chance.standard_normal(some.shape, dtype=np.float32) * np.float32(0.4 / dimension**0.5)
        some[...] = of_length_one(base[one] * (1 - share) + base[other] * share + off)
    return rows


def plain_scan(matrix: Floats, query: Floats, allowed: Ints | None) -> Ints:
    if allowed is None:
        scores, places = matrix @ query, None
    elif len(allowed) * 5 < len(matrix) * 2:
        scores, places = matrix[allowed] @ query, allowed
    else:
        scores, places = (matrix @ query)[allowed], allowed
    best = np.argpartition(scores, len(scores) - LIMIT)[-LIMIT:]
    best = best[np.argsort(-scores[best])]
    return best if places is None else places[best]


def timed(search: Callable[[Floats], Sequence[int]], queries: Floats) -> Timed:
    search(queries[0])
    found, times = [], []
    for query in queries:
        start = time.process_time()
        hits = search(query)
        times.append(time.process_time() - start)
        found.append(set(hits))
    return Timed(found, statistics.median(times) * 1000)


def ours(vectors: MappedVectors, allowed: Ints | None) -> Callable[[Floats], Sequence[int]]:
    return lambda query: [
        docnum for docnum, _ in vectors.nearest(array("f", query.tobytes()), allowed=allowed, limit=LIMIT)[:LIMIT]
    ]


def numpys(matrix: Floats, allowed: Ints | None) -> Callable[[Floats], Sequence[int]]:
    return lambda query: plain_scan(matrix, query, allowed).tolist()


def measure(kind: str, matrix: Floats, queries: Floats, directory: str) -> None:
    def rows_after(docnum: int, _copied: int) -> Iterator[tuple[int, bytes]]:
        return ((number, matrix[number].tobytes()) for number in range(docnum + 1, len(matrix)))

    path, dimension = os.path.join(directory, kind), matrix.shape[1]
    start = time.process_time()
    MappedVectors(path, dimension, kind).catch_up(rows_after)
    built = time.process_time() - start
    start = time.process_time()
    vectors = MappedVectors(path, dimension, kind)
    opened = time.process_time() - start
    print(f"\n{kind}: written in {built:.1f} s, opened in {opened * 1000:.1f} ms (CPU)")
    print(f"{'filter':<10}{'onhand p50':>14}{'numpy p50':>14}{'onhand/numpy':>14}{'numpy/onhand':>14}{'recall@10':>12}")
    chance = np.random.default_rng(3)
    for share in (None, 0.001, 0.01, 0.1):
        count = 0 if share is None else max(LIMIT, int(len(matrix) * share))
        allowed = None if share is None else np.sort(chance.choice(len(matrix), count, replace=False))
        theirs = timed(numpys(matrix, allowed), queries)
        mine = timed(ours(vectors, allowed), queries)
        recall = sum(len(a & b) for a, b in zip(theirs.found, mine.found, strict=True)) / (LIMIT * len(queries))
        name = "none" if share is None else f"{share:.1%}"
        ratio = mine.p50_ms / theirs.p50_ms
        cells = f"{mine.p50_ms:>11.4f} ms{theirs.p50_ms:>11.4f} ms{ratio:>13.2f}×{1 / ratio:>13.2f}×{recall:>12.4f}"
        print(f"{name:<10}{cells}", flush=True)
    vectors.close()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="+", default=[100_000])
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--base", type=Path, nargs="*", default=[], help="files of vectors to mix the clustered from")
    options = parser.parse_args(argv)
    if missing := [file for file in options.base if not file.is_file()]:
        parser.error(f"--base: {missing[0]} is not a file: name files of vectors, as numpy saves them")
    for size in options.size:
        print(f"\n{size:,} vectors of {options.dimension} numbers, {options.queries} queries, {LIMIT} hits")
        for kind in ("clustered", "random"):
            chance = np.random.default_rng(7)
            made = _made(kind, size + options.queries, options.dimension, options.base, chance)
            with tempfile.TemporaryDirectory() as directory:
                measure(kind, made[:size], made[size:], directory)


def _made(kind: str, size: int, dimension: int, base: Sequence[Path], chance: np.random.Generator) -> Floats:
    if kind == "random":
        return random_vectors(size, dimension, chance)
    if not base:
        return clustered_vectors(size, centres(dimension, chance), chance)
    given = np.concatenate([np.load(file).astype(np.float32) for file in base])
    _, turn = np.linalg.eigh(given.T @ given)  # the directions that say most, if there are more than asked for
    return clustered_vectors(size, of_length_one(given @ turn[:, ::-1][:, :dimension]), chance)


if __name__ == "__main__":
    main(sys.argv[1:])
