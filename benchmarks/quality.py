"""Ranking quality on judged sets: nDCG@10 and recall@5 of our rankings beside bm25s and tantivy, set by set.

    python -m benchmarks.quality [DIRECTORY] [--sets a b] [--queries 400] [--embedder minilm] [--passages 512]
        [--cache DIR] [--variants] [--unrelated] [--foreign 1]

DIRECTORY ($ONHAND_DATA when not given) has one folder for each set, with corpus.jsonl (id, title, text; tools also have
parameters), queries.jsonl (id, text) and qrels.tsv (query-id, corpus-id, score, under a header line).

A second table leaves one set out: each set with the k1 and, with an embedder, the constant of the fusion that are best
on all other sets of documents.

With --foreign, the letters of that share of all words are exchanged, in documents and queries alike: words still match,
but the embedder has not learned them, as if the corpus were in another language.

With an embedder there are semantic search, reciprocal rank and the default fusion too, all through the Index; a set
where fusion is more than a point below the better of its layers is marked with `!`. With --unrelated, a second table
says how many of a set's own queries fused search answers with nothing, and how many of other sets' queries. With
--passages 1, a vector represents the beginning of a document instead of one passage. Vectors are kept in the cache.
"""

import argparse
import json
import math
import os
import re
import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from onhand.document import EVERYTHING, Document, Filter, Match
from onhand.embed.choose import choose_embedder
from onhand.embed.embedder import Embedder, Kind
from onhand.lexical.scoring import BM25_PLUS, Ranking, get_ranking
from onhand.lexical.tokenizer import FUNCTION_WORDS, IdentifierTokenizer, stem
from onhand.search.fusion import WORDS_PER_COSINE
from onhand.search.index import FUSED_DEPTH, MAX_PASSAGES, Index
from onhand.store.memory import MemoryStore
from onhand.store.store import Entry

Search = Callable[[str], list[str]]  # a query → the ids of the ten best
Grid = dict[float, float]  # the value of a constant → nDCG@10 with it
A_POINT = 0.01
UNRELATED = 20  # queries of each other set
K1S = (0.6, 0.8, 1.0, 1.2, 1.5)
WORDS_PER_COSINES = (1.4, 1.9, 2.4, 2.8, 3.3, 3.9, 5.6)


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


def make_foreign(judged: JudgedSet, share: float) -> JudgedSet:
    """Exchange the letters of this share of all words, vowels for vowels, wherever they occur."""
    vowels, consonants = "aeiou", "bcdfghjklmnpqrstvwxyz"
    exchanged = vowels[2:] + vowels[:2] + consonants[7:] + consonants[:7]
    letters = str.maketrans(vowels + consonants + (vowels + consonants).upper(), exchanged + exchanged.upper())

    def exchange(word: "re.Match[str]") -> str:
        place = int.from_bytes(blake2b(word[0].lower().encode(), digest_size=4).digest()) / 2**32
        return word[0].translate(letters) if place < share else word[0]

    def rewrite(text: str) -> str:
        return re.sub("[A-Za-z]+", exchange, text)

    documents = [one._replace(title=rewrite(one.title), text=rewrite(one.text)) for one in judged.documents]
    return judged._replace(documents=documents, queries={id: rewrite(text) for id, text in judged.queries.items()})


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


def with_bm25s(
    ids: Sequence[str], texts: Sequence[str], limit: int = 10, split: Callable[[str], list[str]] | None = None
) -> Search:
    """The peer over one text for each id, with its own words unless `split` is given."""
    import bm25s

    def words(texts: Sequence[str]) -> Any:
        if split:
            return [split(text) or [""] for text in texts]
        return bm25s.tokenize(list(texts), show_progress=False, return_ids=False)

    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index(words(texts), show_progress=False)

    def search(query: str) -> list[str]:
        found, scores = index.retrieve(words([query]), k=min(limit, len(ids)), show_progress=False, n_threads=0)
        return [ids[number] for number, score in zip(found[0], scores[0], strict=True) if score > 0]

    return search


def stems_of(text: str) -> list[str]:
    """The stems of the parts of all words that are not stop words."""
    words = IdentifierTokenizer(joined=False).words(text)
    return [stem(word) for word in words if word not in FUNCTION_WORDS]


def with_tantivy(ids: Sequence[str], texts: Sequence[str]) -> Search:
    """The peer over one text for each id, with its English stems; a query asks for any of its words."""
    import tantivy

    schema = tantivy.SchemaBuilder().add_unsigned_field("number", stored=True)
    index = tantivy.Index(schema.add_text_field("text", tokenizer_name="en_stem").build())
    writer = index.writer(num_threads=1)
    for number, text in enumerate(texts):
        writer.add_document(tantivy.Document(number=number, text=text))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> list[str]:
        words = dict.fromkeys(re.findall(r"\w+", query.lower()))
        content = [word for word in words if word not in FUNCTION_WORDS] or list(words)
        asked = index.parse_query(" ".join(f'"{word}"' for word in content), ["text"])
        return [ids[searcher.doc(address)["number"][0]] for _, address in searcher.search(asked, 10).hits]

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
    ids = [document.id for document in judged.documents]
    titled = [f"{document.title} {document.text}" for document in judged.documents]
    yield "bm25s", with_bm25s(ids, titled)
    yield "bm25s, stems", with_bm25s(ids, titled, split=stems_of)
    yield "tantivy", with_tantivy(ids, titled)
    if with_variants:
        for name, ranks in variants().items():
            yield name, by_words(judged, ranks)
    if embedder:
        index = Index(QuickStore(), embedder, max_passages=max_passages, semantic_weight=None)
        index.put(judged.documents)
        embedder.embed(list(judged.queries.values()), "query")
        yield "semantic", ids_in(partial(index.semantic, min_score=None))
        yield "RRF", ids_in(partial(index.fused, method="rrf", explain=False))
        yield "fused", ids_in(partial(index.fused, explain=False))


def try_k1s(judged: JudgedSet) -> Grid:
    """How good keyword search is with each k1."""
    ranks = get_ranking()
    searches = {k1: by_words(judged, ranks._replace(formula=ranks.formula._replace(k1=k1))) for k1 in K1S}
    return {k1: measure(judged, search).ndcg for k1, search in searches.items()}


def try_constants(judged: JudgedSet, embedder: Embedder) -> Grid:
    """How good fusion is with each constant, computed from the scores of all candidates."""
    index = Index(QuickStore(), embedder, semantic_weight=None)
    index.put(judged.documents)
    candidates = {text: index.rank(text, 2 * FUSED_DEPTH).ranked for text in judged.queries.values()}

    def search(query: str, constant: float) -> list[str]:
        factors = {"keyword": WORDS_PER_COSINE / constant, "semantic": 1.0}
        scores = {
            # `share` is the evidence e of a layer over 1 + its sum, which is 1 / (1 - score).
            one.id: sum(factors[layer.name] * layer.share / (1 - one.score) for layer in one.layers)
            for one in candidates[query]
        }
        return sorted(scores, key=lambda id: (-scores[id], id))[:10]

    return {constant: measure(judged, partial(search, constant=constant)).ndcg for constant in WORDS_PER_COSINES}


def leave_one_out(grids: dict[str, Grid]) -> dict[str, tuple[float, float]]:
    """For each set, the value of the constant that is best on all others, and how good it is on this one."""
    chosen = {}
    for left_out, grid in grids.items():
        others = [other for name, other in grids.items() if name != left_out]
        best = max(grid, key=lambda value: sum(other[value] for other in others))
        chosen[left_out] = (best, grid[best])
    return chosen


def tabulate_left_out(sets: Mapping[str, JudgedSet], embedder: Embedder | None) -> None:
    """Print how good each set of documents is with the constants that the others would choose."""
    documents = {name: judged for name, judged in sets.items() if not judged.is_of_tools}
    if len(documents) < 2:
        return
    columns = {"keyword, k1": {name: try_k1s(judged) for name, judged in documents.items()}}
    if embedder:
        columns["fused, constant"] = {name: try_constants(judged, embedder) for name, judged in documents.items()}
    chosen = {title: leave_one_out(grids) for title, grids in columns.items()}
    print(f"\n{'this set left out':<20}" + "".join(f"{title:>20}" for title in chosen))
    for name in documents:
        cells = (f"{found[name][1]:>12.4f} ({found[name][0]:>5g})" for found in chosen.values())
        print(f"{name:<20}" + "".join(cells), flush=True)
    means = (sum(ndcg for _, ndcg in found.values()) / len(found) for found in chosen.values())
    print(f"{'mean':<20}" + "".join(f"{mean:>12.4f}{'':8}" for mean in means))


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
    sets: Mapping[str, JudgedSet],
    embedder: Embedder | None = None,
    with_variants: bool = False,
    max_passages: int = MAX_PASSAGES,
) -> Table:
    """Measure every ranking on every set, and print each row when it is known."""
    table = Table({}, set())
    for set_name, judged in sets.items():
        rankings = searches(judged, embedder, with_variants, max_passages)
        row = {name: measure(judged, search) for name, search in rankings}
        if not table.rows:
            print(f"{'nDCG@10 (recall@5)':<20}" + "".join(f"{name:>16}" for name in row))
        table.rows[set_name] = row
        if judged.is_of_tools:
            table.tools.add(set_name)
        _print(set_name, row)
    for title, names in (
        ("mean of tool sets", [name for name in table.rows if name in table.tools]),
        ("mean of others", [name for name in table.rows if name not in table.tools]),
    ):
        if names:
            _print(title, _mean([table.rows[name] for name in names]))
    return table


def tabulate_abstention(sets: Mapping[str, JudgedSet], embedder: Embedder) -> None:
    """Print how often fused search finds nothing, for the queries of a set and for those of all others."""
    queries = {name: list(judged.queries.values()) for name, judged in sets.items()}
    for texts in queries.values():
        embedder.embed(texts, "query")
    print(f"\n{'nothing found':<20}{'own queries':>16}{'of other sets':>16}")
    shares = []
    for name, judged in sets.items():
        index = Index(QuickStore(), embedder, semantic_weight=None)
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
    parser.add_argument("--foreign", type=float, help="exchange the letters of this share of all words, from 0 to 1")
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
    sets = {folder.name: load(folder, options.queries) for folder in folders}
    if options.foreign:
        sets = {name: make_foreign(judged, options.foreign) for name, judged in sets.items()}
    tabulate(sets, remembering, options.variants, options.passages)
    tabulate_left_out(sets, remembering)
    if options.unrelated and remembering:
        tabulate_abstention(sets, remembering)


if __name__ == "__main__":
    main(sys.argv[1:])
