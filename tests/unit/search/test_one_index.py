"""Is there one Index for everything, and one embedder for whoever compares meaning?"""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import onhand
from onhand import Catalog, CatalogTool, Document, SemanticCache, open_index
from onhand.embed.embedder import HashingEmbedder
from onhand.embed.minilm import MINILM_PACKAGES, MiniLmEmbedder
from requirements import requirement

SOURCE = Path(onhand.__file__).parent


def imported_by(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}


@requirement("search.one-index")
@pytest.mark.parametrize("room", ["corpora", "tools"])
def test_nothing_that_is_looked_up_keeps_an_index_of_its_own(room: str) -> None:
    rankers = {"LexicalIndex", "Postings", "PlainSearcher", "NumpySearcher", "sqlite3"}
    found = {str(path.relative_to(SOURCE)): imported_by(path) & rankers for path in (SOURCE / room).rglob("*.py")}
    assert len(found) > 10
    assert {path: modules for path, modules in found.items() if modules} == {}


@requirement("embed.shared")
def test_one_embedder_serves_documents_tools_and_answers() -> None:
    embedder = HashingEmbedder()
    index, catalog, cache = open_index(None, embedder), Catalog(embedder=embedder), SemanticCache(embedder)
    index.put([Document("d", "", "undeploy the release")])
    catalog.add([CatalogTool("undeploy_release", "Take a release back.")])
    cache.store("how do I undeploy the release", "like this")
    assert index.semantic("undeployment of releases", min_score=None).hits[0].document_id == "d"
    assert catalog.search("undeployment of releases").hits[0].name == "undeploy_release"
    found = cache.lookup("How do I undeploy the release?")
    assert (found.hit, found.kind) == (True, "semantic")


@requirement("search.semantic-layer")
@pytest.mark.skipif(
    any(importlib.util.find_spec(package) is None for package in MINILM_PACKAGES),
    reason="the semantic extra is not installed",
)
def test_what_says_the_same_in_other_words_is_found_by_meaning() -> None:
    index = open_index(None, MiniLmEmbedder())
    index.put(
        [
            Document("car", "", "Mending automobiles: a workshop guide for engines and brakes."),
            Document("cake", "", "Baking a chocolate cake for a birthday."),
            Document("law", "", "How a contract between two companies is signed."),
        ]
    )
    assert index.keyword("repairing cars in the garage").hits == ()
    (first, *_) = index.semantic("repairing cars in the garage").hits
    assert (first.document_id, first.layers[0].name) == ("car", "semantic")


@requirement("search.keyword-speed")
def test_the_keyword_benchmark_prints_first_and_later_searches_with_and_without_filters() -> None:
    command = [sys.executable, "-m", "benchmarks.keyword", "--documents", "300", "--queries", "4"]
    done = subprocess.run(command, cwd=SOURCE.parents[1], capture_output=True, encoding="utf-8", check=True)
    rows = [line for line in done.stdout.splitlines() if line.startswith(("ours", "first time"))]
    assert [row[:30].strip() for row in rows[:4]] == [
        "ours, first query",
        "ours, first time",
        "ours",
        "ours, filter, 0.1 % pass",
    ]
    medians_and_worst = [[float(cell) for cell in row[30:].replace("×", "").split()[-4:-2]] for row in rows]
    assert all(0 < median <= worst for median, worst in medians_and_worst)
