"""Is `search_tool_bm25` what its original is: inputs, content, details, order of checks, texts of errors?"""

import json
from typing import Any

import pytest

from onhand.errors import StoreError
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.registry import Registry, Result
from onhand.tools.search_tools import bm25_description, search_tool_bm25
from onhand.tools.session import Session
from requirements import requirement
from toolset import BUILTINS, ISSUE, MESSAGE, PULLS, catalog, sample


def opened(tools: Catalog | None = None, mode: str = "all") -> tuple[Session, Registry]:
    session = Session(catalog() if tools is None else tools, mode=mode, finder="search_tool_bm25")
    return session, Registry([search_tool_bm25(session)])


def search(registry: Registry, query: str, **arguments: Any) -> Result:
    return registry.call("search_tool_bm25", {"query": query, **arguments})


@requirement("catalog.bm25-tool-content", "catalog.wire-name")
def test_the_content_is_compact_json() -> None:
    _, registry = opened()
    result = search(registry, "  github issue ", limit=1)
    assert result.text == (
        '{"query":"github issue","activated_tools":["mcp__github__create_issue"],"match_count":1,"total_tools":5}'
    )


@requirement("catalog.bm25-tool-details")
def test_the_details_have_the_ranked_matches_and_all_that_is_active() -> None:
    session, registry = opened()
    session.activate([MESSAGE.name])
    details = search(registry, "github", limit=2).structured
    assert list(details) == ["query", "limit", "total_tools", "activated_tools", "active_selected_tools", "tools"]
    assert (details["query"], details["limit"], details["total_tools"]) == ("github", 2, 4)
    assert details["active_selected_tools"] == [MESSAGE.name, *details["activated_tools"]]
    match = next(match for match in details["tools"] if match["name"] == ISSUE.name)
    assert list(match) == ["name", "label", "description", "server_name", "mcp_tool_name", "schema_keys", "score"]
    assert match["description"] == ISSUE.description
    assert (match["server_name"], match["mcp_tool_name"]) == ("github", "create_issue")
    assert match["schema_keys"] == ["repo", "state", "title"]
    assert match["score"] == round(match["score"], 6) > 0


@requirement("catalog.bm25-tool-details", "catalog.seed-profile")
@pytest.mark.parametrize("mode", ["all", "mcp-only"])
def test_words_are_counted_among_the_tools_that_can_be_found_now_alone(mode: str) -> None:
    session, registry = opened(mode=mode)
    waiting = {tool.id: tool for tool in session.deferred()}
    for query in ("github issue", "github", "a pull request or a message"):
        alone = Catalog()
        alone.add(waiting.values())
        expected = [(hit.name, round(hit.score, 6)) for hit in alone.search(query, 1, profile="seed").hits]
        details = search(registry, query, limit=1).structured
        assert [(match["name"], match["score"]) for match in details["tools"]] == expected != []
        for name in details["activated_tools"]:
            del waiting[session.describe(name).id]
    session.deactivate([MESSAGE.name, ISSUE.name, PULLS.name])
    assert search(registry, "github issue").structured["total_tools"] == len(session.deferred())


@requirement("catalog.bm25-tool-details")
def test_a_built_in_tool_has_no_server_in_the_details() -> None:
    _, registry = opened()
    (match,) = search(registry, "lsp").structured["tools"]
    assert "server_name" not in match
    assert "mcp_tool_name" not in match


@requirement("catalog.bm25-tool-inputs", "catalog.active-are-excluded")
def test_eight_are_activated_unless_told_otherwise_and_searching_again_pages_on() -> None:
    session, registry = opened(sample())
    first = json.loads(search(registry, "list").text)
    assert first["match_count"] == 8
    second = json.loads(search(registry, "list").text)
    assert not {*first["activated_tools"]} & {*second["activated_tools"]}
    assert second["total_tools"] == 92
    everything = json.loads(search(registry, "list", limit=10**30).text)
    assert everything["match_count"] > 8
    assert json.loads(search(registry, "list").text)["match_count"] == 0
    assert len(session.active()) == 16 + everything["match_count"]


@requirement("catalog.bm25-tool-errors")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"query": ""}, "Query is required and must not be empty."),
        ({"query": " \t "}, "Query is required and must not be empty."),
        ({"query": " ", "limit": 0}, "Query is required and must not be empty."),
        ({"query": "a", "limit": 0}, "Limit must be a positive integer."),
        ({"query": "a", "limit": -3}, "Limit must be a positive integer."),
        ({"query": "a", "limit": 1.5}, "Limit must be a positive integer."),
        ({"query": "!?", "limit": 0}, "Limit must be a positive integer."),
        ({"query": "!? …"}, "Query must contain at least one letter or number."),
    ],
)
def test_a_wrong_call_fails_by_the_originals_text(arguments: dict[str, Any], text: str) -> None:
    for tools in (catalog(), Catalog()):
        _, registry = opened(tools)
        result = registry.call("search_tool_bm25", arguments)
        assert (result.ok, result.text) == (False, text)


@requirement("catalog.bm25-tool-errors", "catalog.bm25-tool-presence")
def test_without_a_session_or_with_discovery_off_it_refuses_and_is_not_offered() -> None:
    off = Session(catalog(), mode="off", finder="search_tool_bm25")
    assert off.tools() == ()
    assert "search_tool_bm25" not in [wired["name"] for wired in off.wire()]
    assert search(Registry([search_tool_bm25(off)]), "").text == (
        "Tool discovery is disabled. Enable tools.discoveryMode or mcp.discoveryMode to use search_tool_bm25."
    )
    assert search(Registry([search_tool_bm25(None)]), "").text == "Tool discovery is unavailable in this session."


@requirement("catalog.bm25-tool-content")
def test_a_query_is_words_whatever_it_looks_like() -> None:
    _, registry = opened()
    result = search(registry, "select:slack +message", limit=1)
    assert json.loads(result.text)["activated_tools"] == [MESSAGE.name]
    assert result.structured["query"] == "select:slack +message"


@requirement("catalog.empty-is-no-error")
def test_an_empty_corpus_and_a_miss_are_results() -> None:
    _, registry = opened(Catalog())
    empty = search(registry, "anything")
    assert (empty.ok, json.loads(empty.text)["total_tools"]) == (True, 0)
    _, registry = opened()
    miss = search(registry, "zebra")
    assert miss.text == '{"query":"zebra","activated_tools":[],"match_count":0,"total_tools":5}'


@requirement("catalog.bm25-tool-description")
def test_the_description_counts_and_leaves_out_empty_lines() -> None:
    assert bm25_description(opened()[0]).splitlines()[1:] == [
        "Discoverable MCP servers: github (2 tools), slack (1 tool)",
        "Discoverable built-in tools: find, lsp",
        "Total discoverable tools: 5",
    ]
    only_mcp = bm25_description(opened(catalog(ISSUE, PULLS), mode="mcp-only")[0])
    assert only_mcp.splitlines()[1:] == ["Discoverable MCP servers: github (2 tools)", "Total discoverable tools: 2"]
    assert len(bm25_description(opened(catalog(*BUILTINS[:3]))[0]).splitlines()) == 1
    assert len(bm25_description(None).splitlines()) == 1


class Broken(Catalog):
    def tools(self) -> tuple[CatalogTool, ...]:
        raise StoreError("the file is damaged")


@requirement("catalog.hook-errors-are-survived")
def test_a_catalog_that_was_never_readable_is_described_as_an_empty_one() -> None:
    assert len(bm25_description(Session(Broken(), mode="all")).splitlines()) == 1
