"""Wrong hits and speed of the semantic cache against a bare threshold and a numpy scan, in one run.

    ONHAND_DATA=… python -m benchmarks.cache [--vectors DIRECTORY] [--size 10000] [--speed]

Quality: the questions of $ONHAND_DATA/qqp_cache, each of which has duplicates among some 23,000 cached ones, of which
fewer and fewer that answer nothing are kept. A hit is right when the data names the pair; most of the wrong ones mean
the same too, and nobody labelled them. Every row of ours stands beside a bare threshold that is set so that it has the
same number of hits on the same questions: what GPTCache and others do with this model. Of the questions, those with odd
numbers asked for the margin by meaning and those with even ones for that by words; the others are shown as held out.
Further down is what each further hit costs. `absent` repeats the run with the duplicates of the question taken out, so
that every hit counts as wrong. Vectors are those of MiniLM; to make them takes two minutes, and `--vectors` keeps them.

Speed: questions against entries, the question's vector at hand. The numpy scan is `matrix @ query` and argmax over a
matrix in memory, and no more; ours is a whole lookup. CPU time of the process, one thread of BLAS, question by
question in turn. `--speed` leaves the quality out.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for both sides; it has to stand before numpy is loaded

import argparse
import json
import statistics
import sys
import time
from array import array
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from onhand.cache.cache import SemanticCache
from onhand.cache.guards import BY_MEANING, BY_WORDS, Criteria, particulars
from onhand.cache.similarity import WordIndex
from onhand.embed.embedder import Kind
from onhand.embed.minilm import MiniLmEmbedder

Floats = NDArray[np.float32]
SHARES = (1, 2, 4, 8)  # one in so many of the cached questions that answer nothing is kept
ROUNDS = 5  # of the speed
KINDS = ((False, BY_MEANING, 1), (True, BY_WORDS, 0))  # by words or by meaning, and which half it was chosen on
MARGINS = (0.2, 0.13, 0.08, 0.04, 0.0)
CURVE = tuple(Criteria(threshold, margin) for threshold in (BY_MEANING.threshold, 0.75) for margin in MARGINS)


class Known:
    """An embedder that knows its texts."""

    name, prompt_format, min_score = "known", MiniLmEmbedder.prompt_format, None

    def __init__(self, texts: Sequence[str], rows: Floats) -> None:
        self.dimension = rows.shape[1]
        self._vectors = {text: array("f", row.tobytes()) for text, row in zip(texts, rows, strict=True)}

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        return [self._vectors[text] for text in texts]


class Data(NamedTuple):
    """Questions, what is cached, and which of it is right for each question."""

    queries: list[str]
    cached: list[str]
    right: list[set[str]]
    query_rows: Floats
    cached_rows: Floats


class Outcome(NamedTuple):
    """The hits of some questions, by the number of each."""

    hits: frozenset[int]
    wrong: frozenset[int]


def read(directory: Path, vectors: Path | None) -> Data:
    queries = {row["id"]: row["text"] for row in rows_of(directory / "queries.jsonl")}
    cached = {row["id"]: row["text"] for row in rows_of(directory / "corpus.jsonl")}
    right: dict[str, set[str]] = {id: set() for id in queries}
    for line in (directory / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, entry, score = line.split("\t")
        if int(score) > 0:
            right[query].add(cached[entry])
    texts = list(queries.values()), list(dict.fromkeys(cached.values()))
    made = [embedded(some, vectors) for some in texts]
    return Data(texts[0], texts[1], list(right.values()), made[0], made[1])


def fewer(data: Data, share: int) -> Data:
    """With one in so many of the cached questions that answer none of those that are asked."""
    answers = set().union(*data.right)
    kept = [place for place, text in enumerate(data.cached) if text in answers or place % share == 0]
    return data._replace(cached=[data.cached[place] for place in kept], cached_rows=data.cached_rows[kept])


def rows_of(path: Path) -> Iterable[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def embedded(texts: Sequence[str], directory: Path | None) -> Floats:
    kept = directory / f"{crc32(json.dumps(texts).encode()):08x}.npy" if directory else None
    if kept and kept.exists():
        return np.asarray(np.load(kept), np.float32)
    embedder = MiniLmEmbedder()
    rows = [vector for at in range(0, len(texts), 64) for vector in embedder.embed(texts[at : at + 64], "similarity")]
    made = np.array([np.frombuffer(row, np.float32) for row in rows])
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, made)
    return made


def cache_of(data: Data, criteria: Criteria, by_words: bool = False) -> SemanticCache:
    known = Known([*data.queries, *data.cached], np.concatenate([data.query_rows, data.cached_rows]))
    cache = SemanticCache(None if by_words else known, **criteria._asdict(), max_entries=len(data.cached))
    for text in data.cached:
        cache.store(text, text)
    return cache


def ours(data: Data, criteria: Criteria, *, by_words: bool = False, absent: bool = False) -> Outcome:
    """What the cache does; `absent`: with the right answers of each question taken out while it is asked."""
    cache = cache_of(data, criteria, by_words)
    hits, wrong = set(), set()
    for number, query in enumerate(data.queries):
        if absent:
            for text in data.right[number]:
                cache.store(text, text, tags=("out",))
            cache.invalidate(tags=("out",))
        found = cache.lookup(query)
        if found.entry is not None:
            hits.add(number)
            if absent or found.entry.query not in data.right[number]:
                wrong.add(number)
        if absent:
            for text in data.right[number]:
                cache.store(text, text)
    return Outcome(frozenset(hits), frozenset(wrong))


def ranked(data: Data, absent: bool) -> list[tuple[float, bool]]:
    """For each question the similarity of the nearest cached one, and whether that is right."""
    found = []
    for number, row in enumerate(data.query_rows):
        scores = data.cached_rows @ row
        order = np.argsort(-scores)[:50]
        best = next(place for place in order if not absent or data.cached[place] not in data.right[number])
        found.append((float(scores[best]), data.cached[best] in data.right[number]))
    return found


def bare(nearest: Sequence[tuple[float, bool]], threshold: float) -> Outcome:
    hits = [number for number, (score, _) in enumerate(nearest) if score >= threshold]
    return Outcome(frozenset(hits), frozenset(number for number in hits if not nearest[number][1]))


def nearest_by_words(data: Data, absent: bool = False) -> list[tuple[float, bool]]:
    """What `ranked` gives, of the similarity of words."""
    shelf = WordIndex()
    for number, text in enumerate(data.cached):
        shelf.put(number, text, None)
    found = []
    for number, query in enumerate(data.queries):
        near = [(data.cached[one.number] in data.right[number], one) for one in shelf.find_near(query, None, 0.0, 1.0)]
        best = next(((one.similarity, right) for right, one in near if not (absent and right)), (0.0, False))
        found.append(best)
    return found


class Side(NamedTuple):
    """Ours on one half of the questions, and the bare threshold that has as many hits there."""

    hits: int
    wrong: int
    bare_threshold: float
    bare_wrong: int


def side(mine: Outcome, nearest: Sequence[tuple[float, bool]], halves: Collection[int] = (0, 1)) -> Side:
    """Of one half of the questions, those with even numbers or those with odd ones, or of both."""
    hits, wrong = (sum(number % 2 in halves for number in some) for some in mine)
    its = [pair for number, pair in enumerate(nearest) if number % 2 in halves]
    equal = sorted((score for score, _ in its), reverse=True)[hits - 1] if hits else 1.0
    return Side(hits, wrong, equal, len(bare(its, equal).wrong))


def show(name: str, of: str, found: Side) -> None:
    hits, wrong, equal, theirs = found
    part = f"{wrong / theirs:.2f}×" if theirs else "—"
    print(f"{name:<38}{of:>10}{hits:>6}{wrong:>7}   {equal:>14.4f}{theirs:>7}{part:>11}", flush=True)


def quality(data: Data) -> None:
    print(f"\n{len(data.queries):,} questions, {MiniLmEmbedder().name}")
    print(f"{'':<38}{'half':>10}{'hits':>6}{'wrong':>7}   {'bare threshold':>14}{'wrong':>7}{'as a part':>11}")
    for by_words, criteria, chosen_on in KINDS:
        for share in SHARES:
            some = fewer(data, share)
            mine = ours(some, criteria, by_words=by_words)
            nearest = nearest_by_words(some) if by_words else ranked(some, False)
            name = f"{len(some.cached):>6,} cached, by {'words' if by_words else 'meaning'}, {called(criteria)}"
            show(name, "chosen on", side(mine, nearest, (chosen_on,)))
            show(name, "held out", side(mine, nearest, (1 - chosen_on,)))


def curve(data: Data) -> None:
    """Wrong hits against hits: what a cache pays for each further hit, and where a bare 0.85 stands."""
    print(f"\n{len(data.cached):,} cached, by meaning, more and more hits")
    nearest = ranked(data, False)
    for criteria in CURVE:
        show(called(criteria), "both", side(ours(data, criteria), nearest))
    theirs = bare(nearest, BY_MEANING.threshold)
    print(f"a bare {BY_MEANING.threshold}: {len(theirs.hits):,} hits, {len(theirs.wrong)} wrong")


def called(criteria: Criteria) -> str:
    return f"{criteria.threshold:.2f}, {criteria.margin:.2f}"


def absent(data: Data) -> None:
    for by_words, criteria, _ in KINDS:
        nearest = nearest_by_words if by_words else ranked
        mine, gone = (ours(data, criteria, by_words=by_words, absent=out) for out in (False, True))
        equal = side(mine, nearest(data, False)).bare_threshold
        theirs = bare(nearest(data, True), equal)
        print(
            f"absent from {len(data.cached):,} cached, by {'words' if by_words else 'meaning'}: "
            f"{len(gone.hits)} hits, a bare {equal:.4f} {len(theirs.hits)}",
            flush=True,
        )


def speed(data: Data | None, size: int) -> None:
    if data is None or len(data.cached) < size:
        chance = np.random.default_rng(7)
        rows = chance.standard_normal((size + 500, 384), dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        texts = [f"question {number}" for number in range(size + 500)]
        data = Data(texts[size:], texts[:size], [], rows[size:], rows[:size])
    data = data._replace(cached=data.cached[:size], cached_rows=data.cached_rows[:size].copy())
    cache = cache_of(data, BY_MEANING)
    print(f"\n{size:,} entries of {data.cached_rows.shape[1]} numbers, median CPU time of a lookup and of a numpy scan")
    for number in range(ROUNDS):
        particulars.cache_clear()  # nobody asked these questions before
        print(f"round {number + 1}: {speed_once(cache, data)}", flush=True)
    again = [timed(lambda text=text: cache.lookup(text))[0] for text in data.cached[:500]]
    print(f"a lookup of the same question {statistics.median(again) * 1000:.4f} ms")


def speed_once(cache: SemanticCache, data: Data) -> str:
    """Each question is looked up and scanned for in turn, so that both meet the same machine."""
    matrix = data.cached_rows
    times: dict[str, list[float]] = {"scan": [], "hit": [], "miss": []}
    for query, row in zip(data.queries, data.query_rows, strict=True):
        times["scan"].append(timed(lambda row=row: int((matrix @ row).argmax()))[0])
        took, found = timed(lambda query=query: cache.lookup(query))
        times["hit" if found.hit else "miss"].append(took)
    medians = {what: statistics.median(some) * 1000 for what, some in times.items() if some}
    return "; ".join(f"a {what} {took:.3f} ms, {took / medians['scan']:.2f}×" for what, took in medians.items())


def timed(call: Any) -> tuple[float, Any]:
    """The time of all threads of this process, and what came of it."""
    start = time.process_time()
    given = call()
    return time.process_time() - start, given


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path, help="a directory to keep the vectors in")
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--speed", action="store_true", help="measure the speed alone")
    options = parser.parse_args(argv)
    directory = Path(os.environ.get("ONHAND_DATA", "")) / "qqp_cache"
    data = read(directory, options.vectors) if os.environ.get("ONHAND_DATA") and directory.is_dir() else None
    if data is None:
        print("$ONHAND_DATA has no qqp_cache: quality is left out, and the speed is that of made-up vectors")
    elif not options.speed:
        quality(data)
        curve(data)
        absent(data)
    speed(data, options.size)


if __name__ == "__main__":
    main(sys.argv[1:])
