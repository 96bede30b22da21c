"""Keyword search in one SQLite file against tantivy and FTS5: build and search, in one run, as ratios.

    python -m benchmarks.keyword                           100,000 documents
    python -m benchmarks.keyword --documents 1000000       a million; some minutes and 2 GB of disk
    python -m benchmarks.keyword --file documents.db       keep our file there, and search the one that is there

Documents have a title of two words and a text of about 27 (4 to 300), made from a seeded Zipf vocabulary; a query has
2 to 4 words, half of them among the few hundred most common ones. Ours is the whole of `SqliteStore.keyword`: ids,
scores and what each term added, through a file. tantivy is an index in memory and gives the ids of its ten best, for
words joined by OR. `first time` is a store that was just opened, whose queries meet most terms for the first time;
`first query` is the very first of these, which reads how long every document is. CPU time of the calling thread in
milliseconds; lower is better.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import importlib.util
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from onhand.document import EVERYTHING, Document, Filter
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Entry

Search = Callable[[str], object]
BATCH = 1024
FTS5_QUERIES = 100  # it is slow, and the difference is large

FILTERS = {
    "filter, 0.1 % pass": Filter(author=("author7",)),
    "filter, 10 % pass": Filter(scope=("scope7",)),
    "filter, 50 % pass": Filter(tags=("email",)),
}


class Corpus(NamedTuple):
    documents: list[Document]
    queries: list[str]


def made_up(documents: int, queries: int) -> Corpus:
    chance, numbers = random.Random(3), np.random.default_rng(7)
    syllables = "ka ro mi ten sol ver dan lo pi tur ge na shi bro ux fel cor ban di mo".split()
    size = max(20_000, documents // 5)
    words: dict[str, None] = {}
    while len(words) < size:
        words["".join(chance.choices(syllables, k=chance.randint(2, 5)))] = None
    vocabulary = list(words)
    shares = 1 / np.arange(1, size + 1)
    lengths = np.clip(numbers.lognormal(3.2, 0.6, documents), 4, 300).astype(int)
    chosen = numbers.choice(size, size=int(lengths.sum()), p=shares / shares.sum()).tolist()
    made, start = [], 0
    for number, length in enumerate(lengths.tolist()):
        own = [vocabulary[word] for word in chosen[start : start + length]]
        start += length
        tags = ("email",) if number % 2 else ()
        made.append(
            Document(
                f"d{number}",
                " ".join(own[:2]),
                " ".join(own),
                author=f"author{number % 1000}",
                tags=tags,
                scope=f"scope{number % 10}",
            )
        )
    asked = [
        " ".join(vocabulary[int(size ** chance.uniform(0.15, 1)) - 1] for _ in range(chance.randint(2, 4)))
        for _ in range(queries)
    ]
    return Corpus(made, asked)


def our_file(documents: Sequence[Document], path: Path) -> None:
    store = SqliteStore(path)
    for start in range(0, len(documents), BATCH):
        batch = [Entry(document) for document in documents[start : start + BATCH]]
        store.upsert(batch, more=start + BATCH < len(documents))
    store.close()


def ours(store: SqliteStore, filter: Filter) -> Search:
    return lambda query: store.keyword(query, filter, 10)


def with_tantivy(documents: Sequence[Document]) -> Search:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("number", stored=True)
    builder.add_text_field("title")
    builder.add_text_field("text")
    index = tantivy.Index(builder.build())
    writer = index.writer(200_000_000, 1)
    for number, document in enumerate(documents):
        entry = tantivy.Document()
        entry.add_unsigned("number", number)
        entry.add_text("title", document.title)
        entry.add_text("text", document.text)
        writer.add_document(entry)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> object:
        found = searcher.search(index.parse_query(query, ["title", "text"]), 10)
        return [searcher.doc(address)["number"] for _, address in found.hits]

    return search


def with_fts5(documents: Sequence[Document]) -> Search:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(title, text, tokenize = 'porter unicode61')")
    connection.executemany("INSERT INTO texts VALUES (?, ?)", ((one.title, one.text) for one in documents))
    wanted = "SELECT rowid, bm25(texts, 2.0, 1.0) AS score FROM texts WHERE texts MATCH ? ORDER BY score LIMIT 10"

    def search(query: str) -> object:
        return connection.execute(wanted, (" OR ".join(f'"{word}"' for word in query.split()),)).fetchall()

    return search


class Row(NamedTuple):
    name: str
    build_s: float | None
    p50_ms: float
    p99_ms: float


def time_queries(name: str, search: Search, queries: Sequence[str], build_s: float | None = None) -> Row:
    times = []
    for query in queries:
        start = time.thread_time()
        search(query)
        times.append((time.thread_time() - start) * 1000)
    return Row(name, build_s, float(np.percentile(times, 50)), float(np.percentile(times, 99)))


def measure_all(corpus: Corpus, path: Path) -> Iterator[Row]:
    documents, queries = corpus
    if importlib.util.find_spec("tantivy"):
        start = time.process_time()
        search = with_tantivy(documents)
        built = time.process_time() - start
        search(queries[0])
        yield time_queries("tantivy", search, queries, built)
        del search
    else:
        print("tantivy is not installed: multiples are of our own first row")
    built_s = None
    if not path.exists():
        start = time.process_time()
        our_file(documents, path)
        built_s = time.process_time() - start
    store = SqliteStore(path)
    yield time_queries("ours, first query", ours(store, EVERYTHING), queries[:1], built_s)
    yield time_queries("ours, first time", ours(store, EVERYTHING), queries)
    yield time_queries("ours", ours(store, EVERYTHING), queries)
    for name, filter in FILTERS.items():
        yield time_queries(f"ours, {name}", ours(store, filter), queries)
    store.close()
    for name, filter in FILTERS.items():
        store = SqliteStore(path)
        yield time_queries(f"first time, {name}", ours(store, filter), queries)
        store.close()
    start = time.process_time()
    search = with_fts5(documents)
    yield time_queries("FTS5", search, queries[:FTS5_QUERIES], time.process_time() - start)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--file", type=Path, help="where our file is kept; one of the same documents is used as it is")
    options = parser.parse_args(argv)
    corpus = made_up(options.documents, options.queries)
    print(f"{options.documents:,} documents{'build s':>22}{'p50 ms':>10}{'p99 ms':>10}{'p50 ×':>9}{'p99 ×':>9}")
    peer: Row | None = None
    with tempfile.TemporaryDirectory() as directory:
        for row in measure_all(corpus, options.file or Path(directory) / "documents.db"):
            peer = peer or row
            built = f"{row.build_s:.1f}" if row.build_s is not None else ""
            print(
                f"{row.name:<28}{built:>12}{row.p50_ms:>10.3f}{row.p99_ms:>10.3f}"
                f"{row.p50_ms / peer.p50_ms:>8.1f}×{row.p99_ms / peer.p99_ms:>8.1f}×",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
