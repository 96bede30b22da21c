"""Which vectors are alike?"""

import random
import sys
from array import array

import pytest

from onhand.embed import similar
from onhand.embed.similar import cosine, find_top_similar
from onhand.errors import InputError
from requirements import requirement


@requirement("embed.top-similar")
def test_the_cosine_does_not_depend_on_lengths() -> None:
    assert cosine([1.0, 0.0], [5.0, 0.0]) == 1
    assert cosine([1.0, 0.0], [0.0, 2.0]) == 0
    assert cosine([1.0, 1.0], [-3.0, -3.0]) == -1
    assert cosine(array("f", [3, 4]), [4, 3]) == pytest.approx(24 / 25)


@requirement("embed.top-similar")
@pytest.mark.parametrize(
    ("a", "b", "complaint"),
    [
        ([1.0], [1.0, 0.0], "vectors of 1 and 2 numbers"),
        ([0.0, 0.0], [1.0, 0.0], "the first vector has the length 0.0"),
        ([1.0, 0.0], [0.0, 0.0], "the second vector has the length 0.0"),
        ([1.0, float("nan")], [1.0, 0.0], "the first vector has the length nan"),
        ([1.0, 0.0], [float("inf"), 0.0], "the second vector has the length inf"),
        ([], [], "the first vector has the length 0"),
    ],
)
def test_vectors_that_cannot_be_compared_are_refused(a: list[float], b: list[float], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        cosine(a, b)


@requirement("embed.top-similar")
def test_the_best_come_first_and_equals_by_key() -> None:
    vectors = {"z": [1.0, 0.0], "b": [0.0, 1.0], "a": [2.0, 0.0], "m": [1.0, 1.0]}
    found = find_top_similar([1.0, 0.0], vectors, limit=3)
    assert [one.key for one in found] == ["a", "z", "m"]
    assert found[0].score == found[1].score == 1
    assert [one.key for one in find_top_similar([1.0, 0.0], vectors)] == ["a", "z", "m", "b"]


@requirement("embed.top-similar")
def test_nothing_is_like_anything_in_an_empty_map_and_ten_is_the_default_limit() -> None:
    assert find_top_similar([1.0], {}) == []
    assert len(find_top_similar([1.0], {str(number): [1.0] for number in range(30)})) == 10


@requirement("embed.top-similar")
def test_a_vector_that_cannot_be_compared_is_named() -> None:
    with pytest.raises(InputError, match="'odd' has 3 numbers and the query 2"):
        find_top_similar([1.0, 0.0], {"fine": [1.0, 0.0], "odd": [1.0, 0.0, 0.0]})
    with pytest.raises(InputError, match="'zero' has the length 0"):
        find_top_similar([1.0, 0.0], {"fine": [1.0, 0.0], "zero": [0.0, 0.0]})
    with pytest.raises(InputError, match="the limit is 0"):
        find_top_similar([1.0], {}, limit=0)


@requirement("embed.top-similar")
def test_many_vectors_are_ranked_as_few_are_with_numpy_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    vectors = {f"{number:04}": [chance.gauss(0, 1) for _ in range(16)] for number in range(similar.MANY)}
    vectors |= {f"twin {number}": vectors["0007"] for number in range(5)}
    query = [chance.gauss(0, 1) for _ in range(16)]
    among_many = find_top_similar(query, vectors, limit=40)
    one_by_one = sorted((-cosine(query, vector), key) for key, vector in vectors.items())[:40]
    assert [(-one.score, one.key) for one in among_many] == one_by_one
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert find_top_similar(query, vectors, limit=40) == among_many


@requirement("embed.top-similar")
def test_a_bad_vector_among_many_is_named() -> None:
    vectors = {str(number): [1.0, 0.0] for number in range(similar.MANY)} | {"bad": [0.0, 0.0]}
    with pytest.raises(InputError, match="'bad' has the length 0"):
        find_top_similar([1.0, 0.0], vectors)
