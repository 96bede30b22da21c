"""The most similar questions are found, with and without numpy, after any number of changes."""

import os
import random
import subprocess
import sys
from array import array
from math import sqrt
from operator import mul
from pathlib import Path

import pytest

import onhand
from onhand.cache import similarity
from onhand.cache.similarity import Neighbor, VectorIndex, WordIndex
from requirements import requirement


def vector(chance: random.Random, dimension: int = 24) -> "array[float]":
    numbers = [chance.gauss(0.3, 1) for _ in range(dimension)]
    length = sqrt(sum(number * number for number in numbers))
    return array("f", [number / length for number in numbers])


REACH = 0.3


def expected(rows: "dict[int, array[float]]", query: "array[float]", floor: float) -> list[Neighbor]:
    found = [
        Neighbor(number, round(max(-1.0, min(1.0, sum(map(mul, row, query)))), similarity.DECIMALS))
        for number, row in rows.items()
    ]
    found.sort(key=lambda one: (-one.similarity, one.number))
    best = found[0].similarity
    return found[:2] + [one for one in found[2:] if one.similarity >= best - REACH] if best >= floor else found[:1]


@requirement("cache.lookup-is-exact")
@pytest.mark.parametrize("with_numpy", [True, False])
def test_the_best_and_all_close_matches_are_found_after_any_changes(
    monkeypatch: pytest.MonkeyPatch, with_numpy: bool
) -> None:
    monkeypatch.setattr(similarity, "_has_numpy", lambda: with_numpy)
    chance = random.Random(1)
    index = VectorIndex()
    rows: dict[int, array[float]] = {}
    for number in range(1, 401):
        twin = rows.get(number - 6) if number % 7 == 0 else None
        rows[number] = vector(chance) if twin is None else twin
        index.put(number, "", rows[number])
        if number % 3 == 0:
            gone = chance.choice(list(rows))
            index.remove(gone)
            del rows[gone]
        if number % 10 == 0:
            for floor in (-1.0, 0.0, 0.4, 0.8, 1.0):
                query = vector(chance)
                assert index.find_near("", query, floor, REACH) == expected(rows, query, floor)
                same = chance.choice(list(rows.values()))
                assert index.find_near("", same, floor, REACH) == expected(rows, same, floor)
    assert len(index) == len(rows)
    for number in list(rows):
        index.remove(number)
    assert (len(index), index.find_near("", vector(chance), -1.0, REACH)) == (0, [])


def test_a_few_questions_need_no_numpy() -> None:
    code = """
import sys
from array import array
from onhand.cache.cache import SemanticCache
from onhand.embed.embedder import HashingEmbedder
cache = SemanticCache(HashingEmbedder())
cache.store("how do I create a button", "so")
assert cache.lookup("how do I create  a button").hit
cache.lookup("how do I create a blue button")
assert "numpy" not in sys.modules
"""
    environ = {**os.environ, "PYTHONPATH": str(Path(onhand.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=False)
    assert done.stderr == ""


@requirement("cache.exact-without-embedding")
def test_rare_words_weigh_more_and_results_are_sorted_by_similarity() -> None:
    index = WordIndex()
    texts = ["how do I bake bread", "how do I bake a cake", "how do I build a boat", "why is the sky blue"]
    for number, text in enumerate(texts):
        index.put(number, text, None)
    found = index.find_near("how do I bake bread", None, 0.0, 1.0)
    assert found[0] == Neighbor(0, 1.0)
    assert found[1].number == 1
    assert found == sorted(found, key=lambda one: (-one.similarity, one.number))
    assert index.find_near("zzz qqq", None, 0.1, 1.0) == []
    assert index.find_near("", None, 0.1, 1.0) == []
    index.remove(0)
    assert index.find_near("how do I bake bread", None, 0.0, 1.0)[0].number == 1
    for number in (1, 2, 3):
        index.remove(number)
    assert len(index) == 0
    assert not index._frequencies
