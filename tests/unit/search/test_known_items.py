"""Does fused search notice, without judged queries, that an embedder does not understand a corpus?"""

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from onhand.document import Document
from onhand.embed.embedder import HashingEmbedder, Kind
from onhand.search.index import Index
from onhand.search.known_items import GROWTH, SAMPLE, KnownItems, split_question
from onhand.store.memory import MemoryStore
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Store
from requirements import requirement

STORES: list[Callable[[Path], Store]] = [lambda _: MemoryStore(), lambda path: SqliteStore(path / "documents.db")]


class Deaf(HashingEmbedder):
    """Finds all texts equally close, except by their lengths."""

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> list["array[float]"]:
        return super().embed([str(len(text) % 7) for text in texts], kind)


def corpus(count: int, first: int = 0) -> list[Document]:
    return [
        Document(f"d{number}", f"Storm number{number}", f"The storm called number{number} came from the sea.")
        for number in range(first, first + count)
    ]


@requirement("search.known-items")
@pytest.mark.parametrize("open_store", STORES)
def test_an_embedder_that_does_not_find_the_documents_weighs_less(
    open_store: Callable[[Path], Store], tmp_path: Path
) -> None:
    with Index(open_store(tmp_path), Deaf(), semantic_weight=None) as index:
        index.put(corpus(SAMPLE))
        stats = index.stats()
        assert stats.known_items is not None
        assert (stats.known_items.keyword, stats.known_items.documents) == (1.0, SAMPLE)
        assert stats.semantic_weight == stats.known_items.semantic_weight < 0.2
        (best, *_) = index.fused("number7 storm", min_score=None).hits
        assert best.document_id == "d7"
        assert {layer.name: layer.share for layer in best.layers}["semantic"] < 0.2


@requirement("search.known-items")
def test_both_stores_measure_the_same(tmp_path: Path) -> None:
    measured = []
    for open_store in STORES:
        with Index(open_store(tmp_path), HashingEmbedder(), semantic_weight=None) as index:
            index.put(corpus(SAMPLE + 20))
            measured.append((index.stats().known_items, [tuple(hit) for hit in index.fused("storm number3").hits]))
    assert measured[0] == measured[1]


@requirement("search.known-items")
def test_a_corpus_is_measured_when_it_is_large_enough_and_again_when_it_has_grown() -> None:
    index = Index(MemoryStore(), Deaf(), semantic_weight=None)
    index.put(corpus(SAMPLE - 1))
    assert (index.stats().known_items, index.stats().semantic_weight) == (None, 1.0)
    for count, measured in ((SAMPLE, SAMPLE), (GROWTH * SAMPLE - 1, SAMPLE), (GROWTH * SAMPLE, GROWTH * SAMPLE)):
        index.put(corpus(count))
        known = index.stats().known_items
        assert known is not None
        assert known.documents == measured


@requirement("search.known-items")
def test_a_weight_that_is_given_is_not_measured() -> None:
    index = Index(MemoryStore(), Deaf(), semantic_weight=0.5)
    index.put(corpus(SAMPLE))
    assert (index.stats().known_items, index.stats().semantic_weight) == (None, 0.5)


@requirement("search.known-items")
def test_meaning_never_weighs_more_because_it_finds_more_titles() -> None:
    assert KnownItems(0.5, 1.0, 100).semantic_weight == 1.0
    assert KnownItems(0.8, 0.2, 100).semantic_weight == pytest.approx(0.25)
    assert KnownItems(0.0, 0.0, 100).semantic_weight == 1.0


@pytest.mark.parametrize(
    ("title", "text", "question", "rest"),
    [
        ("Storms", "They come from the sea.", "Storms", "They come from the sea."),
        ("", "Storms come from the sea. They end.", "Storms come from the sea.", "They end."),
        ("", "Oh. Storms come from the sea.\nThey end.", "Oh. Storms come from the sea.", "They end."),
        ("", "a version 3.11 of it\nand more", "a version 3.11 of it", "and more"),
    ],
)
def test_the_question_is_the_title_or_the_first_sentence(title: str, text: str, question: str, rest: str) -> None:
    found = split_question(Document("a", title, text))
    assert found is not None
    assert (found[0], found[1].title, found[1].text) == (question, "", rest)


@pytest.mark.parametrize("document", [Document("a"), Document("a", "Title"), Document("a", "", "one sentence alone.")])
def test_a_document_without_a_question_asks_nothing(document: Document) -> None:
    assert split_question(document) is None
