"""Segments: the same postings, byte for byte, whichever way they are counted."""

import random
import sys

import pytest

from onhand.lexical import segment
from onhand.lexical.scoring import get_ranking
from onhand.lexical.segment import Posting, Row, SegmentBuilder
from requirements import requirement

WORDS = [f"word{number}" for number in range(40)]


def rows(repeats: int) -> list[Row]:
    chance = random.Random(3)
    texts = [(" ".join(chance.choices(WORDS, k=3)), " ".join(chance.choices(WORDS, k=60))) for _ in range(80)]
    texts[7] = ("runs running", "run " * repeats)  # several words with one stem
    return [Row(number, title_and_text, tags=("a",)) for number, title_and_text in enumerate(texts, 1)]


def postings(repeats: int) -> list[Posting]:
    return list(SegmentBuilder(get_ranking(), rows(repeats)).postings())


@requirement("store.memory-twin")
@pytest.mark.parametrize("repeats", [200, 300], ids=["narrow counts", "wide counts"])
def test_numpy_and_plain_python_encode_the_same_postings(repeats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    monkeypatch.setattr(segment, "NUMPY_COUNTS_FASTER", 0)
    counted_by_numpy = postings(repeats)
    monkeypatch.setattr(segment, "NUMPY_COUNTS_FASTER", sys.maxsize)
    assert counted_by_numpy == postings(repeats)
    assert len(counted_by_numpy) > len(WORDS)
