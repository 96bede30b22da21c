"""Whatever is asked and stored: does a cache keep what it must, and do questions differ both ways round?"""

import random
from array import array
from collections import OrderedDict
from math import hypot
from operator import mul

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onhand.memory.cache import SemanticCache
from onhand.memory.entry import Scope
from onhand.memory.guards import contradict, disagreement
from onhand.memory.shelf import Near, VectorShelf
from requirements import requirement

WORDS = st.sampled_from('is not Paris London 10 1,000 one more less from to "a" "b" x_y why ?'.split())
QUESTIONS = st.one_of(st.lists(WORDS, max_size=8).map(" ".join), st.text(max_size=40))


@requirement("cache.guards")
@given(QUESTIONS, QUESTIONS)
def test_questions_differ_both_ways_round_and_what_contradicts_disagrees(one: str, other: str) -> None:
    assert disagreement(one, other) == disagreement(other, one)
    assert contradict(one, other) == contradict(other, one)
    assert not contradict(one, other) or disagreement(one, other)
    assert disagreement(one, one) is None


@requirement("cache.max-entries", "cache.scope-never-crosses")
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef"), st.sampled_from(["ann", "bob"])), max_size=40),
)
def test_the_same_question_gets_its_last_answer_as_long_as_it_is_among_the_last_used(
    most: int, asked: list[tuple[bool, str, str]]
) -> None:
    cache = SemanticCache(max_entries=most)
    model: OrderedDict[tuple[str, str], int] = OrderedDict()
    for number, (is_stored, query, user) in enumerate(asked):
        key = (user, query)
        if is_stored:
            cache.store(query, number, Scope(user=user))
            model.pop(key, None)
            model[key] = number
            if len(model) > most:
                model.popitem(last=False)
            continue
        found = cache.lookup(query, Scope(user=user)).entry
        assert (found.response if found else None) == model.get(key)
        if key in model:
            model.move_to_end(key)
    assert cache.stats().entries == len(model)


def row(chance: random.Random, crowded: int, spread: float) -> "array[float]":
    """A direction among 80, most of it in the first `crowded` ones."""
    numbers = [chance.gauss(0.1, 1) * (1 if place < crowded else spread) for place in range(80)]
    length = hypot(*numbers)
    return array("f", [number / length for number in numbers])


@requirement("cache.lookup-is-exact")
@settings(deadline=None, max_examples=50)
@given(st.integers(0), st.integers(1, 80), st.floats(0, 1), st.floats(-1, 1), st.floats(0, 1))
def test_all_that_comes_near_is_found_however_the_vectors_lie(
    seed: int, crowded: int, spread: float, floor: float, margin: float
) -> None:
    pytest.importorskip("numpy")
    from onhand.memory import matrix

    chance = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "FEW", 20)
        patch.setattr(matrix, "SHORT", 64)
        shelf = VectorShelf()
        rows: dict[int, array[float]] = {}
        shelf.put(0, "", row(chance, crowded, spread))
        shelf.near("", row(chance, crowded, spread), floor, margin)  # from now on there is a matrix, which grows
        shelf.remove(0)
        for number in range(1, 151):
            twin = rows.get(number - 6) if number % 7 == 0 else None
            rows[number] = row(chance, crowded, spread) if twin is None else twin
            shelf.put(number, "", rows[number])
            if number % 5 == 0:
                gone = chance.choice(list(rows))
                shelf.remove(gone)
                del rows[gone]
        for query in (row(chance, crowded, spread), chance.choice(list(rows.values()))):
            every = [Near(number, round(min(1.0, sum(map(mul, one, query))), 9)) for number, one in rows.items()]
            every.sort(key=lambda one: (-one.similarity, one.number))
            best = every[0].similarity
            within = [one for one in every if one.similarity >= best - margin] if best >= floor else every[:1]
            assert shelf.near("", query, floor, margin) == within
