"""Are the right tools among the first five, on public sets with judged queries?"""

import os
from pathlib import Path

import pytest
from benchmarks.tool_search import Judged, ids_of, judged_sets, recall

from onhand.embed.choose import chosen
from onhand.tools.catalog import Catalog
from requirements import requirement

DATA = os.environ.get("ONHAND_DATA")
# Recall at five, by words alone: two points above the best lexical engine on average, and a floor for each known set.
FLOORS = {"metatool": 0.70, "sealtools_in": 0.88, "livemcpbench": 0.36, "bfcl": 0.84, "azure_mcp": 0.97}
MEAN = 0.756

pytestmark = pytest.mark.skipif(not DATA, reason="set ONHAND_DATA to a directory of public tool sets")


def sets(most_queries: int | None = None) -> dict[str, Judged]:
    return judged_sets(Path(DATA or ""), most_queries)


@requirement("catalog.quality")
def test_by_words_alone_recall_reaches_the_floors() -> None:
    found = {}
    for name, judged in sets().items():
        catalog = Catalog()
        catalog.add(judged.tools.values())
        found[name] = recall(judged, ids_of(catalog))
    assert {name: round(value, 4) for name, value in found.items() if value < FLOORS.get(name, 0.0)} == {}
    assert sum(found.values()) / len(found) >= MEAN


@requirement("catalog.quality")
def test_with_the_packaged_embedder_recall_is_above_words_alone() -> None:
    embedder, unavailable = chosen("minilm")
    if embedder is None:
        pytest.skip(str(unavailable))
    judged = sets(most_queries=100).get("metatool")
    if judged is None:
        pytest.skip("there is no set of short descriptions")
    by_words, fused = Catalog(), Catalog(embedder=embedder)
    for catalog in (by_words, fused):
        catalog.add(judged.tools.values())
    words, both = (recall(judged, ids_of(catalog)) for catalog in (by_words, fused))
    assert both > words
