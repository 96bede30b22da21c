"""Properties of the cache: least recently used entries go first, and guards are symmetric."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from onhand.cache.cache import SemanticCache
from onhand.cache.entry import Scope
from onhand.cache.guards import contradict, disagreement
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
