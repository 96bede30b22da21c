"""The semantic cache: hits and misses, scopes, freshness, eviction, persistence and tools."""

import asyncio
import json
import threading
from array import array
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from onhand.cache.cache import SemanticCache, open_cache
from onhand.cache.entry import Computed, Scope
from onhand.cache.similarity import MAX_COMPARED_CHARS
from onhand.embed.embedder import HashingEmbedder, Kind
from onhand.errors import EmbedderError, InputError, StoreError
from onhand.tools import Registry
from requirements import requirement


class Told:
    """An embedder that is told the direction of each text, in degrees; it counts the texts that it was given."""

    prompt_format = "plain"
    min_score: float | None = None
    dimension = 2

    def __init__(self, degrees: dict[str, float] | None = None, name: str = "told") -> None:
        self.name = name
        self.degrees = degrees or {}
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        from math import cos, radians, sin

        assert kind == "similarity"
        self.texts += texts
        turns = [radians(self.degrees.get(text, 90)) for text in texts]
        return [array("f", [cos(turn), sin(turn)]) for turn in turns]


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now_s


BUTTON, PARAPHRASE = "How do I create a button?", "What is the way to make a button?"


@requirement("cache.get-or-compute")
def test_an_answer_is_computed_once_and_then_found_by_the_same_and_by_a_similar_question() -> None:
    cache = SemanticCache(Told({BUTTON: 0, PARAPHRASE: 10}))
    calls = []

    def compute() -> str:
        calls.append(1)
        return "Like this."

    first = cache.get_or_compute(BUTTON, compute)
    assert (first.response, first.cached, first.reason) == ("Like this.", False, "computed and stored")
    second = cache.get_or_compute(BUTTON, compute)
    assert (second.response, second.cached, second.lookup.kind) == ("Like this.", True, "exact")
    third = cache.get_or_compute(PARAPHRASE, compute)
    assert (third.response, third.cached, third.lookup.kind) == ("Like this.", True, "semantic")
    assert third.reason == "similar, with the same particulars, and well ahead of any other"
    assert third.lookup.similarity == pytest.approx(0.985, abs=0.001)
    assert cache.get_or_compute("Why is the sky blue?", lambda: "So.").response == "So."
    assert len(calls) == 1


@requirement("cache.threshold")
def test_only_a_similarity_of_at_least_the_threshold_is_a_hit() -> None:
    degrees = {"cached question": 0, "just near": 31.7, "just far": 31.9}  # cos 31.788° = 0.85
    cache = SemanticCache(Told(degrees))
    cache.store("cached question", "x")
    assert cache.lookup("just near").hit
    miss = cache.lookup("just far")
    assert (miss.hit, miss.entry, miss.reason) == (False, None, "no cached question is similar enough")
    assert 0.84 < miss.similarity < 0.85
    assert cache.lookup("far away").similarity == pytest.approx(0.0, abs=1e-6)
    strict = SemanticCache(Told(degrees), threshold=0.99)
    strict.store("cached question", "x")
    assert not strict.lookup("just near").hit
    exact = SemanticCache(Told({"a": 0, "b": 0}), threshold=1.0)
    exact.store("a", "x")
    assert exact.lookup("b").hit


@requirement("cache.margin")
def test_a_large_lead_makes_up_for_a_little_similarity_unless_a_threshold_is_given() -> None:
    degrees: dict[str, float] = {
        "cached question": 0,
        "something else": 180,
        "about it": 34,
        "far off": 36,
    }  # cos 34° = 0.829
    cache = SemanticCache(Told(degrees))
    cache.store("cached question", "x")
    assert not cache.lookup("about it").hit  # nothing is there to be ahead of
    cache.store("something else", "y")
    assert cache.lookup("about it").hit
    assert not cache.lookup("far off").hit
    floored = SemanticCache(Told(degrees), threshold=0.85)
    floored.store("cached question", "x")
    floored.store("something else", "y")
    assert floored.lookup("about it").reason == "no cached question is similar enough"


@requirement("cache.margin")
def test_more_caution_never_hits_more() -> None:
    asked = [f"{'very ' * angle}near" for angle in range(71)]
    degrees: dict[str, float] = {"a": 0, "b": 70} | {text: float(angle) for angle, text in enumerate(asked)}
    hits: list[set[int]] = []
    for caution in (0, 0.25, 0.5, 0.75, 1):
        cache = SemanticCache(Told(degrees), caution=caution)
        cache.store("a", 1)
        cache.store("b", 2)
        hits.append({angle for angle, text in enumerate(asked) if cache.lookup(text).hit})
    assert all(bold > careful for bold, careful in pairwise(hits))
    assert hits[-1]


@requirement("cache.margin")
def test_a_hit_needs_a_margin_over_the_next_question_with_another_answer() -> None:
    cache = SemanticCache(Told({"the red one": 0, "the blue one": 20, "the tall one": 60, "which is it": 10, "it": 2}))
    cache.store("the red one", "red")
    cache.store("the blue one", "blue")
    cache.store("the tall one", "tall")
    miss = cache.lookup("which is it")
    assert (miss.hit, miss.reason) == (False, "two questions with different answers are about equally similar")
    assert miss.similarity == pytest.approx(miss.runner_up)
    cache.store("the blue one", "red")  # the same answer is no rival
    assert cache.lookup("which is it").hit
    assert cache.lookup("it").hit
    bold = SemanticCache(Told({"a": 0, "b": 20, "c": 9}), caution=0)
    bold.store("a", 1)
    bold.store("b", 2)
    found = bold.lookup("c").entry
    assert found is not None
    assert found.response == 1


@requirement("cache.margin")
def test_a_contradicting_question_is_not_a_rival() -> None:
    cache = SemanticCache(Told({"the report for 2025": 0, "the report for 2026": 5, "show the report for 2025": 1}))
    cache.store("the report for 2025", "old")
    cache.store("the report for 2026", "new")
    found = cache.lookup("show the report for 2025")
    assert found.entry is not None
    assert found.entry.response == "old"


@requirement("cache.margin")
def test_a_miss_reports_the_best_similarity() -> None:
    cache = SemanticCache(Told({"a": 0, "b": 60, "c": 50}))
    assert cache.lookup("c").similarity == 0.0  # nothing is there
    cache.store("a", 1)
    assert cache.lookup("c").similarity == pytest.approx(0.643, abs=0.001)
    cache.store("bake a loaf of bread", 2)
    by_words = SemanticCache()
    by_words.store("how do I bake a loaf of bread", "so")
    miss = by_words.lookup("how do I bake a cake")
    assert not miss.hit
    assert 0 < miss.similarity < 1


@requirement("cache.guards")
@pytest.mark.parametrize(
    ("cached", "asked", "reason"),
    [
        ("refund 10 USD", "refund 1000 USD", "different numbers"),
        ("report for 2025", "report for 2026", "different numbers"),
        ("may I eat it", "may I not eat it", "one is negated"),
        ("the mayor of Paris", "the mayor of Rome", "different names"),
        ('who said "yes we can"', 'who said "maybe we can"', "different quotations"),
    ],
)
def test_questions_with_different_particulars_never_hit(cached: str, asked: str, reason: str) -> None:
    for cache in (SemanticCache(Told({cached: 0, asked: 0})), SemanticCache(threshold=0.5)):
        cache.store(cached, "wrong")
        miss = cache.lookup(asked)
        assert (miss.hit, miss.reason) == (False, f"the most similar question differs: {reason}")
        assert cache.stats().by_reason == {miss.reason: 1}


def test_a_question_that_disagrees_is_not_a_rival() -> None:
    cache = SemanticCache(Told({"report for 2025": 2, "report for 2026": 3, "the report for 2025": 1}))
    cache.store("report for 2025", "old")
    cache.store("report for 2026", "new")
    found = cache.lookup("the report for 2025").entry
    assert found is not None
    assert found.response == "old"


@requirement("cache.exact-without-embedding")
def test_the_same_question_hits_without_embedding_despite_white_space_and_accents() -> None:
    embedder = Told()
    cache = SemanticCache(embedder)
    cache.store("How   was the\ncafe\u0301?", "Good.")
    embedder.texts.clear()
    for query in ("How was the café?", " How was\tthe cafe\u0301? "):
        found = cache.lookup(query)
        assert (found.kind, found.reason, found.similarity) == ("exact", "the same question", 1.0)
    assert embedder.texts == []
    assert cache.get_or_compute("How was the café?", lambda: "Bad.").cached
    cache.get_or_compute("something else", lambda: "x")
    assert embedder.texts == ["something else"]  # once, for the lookup and for keeping it
    assert cache.lookup("how was the CAFÉ?").kind != "exact"


@requirement("cache.exact-without-embedding")
def test_without_an_embedder_questions_are_compared_by_words() -> None:
    cache = SemanticCache()
    for number in range(50):
        cache.store(f"what is the meaning of word{number}x", str(number))
    cache.store("how do I reset my password", "There.")
    found = cache.lookup("how do I reset the password")
    assert (found.hit, found.kind) == (True, "lexical")
    assert not cache.lookup("how do I reset my printer").hit


@requirement("cache.scope-never-crosses")
@pytest.mark.parametrize(
    "other",
    [
        {"model": "b"},
        {"system": "You are rude."},
        {"tools": [{"name": "shell"}]},
        {"user": "eve"},
        {"filter": {"tags": ["x"]}},
        {"index_generation": 8},
    ],
)
def test_no_hit_crosses_a_scope(other: dict[str, Any]) -> None:
    scope = Scope("a", "You are kind.", [{"name": "files"}], "ann", {"tags": []}, 7)
    cache = SemanticCache(Told({BUTTON: 0, PARAPHRASE: 0}))
    cache.store(BUTTON, "ann's", scope)
    assert cache.lookup(BUTTON, scope).hit
    assert cache.lookup(PARAPHRASE, scope).hit
    strange = scope._replace(**other)
    for query in (BUTTON, PARAPHRASE):
        assert not cache.lookup(query, strange).hit
        assert not cache.lookup(query).hit
    assert cache.get_or_compute(BUTTON, lambda: "eve's", strange).response == "eve's"
    assert cache.get_or_compute(BUTTON, lambda: "?", scope).response == "ann's"


@requirement("cache.scope-never-crosses")
def test_an_answer_planted_by_one_user_is_never_served_to_another() -> None:
    cache = SemanticCache(Told({"how do I pay": 0, "how do I pay\u200b": 0, "how do I pay please": 0}))
    for planted in ("how do I pay", "how do I pay\u200b", "how do I pay please"):
        cache.store(planted, "Send money to Eve.", Scope(user="eve"))
    answer = cache.get_or_compute("how do I pay", lambda: "At the desk.", Scope(user="ann"))
    assert (answer.response, answer.cached) == ("At the desk.", False)


def test_similar_looking_scopes_are_different() -> None:
    keys = {
        scope.key
        for scope in (
            Scope(),
            Scope("a", "b"),
            Scope("ab"),
            Scope("b", "a"),
            Scope(user=1),
            Scope(user="1"),
            Scope(user=True),
        )
    }
    assert len(keys) == 7
    assert Scope(tools=({"b": 1, "a": 2},)).key == Scope(tools=[{"a": 2, "b": 1}]).key
    with pytest.raises(InputError, match=r"scope\.user: a object is not a JSON value"):
        SemanticCache().lookup("x", Scope(user=object()))


@requirement("cache.invalidation")
def test_an_answer_that_cites_a_changed_document_is_not_served() -> None:
    versions: dict[str, str | None] = {"a": "1", "b": "1"}
    cache = SemanticCache(Told({BUTTON: 0, PARAPHRASE: 5}), version_of=versions.__getitem__)
    answer = cache.get_or_compute(BUTTON, lambda: Computed("From a and b.", documents=["a", "b"]))
    assert answer.reason == "computed and stored"
    assert cache.lookup(BUTTON).hit
    assert cache.lookup(PARAPHRASE).hit
    versions["b"] = "2"
    assert not cache.lookup(PARAPHRASE).hit
    assert not cache.lookup(BUTTON).hit
    assert cache.stats().entries == 0
    cache.store(BUTTON, "known version", documents={"b": "1"})
    missed = cache.lookup(BUTTON)
    assert (missed.hit, "a document it cites has changed" in missed.reason) == (False, True)
    for gone in (None, KeyError):
        cache.store(BUTTON, "x", documents=["a"])
        if gone is None:
            versions["a"] = None
        else:
            versions.pop("a")
        assert not cache.lookup(BUTTON).hit
        versions["a"] = "1"


@requirement("cache.invalidation")
def test_answers_are_invalidated_by_tag_and_by_document() -> None:
    cache = SemanticCache()
    cache.store("one", 1, tags=["x", "y"])
    cache.store("two", 2, tags=["y"], documents=["d"])
    cache.store("three", 3, documents={"d": "v", "e": "v"})
    assert cache.invalidate(tags=["x"]) == 1
    assert cache.invalidate(document_ids=["d"]) == 2
    assert cache.invalidate(tags=["x"], document_ids=["d"]) == 0
    assert cache.stats().entries == 0
    with pytest.raises(InputError, match="tags must be a list"):
        cache.invalidate(tags="x")


@requirement("cache.invalidation")
def test_a_computation_that_began_before_an_invalidation_is_not_stored() -> None:
    cache = SemanticCache()

    def compute() -> str:
        cache.invalidate(document_ids=["d"])  # while the model was reading it
        return "from the old text"

    answer = cache.get_or_compute("q", compute, documents=["d"])
    assert (answer.response, answer.cached) == ("from the old text", False)
    assert answer.reason == "computed, not stored: something was invalidated meanwhile"
    assert not cache.lookup("q").hit
    versions = {"d": "1"}
    cache = SemanticCache(version_of=versions.get)

    def slow() -> str:
        versions["d"] = "2"
        return "from version 1"

    cache.get_or_compute("q", slow, documents=["d"])
    assert not cache.lookup("q").hit


@requirement("cache.max-entries")
def test_the_least_recently_used_entry_is_evicted() -> None:
    cache = SemanticCache(max_entries=3)
    for name in "abc":
        cache.store(name, name)
    assert cache.lookup("a").hit
    cache.store("d", "d")
    assert [cache.lookup(name).hit for name in "abcd"] == [True, False, True, True]
    assert (cache.stats().entries, cache.stats().evicted) == (3, 1)
    cache.store("a", "again")  # in its own place
    assert (cache.stats().entries, cache.stats().evicted) == (3, 1)
    cache = SemanticCache()
    for number in range(1001):
        cache.store(f"question {number}", number)
    assert (cache.stats().entries, cache.stats().evicted) == (1000, 1)


@requirement("cache.max-entries")
def test_a_cache_without_room_computes_every_time() -> None:
    cache = SemanticCache(max_entries=0)
    for _ in range(2):
        answer = cache.get_or_compute("q", lambda: "x")
        assert (answer.cached, answer.reason) == (False, "computed, not stored: max_entries is 0")
    assert cache.store("q", "x") is None


@requirement("cache.ttl")
def test_an_entry_is_served_until_it_expires() -> None:
    clock = Clock()
    cache = SemanticCache(clock=clock)
    cache.store("q", "x")
    clock.now_s += 24 * 60 * 60 - 1
    assert cache.lookup("q").hit
    clock.now_s += 1
    assert not cache.lookup("q").hit
    assert cache.stats().entries == 0


@requirement("cache.ttl")
def test_an_expired_best_match_does_not_hide_a_fresh_one() -> None:
    clock = Clock()
    cache = SemanticCache(Told({"old": 0, "fresh": 10, "asked": 1}), clock=clock, ttl_s=100)
    cache.store("old", "old answer")
    clock.now_s += 60
    cache.store("fresh", "fresh answer")
    clock.now_s += 60
    found = cache.lookup("asked").entry
    assert found is not None
    assert found.response == "fresh answer"


@requirement("cache.ttl")
def test_entries_age_across_a_restart() -> None:
    clock, kept = Clock(), list[Any]()
    cache = SemanticCache(clock=clock, ttl_s=100, on_persist=kept.extend)
    cache.store("q", "x")
    cache.persist()
    clock.now_s += 99
    assert SemanticCache(clock=clock, ttl_s=100, initial_entries=kept).lookup("q").hit
    clock.now_s += 1
    assert not SemanticCache(clock=clock, ttl_s=100, initial_entries=kept).lookup("q").hit


@requirement("cache.ttl")
def test_an_entry_from_the_future_is_served_only_within_its_time() -> None:
    clock = Clock()
    cache = SemanticCache(clock=clock, ttl_s=100)
    cache.store("q", "x")
    clock.now_s -= 99
    assert cache.lookup("q").hit
    clock.now_s -= 10 * 365 * 86_400
    assert not cache.lookup("q").hit


@requirement("cache.ttl", "cache.operations")
def test_expired_entries_can_be_cleared() -> None:
    clock = Clock()
    cache = SemanticCache(clock=clock, ttl_s=100)
    cache.store("old", 1)
    clock.now_s += 50
    cache.store("new", 2)
    clock.now_s += 50
    assert cache.clear_expired() == 1
    assert cache.clear_expired() == 0
    assert cache.lookup("new").hit


@requirement("cache.operations")
def test_stats_count_hits_and_misses_by_reason_until_cleared() -> None:
    cache = SemanticCache(Told({"a": 0, "b": 0}))
    cache.store("a", "x")
    cache.lookup("a")
    cache.lookup("b")
    cache.lookup("nothing like it")
    cache.lookup("x" * (MAX_COMPARED_CHARS + 1))
    stats = cache.stats()
    assert (stats.entries, stats.hits, stats.misses, stats.hit_rate, stats.avg_similarity) == (1, 2, 2, 0.5, 1.0)
    assert stats.by_kind == {"exact": 1, "semantic": 1}
    assert stats.by_reason == {
        "no cached question is similar enough": 1,
        "the question is too long to be compared with others": 1,
    }
    hit = cache.lookup("a")
    assert hit.entry is not None
    assert (hit.entry.hit_count, hit.entry.query, hit.lookup_ms > 0) == (3, "a", True)
    cache.clear()
    assert cache.stats()[:6] == (0, 0, 0, 0, 0.0, 0.0)
    assert not cache.lookup("a").hit


@requirement("cache.operations")
def test_tools_look_up_answers_in_one_scope() -> None:
    cache = SemanticCache()
    cache.store("how do I reset my password", "In the settings.", Scope(user="ann"))
    registry = Registry(cache.tools(Scope(user="ann")))
    hit = registry.call("cache_lookup", {"question": "how do I reset my  password"}).structured
    assert (hit["hit"], hit["response"], hit["similarity"]) == (True, "In the settings.", 1.0)
    miss = registry.call("cache_lookup", {"question": "what is the price of tea"}).structured
    assert (miss["hit"], miss["reason"]) == (False, "no cached question is similar enough")
    assert (
        not Registry(cache.tools()).call("cache_lookup", {"question": "how do I reset my password"}).structured["hit"]
    )
    assert registry.call("cache_stats", {}).structured["entries"] == 1


@requirement("cache.operations")
def test_closing_persists_and_refuses_further_questions() -> None:
    kept: list[Any] = []
    with SemanticCache(on_persist=kept.extend) as cache:
        cache.store("q", "x")
    assert [entry["query"] for entry in kept] == ["q"]
    for use in (lambda: cache.lookup("q"), lambda: cache.store("q", "y"), lambda: cache.get_or_compute("q", str)):
        with pytest.raises(StoreError, match="the cache is closed"):
            use()
    cache.close()


@requirement("cache.persistence", "project.pluggable-storage")
def test_persisted_entries_restore_the_same_cache() -> None:
    pictures: list[str] = []
    embedder = Told({BUTTON: 0, PARAPHRASE: 10})
    options: dict[str, Any] = {"on_persist": lambda entries: pictures.append(json.dumps(entries)), "auto_persist": True}
    cache = SemanticCache(embedder, **options)
    cache.store(BUTTON, {"text": "Like this."}, Scope(user="ann"), tags=["t"], documents={"d": "1"})
    cache.get_or_compute("second", lambda: "x")
    cache.invalidate(tags=["none has it"])
    assert [len(json.loads(picture)) for picture in pictures] == [1, 2]
    embedder.texts.clear()
    again = SemanticCache(embedder, initial_entries=json.loads(pictures[-1]))
    found = again.lookup(PARAPHRASE, Scope(user="ann"))
    assert found.entry is not None
    assert (found.entry.response, found.entry.tags, found.entry.documents) == (
        {"text": "Like this."},
        ("t",),
        {"d": "1"},
    )
    assert embedder.texts == [PARAPHRASE]
    stored = again.store("third", "y")
    assert stored is not None
    assert stored.id == 3
    cache.clear()
    assert json.loads(pictures[-1]) == []
    SemanticCache(auto_persist=True).store("nobody", "listens")


@requirement("cache.persistence")
def test_a_full_disk_does_not_lose_an_answer() -> None:
    def full(entries: object) -> None:
        raise OSError(28, "No space left on device")

    cache = SemanticCache(on_persist=full, auto_persist=True)
    assert cache.get_or_compute("q", lambda: "x").response == "x"
    assert "No space left" in str(cache.stats().persist_error)
    with pytest.raises(OSError, match="No space left"):
        cache.persist()


@requirement("cache.persistence")
def test_async_persistence_works_without_an_event_loop() -> None:
    kept: list[Any] = []

    async def keep(entries: list[dict[str, Any]]) -> None:
        await asyncio.sleep(0)
        kept.append([entry["query"] for entry in entries])

    with SemanticCache(on_persist=keep, auto_persist=True) as cache:
        cache.store("a", 1)
        assert kept == [["a"]]
        assert cache.get_or_compute("b", lambda: 2).reason == "computed and stored"
        assert kept == [["a"], ["a", "b"]]
    assert kept == [["a"], ["a", "b"], ["a", "b"]]


@requirement("cache.persistence")
def test_in_a_loop_snapshots_are_persisted_one_at_a_time_and_awaited() -> None:
    kept: list[list[str]] = []
    running: list[str] = []

    async def keep(entries: list[dict[str, Any]]) -> None:
        assert not running  # nobody else is handed a picture meanwhile
        running.append("now")
        for _ in range(3):
            await asyncio.sleep(0)
        running.clear()
        kept.append([entry["query"] for entry in entries])

    async def ask(cache: SemanticCache, query: str) -> None:
        async def compute() -> str:
            return query

        assert (await cache.get_or_compute(query, compute)).response == query
        assert query in kept[-1]

    async def main() -> None:
        async with SemanticCache(on_persist=keep, auto_persist=True) as cache:
            await asyncio.gather(*(ask(cache, query) for query in ("a", "b", "c")))
            cache.store("d", 4)  # plain code cannot wait for the loop that it runs in
            assert "d" not in kept[-1]
        assert sorted(kept[-1]) == ["a", "b", "c", "d"]

    asyncio.run(main())


@requirement("cache.persistence")
def test_a_slow_plain_on_persist_does_not_block_the_event_loop() -> None:
    release = threading.Event()

    async def compute() -> str:
        return "x"

    async def main() -> None:
        cache = SemanticCache(on_persist=lambda entries: release.wait(60), auto_persist=True)
        asked = asyncio.ensure_future(cache.get_or_compute("q", compute))
        while not cache.lookup("q").hit:  # kept, and being written
            await asyncio.sleep(0)
        release.set()
        assert (await asked).response == "x"

    asyncio.run(main())


@requirement("cache.persistence")
def test_errors_of_an_async_on_persist_are_reported_and_lose_no_answer() -> None:
    async def full(entries: object) -> None:
        raise OSError(28, "No space left on device")

    async def compute() -> str:
        return "x"

    async def main() -> None:
        cache = SemanticCache(on_persist=full, auto_persist=True)
        assert (await cache.get_or_compute("q", compute)).response == "x"
        assert "No space left" in str(cache.stats().persist_error)
        pending = cache.persist()
        assert pending is not None
        with pytest.raises(OSError, match="No space left"):
            await pending

    asyncio.run(main())
    plain = SemanticCache(on_persist=lambda entries: full(entries), auto_persist=True)
    plain.store("q", "x")
    assert "pass an async function" in str(plain.stats().persist_error)


@requirement("cache.persistence")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"query": ""}, "the question must be a text"),
        ({"query": 5}, "the question must be a text"),
        ({"response": None}, "the answer is empty"),
        ({"id": "1"}, "id must be a number"),
        ({"cached_at_ms": float("nan")}, "cached_at_ms must be a number"),
        ({"vector": "not base64!"}, "its vector is not base64"),
        ({"vector": [1.0]}, "its vector is not base64"),
        ({"vector": "AAAAAA=="}, "its vector is not a vector: its length is 0.0"),
        ({"vector": "AADAfw=="}, "its vector is not a vector: its length is nan"),
        ({"vector": "AACAfw=="}, "its vector is not a vector: its length is inf"),
        ({"tags": "x"}, "tags must be a list"),
        ({"documents": {"d": 5}}, "the versions of documents must be texts"),
    ],
)
def test_initial_entries_are_checked(change: dict[str, Any], text: str) -> None:
    kept: list[Any] = []
    cache = SemanticCache(on_persist=kept.extend)
    cache.store("q", "x")
    cache.persist()
    with pytest.raises(InputError, match="a cached entry cannot be used: ") as raised:
        SemanticCache(initial_entries=[{**kept[0], **change}])
    assert text in str(raised.value)
    bad: list[list[Any]] = [[{}], ["x"], kept * 2]
    for given in bad:
        with pytest.raises(InputError, match="a cached entry cannot be used"):
            SemanticCache(initial_entries=given)


@requirement("cache.persistence")
def test_vectors_of_another_model_are_never_compared_and_the_same_question_still_hits() -> None:
    kept: list[Any] = []
    cache = SemanticCache(Told({BUTTON: 0}, name="one"), on_persist=kept.extend)
    cache.store(BUTTON, "x")
    cache.persist()
    other = SemanticCache(Told({BUTTON: 0, PARAPHRASE: 0}, name="two"), initial_entries=kept)
    assert not other.lookup(PARAPHRASE).hit
    assert other.lookup(BUTTON).kind == "exact"
    assert other.stats().not_compared == 1
    longer = Told({BUTTON: 0, PARAPHRASE: 0}, name="one")
    longer.embed = lambda texts, kind="document": [array("f", [1.0, 0.0, 0.0])]  # type: ignore[method-assign]
    changed = SemanticCache(longer, initial_entries=kept)
    miss = changed.lookup(PARAPHRASE)
    assert (miss.hit, miss.reason) == (False, "the question could not be embedded: EmbedderError")
    changed.store(PARAPHRASE, "y")
    assert changed.stats().not_compared == 1


@pytest.mark.parametrize(
    "numbers", [[float("nan"), 1.0], [0.0, 0.0], [float("inf"), 0.0], [], ["x"], None, [1e308, 1e308, 1e308]]
)
@requirement("cache.bad-vectors")
def test_an_invalid_vector_never_hits_and_loses_no_answer(numbers: Any) -> None:
    embedder = Told()
    cache = SemanticCache(embedder)
    cache.store("cached", "x")
    embedder.embed = lambda texts, kind="document": [numbers]  # type: ignore[method-assign]
    miss = cache.lookup("asked")
    assert (miss.hit, miss.reason) == (False, "the question could not be embedded: EmbedderError") or numbers is None
    answer = cache.get_or_compute("asked", lambda: "y")
    assert (answer.response, answer.cached) == ("y", False)
    assert cache.lookup("asked").kind == "exact"
    assert cache.stats().not_compared == 1


@requirement("cache.bad-vectors")
@pytest.mark.parametrize("error", [TimeoutError(), EmbedderError("gone"), ZeroDivisionError()])
def test_a_failing_embedder_loses_no_answer(error: Exception) -> None:
    class Broken(HashingEmbedder):
        def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
            raise error

    cache = SemanticCache(Broken())
    answer = cache.get_or_compute("q", lambda: "x")
    assert answer.response == "x"
    assert answer.lookup.reason == f"the question could not be embedded: {type(error).__name__}"
    assert cache.get_or_compute("q", lambda: "y").response == "x"


def test_long_questions_hit_only_when_they_are_the_same() -> None:
    cache = SemanticCache(HashingEmbedder())
    long = "word " * 400
    cache.store(long + "one", "x")
    assert not cache.lookup(long + "two").hit
    assert cache.lookup(long + "one").hit
    assert cache.stats().not_compared == 1


def test_answers_of_any_size_and_type_are_returned_unchanged() -> None:
    cache = SemanticCache()
    for number, response in enumerate(
        ["x" * 100_000, {"a": [1, None, "ü"]}, [], 0, False, "'\"[]{}\\ \U0001f642", 1.5]
    ):
        cache.store(f"q{number}", response)
        found = cache.lookup(f"q{number}").entry
        assert found is not None
        assert found.response == response


def test_callers_get_their_own_copies() -> None:
    cache = SemanticCache()
    given = {"list": [1]}
    answer = cache.get_or_compute("q", lambda: given)
    given["list"].append(2)
    answer.response["list"].append(3)
    for _ in range(2):
        found = cache.get_or_compute("q", dict).response
        assert found == {"list": [1]}
        found["list"].append(4)


@requirement("cache.single-flight")
@pytest.mark.parametrize(
    "value", [None, "", "  ", object(), float("nan"), iter("abc"), Computed("half of it", keep=False)]
)
def test_empty_unfinished_or_non_json_answers_are_returned_and_not_stored(value: Any) -> None:
    cache = SemanticCache()
    answer = cache.get_or_compute("q", lambda: value)
    assert not answer.cached
    assert answer.reason.startswith("computed, not stored: ")
    assert answer.response is (value.response if isinstance(value, Computed) else value)
    assert cache.stats().entries == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"threshold": float("nan")}, "the threshold must be from 0.5 to 1, not nan"),
        ({"threshold": 0}, "the threshold must be from 0.5 to 1, not 0: questions that are less similar are different"),
        ({"threshold": 0.49}, "the threshold must be from 0.5 to 1"),
        ({"threshold": -1.0}, "the threshold must be from 0.5 to 1"),
        ({"threshold": 1.1}, "the threshold must be from 0.5 to 1"),
        ({"threshold": "0.8"}, "the threshold must be from 0.5 to 1"),
        ({"threshold": True}, "the threshold must be from 0.5 to 1"),
        ({"on_persist": 5}, "on_persist must be a function"),
        ({"initial_entries": 5}, "initial_entries must be a list of items that on_persist received"),
        ({"initial_entries": {}}, "initial_entries must be a list"),
        ({"caution": -0.1}, "the caution must be from 0 to 1"),
        ({"max_entries": -1}, "max_entries must be a whole number"),
        ({"max_entries": True}, "max_entries must be a whole number"),
        ({"ttl_s": 0}, "ttl_s must be more than 0"),
        ({"ttl_s": float("nan")}, "ttl_s must be more than 0"),
    ],
)
def test_invalid_settings_are_rejected(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        SemanticCache(**options)
    SemanticCache(ttl_s=float("inf"))


@pytest.mark.parametrize("query", ["", " \n", None, 5, "x" * 1_000_001])
def test_invalid_questions_are_rejected(query: Any) -> None:
    with pytest.raises(InputError, match="the question"):
        SemanticCache().lookup(query)
    SemanticCache().store("\ud83d\ude42 and \ud800", "halves of characters")


@pytest.mark.parametrize("scope", ["ann", None, {"user": "ann"}, ("", "", (), "ann", "", "")])
def test_invalid_scopes_are_rejected(scope: Any) -> None:
    for call in (SemanticCache().lookup, partial(SemanticCache().get_or_compute, compute=lambda: "x")):
        with pytest.raises(InputError, match="the scope must be a Scope"):
            call("what is asked", scope=scope)


def test_compute_must_be_callable() -> None:
    cache = SemanticCache()
    with pytest.raises(InputError, match="compute must be a function"):
        cache.get_or_compute("what is asked", "the answer")  # type: ignore[call-overload]
    assert cache.get_or_compute("what is asked", lambda: "the answer").response == "the answer"


@requirement("cache.persistence")
def test_lone_surrogates_in_an_answer_are_repaired() -> None:
    cache = SemanticCache()
    assert cache.get_or_compute("what is asked", lambda: "so \ud800").cached is False
    found = cache.lookup("what is asked").entry
    assert found is not None
    assert found.response == "so \ufffd"


@requirement("cache.persistence")
def test_a_cache_file_can_be_read_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.json"
    with open_cache(path, HashingEmbedder(), auto_persist=True) as cache:
        cache.store("how do I create a button", "So.")
        assert path.stat().st_mode & 0o077 == 0
        cache.store("second", "\ud800 half")
    with open_cache(path, HashingEmbedder(), max_entries=5) as cache:
        assert cache.lookup("how do I create a button ").hit
        assert cache.lookup("second").hit
    assert [file.name for file in path.parent.iterdir()] == ["cache.json"]


@requirement("cache.persistence")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b"# notes",
        b"[" * 100_000,
        b'{"onhand_cache": 9, "entries": []}',
        b'{"onhand_cache": 1, "entries": [5]}',
        b"\xff\xfe",
    ],
)
def test_a_file_that_is_not_a_cache_is_rejected_and_left_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cache.json"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"delete"):
        open_cache(path)
    assert path.read_bytes() == content
    with pytest.raises(InputError, match="threshold"):
        open_cache(tmp_path / "new.json", threshold=5)
    with pytest.raises(StoreError, match=r"cannot be read \(not a regular file\)"):
        open_cache(tmp_path)


@requirement("cache.scope-never-crosses")
def test_an_entry_of_any_id_is_found_only_by_its_own_question() -> None:
    for id in (0, 1, 2**52):
        given = {"id": id, "query": "secret", "response": "42", "scope": "of Ann", "cached_at_ms": 2**52}
        cache = SemanticCache(initial_entries=[given])
        assert not cache.lookup("anything else", Scope(user="Bob")).hit
        assert not cache.lookup("secret", Scope(user="Bob")).hit


def test_hits_of_concurrent_threads_are_all_counted() -> None:
    cache = SemanticCache()
    cache.store("q", "x")
    stale = cache.lookup("q").entry
    assert stale is not None
    cache.lookup("q")
    assert cache._entries._table.use(stale).hit_count == 3  # looked up by one thread while another used it
