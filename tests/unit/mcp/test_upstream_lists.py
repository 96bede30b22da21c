"""Does one item of a list that cannot be used cost only itself?"""

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp_types.methods import validate_server_result

from onhand.mcp.pass_through import PassThrough
from onhand.mcp.surface import build_server
from onhand.mcp.upstream_lists import DROPPED, MAX_PAGE_PROBLEMS, UpstreamLists, drop_invalid_items, save_lists
from onhand.mcp.upstreams import Upstreams
from requirements import requirement
from unit.mcp.conftest import Behind, Fronted
from unit.mcp.test_gateway import text_of

SCHEMA = {"type": "object"}
MODERN = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}


@requirement("mcp.bad-items-cost-themselves")
def test_a_server_loses_only_the_items_that_cannot_be_used(behind: Behind) -> None:
    async def main() -> None:
        async with Upstreams([behind("u", "unfit")]) as registry:
            assert await registry.connect() == {}
            listing, (status,) = registry.listing("u"), registry.status()
            assert registry.catalog.names() == ("u__good", "u__last")
            assert [one["name"] for one in listing.resources] == ["herons", "long"]
            assert [one["name"] for one in listing.templates] == ["form"]
            assert [one["name"] for one in listing.prompts] == ["praise"]
            assert list(status.problems[:9]) == [
                "its tool 'loose' is ignored: inputSchema.type: field required",
                "its tool 'no[U+001B][2J[U+202E]name' is ignored: inputSchema: input should be a valid dictionary or "
                "instance of InputSchema",
                "its tool number 4 is ignored: name: input should be a valid string",
                "its tool 'listed' is ignored: annotations: input should be a valid dictionary or instance of "
                "ToolAnnotations",
                "its tool 'pictured' is ignored: icons: input should be a valid list",
                "its tool number 7 is ignored: input should be a valid dictionary or instance of Tool",
                "the nextCursor of its list of tools is ignored: input should be a valid string",
                "its resource 'a' is ignored: uri: input should be a valid string",
                "its template 'none' is ignored: uriTemplate: field required",
            ]
            assert [problem.split(":")[0] for problem in status.problems[9:]] == [
                "its prompt 'ask' is ignored",
                "its prompt number 3 is ignored",
                "an item cannot be indexed",
            ]
            assert all(problem.isprintable() for problem in status.problems)
            assert text_of(await registry.execute("u__last")) == "yes"  # type: ignore[arg-type]
            assert [hit.title for hit in registry.discover_relevant("herons").resources] == ["herons"]

    anyio.run(main)


@requirement("mcp.bad-items-cost-themselves")
def test_whoever_searches_in_vain_is_told_what_cannot_be_used(
    behind: Behind, fronted: Fronted, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with fronted(behind("u", "unfit"), behind("p", "plain")) as (_, client):
            missed = text_of(await client.call_tool("search_tools", {"query": "select:u__loose"}))
            assert "Not usable: u: its tool 'loose' is ignored: inputSchema.type: field required; " in missed
            assert "; and 7 more." in missed
            assert text_of(await client.call_tool("p__echo", {"text": "on"})) == "on"
            assert {one.name for one in (await client.list_resources()).resources} == {"herons", "long"}
            assert [one.name for one in (await client.list_prompts()).prompts] == ["u__praise"]

    with caplog.at_level(logging.WARNING, "onhand.mcp.client_sessions"):
        anyio.run(main)
    assert caplog.messages.count("u: its tool 'loose' is ignored: inputSchema.type: field required") == 1


@requirement("mcp.bad-items-cost-themselves")
def test_a_server_that_is_passed_through_loses_only_the_bad_items_too(behind: Behind) -> None:
    async def main() -> None:
        registry = Upstreams([behind("u", "unfit")], version="1")
        async with Client(build_server(PassThrough(registry, "u")), mode="legacy", cache=None) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == ["good", "last"]
            told: Any = (listed.meta or {})[DROPPED]
            assert told[0] == "its tool 'loose' is ignored: inputSchema.type: field required"
            assert "forged" not in told
            assert [one.name for one in (await client.list_prompts()).prompts] == ["praise"]
            assert text_of(await client.call_tool("last", {})) == "yes"

    anyio.run(main)


@requirement("mcp.bad-items-cost-themselves")
def test_a_list_that_is_none_or_is_refused_costs_no_other_list(behind: Behind) -> None:
    async def main() -> None:
        async with Upstreams([behind("h", "half")]) as registry:
            assert await registry.connect() == {}
            (status,) = registry.status()
            assert registry.catalog.names() == ("h__good",)
            assert status.problems == (
                "its tool 'torn' is ignored: $ref '#/$defs/Nothing' points to nothing in the schema",
                "its list of resources cannot be read: it violates the MCP protocol",
                "it refuses to list its prompts: the[U+001B][2J store is closed",
            )

    anyio.run(main)


@requirement("mcp.bad-items-cost-themselves")
def test_a_list_that_cannot_be_given_now_stays_as_it_was(behind: Behind, tmp_path: Path) -> None:
    server = behind("h", "half")
    save_lists(
        str(tmp_path),
        "h",
        server.identity,
        UpstreamLists(prompts=({"name": "praise"},), skills=({"uri": "skill://old"},)),
    )

    async def main() -> None:
        async with Upstreams([server], lists_directory=str(tmp_path)) as registry:
            assert await registry.connect(["h"]) == {}
            assert registry.catalog.names() == ("h__good",)
            assert [one["name"] for one in registry.listing("h").prompts] == ["praise"]
            assert registry.listing("h").skills == ()  # it serves none any more, and says so

    anyio.run(main)


def test_a_page_that_is_right_is_left_as_it_is() -> None:
    page = {"tools": [{"name": "a", "inputSchema": SCHEMA, "_meta": {"k": 1}}], "_meta": {"k": 2}, **MODERN}
    assert drop_invalid_items("tools/list", "2026-07-28", page) == page
    called = {"content": 5}
    assert drop_invalid_items("tools/call", "2026-07-28", called) is called


def test_a_page_of_the_newer_era_that_lacks_what_every_page_has_is_used() -> None:
    page = drop_invalid_items(
        "tools/list", "2026-07-28", {"tools": [{"name": "a", "inputSchema": SCHEMA}], "ttlMs": -5}
    )
    assert {name: page[name] for name in MODERN} == MODERN
    assert len(page["_meta"][DROPPED]) == 3


@requirement("mcp.bad-items-cost-themselves")
def test_a_tool_whose_headers_are_none_is_left_out_and_named() -> None:
    schema = {**SCHEMA, "properties": {"a": {"type": "string", "x-mcp-header": "Bad\r\nName"}}}
    page = {"tools": [{"name": "a", "inputSchema": schema}, {"name": "b", "inputSchema": SCHEMA}], **MODERN}
    kept = drop_invalid_items("tools/list", "2026-07-28", page)
    assert [tool["name"] for tool in kept["tools"]] == ["b"]
    assert kept["_meta"][DROPPED][0].startswith("its tool 'a' is ignored: property 'a': x-mcp-header")


def test_of_thousands_of_bad_items_a_few_are_named() -> None:
    page = drop_invalid_items("tools/list", "2025-11-25", {"tools": [{"name": f"t{n}"} for n in range(5_000)]})
    assert page["tools"] == []
    assert len(page["_meta"][DROPPED]) == MAX_PAGE_PROBLEMS + 1
    assert page["_meta"][DROPPED][-1] == f"and {5_000 - MAX_PAGE_PROBLEMS:,} more of its tools"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
FIELDS = st.sampled_from(
    ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta"]
)


@requirement("mcp.bad-items-cost-themselves")
@given(st.lists(st.dictionaries(FIELDS, JSON, max_size=4) | JSON, max_size=5), st.sampled_from([{}, {"_meta": 5}]))
def test_whatever_a_list_has_the_good_items_stay_and_the_rest_is_taken_by_the_sdk(
    items: list[Any], more: dict[str, Any]
) -> None:
    good = {"name": "good", "inputSchema": SCHEMA}
    for version, page in (("2025-11-25", {}), ("2026-07-28", MODERN)):
        kept = drop_invalid_items("tools/list", version, {"tools": [good, *items, good], **page, **more})
        assert kept["tools"][0] == kept["tools"][-1] == good
        validate_server_result("tools/list", version, kept)
        types.ListToolsResult.model_validate(kept, by_name=False)
        json.dumps(kept).encode()
