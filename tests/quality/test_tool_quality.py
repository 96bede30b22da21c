"""Are the right tools among the first five, on public sets with judged queries?"""

import os
from pathlib import Path

import pytest
from benchmarks.quality import RememberingEmbedder
from benchmarks.tool_search import loses, quality
from benchmarks.tool_sets import Judged, ids_of, judged_sets, recall

from onhand.embed.choose import choose_embedder
from onhand.tools.catalog import Catalog
from requirements import requirement

DATA = os.environ.get("ONHAND_DATA")
# Recall at five, by words alone: three points above the best lexical engine on average, and a floor for each known set.
FLOORS = {
    "azure_mcp": 0.965,
    "bfcl": 0.87,
    "livemcpbench": 0.37,
    "metatool": 0.70,
    "restbench_tmdb": 0.53,
    "sealtools_in": 0.94,
    "toolalpaca": 0.88,
}
MEAN = 0.75
# The same with the embedder that the semantic extra brings.
FLOORS_WITH_MEANING = {
    "azure_mcp": 0.985,
    "bfcl": 0.86,
    "livemcpbench": 0.40,
    "metatool": 0.81,
    "restbench_tmdb": 0.47,
    "sealtools_in": 0.93,
    "toolalpaca": 0.91,
}
MEAN_WITH_MEANING = 0.765
# The embedder finds less than words here by over ten points, since most tools differ only in the path of a request.
WEAK_MODEL = {"restbench_tmdb"}
# To read thousands of tools takes a small model minutes: the large sets count where their vectors are kept.
VECTORS = os.environ.get("ONHAND_VECTORS")
QUICK_TOOLS = 600

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
@pytest.mark.timeout(1800)
def test_with_the_packaged_embedder_recall_reaches_the_floors_and_loses_to_neither_arm() -> None:
    embedder, unavailable = choose_embedder("minilm")
    if embedder is None:
        pytest.skip(str(unavailable))
    remembering = RememberingEmbedder(embedder, Path(VECTORS) if VECTORS else None)
    judged = {name: one for name, one in sets().items() if VECTORS or len(one.tools) <= QUICK_TOOLS}
    table = quality(judged, remembering)
    assert {name: row for name, row in table.items() if loses(row) and name not in WEAK_MODEL} == {}
    both = {name: row["ours, both"] for name, row in table.items()}
    assert {name: round(value, 4) for name, value in both.items() if value < FLOORS_WITH_MEANING.get(name, 0.0)} == {}
    assert sum(both.values()) > sum(row["RRF"] for row in table.values())
    if FLOORS_WITH_MEANING.keys() <= both.keys():
        assert sum(both.values()) / len(both) >= MEAN_WITH_MEANING
