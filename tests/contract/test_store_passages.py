"""Every Store finds a document by its best passage."""

import random

import pytest

from onhand.document import Document, Filter, Passage
from onhand.store.memory import MemoryStore
from onhand.store.store import Entry, Excerpt, PassageCounts, Store
from onhand.store.vectors import join_vectors
from requirements import requirement
from stores import vector

pytestmark = requirement("store.contract", "search.passages")

TEXT = "one north\ntwo ëast\nthree south"
LINES = (Passage(1, 1, 0, 9), Passage(2, 2, 10, 19), Passage(3, 3, 20, 31))
NORTH, EAST, SOUTH = vector(0, 1), vector(1, 0), vector(0, -1)


def long_document(name: str = "long", tags: tuple[str, ...] = (), left_out: int = 0) -> Entry:
    """Three lines in three directions."""
    return Entry(Document(name, text=TEXT, tags=tags), join_vectors([NORTH, EAST, SOUTH]), LINES, left_out)


def found(store: Store, *direction: float, **options: object) -> list[tuple[str, float]]:
    matches = store.nearest(vector(*direction), **options)  # type: ignore[arg-type]
    return [(match.id, round(match.score, 6)) for match in matches]


def test_a_document_is_as_near_as_its_best_passage_and_found_once(store: Store) -> None:
    store.upsert([Entry(Document("short"), vector(1, 1)), long_document(), Entry(Document("bare"))])
    half = round(0.5**0.5, 6)
    assert found(store, 0, 1) == [("long", 1.0), ("short", half)]
    assert found(store, 1, 0) == [("long", 1.0), ("short", half)]
    assert found(store, 0, -1) == [("long", 1.0), ("short", -half)]
    assert found(store, 1, 1) == [("short", 1.0), ("long", half)]
    assert found(store, 1, 1, limit=1) == [("short", 1.0)]
    assert found(store, 0, -1, min_score=0.5) == [("long", 1.0)]


def test_the_best_passage_is_shown_with_its_place(store: Store) -> None:
    store.upsert([long_document(), Entry(Document("short", text="short"), EAST)])
    assert store.excerpts(EAST, ["short", "long", "unknown"]) == {"long": Excerpt("two ëast", (2, 2), None)}
    assert store.excerpts(SOUTH, ["long"]) == {"long": Excerpt("three south", (3, 3), None)}
    assert store.excerpts(SOUTH, []) == {}


def test_a_passage_inside_of_a_line_is_placed_by_its_bytes(store: Store) -> None:
    places = (Passage(1, 1, 0, 3), Passage(1, 1, 4, 9), Passage(2, 2, 10, 19))
    store.upsert([Entry(Document("a", text=TEXT), join_vectors([NORTH, EAST, SOUTH]), places)])
    assert store.excerpts(NORTH, ["a"]) == {"a": Excerpt("one", (1, 1), (0, 3))}
    assert store.excerpts(EAST, ["a"]) == {"a": Excerpt("north", (1, 1), (4, 9))}
    assert store.excerpts(SOUTH, ["a"]) == {"a": Excerpt("two ëast", (2, 2), None)}


def test_enough_documents_are_found_however_many_passages_each_has(store: Store) -> None:
    crowd = [vector(1, number / 1000) for number in range(40)]
    places = tuple(Passage(1, 1, 0, 1) for _ in crowd)
    store.upsert([Entry(Document(f"crowd{number}", text="x"), join_vectors(crowd), places) for number in range(5)])
    store.upsert([Entry(Document(f"far{number}"), vector(1, 1 + number)) for number in range(5)])
    names = [f"crowd{number}" for number in range(5)] + [f"far{number}" for number in range(5)]
    for limit in (1, 4, 6, 10, 100):
        assert [name for name, _ in found(store, 1, 0, limit=limit)] == names[:limit]


@requirement("search.filter-is-pushed-down")
def test_a_filter_allows_all_passages_of_a_document_or_none(store: Store) -> None:
    store.upsert(
        [
            long_document(f"long{number}", ("even",) if number % 2 == 0 else ()) if number % 3
            else Entry(Document(f"one{number}", tags=("even",) if number % 2 == 0 else ()), vector(1, number + 1))
            for number in range(60)
        ]
    )  # fmt: skip
    every = store.nearest(SOUTH, limit=100)
    assert len(every) == 60
    allowed = set(store.scan(Filter(tags=("even",)), limit=100))
    restricted = [match for match in every if match.id in allowed]
    assert store.nearest(SOUTH, Filter(tags=("even",)), 100) == restricted
    assert store.nearest(SOUTH, limit=100, among=allowed) == restricted
    assert store.nearest(SOUTH, limit=7, among=allowed) == restricted[:7]


def test_all_passages_go_with_their_document(store: Store) -> None:
    store.upsert([long_document(), long_document("gone"), Entry(Document("other"), EAST)])
    assert store.passages() == PassageCounts(7)
    store.delete(["gone"])
    store.upsert([Entry(Document("long", text="new"), NORTH)])
    assert (store.vectors(), store.passages()) == (2, PassageCounts(2))
    assert found(store, 0, -1) == [("other", 0.0), ("long", -1.0)]
    assert store.excerpts(SOUTH, ["long", "gone"]) == {}
    store.upsert([long_document()])
    assert store.passages() == PassageCounts(4)
    assert found(store, 0, -1) == [("long", 1.0), ("other", 0.0)]
    store.clear_vectors({})
    assert (store.vectors(), store.passages(), store.nearest(EAST)) == (0, PassageCounts(), [])
    assert store.excerpts(SOUTH, ["long"]) == {}
    assert store.check() == []


def test_what_was_left_out_is_counted_until_more_is_allowed(store: Store) -> None:
    cut = Entry(Document("cut", text=TEXT), NORTH, (), 21)
    store.upsert([cut, long_document("more", left_out=9), long_document(), Entry(Document("bare"))])
    assert store.passages() == PassageCounts(7, 2, 30)
    assert store.without_vector(5) == store.without_vector(5, max_passages=1) == ["bare"]
    assert store.without_vector(5, max_passages=3) == ["bare", "cut"]
    assert store.without_vector(5, max_passages=4) == ["bare", "cut", "more"]
    assert store.without_vector(2, max_passages=4) == ["bare", "cut"]
    store.upsert([long_document("more")])
    assert store.passages() == PassageCounts(7, 1, 21)
    store.clear_vectors({})
    assert store.passages() == PassageCounts()


def test_the_vectors_of_a_document_can_be_read_again(store: Store) -> None:
    store.upsert([long_document(), Entry(Document("bare"))])
    assert store.vector("long") == join_vectors([NORTH, EAST, SOUTH])
    assert store.vector("bare") is store.vector("unknown") is None


@requirement("store.memory-twin")
@pytest.mark.parametrize("seed", range(3))
def test_the_twin_in_memory_finds_the_same_passages(store: Store, seed: int) -> None:
    chance, twin = random.Random(seed), MemoryStore()

    def some(count: int) -> list[Entry]:
        return [_random_entry(f"d{chance.randrange(80):02}", chance) for _ in range(count)]

    for entries in (some(60), some(30), some(30)):
        gone = [f"d{chance.randrange(80):02}" for _ in range(8)]
        for one in (store, twin):
            one.upsert(entries)
            one.delete(gone)
        for _ in range(5):
            query = vector(*(chance.gauss(0, 1) for _ in range(4)))
            matches, expected = store.nearest(query, limit=9), twin.nearest(query, limit=9)
            assert [match.id for match in matches] == [match.id for match in expected]
            assert [match.score for match in matches] == pytest.approx([match.score for match in expected], abs=1e-12)
            shown = [match.id for match in matches]
            assert store.excerpts(query, shown) == twin.excerpts(query, shown)
        assert store.passages() == twin.passages()
    assert store.check() == []


def _random_entry(name: str, chance: random.Random) -> Entry:
    count = chance.choice([0, 1, 1, 2, 5])
    vectors = [vector(*(chance.gauss(0, 1) for _ in range(4))) for _ in range(count)]
    text = f"{name} {chance.random()} in a text"
    places = tuple(Passage(1, 1, start, start + 3) for start in range(count)) if count > 1 else ()
    return Entry(Document(name, text=text), join_vectors(vectors) if vectors else None, places)
