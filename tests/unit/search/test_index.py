"""Does the Index take what it should, refuse the rest without a loss, and say what it could not do?"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest

from onhand.document import EVERYTHING, Document, Filter
from onhand.errors import EmbedderError, InputError, NotFound, OnhandError
from onhand.search.index import Index, Stats, Written
from onhand.store.memory import MemoryStore
from onhand.store.store import Entry, PassageCounts, Store
from requirements import requirement
from stores import MAIL, directory, opened, vector


class Toy:
    """An embedder that knows two directions: forecasts and everything else."""

    def __init__(self, name: str = "toy", dimension: int = 2, prompt_format: str = "plain") -> None:
        self.name, self.dimension, self.prompt_format = name, dimension, prompt_format
        self.min_score: float | None = None
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], kind: str = "document") -> "list[array[float]]":
        self.texts += texts
        return [vector(text.count("forecast") + 0.1, 1, *[0.0] * (self.dimension - 2)) for text in texts]


class Giving(Toy):
    """An embedder that gives what a test wants."""

    def __init__(self, give: Callable[[Sequence[str]], Any]) -> None:
        super().__init__()
        self.give = give

    def embed(self, texts: Sequence[str], kind: str = "document") -> "list[array[float]]":
        given: list[array[float]] = self.give(texts)
        return given


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with directory() as place:
        store = opened(request.param, place / "index.db")
        yield store
        store.close()


def indexed(store: Store, embedder: Toy | None = None) -> Index:
    index = Index(store, embedder)
    index.put(MAIL)
    return index


def with_embedder(store: Store, embedder: Toy) -> Index:
    return Index(store, embedder)


def ids(index: Index, query: str, **options: Any) -> list[str]:
    return [hit.document_id for hit in index.keyword(query, **options).hits]


def numbered(count: int) -> list[Document]:
    return [Document(f"d{number:03}", text=f"words of {number}") for number in range(count)]


def test_documents_are_added_changed_or_left_as_they_are(store: Store) -> None:
    index = Index(store)
    assert index.put(numbered(5)) == Written(added=5)
    assert index.put(numbered(7)) == Written(added=2, unchanged=5)
    assert index.put([Document("d001", text="other"), *numbered(1)]) == Written(changed=1, unchanged=1)
    assert index.put([]) == Written()
    done: list[int] = []
    index.put(numbered(25), done.append, batch=10)
    assert done == [10, 20, 25]


@requirement("documents.bad-input")
def test_of_a_batch_with_a_bad_document_nothing_is_kept_and_batches_before_it_are(store: Store) -> None:
    index = Index(store)
    documents = [*numbered(25), Document("bad", created_time=datetime(2026, 3, 1)), *numbered(40)[25:]]
    done: list[int] = []
    with pytest.raises(InputError, match="document 'bad'"):
        index.put(documents, done.append, batch=10)
    assert (done, store.count()) == ([10, 20], 20)
    assert index.put(numbered(40)) == Written(added=20, unchanged=20)


def test_a_source_that_breaks_off_loses_only_the_batch_at_hand(store: Store) -> None:
    def broken() -> Iterator[Document]:
        yield from numbered(15)
        raise OSError("the network is gone")

    index = Index(store)
    with pytest.raises(OSError, match="network"):
        index.put(broken(), batch=10)
    assert store.count() == 10


def test_a_document_is_fetched_in_full_and_an_unknown_one_is_named(store: Store) -> None:
    index = indexed(store)
    assert index.get("q3") == MAIL[0]
    for unknown in ("nothing", "x" * 5000, "\ud800"):
        with pytest.raises(NotFound, match="take the id from a search"):
            index.get(unknown)
    for wrong in (None, 5, "", " ", "a\0", "x" * 2**20):
        given: Any = wrong
        for call in (index.get, lambda id: index.put([Document(id)]), lambda id: index.delete([id])):
            with pytest.raises(InputError, match="id must be a string of 1 to 10,000 characters") as told:
                call(given)
            assert told.value.field == "document_id"
            assert type(told.value) is InputError


def test_documents_are_deleted_one_or_many(store: Store) -> None:
    index = indexed(store)
    assert index.delete("q3") == 1
    assert index.delete(["lunch", "spec", "unknown", "\ud800"]) == 2
    assert store.count() == len(MAIL) - 3


ODD = {
    "empty": "",
    "huge": "forecast " * 50_000,
    "binary": "".join(map(chr, range(256))) * 50,
    "nul": "forecast\0\0forecast",
    "halves": "forecast \ud800 \udfff \ud83d\ude00",
    "marks": "forecast e" + "\u0301" * 40_000,
    "long word": "x" * 1_000_000,
    "bidi": "\u202eforecast\u202c",
    "operators": '" OR NEAR( * ^ -',
}


@requirement("documents.bad-input")
def test_odd_texts_are_kept_and_found_by_the_words_in_them(store: Store) -> None:
    index = with_embedder(store, Toy())
    index.put([Document(name, text=text) for name, text in ODD.items()])
    assert set(ids(index, "forecast", limit=20)) == {"huge", "nul", "halves", "marks", "bidi"}
    assert ids(index, "near") == ["operators"]
    for name, text in ODD.items():
        wanted = text if name != "halves" else "forecast \ufffd \ufffd 😀"
        assert index.get(name).text == wanted
    hits = index.fused("forecast", limit=20).hits
    assert all(len(hit.snippet) < 2000 for hit in hits)
    assert index.check() == []


@requirement("documents.bad-input")
def test_a_text_of_ten_megabytes_is_kept_and_found(store: Store) -> None:
    index = Index(store)
    text = "forecast " * 1_200_000
    index.put([Document("huge", text=text), *MAIL])
    assert ids(index, "forecast", limit=1) == ["huge"]
    assert index.get("huge").text == text


@requirement("search.keyword-is-never-syntax", "search.raw-queries")
@pytest.mark.parametrize(
    "query", [*(text for text in ODD.values() if len(text) <= 10_000), "*", "NOT forecast", "a" * 10_000]
)
def test_any_query_is_answered_with_hits_or_a_reason(store: Store, query: str) -> None:
    index = indexed(store, Toy())
    for result in (index.keyword(query), index.fused(query), index.keyword(query, Filter(scope=("none",)))):
        assert bool(result.hits) != bool(result.reason)


@pytest.mark.parametrize("query", ["", "  ", "\t\n"])
def test_an_empty_query_has_a_reason_by_words_and_is_refused_by_meaning(store: Store, query: str) -> None:
    index = indexed(store, Toy())
    assert index.keyword(query).reason == index.fused(query).reason == "the query has no words to look for"
    with pytest.raises(InputError, match="empty"):
        index.semantic(query)


def test_limits_and_offsets_are_whole_numbers_that_make_sense(store: Store) -> None:
    index = indexed(store, Toy())
    searches: list[Callable[..., Any]] = [
        lambda **page: index.keyword("forecast", **page),
        lambda **page: index.semantic("forecast", min_score=None, **page),
        lambda **page: index.fused("forecast", **page),
        lambda **page: index.filter(**page),
    ]
    limits: list[Any] = [0, -1, 10**30, 1e9, "5", None]
    offsets: list[Any] = [-1, 10**30, 0.5]
    bad = [*({"limit": limit} for limit in limits), *({"offset": offset} for offset in offsets)]
    for search in searches:
        for page in bad:
            with pytest.raises(InputError, match=next(iter(page))):
                search(**page)
        every = search(limit=10**9)
        assert every.hits
        assert not every.more
        assert every.hits[1:2] == search(limit=1, offset=1).hits
        assert search(limit=1).more is (len(every.hits) > 1)
        behind = search(limit=5, offset=10**9)
        assert behind.hits == ()
        assert not behind.more


@pytest.mark.parametrize("order", ["size", None, 5, "title; DROP"])
def test_an_order_that_is_none_is_refused(store: Store, order: Any) -> None:
    with pytest.raises(InputError, match="order"):
        indexed(store).filter(order_by=order)


@pytest.mark.parametrize("filter", [None, {"author": "x"}, "author=x", Filter(author=5)])  # type: ignore[arg-type]
def test_what_is_not_a_filter_is_refused_by_every_search(store: Store, filter: Any) -> None:
    index = indexed(store, Toy())
    for search in (index.keyword, index.semantic, index.fused):
        with pytest.raises(InputError, match="filter"):
            search("forecast", filter)
    with pytest.raises(InputError, match="filter"):
        index.filter(filter)


def test_a_miss_says_why(store: Store) -> None:
    index = Index(store)
    assert index.keyword("word").reason == "the index is empty: put documents into it"
    assert index.filter().reason == "the index is empty: put documents into it"
    index = indexed(store)
    assert "no document has a word" in str(index.keyword("unheard").reason)
    assert index.keyword("forecast", Filter(scope=("none",))).reason == "no document passes the filter"
    assert index.filter(Filter(scope=("none",))).reason == "no document passes the filter"
    assert index.keyword("forecast", offset=50).reason == "there are no further hits"


NAN = float("nan")
BAD_EMBEDDERS: dict[str, Callable[[Sequence[str]], Any]] = {
    "not finite": lambda texts: [array("f", [NAN, 1])] * len(texts),
    "are not finite": lambda texts: [array("f", [float("inf"), 1])] * len(texts),
    "zeros": lambda texts: [array("f", [0, 0])] * len(texts),
    "3 numbers for": lambda texts: [vector(1, 1, 1)] * len(texts),
    "not numbers": lambda texts: [None] * len(texts),
    r"vectors for \d+ texts": lambda texts: [vector(1, 1)] * (len(texts) - 1),
    r"\d+ vectors for": lambda texts: [vector(1, 1)] * (len(texts) + 1),
}


@requirement("search.bad-vectors-are-refused")
@pytest.mark.parametrize("said", BAD_EMBEDDERS)
def test_vectors_that_cannot_be_compared_are_refused_and_nothing_is_kept(store: Store, said: str) -> None:
    index = with_embedder(store, Giving(BAD_EMBEDDERS[said]))
    with pytest.raises(EmbedderError, match=said):
        index.put(MAIL)
    assert (store.count(), store.facts()) == (0, {})


@requirement("search.bad-vectors-are-refused", "search.degrades-visibly")
@pytest.mark.parametrize("said", BAD_EMBEDDERS)
def test_a_query_whose_vector_is_bad_is_answered_by_words_alone(store: Store, said: str) -> None:
    indexed(store, Toy())
    index = with_embedder(store, Giving(BAD_EMBEDDERS[said]))
    with pytest.raises(EmbedderError):
        index.semantic("forecast")
    result = index.fused("forecast")
    assert [hit.document_id for hit in result.hits] == ["q3", "lunch"]
    assert result.notes[0].startswith("only words were compared: ")


@requirement("search.model-is-recorded")
def test_the_model_is_recorded_and_shown(store: Store) -> None:
    index = indexed(store, Toy("model-a"))
    fingerprint = {
        "embedder.name": "model-a",
        "embedder.dimension": "2",
        "embedder.prompt_format": "plain",
        "embedder.normalised": "yes",
    }
    assert index.stats() == Stats(len(MAIL), len(MAIL), fingerprint, "ready", PassageCounts(len(MAIL)))
    assert store.facts() == fingerprint


@requirement("search.same-model")
@pytest.mark.parametrize("other", [Toy("model-b"), Toy("model-a", 3), Toy("model-a", prompt_format="query: {}")])
def test_another_model_is_refused_with_the_command_that_embeds_again(store: Store, other: Toy) -> None:
    indexed(store, Toy("model-a"))
    index = with_embedder(store, other)
    with pytest.raises(EmbedderError, match="onhand docs reembed"):
        index.semantic("forecast")
    with pytest.raises(EmbedderError, match="onhand docs reembed"):
        index.put([Document("new", text="forecast")])
    assert store.count() == len(MAIL)
    assert "onhand docs reembed" in index.stats().semantic
    result = index.fused("forecast")
    assert [hit.document_id for hit in result.hits] == ["q3", "lunch"]
    assert "reembed" in result.notes[0]
    assert index.reembed() == len(MAIL)
    assert index.stats().semantic == "ready"
    assert index.semantic("forecast").hits


@requirement("search.same-model")
def test_two_models_never_mix_though_both_saw_an_empty_index(store: Store) -> None:
    first = Toy("model-a")

    class Slow(Toy):
        """Another writer comes first, while this one still embeds."""

        def embed(self, texts: Sequence[str], kind: str = "document") -> "list[array[float]]":
            with_embedder(store, first).put([Document("theirs")])
            return super().embed(texts)

    with pytest.raises(OnhandError, match="reembed"):
        with_embedder(store, Slow("model-b")).put([Document("ours")])
    assert store.scan() == ["theirs"]
    assert store.facts()["embedder.name"] == "model-a"


@requirement("search.degrades-visibly")
def test_without_an_embedder_words_are_searched_and_that_is_said(store: Store) -> None:
    indexed(store)
    index = Index(store, None, "no embedder is installed: pip install it")
    result = index.fused("forecast")
    assert [hit.document_id for hit in result.hits] == ["q3", "lunch"]
    assert result.notes == ("only words were compared: no embedder is installed: pip install it",)
    for call in (lambda: index.semantic("forecast"), index.reembed):
        with pytest.raises(EmbedderError, match="pip install it"):
            call()
    assert index.stats().semantic == "no embedder is installed: pip install it"


@requirement("search.degrades-visibly")
def test_documents_without_a_vector_are_reported(store: Store) -> None:
    indexed(store)
    index = with_embedder(store, Toy())
    assert index.fused("forecast").notes == (
        "only words were compared: no document has a vector yet: run `onhand docs reembed`",
    )
    index.put([Document("new", text="forecast")])
    note = f"{len(MAIL)} of {len(MAIL) + 1} documents have no vector: run `onhand docs reembed`"
    assert index.semantic("forecast").notes == index.fused("forecast").notes == (note,)
    index.reembed()
    assert index.semantic("forecast").notes == ()


def test_embedding_again_goes_on_where_it_stopped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onhand.search.index.BATCH", 10)
    Index(store).put(numbered(35))

    def failing(texts: Sequence[str]) -> Any:
        if store.vectors() >= 20:
            raise EmbedderError("the endpoint is gone: try again")
        return [vector(1, 1)] * len(texts)

    done: list[int] = []
    with pytest.raises(EmbedderError, match="try again"):
        with_embedder(store, Giving(failing)).reembed(done.append)
    assert (done, store.vectors(), store.count()) == ([10, 20], 20, 35)
    toy = Toy()
    assert with_embedder(store, toy).reembed() == 15
    assert len(toy.texts) == 15
    assert with_embedder(store, toy).reembed() == 0


def test_a_document_that_changes_while_it_is_embedded_again_keeps_the_change(store: Store) -> None:
    Index(store).put(numbered(3))

    def meanwhile(texts: Sequence[str]) -> Any:
        if "words of 1" in texts:
            Index(store).put([Document("d001", text="edited")])
            Index(store).delete("d002")
        return [vector(1, 1)] * len(texts)

    with_embedder(store, Giving(meanwhile)).reembed()
    assert store.get("d001") == Document("d001", text="edited")
    assert store.get("d002") is None
    assert (store.count(), store.without_vector(5)) == (2, [])


@pytest.mark.parametrize("least", [1.5, -2, NAN, "0.5", [0.5]])
def test_a_least_score_that_is_not_a_cosine_is_refused(store: Store, least: Any) -> None:
    with pytest.raises(InputError, match="min_score"):
        indexed(store, Toy()).semantic("forecast", EVERYTHING, 10, least)


@requirement("search.min-score")
def test_every_search_leaves_out_hits_below_a_least_score_and_says_which_was_best(store: Store) -> None:
    index = indexed(store, Toy())
    searches: list[Callable[..., Any]] = [
        lambda least: index.keyword("forecast", min_score=least),
        lambda least: index.fused("forecast", min_score=least),
    ]
    for search in searches:
        every = search(None)
        best = every.hits[0]
        assert every.min_score is None
        kept = search(best.score)
        assert kept.min_score == best.score
        assert [hit for hit in every.hits if hit.score >= best.score] == list(kept.hits)
        above = min(best.score + 0.01, 1.0) if best.score < 1 else best.score + 0.01
        assert search(above).hits == ()
        assert f"the best, {best.score:.4f}, is that of {best.document_id!r}" in search(above).reason
        for wrong in (-0.1, NAN, "0.5", True):
            with pytest.raises(InputError, match="min_score"):
                search(wrong)


def test_an_unknown_way_of_fusing_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match="'scores' or 'rrf', not 'sum'"):
        indexed(store, Toy()).fused("forecast", method="sum")


def test_meaning_is_worked_out_for_what_is_to_be_embedded_and_nothing_is_said_to_be_missing(store: Store) -> None:
    toy = Toy()
    index = Index(store, toy, embeds=Filter(tags=("head",)))
    index.put([Document("a", "forecast", tags=("head",)), Document("b", "forecast"), Document("c", "rain")])
    assert toy.texts == ["forecast"]
    store.upsert([Entry(Document("d", "snow", tags=("head",))), Entry(Document("e", "hail"))])
    assert index.reembed() == 1
    assert (toy.texts, store.vectors()) == (["forecast", "snow"], 2)
    found = index.fused("forecast")
    assert {hit.document_id for hit in found.hits} == {"a", "b", "d"}
    assert found.notes == ()
    index.put([Document("c", "rain again")])
    assert toy.texts == ["forecast", "snow", "forecast"]  # the last one is the query


class CountedStore(MemoryStore):
    """A store that counts how often each layer is ranked; scores of given documents do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.ranked: list[str] = []

    def keyword(self, query: str, filter: Filter = EVERYTHING, limit: int = 10, among: Any = None, **more: Any) -> Any:
        if among is None:
            self.ranked.append("keyword")
        return super().keyword(query, filter, limit, among, **more)

    def nearest(
        self,
        vector: Any,
        filter: Filter = EVERYTHING,
        limit: int = 10,
        min_score: float | None = None,
        among: Any = None,
    ) -> Any:
        if among is None:
            self.ranked.append("semantic")
        return super().nearest(vector, filter, limit, min_score, among)


def test_a_fused_search_ranks_each_layer_once() -> None:
    store = CountedStore()
    index = Index(store, Toy())
    index.put(MAIL)
    assert index.fused("forecast").hits[0].terms
    assert store.ranked == ["keyword", "semantic"]
    store.ranked.clear()
    index.fused("forecast", Filter(tags=("mail",)))
    assert sorted(store.ranked) == ["keyword", "semantic"]


def test_one_document_is_put_and_a_result_is_iterated() -> None:
    index = Index(MemoryStore())
    one = Document("a", text="a forecast", author="bob", created_time="2026-03-01")  # type: ignore[arg-type]
    assert index.put(one).added == 1
    result = index.keyword("forecast", Filter(author="bob", created_after="2026-02-01"))  # type: ignore[arg-type]
    assert [hit.document_id for hit in result] == ["a"]
    assert len(result) == 1
    assert result._replace(more=True).hits == result.hits
    assert not index.keyword("nothing")
