"""How do two rankings become one, and does each hit say what came from where?"""

from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import inf, nan

import pytest

from onhand.document import EVERYTHING, Document, Filter, Match
from onhand.embed.embedder import Kind
from onhand.errors import InputError
from onhand.lexical.scoring import get_ranking
from onhand.search.fusion import WORDS_PER_COSINE, Fused, add_scores, has_evidence, reciprocal_rank
from onhand.search.index import FUSED_DEPTH, Index
from onhand.store.memory import MemoryStore
from requirements import requirement

DOCUMENTS = 1000
MOST_PER_WORD = get_ranking().most_per_word(DOCUMENTS)
ONE = WORDS_PER_COSINE * MOST_PER_WORD  # the keyword score that weighs as much as a cosine of 1


def matches(**scores: float) -> list[Match]:
    return sorted((Match(id, score) for id, score in scores.items()), key=lambda match: (-match.score, match.id))


def fuse(
    keyword: Sequence[Match], semantic: Sequence[Match], weights: Mapping[str, float] | None = None
) -> list[Fused]:
    return add_scores({"keyword": keyword, "semantic": semantic}, MOST_PER_WORD, weights)


def ids(fused: Sequence[Fused]) -> list[str]:
    return [one.id for one in fused]


@requirement("search.fused")
def test_reciprocal_rank_adds_what_each_rank_is_worth_as_a_share_of_the_first_in_both() -> None:
    fused = reciprocal_rank({"keyword": matches(a=9, b=5), "semantic": matches(b=0.9, c=0.8)})
    assert ids(fused) == ["b", "a", "c"]
    assert [one.score for one in fused] == pytest.approx([(61 / 62 + 1) / 2, 1 / 2, 61 / 62 / 2])
    (rank_by_words, by_words), (rank_by_meaning, by_meaning) = fused[0].places.values()
    assert (rank_by_words, rank_by_meaning) == (2, 1)
    assert (by_words, by_meaning) == pytest.approx((61 / 62 / 2, 1 / 2))


@requirement("search.fused")
def test_reciprocal_rank_weighs_the_layers_as_asked() -> None:
    layers = {"keyword": matches(a=9), "semantic": matches(b=0.9)}
    assert ids(reciprocal_rank(layers, {"semantic": 3})) == ["b", "a"]
    assert ids(reciprocal_rank(layers, {"keyword": 3})) == ["a", "b"]


@requirement("search.fused-explains")
def test_a_score_is_what_its_layers_add_and_always_less_than_one() -> None:
    fused = fuse(matches(a=200 * ONE, b=10, c=1), matches(a=0.8, b=0.2, c=-0.4, d=-0.9))
    assert ids(fused) == ["a", "b", "c", "d"]
    assert all(0 <= one.score < 1 for one in fused)
    assert [one.score for one in fused] == pytest.approx(
        [sum(share for _, share in one.places.values()) for one in fused]
    )


@requirement("search.fused-explains")
def test_each_place_has_the_rank_in_its_layer_and_what_that_layer_added() -> None:
    (b, a, c) = fuse(matches(a=ONE, b=ONE / 2), matches(b=0.8, c=0.3))
    assert (b.id, a.id, c.id) == ("b", "a", "c")
    assert b.places["keyword"] == pytest.approx((2, 0.5 / 2.3))
    assert b.places["semantic"] == pytest.approx((1, 0.8 / 2.3))
    assert a.places.keys() == {"keyword"}
    assert c.places.keys() == {"semantic"}


@requirement("search.fused")
def test_words_weigh_the_more_the_more_evidence_they_are() -> None:
    semantic = matches(near=0.7, far=0.1)
    little, even, much = (fuse(matches(said=ONE * evidence), semantic) for evidence in (0.25, 1, 4))
    scores = [{one.id: one.score for one in fused}["said"] for fused in (little, even, much)]
    assert scores == pytest.approx([1 / 5, 1 / 2, 4 / 5])
    assert (ids(little)[0], ids(much)[0]) == ("near", "said")


@requirement("search.fused-calibrated")
def test_the_score_of_a_document_does_not_depend_on_what_else_was_found() -> None:
    alone, among_better = fuse(matches(a=3), matches(a=0.2)), fuse(matches(a=3, b=30), matches(a=0.2, b=0.9))
    assert alone[0].score == among_better[1].score < 0.3


@requirement("search.fused")
def test_evidence_is_measured_against_the_size_of_the_corpus() -> None:
    layers = {"keyword": matches(said=30), "semantic": matches(near=0.7, far=0.1)}
    small, large = (add_scores(layers, get_ranking().most_per_word(documents)) for documents in (50, 1_000_000))
    assert (ids(small)[0], ids(large)[0]) == ("said", "near")


@requirement("search.fused-calibrated")
def test_evidence_is_the_share_of_the_words_or_the_closeness_of_the_meaning() -> None:
    assert has_evidence(0.6, 0.0, 0.3)
    assert has_evidence(0.0, 0.5, 0.3)
    assert has_evidence(0.3, 0.2, 0.3)
    assert not has_evidence(0.3, 0.1, 0.3)
    assert not has_evidence(0.3, -0.9, 0.3)


@requirement("search.fused")
@pytest.mark.parametrize(("weights", "first"), [({"keyword": 5}, "said"), ({"semantic": 5.0}, "near")])
def test_weights_shift_the_balance(weights: dict[str, float], first: str) -> None:
    assert ids(fuse(matches(said=0.7 * ONE), matches(near=0.7, far=0.1), weights))[0] == first


@pytest.mark.parametrize(("silent", "speaking"), [("keyword", "near"), ("semantic", "said")])
def test_a_layer_of_weight_zero_adds_nothing(silent: str, speaking: str) -> None:
    fused = fuse(matches(said=0.7 * ONE), matches(near=0.7, far=0.1), {silent: 0})
    assert fused[0].id == speaking
    assert fused[0].score == pytest.approx(0.7 / 1.7)
    assert all(one.places[silent][1] == 0 for one in fused if silent in one.places)


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({"words": 1.0}, "Unknown layer 'words'"),
        ({"keyword": -1.0}, "weight of keyword.*-1.0"),
        ({"semantic": nan}, "weight of semantic"),
        ({"semantic": inf}, "weight of semantic"),
        ({"semantic": "1"}, "weight of semantic"),
        ({"semantic": 0, "keyword": 0}, "All layers have weight 0"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights: dict[str, float], says: str) -> None:
    layers = {"keyword": matches(a=1), "semantic": matches(a=1)}
    with pytest.raises(InputError, match=says):
        add_scores(layers, 10, weights)
    with pytest.raises(InputError, match=says):
        reciprocal_rank(layers, weights)


@requirement("search.fused")
def test_where_one_layer_found_nothing_the_other_decides_alone() -> None:
    assert ids(fuse(matches(a=2, b=3), [])) == ["b", "a"]
    assert ids(fuse([], matches(a=0.1, b=0.4))) == ["b", "a"]
    assert fuse([], []) == []


@requirement("search.ties-are-deterministic")
def test_equal_scores_are_ordered_by_id() -> None:
    assert ids(fuse(matches(c=2, a=2, b=2), matches(b=0.5, c=0.5, a=0.5))) == ["a", "b", "c"]
    assert ids(reciprocal_rank({"keyword": matches(b=1), "semantic": matches(a=1)})) == ["a", "b"]


@requirement("search.fused")
def test_a_cosine_below_zero_adds_nothing_and_takes_nothing_away() -> None:
    fused = {one.id: one.score for one in fuse(matches(a=ONE, b=ONE), matches(a=-0.5, c=-0.1))}
    assert fused == pytest.approx({"a": 0.5, "b": 0.5, "c": 0})


class Letters:
    """What a text means is how often it has each letter."""

    name, dimension, prompt_format = "letters", 26, "plain"
    min_score: float | None = None

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> list["array[float]"]:
        counts = [[1 + text.lower().count(chr(97 + number)) for number in range(26)] for text in texts]
        return [array("f", (count / sum(n * n for n in row) ** 0.5 for count in row)) for row in counts]


def index_of(*documents: Document) -> Index:
    index = Index(MemoryStore(), Letters())
    index.put(documents)
    return index


@requirement("search.fused", "search.fused-explains")
@pytest.mark.parametrize("method", ["scores", "rrf"])
def test_a_fused_hit_carries_rank_raw_score_and_terms_of_each_layer(method: str) -> None:
    index = index_of(
        Document("wind", "Wind", "wind and rain"), Document("snow", "", "snow"), Document("sun", "", "sun")
    )
    (fused,) = (hit for hit in index.fused("wind", method=method).hits if hit.document_id == "wind")
    (keyword,) = (hit for hit in index.keyword("wind").hits if hit.document_id == "wind")
    (semantic,) = (hit for hit in index.semantic("wind", min_score=None).hits if hit.document_id == "wind")
    by_words, by_meaning = fused.layers
    assert (by_words.name, by_meaning.name) == ("keyword", "semantic")
    assert (by_words.rank, by_words.score) == pytest.approx((1, keyword.score))
    assert {contribution.term for contribution in by_words.terms} == {"wind"}
    assert (by_meaning.rank, by_meaning.score) == pytest.approx((semantic.layers[0].rank, semantic.score))
    assert 0 < fused.score <= 1
    assert fused.score == pytest.approx(by_words.share + by_meaning.share)


@requirement("search.fused", "search.fused-filter-changes-nothing")
def test_a_filter_changes_neither_scores_nor_order() -> None:
    words = "wind rain snow hail sun storm".split()
    index = index_of(
        *(Document(f"d{n}", words[n % 6], f"{words[n % 5]} {words[n % 4]} {n}", author=f"a{n % 3}") for n in range(60))
    )
    for query in ("wind", "snow and rain", "nothing of it", "hail hail"):
        everywhere = index.fused(query, limit=50).hits + index.fused(query, limit=50, offset=50).hits
        for author in ("a0", "a1", "a2"):
            here = index.fused(query, Filter(author=(author,)), limit=50).hits
            expected = [(hit.document_id, hit.score) for hit in everywhere if hit.author == author]
            assert [(hit.document_id, hit.score) for hit in here] == expected


class CountingStore(MemoryStore):
    """Counts how often each layer ranks documents, and how often it only scores some of them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def keyword(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = 10,
        among: Collection[str] | None = None,
        *,
        explain: bool = True,
    ) -> list[Match]:
        self.calls["rank words" if among is None else "score words"] += 1
        return super().keyword(query, filter, limit, among, explain=explain)

    def nearest(
        self,
        vector: "array[float]",
        filter: Filter = EVERYTHING,
        limit: int = 10,
        min_score: float | None = None,
        among: Collection[str] | None = None,
    ) -> list[Match]:
        self.calls["rank vectors" if among is None else "score vectors"] += 1
        return super().nearest(vector, filter, limit, min_score, among)


@requirement("search.fused")
@pytest.mark.parametrize("method", ["scores", "rrf"])
def test_a_fused_search_ranks_each_layer_once(method: str) -> None:
    store = CountingStore()
    index = Index(store, Letters())
    index.put([Document(f"d{number}", "", "wind" if number % 2 else "rain") for number in range(2 * FUSED_DEPTH)])
    store.calls.clear()
    assert index.fused("wind", method=method).hits
    assert (store.calls["rank words"], store.calls["rank vectors"]) == (1, 1)
    assert store.calls["score words"] + store.calls["score vectors"] <= 2


class Topics(Letters):
    """What a text means is which of a few topics it names."""

    name, dimension, min_score = "topics", 4, 0.3

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> list["array[float]"]:
        rows = [[int(topic in text) for topic in ("storm", "bread", "engine")] for text in texts]
        return [array("f", [*(n / sum(row) ** 0.5 for n in row), 0]) if any(row) else array("f", [0, 0, 0, 1])
                for row in rows]  # fmt: skip


@requirement("search.fused-calibrated")
def test_a_query_that_has_nothing_in_common_with_any_document_finds_nothing_and_says_why() -> None:
    index = Index(MemoryStore(), Topics())
    index.put([Document("wind", "", "a storm of wind and rain"), Document("motor", "", "the engine and its parts")])
    for query in ("zzzz qqqq", "how to bake sourdough bread and butter in a dutch oven"):
        result = index.fused(query)
        assert result.hits == ()
        assert "nothing has enough in common with the query" in str(result.reason)
        assert len(index.fused(query, min_score=None).hits) == 2
    assert index.fused("bread", Filter(author=("nobody",))).reason == "no document passes the filter"
    assert [hit.document_id for hit in index.fused("tempest and storm", limit=1)] == ["wind"]
    assert [hit.document_id for hit in index.fused("parts", limit=1)] == ["motor"]
