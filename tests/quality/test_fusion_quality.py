"""Does fusion gain where both layers know something, and keep what the better one has where the other knows nothing?

The scores are made up, from distributions like those of public sets: a thousand documents, one right answer each.
"""

from collections.abc import Sequence
from math import log
from random import Random

import pytest

from onhand.document import Match
from onhand.lexical.scoring import get_ranking
from onhand.search.fusion import Fused, add_scores, reciprocal_rank
from requirements import requirement

DOCUMENTS, QUERIES, DEPTH = 1000, 200, 100
A_POINT = 0.01
RARE = log(DOCUMENTS)  # what a word is worth that one document has


def query(chance: Random, words: float, meaning: float) -> tuple[str, dict[str, list[Match]]]:
    """The right answer and both layers: it has that many rare words of the query, and so many deviations of cosine,
    more than the others have by chance."""
    right = f"d{chance.randrange(DOCUMENTS):03}"
    names = [f"d{number:03}" for number in range(DOCUMENTS)]
    keyword = {name: chance.expovariate(1) * RARE * 0.2 for name in names if chance.random() < 0.4 or name == right}
    semantic = {name: chance.gauss(0.2, 0.1) for name in names}
    keyword[right] += words * RARE
    semantic[right] += meaning * 0.1
    return right, {"keyword": ranked(keyword), "semantic": ranked(semantic)}


def ranked(scores: dict[str, float]) -> list[Match]:
    return sorted((Match(id, score) for id, score in scores.items()), key=lambda match: (-match.score, match.id))


def answered(found: Sequence[Match | Fused], right: str) -> float:
    """nDCG@10 with one right answer."""
    places = [place for place, one in enumerate(found[:10]) if one.id == right]
    return 1 / log(places[0] + 2, 2) if places else 0.0


def measured(words: float, meaning: float) -> dict[str, float]:
    """The mean of both layers, of reciprocal rank and of the default fusion."""
    chance = Random(11)
    total = dict.fromkeys(("keyword", "semantic", "rrf", "fused"), 0.0)
    for _ in range(QUERIES):
        right, layers = query(chance, words, meaning)
        best = {name: matches[:DEPTH] for name, matches in layers.items()}
        candidates = {match.id for matches in best.values() for match in matches}
        completed = {name: [match for match in matches if match.id in candidates] for name, matches in layers.items()}
        total["keyword"] += answered(layers["keyword"], right)
        total["semantic"] += answered(layers["semantic"], right)
        total["rrf"] += answered(reciprocal_rank(best), right)
        total["fused"] += answered(add_scores(completed, get_ranking().most_per_word(DOCUMENTS)), right)
    return {name: sum_ / QUERIES for name, sum_ in total.items()}


@requirement("search.fused-never-much-worse")
@pytest.mark.parametrize(
    ("words", "meaning"), [(8, 0), (12, 0), (20, 1), (0, 6), (0.2, 8)], ids=lambda value: str(value)
)
def test_where_one_layer_knows_and_the_other_guesses_fusion_is_not_a_point_worse(words: float, meaning: float) -> None:
    means = measured(words, meaning)
    assert means["fused"] >= max(means["keyword"], means["semantic"]) - A_POINT, means
    assert means["rrf"] < max(means["keyword"], means["semantic"]) - 10 * A_POINT, "too easy to tell them apart"


@requirement("search.fused-never-much-worse", "search.fused")
@pytest.mark.parametrize(
    ("words", "meaning"), [(1, 2.5), (1, 3), (1, 3.5), (1.5, 3.5), (1.5, 4), (1.25, 4)], ids=lambda value: str(value)
)
def test_where_both_layers_know_something_fusion_is_better_than_either(words: float, meaning: float) -> None:
    means = measured(words, meaning)
    assert means["fused"] > max(means["keyword"], means["semantic"]) + A_POINT, means
