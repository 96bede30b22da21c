"""Does a search that leaves most postings aside find what a search of all of them finds?"""

import random
from collections.abc import Iterator

import pytest

from onhand.document import EVERYTHING, Document, Filter, Match
from onhand.lexical import search_numpy
from onhand.store.memory import MemoryStore
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Entry
from requirements import requirement
from stores import directory, searching, small_segments

WORDS = [f"w{number}" for number in range(60)]
SHARES = [1 / (1 + number) for number in range(60)]  # the first are in most documents, the last in a few


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[MemoryStore, SqliteStore]]:
    chance = random.Random(5)
    entries = []
    for number in range(3000):
        own = chance.choices(WORDS, SHARES, k=chance.randint(2, 30))
        tags = ("rare",) if number % 20 == 0 else ("half",) if number % 2 else ()
        entries.append(Entry(Document(f"d{number}", " ".join(own[:2]), " ".join(own), tags=tags)))
    with small_segments(tail=64, bulk=700, fan=8), searching("numpy"), directory() as place:
        memory, store = MemoryStore(), SqliteStore(place / "index.db")
        for kept in (memory, store):
            kept.upsert(entries)
            kept.delete([f"d{number}" for number in range(0, 3000, 97)])
        yield memory, store
        store.close()


@requirement("store.memory-twin")
@pytest.mark.parametrize(
    "filter", [EVERYTHING, Filter(tags=("half",)), Filter(tags=("rare",))], ids=["all", "50%", "5%"]
)
def test_common_and_rare_words_together_find_the_same_as_in_memory(
    stores: tuple[MemoryStore, SqliteStore], filter: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, store = stores
    # As many times smaller as these documents are fewer than those for which they were chosen.
    for name, value in {
        "SMALL_INDEX": 0,
        "DIRECT_POSTINGS": 100,
        "FEW_DOCUMENTS": 20,
        "PROBES": 30,
        "PROBING_PAYS": 50,
        "SAMPLE": 100,
        "SHORT": 10,
    }.items():
        monkeypatch.setattr(search_numpy, name, value)
    chance = random.Random(6)
    for _ in range(150):
        query = " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 5)))
        for limit in (1, 10):
            assert store.keyword(query, filter, limit) == score_every_posting(memory, query, filter, limit)


@requirement("store.memory-twin")
def test_adding_up_few_postings_finds_the_same_as_in_memory(stores: tuple[MemoryStore, SqliteStore]) -> None:
    memory, store = stores
    chance = random.Random(7)
    for _ in range(100):
        query = " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 5)))
        for limit in (1, 10, 50, 1000):
            assert store.keyword(query, EVERYTHING, limit) == score_every_posting(memory, query, EVERYTHING, limit)


def score_every_posting(memory: MemoryStore, query: str, filter: Filter, limit: int) -> list[Match]:
    """What the plain evaluator finds, which never skips a posting."""
    with searching("plain"):
        return memory.keyword(query, filter, limit)
