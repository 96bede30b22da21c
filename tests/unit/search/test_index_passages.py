"""What is embedded again when a document or the limit changes, and what is said of what was left out?"""

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from onhand.document import Document
from onhand.search.index import Index
from onhand.store.memory import MemoryStore
from onhand.store.sqlite import SqliteStore
from onhand.store.store import PassageCounts, Store
from requirements import requirement
from stores import vector

pytestmark = requirement("search.passages")

PARAGRAPHS = [f"Paragraph {number} is about the harbour. " + "Boats come and go. " * 40 for number in range(6)]
PARAGRAPHS[4] += "The forecast was wrong: a storm came."


class Toy:
    """An embedder that knows two directions: forecasts and everything else."""

    name, dimension, prompt_format, min_score = "toy", 2, "plain", None

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], kind: str = "document") -> "list[array[float]]":
        self.texts += texts if kind == "document" else []
        return [vector(float("forecast" in text), 0.1) for text in texts]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "index.db")
    yield store
    store.close()


def page(paragraphs: Sequence[str] = PARAGRAPHS) -> Document:
    return Document("page", "Harbour", "\n\n".join(paragraphs))


def test_a_hit_is_shown_by_its_best_passage(store: Store) -> None:
    index = Index(store, Toy())
    index.put([page(), Document("short", text="A forecast.\nOf two lines."), Document("other", text="Nothing.")])
    hits = {hit.document_id: hit for hit in index.semantic("forecast", min_score=0.5).hits}
    assert {name: hit.lines for name, hit in hits.items()} == {"page": (9, 9), "short": (1, 2)}
    assert "a storm came" in hits["page"].snippet
    assert hits["page"].excerpt is not None
    assert hits["page"].excerpt.text == PARAGRAPHS[4]
    fused = index.fused("forecast").hits
    assert {hit.document_id: hit.lines for hit in fused if hit.document_id in hits} == {"page": (9, 9), "short": (1, 2)}
    assert [hit.lines for hit in index.keyword("forecast").hits] == [None, None]
    assert [hit.lines for hit in index.filter().hits] == [None, None, None]


def test_only_passages_that_changed_are_embedded_again(store: Store) -> None:
    toy = Toy()
    index = Index(store, toy)
    index.put(page())
    assert len(toy.texts) == 6
    changed = [*PARAGRAPHS[:2], PARAGRAPHS[2].replace("harbour", "forecast"), *PARAGRAPHS[3:], "Another paragraph."]
    index.put(page(changed))
    assert len(toy.texts) == 8
    assert (store.vectors(), store.passages()) == (1, PassageCounts(6))
    assert index.semantic("forecast").hits[0].lines == (5, 5)
    index.put(page(changed)._replace(tags=("new",)))
    assert len(toy.texts) == 8
    index.put(Document("page", "Harbour", "Short."))
    assert (toy.texts[8:], store.passages()) == (["Harbour\nShort."], PassageCounts(1))


def test_equal_passages_are_embedded_once(store: Store) -> None:
    toy = Toy()
    Index(store, toy).put([page(), page()._replace(id="copy")])
    assert (len(toy.texts), store.passages()) == (6, PassageCounts(12))


def test_passages_beyond_the_largest_number_are_left_out_until_more_are_allowed(store: Store) -> None:
    toy = Toy()
    index = Index(store, toy, max_passages=2)
    index.put([page(), Document("short", text="A forecast.")])
    left_out = len(page().text.encode()) - store.passages().left_out_bytes
    assert store.passages()[:2] == (3, 1)
    assert 1500 < left_out < 1700
    assert index.stats().passages == store.passages()
    (note,) = index.semantic("forecast").notes
    assert note.startswith("1 document has more passages than are embedded: 3,")
    assert index.fused("forecast").notes == (note,)
    assert (index.count_unembedded(), index.reembed()) == (0, 0)
    more = Index(store, toy, max_passages=100)
    assert (more.count_unembedded(), more.reembed(), more.reembed()) == (1, 1, 0)
    assert len(toy.texts) == 7  # the first two keep their vectors
    assert (store.passages(), more.semantic("forecast").notes) == (PassageCounts(7), ())


def test_a_document_of_many_passages_is_a_batch_of_its_own(store: Store) -> None:
    written: list[int] = []
    long = [page(PARAGRAPHS * 60)._replace(id=f"long{number}") for number in range(3)]
    Index(store, Toy()).put([Document("a"), *long, Document("b")], written.append)
    assert written == [2, 3, 4, 5]


def test_a_damaged_document_can_be_replaced(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "index.db")
    index = Index(store, Toy())
    index.put(page())
    connection = store._connect()
    connection.execute("UPDATE documents SET text = x'ff'")
    connection.execute("UPDATE vectors SET data = x'00'")
    index.put(page([*PARAGRAPHS, "New."]))
    assert store.check() == []
    assert store.passages() == PassageCounts(6)
    store.close()
