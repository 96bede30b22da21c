"""Does the seed's profile give the published scores, to the printed digit?"""

import pytest

from onhand.errors import InputError
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import CatalogTool
from requirements import requirement


def tool(name: str, server: str, leaf: str, summary: str, keys: str) -> CatalogTool:
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in keys.split()}}
    return CatalogTool(name, summary, schema, "mcp", server, f"{server}/{leaf}", summary)


TOOLS = [
    tool("mcp__github_create_issue", "github", "create_issue", "Open a GitHub issue in the chosen repository",
         "owner repo title body"),
    tool("mcp__github_list_pull_requests", "github", "list_pull_requests", "Show pull requests of a repository",
         "owner repo state"),
    tool("mcp__slack_post_message", "slack", "post_message", "Send a message to a Slack channel", "channel text"),
]  # fmt: skip
CREATE, LIST, POST = (own.name for own in TOOLS)
SCORES = {
    "github": {CREATE: 1.410324, LIST: 1.403799},
    "github issue": {CREATE: 4.398944, LIST: 1.403799},
    "slack message": {POST: 5.977156},
    "issue issue": {CREATE: 5.977240},
    "repository": {CREATE: 1.117146, LIST: 1.099000},
    "mcp": {POST: 0.381208, CREATE: 0.378488, LIST: 0.375389},
    "GitHub": {CREATE: 4.662645},
}


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    catalog.add(TOOLS)
    return catalog


@requirement("catalog.seed-profile")
@pytest.mark.parametrize("query", SCORES)
def test_the_seed_profile_gives_the_published_scores(catalog: Catalog, query: str) -> None:
    found = catalog.search(query, profile="seed", explain=True)
    assert [(hit.name, round(hit.score, 6)) for hit in found.hits] == list(SCORES[query].items())
    for hit in found.hits:
        assert sum(term.score for term in hit.terms) == pytest.approx(hit.score)


@requirement("catalog.ties-by-name")
def test_equal_scores_are_ordered_by_name_whatever_the_server(catalog: Catalog) -> None:
    catalog.clear()
    equal = {"bb": "x", "aa": "y", "cc": "w"}
    catalog.add([CatalogTool(name, "the same", server=server) for name, server in equal.items()])
    assert [hit.name for hit in catalog.search("same", profile="seed").hits] == ["aa", "bb", "cc"]


@requirement("catalog.seed-profile")
def test_a_query_without_letters_and_numbers_is_refused_by_the_seeds_text(catalog: Catalog) -> None:
    with pytest.raises(InputError, match=r"^Query must contain at least one letter or number\.$"):
        catalog.search("?!", profile="seed")


@requirement("catalog.seed-profile")
def test_tools_that_come_later_are_seen_by_the_seed_profile(catalog: Catalog) -> None:
    assert not catalog.search("translate", profile="seed").hits
    catalog.add([CatalogTool("translate", "Translate a sentence.")])
    assert [hit.name for hit in catalog.search("translate", profile="seed").hits] == ["translate"]


@requirement("catalog.seed-profile")
def test_the_seed_profile_knows_no_query_forms(catalog: Catalog) -> None:
    assert [hit.name for hit in catalog.search("select:message", profile="seed").hits] == [POST]
    assert [hit.name for hit in catalog.search("+message", profile="seed").hits] == [POST]
