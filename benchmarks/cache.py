"""Right and wrong hits of the semantic cache, and its speed, against a threshold alone, in one run.

    ONHAND_DATA=… python -m benchmarks.cache [--vectors DIRECTORY] [--size 10000] [--speed]

Four sets of questions are asked. `qqp` is $ONHAND_DATA/qqp_cache: 1,500 questions, each with duplicates among some
23,000 cached ones; most of the hits that count as wrong mean the same, too, and were never labelled. `pairs` are its
first 999 questions with one duplicate of each cached, and nothing else. `topics` are 999 generated questions: 20 kinds
of question about 58 topics, each kind in three wordings, one cached and one asked. `everyday` are the 289 questions and
paraphrases of tests/quality/cache_paraphrases.txt, written by hand. A threshold alone is what other caches do.

Printed are, first, the right and wrong hits on each set for each caution; then how many right hits come before the
thirteenth wrong one, for several weights of the lead; then, with the default, each half of `qqp` at several sizes of
the cache, beside a threshold alone that has as many hits; and `absent`, where the duplicates of the question are taken
out, so that every hit counts as wrong. Vectors are those of MiniLM; `--vectors` keeps them.

Speed: questions against entries, the question's vector at hand. The numpy scan is `matrix @ query` and argmax over a
matrix in memory, and no more; ours is a whole lookup. CPU time of the process, one thread of BLAS, question by
question in turn. `--speed` leaves the quality out.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for both sides; it has to stand before numpy is loaded

import argparse
import json
import random
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
from onhand.cache.calibrate import QuestionPair, judge_queries
from onhand.cache.guards import CAUTION, particulars
from onhand.cache.similarity import WordIndex
from onhand.embed.embedder import Kind
from onhand.embed.minilm import MiniLmEmbedder

Floats = NDArray[np.float32]
SHARES = (1, 2, 4, 8)  # one in so many of the cached questions that answer nothing is kept
ROUNDS = 5  # of the speed
CAUTIONS = tuple(step / 10 for step in range(11))
THRESHOLDS = (0.75, 0.8, 0.85, 0.9, 0.95)  # of a threshold alone
WEIGHTS = (0, 1, 2, 3, 4, 5)  # of the lead
MOST_WRONG = 12
MAX_LEAD = 0.12
PARAPHRASES = Path(__file__).parent.parent / "tests" / "quality" / "cache_paraphrases.txt"
ASKED = 999
TOPICS = """
    yoga;pilates;meditation;running;swimming;cycling;strength training;intermittent fasting;the keto diet;a vegan diet
    online courses;distance learning;homeschooling;private tutoring;remote work;freelancing;a four-day work week
    coworking spaces;solar energy;wind power;nuclear power;electric cars;hybrid cars;public transport;carpooling
    recycling;composting;social media;video games;streaming services;podcasts;e-books;audiobooks;smartphones;smart homes
    artificial intelligence;machine learning;blockchain;cryptocurrency;cloud computing;open source software
    cybersecurity;credit cards;personal loans;life insurance;health insurance;index funds;real estate investing
    gardening;cooking at home;photography;painting;learning the guitar;learning a foreign language;chess;journaling
    volunteering;solo travel
"""
KINDS_OF_QUESTION = """
What are the benefits of {}?|How can people benefit from {}?|What are the advantages of {}?
What are the disadvantages of {}?|What are the downsides of {}?|What speaks against {}?
How do I get started with {}?|What is the best way for a beginner to begin with {}?|How can I start with {}?
How much does {} cost?|What is the price of {}?|How expensive is {}?
What are common mistakes people make with {}?|Which errors do people often make when it comes to {}?|\
What do people usually get wrong about {}?
What is the history of {}?|How did {} develop over time?|Where does {} come from and how has it changed?
What are the best books about {}?|Can you recommend good books on {}?|Which books should I read to learn about {}?
How does {} affect mental health?|What impact does {} have on mental health?|\
What does {} do to a person's mental health?
How does {} affect the environment?|What impact does {} have on the environment?|\
What are the environmental effects of {}?
What are the latest trends in {}?|What is new in {} these days?|Which recent developments are there in {}?
Is {} suitable for children?|Can kids do or use {}?|Is {} a good thing for children?
Is {} worth it?|Does {} pay off in the end?|Is it really worthwhile to go for {}?
What do experts say about {}?|What is the opinion of experts on {}?|How do specialists view {}?
How can I explain {} to a beginner?|What is a simple way to explain {} to someone new to it?|\
How would you describe {} to a novice?
What equipment do I need for {}?|Which tools are required for {}?|What gear is necessary for {}?
What are some alternatives to {}?|What can I choose instead of {}?|Which other options are there besides {}?
How has {} changed in the last ten years?|In which ways is {} different from a decade ago?|\
What has changed about {} over the past decade?
What is the future of {}?|How will {} look in the future?|Where is {} heading in the coming years?
How do I talk to my family about {}?|What is a good way to discuss {} with my family?|\
How can I bring up {} with my relatives?
What are some interesting facts about {}?|Tell me some fun facts about {}.|What are a few surprising things about {}?
"""


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


def paired(pairs: Sequence[tuple[str, str]], vectors: Path | None) -> Data:
    """The first question of each pair is cached, and the second one is asked."""
    cached = list(dict.fromkeys(one for one, _ in pairs))
    queries = [other for _, other in pairs]
    return Data(queries, cached, [{one} for one, _ in pairs], embedded(queries, vectors), embedded(cached, vectors))


def everyday() -> list[tuple[str, str]]:
    lines = PARAPHRASES.read_text(encoding="utf-8").splitlines()
    return [(one, other) for one, _, other in (line.partition(" | ") for line in lines)]


def about_topics() -> list[tuple[str, str]]:
    chance = random.Random(5)
    topics = ";".join(TOPICS.split("\n")).split(";")
    pairs = []
    for topic in filter(None, map(str.strip, topics)):
        for wordings in KINDS_OF_QUESTION.replace("\\\n", "").strip().splitlines():
            one, other = chance.sample(wordings.split("|"), 2)
            pairs.append((one.format(topic), other.format(topic)))
    chance.shuffle(pairs)
    return pairs[:ASKED]


def one_duplicate_each(data: Data) -> list[tuple[str, str]]:
    """The first questions with the first of their duplicates."""
    place = {text: number for number, text in enumerate(data.cached)}
    return [(min(right, key=place.__getitem__), query) for query, right in zip(data.queries, data.right, strict=True)][
        :ASKED
    ]


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


def cache_of(data: Data, caution: float = CAUTION, by_words: bool = False) -> SemanticCache:
    known = Known([*data.queries, *data.cached], np.concatenate([data.query_rows, data.cached_rows]))
    cache = SemanticCache(None if by_words else known, caution=caution, max_entries=len(data.cached))
    for text in data.cached:
        cache.store(text, text)
    return cache


def ours(data: Data, caution: float = CAUTION, *, by_words: bool = False, absent: bool = False) -> Outcome:
    """What the cache does; `absent`: with the right answers of each question taken out while it is asked."""
    cache = cache_of(data, caution, by_words)
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
    print(f"\n{len(data.queries):,} questions of `qqp`, with the default caution, {MiniLmEmbedder().name}")
    print(f"{'':<38}{'half':>10}{'hits':>6}{'wrong':>7}   {'bare threshold':>14}{'wrong':>7}{'as a part':>11}")
    for by_words in (False, True):
        for share in SHARES:
            some = fewer(data, share)
            mine = ours(some, by_words=by_words)
            nearest = nearest_by_words(some) if by_words else ranked(some, False)
            name = f"{len(some.cached):>6,} cached, by {'words' if by_words else 'meaning'}"
            for half in (0, 1):
                show(name, ("even", "odd")[half], side(mine, nearest, (half,)))


def curves(sets: "dict[str, Data]") -> None:
    """Right and wrong hits for each caution, and for thresholds alone."""
    print("\nright / wrong hits, by meaning, as rows of a table in Markdown")
    print(f"| caution | {' | '.join(f'{name} ({len(data.queries):,})' for name, data in sets.items())} |")
    print("|---" * (len(sets) + 1) + "|")
    for caution in CAUTIONS:
        print_row(f"{caution:g}", [ours(data, caution) for data in sets.values()])
    nearest = [ranked(data, False) for data in sets.values()]
    for threshold in THRESHOLDS:
        print_row(f"{threshold:g} alone", [bare(some, threshold) for some in nearest])


def print_row(name: str, found: Sequence[Outcome]) -> None:
    cells = (f"{len(one.hits) - len(one.wrong):,} / {len(one.wrong):,}" for one in found)
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def weights(sets: "dict[str, Data]") -> None:
    """How many right hits come before one wrong hit too many, for several weights of the lead beside the similarity."""
    print(f"\nright hits before wrong hit number {MOST_WRONG + 1}, by similarity + weight · lead")
    print(f"{'weight':<10}" + "".join(f"{name:>10}" for name in sets))
    judged = []
    for data in sets.values():
        rows = np.concatenate([data.query_rows, data.cached_rows])
        known = Known([*data.queries, *data.cached], rows)
        pairs = [
            QuestionPair(one, text, True) for one, every in zip(data.queries, data.right, strict=True) for text in every
        ]
        judged.append([one for one in judge_queries(pairs, data.cached, known) if one.agrees])
    for weight in WEIGHTS:
        counts = []
        for every in judged:
            scored = sorted(
                (-one.similarity - weight * min(MAX_LEAD, MAX_LEAD if one.lead is None else one.lead), one.is_right)
                for one in every
            )
            wrong = [number for number, (_, is_right) in enumerate(scored) if not is_right]
            counts.append(wrong[MOST_WRONG] - MOST_WRONG if len(wrong) > MOST_WRONG else len(scored) - len(wrong))
        print(f"{weight:<10}" + "".join(f"{count:>10,}" for count in counts), flush=True)


def absent(data: Data) -> None:
    for by_words in (False, True):
        nearest = nearest_by_words if by_words else ranked
        mine, gone = (ours(data, by_words=by_words, absent=out) for out in (False, True))
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
    cache = cache_of(data)
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
    sets = {"everyday": everyday(), "topics": about_topics()}
    if data is None:
        print("$ONHAND_DATA has no qqp_cache: its questions are left out, and the speed is that of made-up vectors")
    else:
        sets["pairs"] = one_duplicate_each(data)
    if not options.speed:
        every = {name: paired(pairs, options.vectors) for name, pairs in sets.items()}
        if data is not None:
            every["qqp"] = data
        curves(every)
        weights(every)
        if data is not None:
            quality(data)
            absent(data)
    speed(data, options.size)


if __name__ == "__main__":
    main(sys.argv[1:])
