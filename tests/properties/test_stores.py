"""Do both stores and both ways of searching agree to the last bit, whatever was written in whatever order?

Sizes are made small, so that segments are built, merged, cleared of the dead and read again all the time.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from onhand.document import EVERYTHING, Document, Filter, Match
from onhand.lexical import search_numpy
from onhand.lexical.scoring import BM25, Ranking
from onhand.lexical.tokenizer import IdentifierTokenizer
from onhand.search.index import Index
from onhand.search.result import SearchResult
from onhand.store.memory import MemoryStore
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Entry, Store
from requirements import requirement
from stores import KINDS, day, directory, opened, searching, small_segments, vector

WORDS = [
    "alpha", "beta", "betas", "gamma", "parse_http_header", "HttpServer", "server2", "Q3", "naïve", "naive", "日本語",
    "本語", "東京都", "ﬁle", "straße", "OR", "NOT", "the", "e\u0301", "x" * 300, "a\0b", "👍",
]  # fmt: skip
AUTHORS = ["Sarah Chen <sarah@x.org>", "sarah@y.net", "Bob", "", "İpek <i@x.org>"]
TAGS = ["red", "green", "Blue", ""]
SCOPES = ["", "one", "two"]
SAVINGS = [
    *((search_numpy, name) for name in ("SMALL_INDEX", "DIRECT_POSTINGS", "FEW_DOCUMENTS", "PROBES", "PROBING_PAYS")),
    *((search_numpy, name) for name in ("LOOKUP", "PASS", "MAX_KEPT_BYTES", "SAMPLE", "SHORT")),
    *((search_numpy, name) for name in ("GROUPS", "GROUPS_PER_HIT")),
]
IDS = [f"d{number}" for number in range(12)]

texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
times = st.none() | st.integers(1, 28).map(day)
documents = st.builds(
    Document,
    st.sampled_from(IDS),
    texts,
    texts | st.sampled_from(WORDS).map(lambda word: f"{word} " * 300),
    st.sampled_from(AUTHORS),
    st.lists(st.sampled_from(TAGS), max_size=3).map(lambda tags: tuple(dict.fromkeys(tags))),
    st.sampled_from(SCOPES),
    times,
)
directions = st.tuples(*[st.integers(-3, 3)] * 3).filter(any).map(lambda numbers: vector(*numbers))
some_entries = st.lists(st.builds(Entry, documents, st.none() | directions), max_size=8)
some_ids = st.lists(st.sampled_from([*IDS, "unknown"]), max_size=6)
queries = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
filters = st.builds(
    Filter,
    st.lists(st.sampled_from(["sarah", "Sarah Chen", "bob", "nobody", "i@x.org"]), max_size=2).map(tuple),
    st.lists(st.sampled_from([*TAGS, "none"]), max_size=2).map(tuple),
    times,
    times,
    st.lists(st.sampled_from([*SCOPES, "three"]), max_size=2).map(tuple),
)
orders = st.sampled_from(["", "title", "title desc", "author, created_time", "scope desc", "document_id desc"])


class Stores(RuleBasedStateMachine):
    """The same operations on the store in memory and on a file, which two more stores read, each in its way."""

    @initialize()
    def open(self) -> None:
        self.patches = ExitStack()
        self.patches.enter_context(small_segments())
        self.directory = self.patches.enter_context(directory())
        self.memory = MemoryStore()
        self.writer = SqliteStore(self.directory / "index.db")
        self.readers = {kind: SqliteStore(self.directory / "index.db") for kind in ("plain", "numpy")}

    def teardown(self) -> None:
        if hasattr(self, "patches"):
            for store in (self.writer, *self.readers.values()):
                store.close()
            self.patches.close()

    @rule(entries=some_entries)
    def upsert(self, entries: list[Entry]) -> None:
        self.memory.upsert(entries)
        self.writer.upsert(entries)

    @rule(batches=st.lists(some_entries, min_size=1, max_size=4))
    def upsert_in_bulk(self, batches: list[list[Entry]]) -> None:
        for number, entries in enumerate(batches, 1):
            self.memory.upsert(entries)
            self.writer.upsert(entries, more=number < len(batches))

    @rule(ids=some_ids)
    def delete(self, ids: list[str]) -> None:
        assert self.memory.delete(ids) == self.writer.delete(ids)

    @rule()
    def rebuild(self) -> None:
        self.writer.rebuild()

    @rule()
    def forget_vectors(self) -> None:
        self.memory.clear_vectors({})
        self.writer.clear_vectors({})

    @rule(kind=st.sampled_from(["plain", "numpy"]))
    def reopen(self, kind: str) -> None:
        self.writer.close()
        self.readers[kind].close()
        self.writer = SqliteStore(self.directory / "index.db")
        self.readers[kind] = SqliteStore(self.directory / "index.db")

    @rule(query=queries, filter=filters | st.just(EVERYTHING), limit=st.integers(0, 15), among=st.none() | some_ids)
    def keyword(self, query: str, filter: Filter, limit: int, among: list[str] | None) -> None:
        wanted = self.memory.keyword(query, filter, limit, among)
        for store in self.in_turn():
            assert store.keyword(query, filter, limit, among) == wanted
        scores = [match.score for match in wanted]
        assert scores == sorted(scores, reverse=True)
        for match in wanted:
            assert abs(sum(part.score for part in match.contributions) - match.score) < 1e-9

    @rule(query=directions, filter=filters | st.just(EVERYTHING), limit=st.integers(0, 15), among=st.none() | some_ids)
    def nearest(self, query: "array[float]", filter: Filter, limit: int, among: list[str] | None) -> None:
        wanted = _rounded(self.memory.nearest(query, filter, 100, None, among))
        for store in self.in_turn():
            # Scores that differ in the last bit may change places: that both have all of them is what matters.
            assert _rounded(store.nearest(query, filter, 100, None, among)) == wanted
            found = store.nearest(query, filter, limit, None, among)
            assert found == store.nearest(query, filter, 100, None, among)[:limit]

    @rule(filter=filters, order=orders, limit=st.integers(0, 15), offset=st.integers(0, 5))
    def scan(self, filter: Filter, order: str, limit: int, offset: int) -> None:
        for store in self.in_turn():
            assert store.scan(filter, order, limit, offset) == self.memory.scan(filter, order, limit, offset)
            assert store.count(filter) == self.memory.count(filter)

    @precondition(lambda self: hasattr(self, "memory"))
    @invariant()
    def the_rest_agrees(self) -> None:
        kept = [document for document_id in IDS if (document := self.memory.get(document_id))]
        assert self.writer.compare(kept) == dict.fromkeys([document.id for document in kept], True)
        assert self.writer.heads(IDS) == self.memory.heads(IDS)
        assert self.writer.summary() == self.memory.summary()
        assert self.writer.vectors() == self.memory.vectors()
        assert self.writer.without_vector(20) == self.memory.without_vector(20)

    @rule()
    def check(self) -> None:
        assert self.writer.check() == []
        assert [self.writer.get(document_id) for document_id in IDS] == [self.memory.get(id) for id in IDS]

    def in_turn(self) -> Iterator[Store]:
        for kind, store in self.readers.items():
            with searching(kind):
                yield store


def _rounded(matches: Sequence[Match]) -> list[tuple[float, str]]:
    return sorted((round(match.score, 9), match.id) for match in matches)


@requirement("store.memory-twin", "store.integrity-check")
def test_both_stores_and_both_searchers_agree_after_any_operations() -> None:
    run_state_machine_as_test(Stores, settings=settings(max_examples=40, stateful_step_count=25, deadline=None))


@requirement("store.memory-twin")
@settings(max_examples=150, deadline=None)
@given(
    st.lists(documents, min_size=20, max_size=60),
    st.lists(st.tuples(queries, filters | st.just(EVERYTHING), st.integers(1, 12)), min_size=1, max_size=4),
    st.lists(st.integers(0, 59), max_size=5),
    st.data(),
)
def test_however_a_search_with_numpy_saves_work_its_result_is_that_of_all_work(
    given: list[Document], asked: list[tuple[str, Filter, int]], gone: list[int], data: st.DataObject
) -> None:
    numbered = [document._replace(id=f"d{number}") for number, document in enumerate(given)]
    with small_segments(bulk=25), directory() as place, pytest.MonkeyPatch.context() as patch:
        for module, name in SAVINGS:
            patch.setattr(module, name, data.draw(st.sampled_from([1, 2, 7, 1000]), name))
        memory, store = MemoryStore(), SqliteStore(place / "index.db")
        for kept in (memory, store):
            kept.upsert([Entry(document) for document in numbered])
            kept.delete([f"d{number}" for number in gone])
        for query, filter, limit in [*asked, *asked]:  # the second time, terms are known
            with searching("plain"):
                every_posting_scored = memory.keyword(query, filter, limit)
            with searching("numpy"):
                assert store.keyword(query, filter, limit) == every_posting_scored
        store.close()


class Toy:
    """An embedder that counts words by their hashes."""

    name, dimension, prompt_format, min_score = "toy", 16, "plain", None

    def embed(self, texts: Sequence[str], kind: str = "document") -> "list[array[float]]":
        hashed = [[crc32(word.encode()) % 15 for word in text.split()] for text in texts]
        return [vector(0.01, *(words.count(number) for number in range(15))) for words in hashed]


def _restricted(result: SearchResult, allowed: set[str]) -> list[Any]:
    return [(hit.document_id, hit.score) for hit in result.hits if hit.document_id in allowed]


@requirement("search.filter-is-pushed-down", "search.filter-is-shared")
@settings(max_examples=60, deadline=None)
@given(st.lists(documents, max_size=30), queries.filter(str.strip), filters, st.sampled_from(KINDS))
def test_a_filtered_search_is_the_whole_search_restricted(
    given: list[Document], query: str, filter: Filter, kind: str
) -> None:
    with small_segments(), searching(kind), directory() as place:
        store = opened(kind, place / "index.db")
        numbered = [document._replace(id=f"{document.id}-{number}") for number, document in enumerate(given)]
        with Index(store, Toy()) as index:
            index.put(numbered)
            listed = index.filter(filter, limit=100)
            allowed = {hit.document_id for hit in listed.hits}
            assert listed.total == len(allowed)
            every, some = index.keyword(query, limit=100), index.keyword(query, filter, limit=100)
            assert _restricted(some, allowed) == _restricted(every, allowed)
            assert len(some.hits) == len(_restricted(some, allowed))
            if numbered:
                every = index.semantic(query, limit=100, min_score=None)
                some = index.semantic(query, filter, limit=100, min_score=None)
                assert _restricted(some, allowed) == _restricted(every, allowed)
                assert {hit.document_id for hit in some.hits} == allowed
            every, some = index.fused(query, limit=100), index.fused(query, filter, limit=100)
            assert {hit.document_id for hit in some.hits} <= allowed
            assert _restricted(some, allowed) == _restricted(every, allowed)


FIELDS = Ranking("fields-1", IdentifierTokenizer(stems=True), {"title": 1.0, "label": 0.5}, BM25, True, {"label": 0.5})
READ = FIELDS._replace(
    name="read-1", fields_of=lambda metadata: metadata["fields"], reading={"label": lambda text: text.split()[:2]}
)
LABELS: st.SearchStrategy[Any] = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join),
    st.none(),
    st.integers(),
    st.lists(st.text(), max_size=1),
)


@requirement("lexical.fields-of-metadata")
@given(
    st.lists(
        st.tuples(st.sampled_from(WORDS), st.one_of(st.none(), st.fixed_dictionaries({"label": LABELS}), LABELS)),
        max_size=8,
    ),
    st.sampled_from(WORDS),
    st.sampled_from([FIELDS, READ]),
)
@settings(max_examples=40, deadline=None)
def test_fields_that_stand_in_the_metadata_are_ranked_alike_by_every_store(
    given_documents: list[tuple[str, Any]], query: str, ranks: Ranking
) -> None:
    documents = [
        Document(f"d{number}", title, "never looked at", metadata={"fields": fields})
        for number, (title, fields) in enumerate(given_documents)
    ]
    memory = MemoryStore(ranks)
    memory.upsert([Entry(document) for document in documents])
    wanted = memory.keyword(query)
    assert all(contribution.field in ("title", "label") for match in wanted for contribution in match.contributions)
    for kind in KINDS[1:]:
        with directory() as place, searching(kind), small_segments():
            store = SqliteStore(place / "fields.db", ranks)
            store.upsert([Entry(document) for document in documents])
            assert [(match.id, match.score) for match in store.keyword(query)] == [
                (match.id, match.score) for match in wanted
            ]
            assert store.check() == []
            store.close()
