"""Concurrent callers with the same question compute once, in threads and in event loops."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from onhand.cache.cache import CacheAnswer, SemanticCache
from onhand.cache.entry import Scope
from onhand.embed.embedder import HashingEmbedder
from onhand.errors import InputError
from requirements import requirement

pytestmark = [requirement("cache.single-flight"), pytest.mark.timeout(30)]


class Slow:
    """A computation that goes on until it is let go; it knows how often it was begun."""

    def __init__(self, outcome: Any = "answer") -> None:
        self.outcome = outcome
        self.begun = 0
        self.at_work = threading.Event()
        self.let_go = threading.Event()

    def __call__(self) -> object:
        self.begun += 1
        self.at_work.set()
        assert self.let_go.wait(20)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def ask(cache: SemanticCache, query: str, compute: Callable[[], object]) -> CacheAnswer:
    return cache.get_or_compute(query, compute)


def wait_until_all_wait(cache: SemanticCache, threads: int) -> None:
    """Until so many threads wait for the future of the one flight that is under way."""
    (flight,) = cache._single_flight._flights.values()
    while True:
        with flight.future._condition:
            if len(flight.future._condition._waiters) >= threads:  # type: ignore[attr-defined]
                return


@pytest.mark.parametrize("count", [50, 200])
def test_many_threads_that_miss_at_once_compute_once(count: int) -> None:
    cache, slow = SemanticCache(HashingEmbedder()), Slow({"a": [1]})
    with ThreadPoolExecutor(count) as pool:
        answers = [pool.submit(ask, cache, "the question", slow) for _ in range(count)]
        assert slow.at_work.wait(20)
        wait_until_all_wait(cache, count - 1)
        slow.let_go.set()
        given = [answer.result() for answer in answers]
    assert slow.begun == 1
    assert [answer.response for answer in given] == [{"a": [1]}] * count
    assert sum(not answer.cached for answer in given) == 1
    assert len({id(answer.response) for answer in given}) == count
    stats = cache.stats()
    assert (stats.misses, stats.shared, stats.entries) == (1, count - 1, 1)
    assert len(cache._single_flight) == 0


@pytest.mark.parametrize("count", [50, 200])
def test_many_tasks_that_miss_at_once_compute_once(count: int) -> None:
    begun = 0

    async def all_at_once() -> list[CacheAnswer]:
        async def compute() -> str:
            nonlocal begun
            begun += 1
            await asyncio.sleep(0)
            return "answer"

        cache = SemanticCache(HashingEmbedder())
        return await asyncio.gather(*(cache.get_or_compute("the question", compute) for _ in range(count)))

    given = asyncio.run(all_at_once())
    assert begun == 1
    assert [answer.response for answer in given] == ["answer"] * count


def test_threads_and_tasks_share_one_computation() -> None:
    cache, slow = SemanticCache(), Slow()

    async def never() -> str:
        raise AssertionError("a thread was computing this already")

    with ThreadPoolExecutor(1) as pool:
        thread = pool.submit(ask, cache, "q", slow)
        assert slow.at_work.wait(20)

        async def join() -> CacheAnswer:
            asking = asyncio.ensure_future(cache.get_or_compute("q", never))
            await asyncio.sleep(0)
            slow.let_go.set()
            return await asking

        assert asyncio.run(join()).response == thread.result().response == "answer"


def test_different_questions_and_scopes_do_not_wait_for_each_other() -> None:
    cache, slow = SemanticCache(), Slow()
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(ask, cache, "q", slow)
        assert slow.at_work.wait(20)
        assert cache.get_or_compute("another", lambda: "x").response == "x"
        assert cache.get_or_compute("q", lambda: "y", Scope(user="ann")).response == "y"
        slow.let_go.set()
        assert busy.result().response == "answer"


def test_all_waiters_get_the_error_and_the_next_caller_computes_again() -> None:
    cache, slow = SemanticCache(), Slow(ValueError("the model is down"))
    with ThreadPoolExecutor(20) as pool:
        answers = [pool.submit(ask, cache, "q", slow) for _ in range(20)]
        assert slow.at_work.wait(20)
        wait_until_all_wait(cache, 19)
        slow.let_go.set()
        errors = [answer.exception() for answer in answers]
    assert slow.begun == 1
    assert {str(error) for error in errors} == {"the model is down"}
    assert cache.stats().entries == 0
    retried = cache.get_or_compute("q", lambda: "now it works")
    assert (retried.response, retried.cached) == ("now it works", False)


def test_a_cancelled_computation_is_taken_over_by_a_waiter() -> None:
    """The first is cancelled while it computes: one of the others computes, and all of them get that."""

    async def story() -> tuple[int, list[str], bool]:
        cache, begun = SemanticCache(), 0
        first_began = asyncio.Event()

        async def compute() -> str:
            nonlocal begun
            begun += 1
            if begun == 1:
                first_began.set()
                await asyncio.Event().wait()
            return "answer"

        tasks = [asyncio.ensure_future(cache.get_or_compute("q", compute)) for _ in range(10)]
        await first_began.wait()
        await asyncio.sleep(0)
        tasks[0].cancel()
        rest = await asyncio.gather(*tasks[1:])
        return begun, [answer.response for answer in rest], tasks[0].cancelled()

    assert asyncio.run(story()) == (2, ["answer"] * 9, True)


def test_a_cancelled_waiter_does_not_stop_the_computation() -> None:
    async def story() -> tuple[str, bool]:
        cache, going_on = SemanticCache(), asyncio.Event()

        async def compute() -> str:
            await going_on.wait()
            return "answer"

        first = asyncio.ensure_future(cache.get_or_compute("q", compute))
        waiter = asyncio.ensure_future(cache.get_or_compute("q", compute))
        for _ in range(10):
            await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        going_on.set()
        return (await first).response, waiter.cancelled()

    assert asyncio.run(story()) == ("answer", True)


def test_an_interrupted_computation_is_taken_over_by_a_waiter() -> None:
    cache, slow = SemanticCache(), Slow(KeyboardInterrupt())
    caught: list[BaseException] = []

    def interrupted() -> None:
        try:
            cache.get_or_compute("q", slow)
        except KeyboardInterrupt as error:
            caught.append(error)

    thread = threading.Thread(target=interrupted)
    thread.start()
    assert slow.at_work.wait(20)
    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(ask, cache, "q", lambda: "mine")
        wait_until_all_wait(cache, 1)
        slow.let_go.set()
        assert waiter.result().response == "mine"
    thread.join()
    assert len(caught) == 1


def test_a_computation_that_asks_its_own_question_does_not_wait_for_itself() -> None:
    cache = SemanticCache()

    def outer() -> str:
        return "outer of " + str(cache.get_or_compute("q", lambda: "inner").response)

    assert cache.get_or_compute("q", outer).response == "outer of inner"

    async def again() -> str:
        async def inner() -> str:
            return "inner"

        async def outer() -> str:
            answer = await asyncio.create_task(_awaited(cache.get_or_compute("async q", inner)))
            return f"outer of {answer.response}"

        return str((await cache.get_or_compute("async q", outer)).response)

    assert asyncio.run(again()) == "outer of inner"


def test_a_plain_call_inside_the_loop_does_not_wait_for_a_task_of_that_loop() -> None:
    async def story() -> tuple[str, str]:
        cache, going_on = SemanticCache(), asyncio.Event()

        async def compute() -> str:
            await going_on.wait()
            return "of the task"

        task = asyncio.ensure_future(cache.get_or_compute("q", compute))
        for _ in range(10):
            await asyncio.sleep(0)
        plain = cache.get_or_compute("q", lambda: "of the plain call").response
        going_on.set()
        return plain, (await task).response

    assert asyncio.run(story()) == ("of the plain call", "of the task")


def test_disguised_async_functions_are_awaited_or_rejected() -> None:
    cache = SemanticCache()

    async def compute(word: str = "answer") -> str:
        return word

    class Model:
        async def __call__(self) -> str:
            return "of a model"

    async def awaited(function: Callable[[], Any], query: str) -> Any:
        return (await cache.get_or_compute(query, function)).response

    assert asyncio.run(awaited(partial(compute, "partly"), "one")) == "partly"
    assert asyncio.run(awaited(Model(), "two")) == "of a model"
    plain: Callable[[], Any] = lambda: compute()  # noqa: E731  # what a caller might write
    with pytest.raises(InputError, match="pass an async function"):
        cache.get_or_compute("three", plain)
    assert len(cache._single_flight) == 0


async def _awaited(answer: Any) -> CacheAnswer:
    found: CacheAnswer = await answer
    return found
