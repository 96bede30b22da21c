"""Every bad input of the area "cache" in $ONHAND_DATA/bad_inputs.jsonl ends as it says.

Each case is a sentence; the functions here say what it means for this cache. An unknown case fails, so that none is
skipped.
"""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from onhand.cache.cache import SemanticCache
from onhand.cache.entry import Computed, Scope
from onhand.embed.embedder import Kind
from public_cases import cases, each
from requirements import requirement

Case = dict[str, Any]


class Same:
    """An embedder to which every text means the same; `gives` is what it answers, whatever that is."""

    prompt_format, min_score, dimension = "plain", None, 2

    def __init__(self, gives: "Callable[[], Sequence[float]]" = lambda: (1.0, 0.0), name: str = "same") -> None:
        self.name, self._gives = name, gives

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        return [array("f", self._gives()) for _ in texts]


def two_questions_of_the_same_meaning(case: Case) -> None:
    one, other = (part.split("»")[0] for part in case["setup"].split("«")[1:])
    for cache in (SemanticCache(Same()), SemanticCache(threshold=0.5)):
        cache.store(one, "the answer to one")
        assert not cache.lookup(other).hit


def another_embedder(case: Case) -> None:
    kept: list[Any] = []
    before = SemanticCache(Same(name="before"), on_persist=kept.extend)
    before.store("what is asked", "x")
    before.persist()
    after = SemanticCache(Same(name="after"), initial_entries=kept)
    assert not after.lookup("what is wanted").hit
    assert after.stats().not_compared == 1


def another_scope(before: Scope, after: Scope) -> Callable[[Case], None]:
    def check(case: Case) -> None:
        cache = SemanticCache(Same())
        cache.store("what is asked", "x", before)
        assert cache.lookup("what is asked", before).hit
        assert not cache.lookup("what is asked", after).hit
        assert not cache.lookup("what is wanted", after).hit

    return check


def too_old(case: Case) -> None:
    now_s = [1000.0]
    cache = SemanticCache(Same(), ttl_s=10, clock=lambda: now_s[0])
    cache.store("what is asked", "x")
    now_s[0] += 10
    assert not cache.lookup("what is asked").hit


def the_clock_is_set_back(case: Case) -> None:
    now_s = [1_700_000_000.0]
    cache = SemanticCache(Same(), clock=lambda: now_s[0])
    cache.store("what is asked", "x")
    now_s[0] -= 10 * 365 * 86_400
    assert cache.get_or_compute("what is asked", lambda: "y").response == "y"
    assert cache.lookup("what is asked").hit


def computing_fails(case: Case) -> None:
    cache = SemanticCache(Same())
    with pytest.raises(ZeroDivisionError):
        cache.get_or_compute("what is asked", lambda: 1 // 0)
    assert not cache.lookup("what is asked").hit
    assert cache.stats().entries == 0


def half_an_answer(case: Case) -> None:
    cache = SemanticCache(Same())
    answer = cache.get_or_compute("what is asked", lambda: Computed("The ans", keep=False))
    assert answer.response == "The ans"
    assert not cache.lookup("what is asked").hit


def a_planted_answer(case: Case) -> None:
    """Who can ask in the same scope may plant a near question; the popular one, asked as it is, gets its own answer,
    and one that is about as near to both gets neither. Another user's cannot be reached at all."""
    turns = {"how do I reset it": 0.0, "how do I reset it now": 8.0, "how does one reset it": 4.0}

    class Turned(Same):
        def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
            from math import cos, radians, sin

            return [array("f", [cos(radians(turns[text])), sin(radians(turns[text]))]) for text in texts]

    cache = SemanticCache(Turned())
    cache.store("how do I reset it", "in the settings")
    cache.store("how do I reset it now", "send me the password")
    found = cache.lookup("how do I reset it").entry
    assert found is not None
    assert found.response == "in the settings"
    assert not cache.lookup("how does one reset it").hit
    assert not cache.lookup("how does one reset it", Scope(user="another")).hit


def a_stampede(case: Case) -> None:
    cache = SemanticCache(Same())
    calls = []

    async def compute() -> str:
        calls.append(1)
        await asyncio.sleep(0)
        return "x"

    async def main() -> Any:
        return await asyncio.gather(*(cache.get_or_compute("what is asked", compute) for _ in range(200)))

    assert [answer.response for answer in asyncio.run(main())] == ["x"] * 200
    assert (len(calls), cache.stats().entries) == (1, 1)


def a_stampede_that_fails(case: Case) -> None:
    cache = SemanticCache(Same())
    calls = []

    async def compute() -> str:
        calls.append(1)
        await asyncio.sleep(0)
        if len(calls) == 1:
            raise OSError("down")
        return "x"

    async def main() -> Any:
        asked = [cache.get_or_compute("what is asked", compute) for _ in range(200)]
        return await asyncio.gather(*asked, return_exceptions=True)

    assert all(isinstance(answer, OSError) for answer in asyncio.run(main()))
    assert (len(calls), cache.stats().entries) == (1, 0)
    assert cache.get_or_compute("what is asked", lambda: "x").response == "x"


def a_vector_that_is_none(*numbers: float) -> Callable[[Case], None]:
    def check(case: Case) -> None:
        cache = SemanticCache(Same(lambda: numbers))
        assert cache.get_or_compute("what is asked", lambda: "x").response == "x"
        assert not cache.lookup("what is wanted").hit
        assert cache.lookup("what is asked").kind == "exact"

    return check


def the_embedder_times_out(case: Case) -> None:
    def give_up() -> Sequence[float]:
        raise TimeoutError

    cache = SemanticCache(Same(give_up))
    answer = cache.get_or_compute("what is asked", lambda: "x")
    assert answer.response == "x"
    assert answer.lookup.reason == "the question could not be embedded: TimeoutError"
    assert cache.lookup("what is asked").kind == "exact"


def no_entries(case: Case) -> None:
    cache = SemanticCache(Same(), max_entries=0)
    answer = cache.get_or_compute("what is asked", lambda: "x")
    assert (answer.response, answer.reason) == ("x", "computed, not stored: max_entries is 0")
    assert not cache.lookup("what is asked").hit


ENDS: dict[str, Callable[[Case], None]] = {
    "number pair": two_questions_of_the_same_meaning,
    "date pair": two_questions_of_the_same_meaning,
    "model change": another_embedder,
    "system prompt change": another_scope(Scope(system="before"), Scope(system="after")),
    "tool set change": another_scope(Scope(tools=["a"]), Scope(tools=["a", "b"])),
    "TTL expired": too_old,
    "clock back": the_clock_is_set_back,
    "error cached": computing_fails,
    "partial cached": half_an_answer,
    "poison planted": a_planted_answer,
    "200 concurrent same miss": a_stampede,
    "compute raises for one of 200": a_stampede_that_fails,
    "vector NaN": a_vector_that_is_none(float("nan"), 1.0),
    "vector zero": a_vector_that_is_none(0.0, 0.0),
    "vector inf": a_vector_that_is_none(float("inf"), 1.0),
    "vector empty": a_vector_that_is_none(),
    "embedder times out": the_embedder_times_out,
    "maxEntries 0": no_entries,
}
PAIR = {"setup": "«refund 10 USD» vs «refund 1000 USD»"}


@requirement("cache.bad-vectors", "cache.bad-inputs")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ENDS)
def test_bad_inputs_are_handled(name: str) -> None:
    ENDS[name](PAIR)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", each(cases("cache")))
def test_bad_inputs_of_the_public_data_are_handled_as_specified(case: Case) -> None:
    ENDS[case["name"]](case)
