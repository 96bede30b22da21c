"""Every Store finds the same documents by their vectors."""

import random
from array import array

import pytest

from onhand.document import EVERYTHING, Document, Filter
from onhand.store.memory import MemoryStore
from onhand.store.store import Entry, Store
from requirements import requirement
from stores import vector

pytestmark = requirement("store.contract")


def documents(count: int, dimension: int = 8) -> list[Entry]:
    """Documents with vectors in all directions; every tenth has none."""
    chance = random.Random(7)
    return [
        Entry(
            Document(f"d{number:04}", text="word", tags=("even",) if number % 2 == 0 else (), scope=f"s{number % 50}"),
            vector(*(chance.gauss(0, 1) for _ in range(dimension))) if number % 10 else None,
        )
        for number in range(count)
    ]


def nearest(store: Store, query: "array[float]", filter: Filter = EVERYTHING, limit: int = 10) -> list[str]:
    return [match.id for match in store.nearest(query, filter, limit)]


QUERY = vector(1, 2, 0, -1, 0.5, 0, 0, 3)


def test_an_empty_store_has_no_neighbours(store: Store) -> None:
    assert store.nearest(QUERY) == []
    store.upsert([Entry(Document("a"))])
    assert store.nearest(QUERY) == []


def test_the_nearest_come_first_with_their_cosines(store: Store) -> None:
    store.upsert(
        [Entry(Document(name), vector(*numbers)) for name, numbers in {"x": (1, 0), "y": (0, 1), "xy": (1, 1)}.items()]
    )
    matches = store.nearest(vector(1, 0))
    assert [match.id for match in matches] == ["x", "xy", "y"]
    assert [match.score for match in matches] == pytest.approx([1, 0.5**0.5, 0], abs=1e-6)
    assert [match.contributions for match in matches] == [(), (), ()]


@pytest.mark.parametrize(("least", "found"), [(None, 4), (-1.0, 4), (0.0, 3), (0.5, 2), (0.99, 1)])
def test_the_least_score_cuts_and_may_be_none_or_zero(store: Store, least: float | None, found: int) -> None:
    directions = [(1, 0), (1, 1), (0, 1), (-1, 0)]
    store.upsert([Entry(Document(str(number)), vector(*direction)) for number, direction in enumerate(directions)])
    assert [match.id for match in store.nearest(vector(1, 0), min_score=least)] == ["0", "1", "2", "3"][:found]


@requirement("search.ties-are-deterministic")
def test_no_cosine_is_above_one(store: Store) -> None:
    given = [(entry, entry.vector) for entry in documents(200) if entry.vector is not None]
    lengths = [sum(number * number for number in own) for _, own in given]
    assert max(lengths) > 1 > min(lengths)  # a vector is of length one but for the last bit of a float
    store.upsert([entry for entry, _ in given])
    assert max(store.nearest(own, limit=1)[0].score for _, own in given) == 1.0


def test_equal_vectors_are_ordered_by_id(store: Store) -> None:
    names = [f"{number * 7919 % 1201:04}" for number in range(1201)]
    store.upsert([Entry(Document(name), vector(1, 1)) for name in names])
    assert nearest(store, vector(1, 1), limit=5) == ["0000", "0001", "0002", "0003", "0004"]


@requirement("search.filter-is-pushed-down")
@pytest.mark.parametrize("filter", [Filter(tags=("even",)), Filter(scope=("s7",)), Filter(scope=("none",))])
def test_a_filter_restricts_and_changes_neither_scores_nor_order(store: Store, filter: Filter) -> None:
    store.upsert(documents(500))
    allowed = set(store.scan(filter, limit=500))
    every = store.nearest(QUERY, limit=500)
    assert len(every) == 450
    restricted = [match for match in every if match.id in allowed]
    assert store.nearest(QUERY, filter, 500) == restricted
    assert store.nearest(QUERY, filter, 3) == restricted[:3]
    assert store.nearest(QUERY, limit=500, among=allowed) == restricted


def test_replaced_deleted_and_cleared_vectors_are_not_found(store: Store) -> None:
    store.upsert(documents(100))
    first, second = nearest(store, QUERY, limit=2)
    store.upsert([Entry(Document(first), vector(*(-number for number in QUERY)))])
    assert nearest(store, QUERY, limit=1) == [second]
    store.delete([second])
    assert second not in nearest(store, QUERY, limit=100)
    assert nearest(store, QUERY, limit=100)[-1] == first
    store.upsert([Entry(Document(first))])
    assert first not in nearest(store, QUERY, limit=100)
    store.clear_vectors({})
    assert nearest(store, QUERY) == []
    store.upsert([Entry(Document("new"), QUERY)])
    assert nearest(store, QUERY) == ["new"]
    assert store.check() == []


def test_another_vector_of_an_unchanged_document_takes_its_place(store: Store) -> None:
    store.upsert([Entry(Document("a"), vector(1, 0))])
    store.upsert([Entry(Document("a"), vector(0, 1))])
    assert store.nearest(vector(0, 1))[0].score == pytest.approx(1)


@requirement("store.memory-twin")
def test_the_twin_in_memory_finds_the_same(store: Store) -> None:
    twin = MemoryStore()
    for part in (documents(300), documents(120)[::-1]):
        store.upsert(part)
        twin.upsert(part)
    gone = [f"d{number:04}" for number in range(0, 300, 7)]
    store.delete(gone)
    twin.delete(gone)
    for query in (QUERY, *(entry.vector for entry in documents(5) if entry.vector)):
        found, expected = store.nearest(query, limit=300), twin.nearest(query, limit=300)
        assert [match.id for match in found] == [match.id for match in expected]
        assert [match.score for match in found] == pytest.approx([match.score for match in expected], abs=1e-12)
