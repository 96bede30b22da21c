"""Embedders: unit vectors, prompts, similarity, and hashed vectors."""

import random
import subprocess
import sys
from array import array
from math import hypot
from pathlib import Path
from typing import Any

import pytest

from onhand.embed import embedder
from onhand.embed.embedder import PLAIN, HashingEmbedder, cosine, find_top_similar, prompts_of, unit_vector
from onhand.errors import EmbedderError, InputError
from requirements import requirement


def test_numbers_become_a_vector_of_length_one() -> None:
    assert unit_vector([3, 4], "it") == array("f", [0.6, 0.8])
    assert hypot(*unit_vector(array("f", [3, 4]), "it")) == pytest.approx(1, abs=1e-6)
    assert hypot(*unit_vector(array("d", [1e-3, 2e-3]), "it")) == pytest.approx(1, abs=1e-6)


def test_a_vector_of_length_one_stays_as_it_is_to_the_last_bit_and_is_a_copy() -> None:
    vector = unit_vector([0.1, 0.2, 0.3, 0.7], "it")
    again = unit_vector(vector, "it")
    assert again == vector
    again[0] = 5.0
    assert vector[0] != 5.0


@pytest.mark.parametrize("numbers", [[], [0.0], [float("nan")], [float("inf")], array("f", [0.0]), ["x"], None])
def test_what_points_nowhere_is_refused(numbers: Any) -> None:
    with pytest.raises(EmbedderError, match="it is not a vector"):
        unit_vector(numbers, "it")


@requirement("embed.truncate-then-normalise")
@pytest.mark.parametrize("model", ["embeddinggemma-300M-Q8_0.gguf", "embeddinggemma", "google/EmbeddingGemma_300m"])
def test_embeddinggemma_is_told_what_a_text_is_for(model: str) -> None:
    prompts = prompts_of(model)
    assert prompts.add_prefix("x", "query") == "task: search result | query: x"
    assert prompts.add_prefix("x", "document") == "title: none | text: x"
    assert prompts.add_prefix("x", "similarity") == "task: sentence similarity | query: x"
    assert prompts.name == "embeddinggemma"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("intfloat/multilingual-e5-small", "e5"),
        ("multilingual-e5-large-Q8_0.gguf", "e5"),
        ("e5-base-v2", "e5"),
        ("multilingual-e5-large-instruct", "plain"),
        ("some-e5-model", "plain"),
        ("BAAI/bge-small-en-v1.5", "bge-en"),
        ("bge-m3", "plain"),
    ],
)
def test_prompts_are_recognized_by_the_name_of_the_model(model: str, name: str) -> None:
    assert prompts_of(model).name == name


def test_other_models_get_texts_as_they_are() -> None:
    assert prompts_of("all-MiniLM-L6-v2") == PLAIN
    assert PLAIN.add_prefix("{x}", "query") == "{x}"


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
    vectors = {f"{number:04}": [chance.gauss(0, 1) for _ in range(16)] for number in range(embedder.MANY_VECTORS)}
    vectors |= {f"twin {number}": vectors["0007"] for number in range(5)}
    query = [chance.gauss(0, 1) for _ in range(16)]
    among_many = find_top_similar(query, vectors, limit=40)
    one_by_one = sorted((-cosine(query, vector), key) for key, vector in vectors.items())[:40]
    assert [(-one.score, one.key) for one in among_many] == one_by_one
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert find_top_similar(query, vectors, limit=40) == among_many


@requirement("embed.top-similar")
def test_a_bad_vector_among_many_is_named() -> None:
    vectors = {str(number): [1.0, 0.0] for number in range(embedder.MANY_VECTORS)} | {"bad": [0.0, 0.0]}
    with pytest.raises(InputError, match="'bad' has the length 0"):
        find_top_similar([1.0, 0.0], vectors)


SOURCE = Path(__file__).parents[3] / "src"


def test_texts_that_share_words_are_nearer_than_texts_that_do_not() -> None:
    query, same, other = HashingEmbedder().embed(["rolling back a service", "Roll back the service!", "apple cake"])
    assert cosine(query, same) > cosine(query, other) + 0.2


def test_vectors_are_the_same_in_every_process_and_need_the_standard_library_alone() -> None:
    code = (
        "import sys; from onhand.embed.embedder import HashingEmbedder\n"
        "vector = HashingEmbedder(8).embed(['some words'])[0]\n"
        "print('numpy' in sys.modules, *vector)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": "7"},
        capture_output=True,
        check=True,
    )
    imported, *numbers = told.stdout.decode().split()
    assert imported == "False"
    assert [float(number) for number in numbers] == list(HashingEmbedder(8).embed(["some words"])[0])


def test_the_dimension_is_part_of_the_name() -> None:
    assert HashingEmbedder(8).name != HashingEmbedder(16).name
