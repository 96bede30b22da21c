"""Does fusion keep its promises for whatever scores the layers give?"""

from hypothesis import given
from hypothesis import strategies as st

from onhand.document import Match
from onhand.lexical.scoring import get_ranking
from onhand.search.fusion import Fused, add_scores, reciprocal_rank
from requirements import requirement

ids = st.text("abcdefgh", min_size=1, max_size=2)
bm25 = st.dictionaries(ids, st.floats(1e-6, 500), max_size=30)
cosines = st.dictionaries(ids, st.floats(-1, 1), max_size=30)
most_per_word = st.integers(0, 10**9).map(get_ranking().most_per_word)  # of an index with so many documents
weights = st.none() | st.fixed_dictionaries({"keyword": st.floats(0.01, 10), "semantic": st.floats(0, 10)})


def layers_of(keyword: dict[str, float], semantic: dict[str, float]) -> dict[str, list[Match]]:
    return {
        name: sorted((Match(id, score) for id, score in scores.items()), key=lambda match: (-match.score, match.id))
        for name, scores in (("keyword", keyword), ("semantic", semantic))
    }


def seen(fused: list[Fused]) -> list[tuple[str, float]]:
    return [(one.id, one.score) for one in fused]


@requirement("search.fused-explains", "search.ties-are-deterministic")
@given(bm25, cosines, most_per_word, weights)
def test_every_candidate_is_ranked_once_with_a_score_from_0_to_1(
    keyword: dict[str, float], semantic: dict[str, float], most: float, weigh: dict[str, float] | None
) -> None:
    layers = layers_of(keyword, semantic)
    for fused in (add_scores(layers, most, weigh), reciprocal_rank(layers, weigh)):
        assert {one.id for one in fused} == keyword.keys() | semantic.keys()
        assert len(fused) == len(keyword.keys() | semantic.keys())
        assert all(0 <= one.score <= 1 for one in fused)
        assert seen(fused) == sorted(seen(fused), key=lambda pair: (-pair[1], pair[0]))
        for one in fused:
            assert one.places.keys() == {name for name, scores in (("keyword", keyword), ("semantic", semantic))
                                         if one.id in scores}  # fmt: skip


@requirement("search.fused", "search.fused-filter-changes-nothing")
@given(bm25, cosines, most_per_word, st.sets(ids))
def test_scores_and_order_under_a_filter_are_those_without_it(
    keyword: dict[str, float], semantic: dict[str, float], most: float, passing: set[str]
) -> None:
    whole = layers_of(keyword, semantic)
    filtered = {name: [match for match in matches if match.id in passing] for name, matches in whole.items()}
    everywhere = seen(add_scores(whole, most))
    assert seen(add_scores(filtered, most)) == [pair for pair in everywhere if pair[0] in passing]


@requirement("search.fused")
@given(bm25, cosines, most_per_word)
def test_what_is_better_in_both_layers_is_never_worse_in_the_fused_one(
    keyword: dict[str, float], semantic: dict[str, float], most: float
) -> None:
    layers = layers_of(keyword, semantic)
    score = dict(seen(add_scores(layers, most)))
    both = sorted(keyword.keys() & semantic.keys())
    for better in both:
        for worse in both:
            if keyword[better] >= keyword[worse] and semantic[better] >= semantic[worse]:
                assert score[better] >= score[worse]
