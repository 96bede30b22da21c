"""An embedder whose vectors of documents are kept in a file."""

from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from onhand.embed.cached import CachedEmbedder
from onhand.embed.embedder import HashingEmbedder, Kind
from requirements import requirement


class Counting(HashingEmbedder):
    """Counts the texts that it embeds."""

    def __init__(self, dimension: int = 8) -> None:
        super().__init__(dimension)
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        self.texts += texts
        return super().embed(texts, kind)


@requirement("mcp.searches-compare-meaning")
def test_a_document_is_embedded_once_however_often_it_is_asked_for_and_in_later_runs(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    cached = CachedEmbedder(first, str(tmp_path))
    vectors = cached.embed(["one", "two", "one"])
    assert vectors == Counting().embed(["one", "two", "one"])
    assert cached.embed(["two"]) == vectors[1:2]
    cached.embed(["a question"], "query")
    assert first.texts == ["one", "two", "a question"]
    cached.save()
    again = CachedEmbedder(second, str(tmp_path))
    assert again.embed(["one", "three", "two"])[::2] == vectors[:2]
    assert second.texts == ["three"]


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: raw[:40] + b"\xff" + raw[41:], lambda raw: b""])
def test_a_damaged_file_is_ignored_and_made_again(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    cached = CachedEmbedder(Counting(), str(tmp_path))
    cached.embed(["one"])
    cached.save()
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    after = Counting()
    again = CachedEmbedder(after, str(tmp_path))
    assert again.embed(["one"]) == Counting().embed(["one"])
    assert after.texts == ["one"]


def test_vectors_of_another_model_are_not_used(tmp_path: Path) -> None:
    cached = CachedEmbedder(Counting(8), str(tmp_path))
    cached.embed(["one"])
    cached.save()
    other = CachedEmbedder(Counting(16), str(tmp_path))
    assert len(other.embed(["one"])[0]) == 16
