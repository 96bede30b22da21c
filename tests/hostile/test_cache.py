"""Whatever is asked, answered or embedded, a cache never answers one question with the answer to another."""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf, nan
from typing import Any

import pytest

from hostile.cases import Case, Phrases, each, quantity
from onhand.cache.cache import SemanticCache
from onhand.cache.entry import Computed, Scope
from onhand.embed.embedder import Kind
from onhand.errors import InputError
from requirements import requirement

phrases = Phrases()


class Same:
    """An embedder to which every text means the same; `gives` is what it answers, whatever that is."""

    prompt_format, min_score, dimension = "plain", None, 2

    def __init__(self, gives: "Callable[[], Sequence[float]]" = lambda: (1.0, 0.0), name: str = "same") -> None:
        self.name, self._gives = name, gives

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        return [array("f", self._gives()) for _ in texts]


def two_questions(case: Case, found: Any) -> None:
    """They mean the same to the embedder, which is never enough where they differ in a detail."""
    answered(case, *found.groups())


def answered(case: Case, one: str, other: str) -> None:
    for cache in (SemanticCache(Same()), SemanticCache(threshold=0.5)):
        cache.store(one, "the answer to one")
        assert cache.lookup(other).hit == (case.expected == "accept")


def other_numbers_of_dimensions(case: Case, found: Any) -> None:
    """Vectors of one length are never compared with those of another."""
    kept: list[Any] = []
    before, after = int(found[1]), int(found[2])
    cache = SemanticCache(Same(lambda: (1.0,) * before), on_persist=kept.extend)
    cache.store("what is asked", "x")
    cache.persist()
    for embedder in (Same(lambda: (1.0,) * after), Same(lambda: (1.0,) * after, name="after")):
        assert not SemanticCache(embedder, initial_entries=kept).lookup("what is wanted").hit


def an_empty_question(case: Case, found: Any) -> None:
    cache = SemanticCache(Same())
    for question in ("", " ", "\u200b", "\n\u2060\U000e0041"):
        with pytest.raises(InputError):
            cache.store(question, "x")


def a_long_question(case: Case, found: Any) -> None:
    """It is not compared, because a model reads only its beginning."""
    long = "what is asked " * max(min(quantity(found[0]), 900_000) // 14, 100)
    cache = SemanticCache(Same())
    cache.store(long, "x")
    assert cache.lookup(long).kind == "exact"
    assert not cache.lookup(f"{long} now").hit
    assert not cache.lookup("what is asked").hit


def computing_is_cancelled(case: Case, found: Any) -> None:
    cache = SemanticCache(Same())

    async def main() -> None:
        started = asyncio.Event()

        async def compute() -> str:
            started.set()
            await asyncio.sleep(3600)
            return "x"

        task = asyncio.ensure_future(cache.get_or_compute("what is asked", compute))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not cache.lookup("what is asked").hit
    assert cache.get_or_compute("what is asked", lambda: "y").response == "y"


def many_threads(case: Case, found: Any) -> None:
    cache, calls = SemanticCache(Same()), list[str]()

    def compute() -> str:
        calls.append("called")
        return "x"

    with ThreadPoolExecutor(32) as pool:
        answers = pool.map(lambda _: cache.get_or_compute("what is asked", compute).response, range(64))
        assert set(answers) == {"x"}
    assert len(calls) == 1


def what_is_kept_cannot_be_written(case: Case, found: Any) -> None:
    """Whoever persists is told why nothing is kept, and the cache goes on in memory."""

    def refuse(entries: Any) -> None:
        raise OSError(28, "No space left on device")

    cache = SemanticCache(Same(), on_persist=refuse)
    assert cache.get_or_compute("what is asked", lambda: "x").response == "x"
    with pytest.raises(OSError, match="space"):
        cache.persist()
    assert cache.lookup("what is asked").hit


def another_embedder(case: Case, found: Any) -> None:
    kept: list[Any] = []
    before = SemanticCache(Same(name="before"), on_persist=kept.extend)
    before.store("what is asked", "x")
    before.persist()
    after = SemanticCache(Same(name="after"), initial_entries=kept)
    assert not after.lookup("what is wanted").hit
    assert after.stats().not_compared == 1


def another_scope(before: Scope, after: Scope) -> Callable[[Case, Any], None]:
    def check(case: Case, found: Any) -> None:
        cache = SemanticCache(Same())
        cache.store("what is asked", "x", before)
        assert cache.lookup("what is asked", before).hit
        assert not cache.lookup("what is asked", after).hit
        assert not cache.lookup("what is wanted", after).hit

    return check


def too_old(case: Case, found: Any) -> None:
    now_s = [1000.0]
    cache = SemanticCache(Same(), ttl_s=10, clock=lambda: now_s[0])
    cache.store("what is asked", "x")
    now_s[0] += 10
    assert not cache.lookup("what is asked").hit


def the_clock_is_set_back(case: Case, found: Any) -> None:
    now_s = [1_700_000_000.0]
    cache = SemanticCache(Same(), clock=lambda: now_s[0])
    cache.store("what is asked", "x")
    now_s[0] -= 10 * 365 * 86_400
    assert cache.get_or_compute("what is asked", lambda: "y").response == "y"
    assert cache.lookup("what is asked").hit


def computing_fails(case: Case, found: Any) -> None:
    cache = SemanticCache(Same())
    with pytest.raises(ZeroDivisionError):
        cache.get_or_compute("what is asked", lambda: 1 // 0)
    assert not cache.lookup("what is asked").hit
    assert cache.stats().entries == 0


def half_an_answer(case: Case, found: Any) -> None:
    cache = SemanticCache(Same())
    answer = cache.get_or_compute("what is asked", lambda: Computed("The ans", keep=False))
    assert answer.response == "The ans"
    assert not cache.lookup("what is asked").hit


def a_planted_answer(case: Case, found: Any) -> None:
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


def a_stampede(case: Case, found: Any) -> None:
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


def a_stampede_that_fails(case: Case, found: Any) -> None:
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


@phrases.mean(
    r"(?<!\w)(NaN|inf(?:inity)?|zeros?|\[[-\d., ]*\]|empty vector|wrong (?:size|dim\w*)|"
    r"dim\w* (?:differ|change)\w*)(?!\w)"
)
def a_vector_that_is_none(case: Case, found: Any) -> None:
    """What the embedder answers is no direction, or one of another space."""
    word = found[1].lower()
    numbers: tuple[float, ...] | None = {"nan": (nan, 1.0), "inf": (inf, 1.0), "infinity": (inf, 1.0)}.get(word)
    if numbers is None:
        numbers = (0.0, 0.0) if word.startswith("zero") else (1.0, 0.0, 0.0) if "dim" in word or "wrong" in word else ()
    cache = SemanticCache(Same(lambda: numbers or ()))
    assert cache.get_or_compute("what is asked", lambda: "x").response == "x"
    assert not cache.lookup("what is wanted").hit
    assert cache.lookup("what is asked").kind == "exact"


def the_embedder_times_out(case: Case, found: Any) -> None:
    def give_up() -> Sequence[float]:
        raise TimeoutError

    cache = SemanticCache(Same(give_up))
    answer = cache.get_or_compute("what is asked", lambda: "x")
    assert answer.response == "x"
    assert answer.lookup.reason == "the question could not be embedded: TimeoutError"
    assert cache.lookup("what is asked").kind == "exact"


def so_many_entries(case: Case, found: Any) -> None:
    """None at all is a choice; fewer than none is an error."""
    number = int(found[1] or found[2])
    if number < 0:
        with pytest.raises(InputError):
            SemanticCache(Same(), max_entries=number)
        return
    cache = SemanticCache(Same(), max_entries=number)
    answers = [cache.get_or_compute(f"what is asked {count}", lambda: "x") for count in range(min(number, 50) + 2)]
    assert cache.stats().entries <= number
    assert number or (answers[0].reason, cache.lookup("what is asked 0").hit) == (
        "computed, not stored: max_entries is 0",
        False,
    )


def a_threshold(case: Case, found: Any) -> None:
    """One that everything would pass, or nothing, is an error; any other is kept to."""
    try:
        cache = SemanticCache(Same(), threshold=float(found[1]))
    except InputError:
        return
    cache.store("refund 10 USD", "ten")
    assert case.expected == "accept" or not cache.lookup("how is the weather").hit


def damaged_entries(case: Case, found: Any) -> None:
    """What was kept and cannot be read is no entry, and the cache works."""
    damaged: tuple[list[Any], ...] = ([None], [5], [{}], [{"question": 5}], ["x"])
    for kept in damaged:
        try:
            cache = SemanticCache(Same(), initial_entries=kept)
        except InputError:
            continue
        assert cache.get_or_compute("what is asked", lambda: "x").response == "x"


QUOTED = r"[«“„\"'](.+?)[»”“\"']"
# What descriptions mean, the more particular first.
phrases.mean(rf"{QUOTED} (?:vs\.?|versus|and|/|->|against|then) {QUOTED}")(two_questions)
phrases.mean(r"(\d+) ?(?:->|→|to|dims? then) ?(\d+)")(other_numbers_of_dimensions)
phrases.mean(r"[«“\"'][»”\"']|empty (?:question|query|key|prompt)|blank")(an_empty_question)
phrases.mean(r"\d[\d,]* ?(?:[KM]i?B|k|chars?|characters|words)\b.*|(?:huge|long) (?:question|query)")(a_long_question)
phrases.mean(r"cancel")(computing_is_cancelled)
phrases.mean(r"\d+ threads|thread race|threads")(many_threads)
phrases.mean(r"persist\w* (?:fails|error)|ENOSPC|disk (?:is )?full|read.?only")(what_is_kept_cannot_be_written)
phrases.mean(r"index (?:generation|change)|re-?index|filters?\b|documents? (?:change|re-?index)|corpus|generation")(
    another_scope(Scope(filter="before"), Scope(filter="after"))
)
phrases.mean(r"embedder|model name|model change|other model")(another_embedder)
phrases.mean(r"model\b")(another_scope(Scope(model="before"), Scope(model="after")))
phrases.mean(r"context|system prompt|instructions|pinned")(another_scope(Scope(system="before"), Scope(system="after")))
phrases.mean(r"tool (?:list|set)|tools")(another_scope(Scope(tools=["a"]), Scope(tools=["a", "b"])))
phrases.mean(r"tenant|user|another person|account|principal")(another_scope(Scope(user="a"), Scope(user="b")))
phrases.mean(r"ttl|expire|too old|stale")(too_old)
phrases.mean(r"clock|jump")(the_clock_is_set_back)
phrases.mean(r"attacker|plant|poison")(a_planted_answer)
phrases.mean(r"waiters|raises? for|(?:all|each) .*error")(a_stampede_that_fails)
phrases.mean(r"stampede|concurrent|at once|same miss")(a_stampede)
phrases.mean(r"raise|error|fail")(computing_fails)
phrases.mean(r"stream|partial|half|cut\b|truncat")(half_an_answer)
phrases.mean(r"hang|time(?:s|d)? ?out|slow")(the_embedder_times_out)
phrases.mean(r"(?:max_?entries|entries|size)\D*(-?\d+)|^(0)$")(so_many_entries)
phrases.mean(r"threshold\D*(-?[\d.]+)")(a_threshold)
phrases.mean(r"corrupt|damage|truncated file|bad json|persist")(damaged_entries)


@requirement("cache.bad-vectors", "cache.bad-inputs")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", each("cache"))
def test_a_bad_input_ends_in_no_hit_a_clear_answer_or_a_bound(case: Case) -> None:
    sent = case.sent
    pair = [*sent.values()] if isinstance(sent, dict) else sent
    if isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(one, str) for one in pair):
        answered(case, *pair)
    else:
        phrases.act(case)
