"""Ranking quality on judged sets: nDCG@10 and recall@5 of our rankings beside bm25s, set by set.

    python -m benchmarks.quality [DIRECTORY] [--sets a b] [--queries 400] [--embedder minilm] [--passages 512]
        [--cache DIR] [--variants] [--unrelated]

DIRECTORY ($ONHAND_DATA when not given) has one folder for each set, with corpus.jsonl (id, title, text; tools also have
parameters), queries.jsonl (id, text) and qrels.tsv (query-id, corpus-id, score, under a header line).

With an embedder there are semantic search, reciprocal rank and the default fusion too, all through the Index; a set
where fusion is more than a point below the better of its layers is marked with `!`. With --unrelated, a second table
says how many of a set's own queries fused search answers with nothing, and how many of other sets' queries. With
--passages 1, a vector represents the beginning of a document instead of one passage. Vectors are kept in the cache.
"""

import argparse
import json
import math
import os
import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from onhand.document import EVERYTHING, Document, Filter, Match
from onhand.embed.choose import choose_embedder
from onhand.embed.embedder import Embedder, Kind
from onhand.lexical.scoring import BM25_PLUS, Ranking, get_ranking
from onhand.lexical.tokenizer import FUNCTION_WORDS, IdentifierTokenizer
from onhand.search.index import MAX_PASSAGES, Index
from onhand.store.memory import MemoryStore
from onhand.store.store import Entry

Search = Callable[[str], list[str]]  # a query → the ids of the ten best
A_POINT = 0.01
UNRELATED = 20  # queries of each other set


class JudgedSet(NamedTuple):
    documents: list[Document]
    queries: dict[str, str]
    relevant: dict[str, dict[str, float]]  # query id → document id → gain
    is_of_tools: bool


class Quality(NamedTuple):
    recall: float  # @5
    ndcg: float  # @10


class Table(NamedTuple):
    rows: dict[str, dict[str, Quality]]  # set → ranking → how good
    tools: set[str]  # which of the sets are of tools


def load(directory: Path, most_queries: int | None) -> JudgedSet:
    corpus = [json.loads(line) for line in (directory / "corpus.jsonl").read_text("utf-8").splitlines()]
    relevant: dict[str, dict[str, float]] = {}
    for line in (directory / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, gain = line.split("\t")
        if float(gain) > 0:
            relevant.setdefault(query, {})[document] = float(gain)
    rows = [json.loads(line) for line in (directory / "queries.jsonl").read_text("utf-8").splitlines()]
    judged = [(str(row["id"]), row["text"]) for row in rows if str(row["id"]) in relevant]
    documents = [Document(str(row["id"]), row.get("title") or "", row.get("text") or "") for row in corpus]
    return JudgedSet(documents, dict(judged[:most_queries]), relevant, any("parameters" in row for row in corpus))


class QuickStore(MemoryStore):
    """The store in memory, with numpy for vectors: the same hits, sooner."""

    def __init__(self, ranks: Ranking | None = None) -> None:
        super().__init__(ranks)
        self._rows: list[str] = []
        self._starts: list[int] = []
        self._matrix: Any = None

    def upsert(self, entries: Sequence[Entry], facts: Any = None, **how: Any) -> None:
        super().upsert(entries, facts, **how)
        self._matrix = None

    def nearest(
        self,
        vector: "array[float]",
        filter: Filter = EVERYTHING,
        limit: int = 10,
        min_score: float | None = None,
        among: Collection[str] | None = None,
    ) -> list[Match]:
        import numpy

        if self._matrix is None:
            self._rows = sorted(self._vectors)
            counts = [len(self._vectors[id]) // len(vector) for id in self._rows]
            self._starts = [0, *accumulate(counts[:-1])]
            joined = numpy.concatenate([numpy.frombuffer(self._vectors[id], numpy.float32) for id in self._rows])
            self._matrix = joined.reshape(-1, len(vector))
        scores = numpy.maximum.reduceat(self._matrix @ numpy.array(vector, dtype=numpy.float32), self._starts)
        allowed = self._allowed_ids(filter, among)
        # Stable, and the rows are in the order of ids.
        best = (row for row in numpy.argsort(-scores, kind="stable") if allowed is None or self._rows[row] in allowed)
        found = [Match(self._rows[row], float(scores[row])) for row, _ in zip(best, range(limit), strict=False)]
        return [match for match in found if min_score is None or match.score >= min_score]


class RememberingEmbedder:
    """Another embedder, asked once for each batch of texts, in this run and, with a directory, in later ones."""

    def __init__(self, embedder: Embedder, directory: Path | None) -> None:
        self.name, self.dimension = embedder.name, embedder.dimension
        self.prompt_format, self.min_score = embedder.prompt_format, embedder.min_score
        self._embedder = embedder
        self._directory = directory
        self._known: dict[tuple[str, str], array[float]] = {}

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        if any((kind, text) not in self._known for text in texts):
            self._known |= {(kind, text): vector for text, vector in zip(texts, self._batch(texts, kind), strict=True)}
        return [self._known[kind, text] for text in texts]

    def _batch(self, texts: Sequence[str], kind: Kind) -> "list[array[float]]":
        if self._directory is None:
            return self._embedder.embed(texts, kind)
        import numpy

        asked = json.dumps([self.name, self.dimension, self.prompt_format, kind, *texts])
        file = self._directory / f"{blake2b(asked.encode(), digest_size=16).hexdigest()}.npy"
        if not file.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            numpy.save(file, numpy.array(self._embedder.embed(texts, kind), dtype=numpy.float32))
        return [array("f", row) for row in numpy.load(file).tolist()]


def by_words(judged: JudgedSet, ranks: Ranking) -> Search:
    index = Index(QuickStore(ranks))
    index.put(judged.documents)
    return lambda query: [hit.document_id for hit in index.keyword(query, explain=False).hits]


def with_bm25s(ids: Sequence[str], texts: Sequence[str], limit: int = 10) -> Search:
    """The peer over one text for each id."""
    import bm25s

    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index(bm25s.tokenize(list(texts), show_progress=False), show_progress=False)

    def search(query: str) -> list[str]:
        tokens = bm25s.tokenize([query], show_progress=False, return_ids=False)
        found, scores = index.retrieve(tokens, k=min(limit, len(ids)), show_progress=False, n_threads=0)
        return [ids[number] for number, score in zip(found[0], scores[0], strict=True) if score > 0]

    return search


def seed_ranking() -> Ranking:
    """The plain ranking, which counts titles as text here: all engines see the same words."""
    return get_ranking("seed")._replace(fields={"title": 1.0, "text": 1.0})


def variants() -> dict[str, Ranking]:
    """The default ranking with one thing changed each."""
    default = get_ranking()
    return {
        "no stems": default._replace(tokenizer=IdentifierTokenizer(stop_words=FUNCTION_WORDS)),
        "function words": default._replace(tokenizer=IdentifierTokenizer(stems=True)),
        "BM25+": default._replace(formula=BM25_PLUS),
        "BM25F": default._replace(fields={"title": 2.0, "text": 1.0}, alone={}),
        "all repeats": default._replace(count_repeats=True),
    }


def searches(
    judged: JudgedSet, embedder: Embedder | None, with_variants: bool, max_passages: int = MAX_PASSAGES
) -> Iterator[tuple[str, Search]]:
    yield "keyword", by_words(judged, get_ranking())
    yield "seed", by_words(judged, seed_ranking())
    titled = [f"{document.title} {document.text}" for document in judged.documents]
    yield "bm25s", with_bm25s([document.id for document in judged.documents], titled)
    if with_variants:
        for name, ranks in variants().items():
            yield name, by_words(judged, ranks)
    if embedder:
        index = Index(QuickStore(), embedder, max_passages=max_passages)
        index.put(judged.documents)
        embedder.embed(list(judged.queries.values()), "query")
        yield "semantic", ids_in(partial(index.semantic, min_score=None))
        yield "RRF", ids_in(partial(index.fused, method="rrf", explain=False))
        yield "fused", ids_in(partial(index.fused, explain=False))


def ids_in(search: Callable[[str], Any]) -> Search:
    return lambda query: [hit.document_id for hit in search(query).hits]


def measure(judged: JudgedSet, search: Search) -> Quality:
    recall = ndcg = 0.0
    for query_id, query in judged.queries.items():
        gains = judged.relevant[query_id]
        found = search(query)
        recall += len(gains.keys() & set(found[:5])) / len(gains)
        reached = sum(gains.get(document, 0.0) / math.log2(place + 2) for place, document in enumerate(found))
        best = sorted(gains.values(), reverse=True)[:10]
        ndcg += reached / sum(gain / math.log2(place + 2) for place, gain in enumerate(best))
    return Quality(recall / len(judged.queries), ndcg / len(judged.queries))


def tabulate(
    folders: Sequence[Path],
    most_queries: int | None = None,
    embedder: Embedder | None = None,
    with_variants: bool = False,
    max_passages: int = MAX_PASSAGES,
) -> Table:
    """Measure every ranking on every set, and print each row when it is known."""
    table = Table({}, set())
    for folder in folders:
        judged = load(folder, most_queries)
        row = {
            name: measure(judged, search) for name, search in searches(judged, embedder, with_variants, max_passages)
        }
        if not table.rows:
            print(f"{'nDCG@10 (recall@5)':<20}" + "".join(f"{name:>16}" for name in row))
        table.rows[folder.name] = row
        if judged.is_of_tools:
            table.tools.add(folder.name)
        _print(folder.name, row)
    for title, names in (
        ("mean of tool sets", [name for name in table.rows if name in table.tools]),
        ("mean of others", [name for name in table.rows if name not in table.tools]),
    ):
        if names:
            _print(title, _mean([table.rows[name] for name in names]))
    return table


def tabulate_abstention(folders: Sequence[Path], most_queries: int | None, embedder: Embedder) -> None:
    """Print how often fused search finds nothing, for the queries of a set and for those of all others."""
    sets = {folder.name: load(folder, most_queries) for folder in folders}
    queries = {name: list(judged.queries.values()) for name, judged in sets.items()}
    for texts in queries.values():
        embedder.embed(texts, "query")
    print(f"\n{'nothing found':<20}{'own queries':>16}{'of other sets':>16}")
    shares = []
    for name, judged in sets.items():
        index = Index(QuickStore(), embedder)
        index.put(judged.documents)
        others = [text for other, texts in queries.items() if other != name for text in texts[:UNRELATED]]
        shares.append(
            [
                sum(not index.fused(text, explain=False).hits for text in texts) / len(texts)
                for texts in (queries[name], others)
            ]
        )
        print(f"{name:<20}{shares[-1][0]:>16.3f}{shares[-1][1]:>16.3f}", flush=True)
    own, unrelated = (sum(column) / len(shares) for column in zip(*shares, strict=True))
    print(f"{'mean':<20}{own:>16.3f}{unrelated:>16.3f}")


def loses(row: dict[str, Quality]) -> bool:
    """Whether fusion is more than a point below the better of its layers."""
    return "fused" in row and row["fused"].ndcg < max(row["keyword"].ndcg, row["semantic"].ndcg) - A_POINT


def _print(title: str, row: dict[str, Quality]) -> None:
    cells = "".join(f"{quality.ndcg:>8.4f} ({quality.recall:.3f})" for quality in row.values())
    print(f"{title:<20}{cells}{' !' if loses(row) else ''}", flush=True)


def _mean(rows: Sequence[dict[str, Quality]]) -> dict[str, Quality]:
    return {
        name: Quality(*(sum(values) / len(rows) for values in zip(*(row[name] for row in rows), strict=True)))
        for name in rows[0]
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=os.environ.get("ONHAND_DATA"), metavar="DIRECTORY")
    parser.add_argument("--sets", nargs="+", help="only these folders")
    parser.add_argument("--queries", type=int, help="at most this many of each set; all of them when not given")
    parser.add_argument("--embedder", help="compare meaning too, by this embedder")
    parser.add_argument("--passages", type=int, default=MAX_PASSAGES, help="embed at most this many of a document")
    parser.add_argument("--cache", type=Path, help="a directory for its vectors, so that the next run is quick")
    parser.add_argument("--unrelated", action="store_true", help="measure how often fused search finds nothing, too")
    parser.add_argument("--variants", action="store_true", help="rank by words with one thing changed each, too")
    options = parser.parse_args(argv)
    if not options.directory:
        print("no judged sets: name their directory, or set ONHAND_DATA; nothing was measured")
        return
    embedder, unavailable = choose_embedder(options.embedder)
    if options.embedder and embedder is None:
        print(f"meaning is not compared: {unavailable}")
    found = sorted(path.parent for path in Path(options.directory).glob("*/qrels.tsv"))
    folders = [folder for folder in found if not options.sets or folder.name in options.sets]
    if not folders:
        parser.error(f"{options.directory} has no such judged set: name a directory that has one, or other --sets")
    remembering = RememberingEmbedder(embedder, options.cache) if embedder else None
    tabulate(folders, options.queries, remembering, options.variants, options.passages)
    if options.unrelated and remembering:
        tabulate_abstention(folders, options.queries, remembering)


if __name__ == "__main__":
    main(sys.argv[1:])
