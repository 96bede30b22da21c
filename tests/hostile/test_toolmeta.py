"""Whatever a server says of its tools, each is held, told of or harmless, and its neighbours work."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from hostile.cases import Case, each, not_understood, spelled
from onhand.cli.tools import match_lines
from onhand.errors import InputError
from onhand.hidden_characters import is_hidden_in, sanitize
from onhand.mcp.approvals import Approvals, definition_of
from onhand.mcp.gateway import Gateway
from onhand.mcp.surface import build_server
from onhand.mcp.upstream_lists import DROPPED, drop_invalid_items
from onhand.mcp.upstreams import Upstreams
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.registry import Registry
from onhand.tools.search_tools import render_tool_line, search_tools
from onhand.tools.session import Session
from onhand.tools.tool import Tool
from requirements import requirement
from toolset import BUILTINS, ISSUE, MESSAGE
from unit.mcp import test_upstreams as of_servers
from unit.mcp.conftest import Behind, behind  # noqa: F401  # a fixture
from unit.mcp.test_gateway import text_of

SCHEMA = {"type": "object"}
OF_A_TOOL = {
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "icons",
    "_meta",
    "execution",
}
HINTS = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "destructive"}
OF_A_SCHEMA = {"$defs", "$ref", "properties", "type", "allOf", "anyOf", "oneOf", "items", "required", "definitions"}
SEVERAL = {"servers", "step1", "step2", "restart", "rate", "structuredContent"}  # more than one list of tools


def tool_of(case: Case) -> dict[str, Any]:
    """What a server lists that has this tool; a fragment of a schema is one of its parameter."""
    sent = case.sent if case.sent is not None or case.has_input else None
    if not isinstance(sent, dict):
        said = spelled(sent) if isinstance(sent, str) else sent
        return {"name": "t", "inputSchema": SCHEMA, "description": said}
    keys = set(sent)
    if keys <= OF_A_TOOL:
        return {"name": "t", "inputSchema": SCHEMA, **sent}
    if keys <= HINTS:
        hints = {"destructiveHint" if key == "destructive" else key: value for key, value in sent.items()}
        return {"name": "t", "inputSchema": SCHEMA, "annotations": hints}
    if keys & OF_A_SCHEMA:
        return {"name": "t", "inputSchema": {**SCHEMA, **sent}}
    return {"name": "t", "inputSchema": {**SCHEMA, "properties": {"a": {"type": "string", **sent}}}}


def tools_of(case: Case) -> list[dict[str, Any]]:
    if isinstance(case.sent, dict) and "tools" in case.sent:
        listed = case.sent["tools"]
        return [{"inputSchema": SCHEMA, **(one if isinstance(one, dict) else {"name": one})} for one in listed]
    return [tool_of(case)]


def is_harmless(text: str) -> None:
    line = render_tool_line(CatalogTool("s__t", sanitize(text)))
    assert "\n" not in line
    assert "<" not in line
    assert not is_hidden_in(line)


@requirement("mcp.descriptions-are-cleaned", "mcp.bad-items-cost-themselves")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", each("toolmeta"))
def test_a_tool_of_a_real_server_is_held_told_of_or_harmless(case: Case, behind: Behind, tmp_path: Path) -> None:  # noqa: F811
    sent = case.sent
    if isinstance(sent, dict) and SEVERAL & set(sent):
        return several(case, sent, behind, tmp_path)
    if isinstance(sent, dict) and "x-mcp-header" in sent:
        return is_left_out(tools_of(case))
    return is_listed(case, behind, tmp_path)


def is_listed(case: Case, behind: Behind, tmp_path: Path) -> None:  # noqa: F811
    told, others = tmp_path / "tools.json", tmp_path / "others.json"
    told.write_text(json.dumps([*tools_of(case), {"name": "good", "inputSchema": SCHEMA}]))
    others.write_text(json.dumps([{"name": "send_email", "inputSchema": SCHEMA}]))

    async def main() -> None:
        registry = Upstreams([behind("s", "given", str(told)), behind("o", "given", str(others))], version="1")
        async with Client(build_server(Gateway(registry)), cache=None) as client:
            assert await registry.connect(["o"]) == {}  # whose tool a description may name
            before = (await client.list_tools()).model_dump_json()
            assert await registry.connect() == {}
            assert text_of(await client.call_tool("call_tool_destructive", {"name": "s__good"})) == "good"
            bad = [route for route in registry.routes() if route.key == "s" and route.upstream_name != "good"]
            (status, _) = registry.status()
            for route in bad:
                is_harmless(route.tool.description or "")
                assert route.tool.icons is None
            if case.expected == "flag":
                own = tools_of(case)[0].get("name")
                assert status.blocked or status.problems or [one for one in bad if one.tool.name != own]
            elif case.expected == "reject":
                assert "icons" in tools_of(case)[0] or (bad == [] and status.problems)
            elif case.expected in ("accept", "literal", "bounded"):
                for route in bad:
                    assert not route.blocked
                    found = registry.search(f"select:{route.tool.name}").hits
                    assert [hit.name for hit in found] == [route.tool.name]
                    called = await client.call_tool("call_tool_destructive", {"name": route.tool.name})
                    assert text_of(called) == route.upstream_name
                assert bad or status.problems or case.expected == "bounded"
            elif case.expected != "sanitize":
                not_understood(case, "what is expected of a tool")
            assert (await client.list_tools()).model_dump_json() == before

    anyio.run(main)


def several(case: Case, sent: dict[str, Any], behind: Behind, tmp_path: Path) -> None:  # noqa: F811
    """What takes more than one list."""
    if "servers" in sent:
        two_servers([str(name).partition(".")[0] for name in sent["servers"]], behind)
    elif "rate" in sent:
        of_servers.test_a_thousand_announcements_of_a_change_are_a_few_lists(behind, tmp_path)
    elif "restart" in sent:
        of_servers.test_a_tool_that_changed_while_we_were_away_is_not_called(behind, tmp_path)
    elif "structuredContent" in sent:
        a_result_that_breaks_its_schema(behind)
    else:
        a_change(sent["step1"], sent["step2"])


def a_change(before: Any, after: Any) -> None:
    """A tool that was approved and says something else now is held, whatever it is that changed."""
    steps = [part if isinstance(part, dict) else {"description": part} for part in (before, after)]
    one, other = ({"t": definition_of({"name": "t", "inputSchema": SCHEMA, **part})} for part in steps)
    pins = Approvals()
    assert pins.screen("s", one) == {}
    assert "changed since it was approved" in pins.screen("s", other)["t"]
    assert pins.screen("s", one) == {}


def two_servers(keys: list[str], behind: Behind) -> None:  # noqa: F811
    """Servers with equal tools, and equal names of their own, are both reachable, by their keys."""
    keys = keys if len(set(keys)) == len(keys) else [f"{key}{number}" for number, key in enumerate(keys)]

    async def main() -> None:
        async with Upstreams([behind(key, "plain") for key in keys]) as registry:
            assert await registry.connect() == {}
            assert registry.catalog.names() == tuple(sorted(f"{key}__echo" for key in keys))
            for name in registry.catalog.names():
                assert text_of(await registry.execute(name, {"text": name})) == name  # type: ignore[arg-type]

    anyio.run(main)


def a_result_that_breaks_its_schema(behind: Behind) -> None:  # noqa: F811
    async def main() -> None:
        async with Client(build_server(Gateway(Upstreams([behind("f", "faithful")]))), cache=None) as client:
            assert (await client.call_tool("call_tool_destructive", {"name": "f__liar"})).is_error
            given = {"name": "f__echo", "arguments": {"text": "on"}}
            assert text_of(await client.call_tool("call_tool", given)) == "on"

    anyio.run(main)


def is_left_out(tools: list[dict[str, Any]]) -> None:
    """The newer protocol wants tools with such a header left out; the older one knows no such header."""
    kept = drop_invalid_items("tools/list", "2026-07-28", {"tools": [*tools, {"name": "good", "inputSchema": SCHEMA}]})
    assert [tool["name"] for tool in kept["tools"]] == ["good"]
    assert kept["_meta"][DROPPED][0].startswith("its tool 't' is ignored")


@requirement("catalog.hostile-metadata", "catalog.answers-cannot-be-forged")
@pytest.mark.parametrize("case", each("toolmeta"))
def test_a_tool_of_a_catalog_is_kept_or_refused_and_shown_without_harm(case: Case) -> None:
    catalog = Catalog()
    catalog.add([ISSUE, MESSAGE, *BUILTINS])
    tool = tools_of(case)[0] if tools_of(case) else {}
    name, before = tool.get("name", "oddity"), len(catalog)
    sent = case.sent if isinstance(case.sent, dict) else tool
    added = catalog.add([CatalogTool(name, tool.get("description", ""), sent, "mcp", "odd")])
    assert len(added.refused) == 1 - added.added
    assert len(catalog) == before + added.added
    if isinstance(case.sent, dict) and "name" in case.sent:
        assert bool(added.refused) or case.expected != "reject"
        if case.expected == "accept":
            assert [hit.name for hit in catalog.search(f"select:{name}").hits] == [name]
    assert [hit.name for hit in catalog.search("read").hits][:1] == ["read"]
    answer = search_tools(Session(catalog, mode="all")).handler({"query": f"select:{name}" if added.added else "issue"})
    text = str(getattr(answer, "text", answer))
    assert "\x1b" not in text
    assert "</tool" not in text
    shown = {"query": name, "tools": [{"name": name, "description": tool.get("description")}], "total_tools": 1}
    assert all(line.isprintable() for line in match_lines(shown))


@requirement("tools.hostile-schemas-are-bounded")
@pytest.mark.parametrize("case", each("toolmeta"))
def test_a_schema_is_registered_and_answers_or_is_refused_with_a_reason(case: Case) -> None:
    sent = case.sent
    own = sent if isinstance(sent, dict) else {"description": sent}
    for schema in (
        {"type": "object", **own},
        {"type": "object", "properties": {"a": own}},
        tool_of(case)["inputSchema"],
    ):
        try:
            registry = Registry([Tool("t", "d", schema, lambda arguments: "fine")])
        except InputError as error:
            assert str(error)
        else:
            assert registry.call("t", {"a": "a" * 50_000}).text
