"""How well are documents ranked, on public judged sets? They are read from $ONHAND_DATA and are no part of this
repository; by words here, and by meaning and fused where `benchmarks/quality.py --embedder minilm` has the time."""

import os
from pathlib import Path

import pytest
from benchmarks.quality import by_words, load, measure

from onhand.lexical.scoring import get_ranking
from requirements import requirement

FLOOR = 0.575  # mean nDCG@10; the best of bm25s and tantivy has .553 on the ten sets this was set on


@requirement("search.quality")
def test_keyword_search_ranks_public_document_sets_better_than_its_peers() -> None:
    if "ONHAND_DATA" not in os.environ:
        pytest.skip("ONHAND_DATA names no directory of judged sets")
    sets = [load(path.parent, None) for path in sorted(Path(os.environ["ONHAND_DATA"]).glob("*/qrels.tsv"))]
    found = [measure(judged, by_words(judged, get_ranking())).ndcg for judged in sets if not judged.is_of_tools]
    assert found
    assert sum(found) / len(found) >= FLOOR
