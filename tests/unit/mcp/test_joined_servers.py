"""Which tools of MCP servers does an agent have?"""

import json
from pathlib import Path

import anyio

from onhand.agent.toolbox import Toolbox
from onhand.mcp.upstream_tools import JoinedServers
from onhand.mcp.upstreams import Upstreams
from onhand.tools import Call
from onhand.tools.loading import parse_policy
from onhand.tools.session import ServerState
from requirements import requirement
from unit.mcp.conftest import Behind
from unit.mcp.conftest import behind as behind
from unit.mcp.test_upstream_transport import until


@requirement("mcp.in-tool-search", "mcp.bad-items-cost-themselves")
def test_what_a_server_lists_later_is_there_and_what_it_lists_no_more_is_gone(behind: Behind, tmp_path: Path) -> None:
    described = tmp_path / "tools.json"
    described.write_text(json.dumps([{"name": "pay"}, {"name": "add"}]))

    async def main() -> None:
        toolbox = Toolbox([])
        servers = JoinedServers(toolbox, Upstreams([behind("c", "changing", str(described))]))
        problems = await servers.open()
        assert not problems
        assert names_of(toolbox) == {"c__add", "c__changed", "c__pay"}
        described.write_text(json.dumps([{"name": "pay"}, {"name": "sum"}]))
        try:
            (done,) = await toolbox.run([Call("c__changed")], lambda number, result: None)
            assert done.text == "yes"
            await until(lambda: "c__sum" in names_of(toolbox))
            assert names_of(toolbox) == {"c__changed", "c__pay", "c__sum"}
        finally:
            await servers.close()

    anyio.run(main)


@requirement("mcp.bad-items-cost-themselves")
def test_a_tool_whose_schema_cannot_be_checked_costs_an_agent_only_itself(behind: Behind, tmp_path: Path) -> None:
    listed = tmp_path / "tools.json"
    schema = {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}
    listed.write_text(
        json.dumps([{"name": "odd", "inputSchema": schema}, {"name": "good", "inputSchema": {"type": "object"}}])
    )

    async def main() -> None:
        toolbox = Toolbox([])
        servers = JoinedServers(toolbox, Upstreams([behind("c", "given", str(listed))]))
        problems = await servers.open()
        await servers.close()
        assert names_of(toolbox) == {"c__good"}
        assert [problem.partition(" is ignored: ")[0] for problem in problems] == ["c: its tool 'odd'"]

    anyio.run(main)


@requirement("mcp.in-tool-search", "catalog.sources", "catalog.miss-says-what-exists")
def test_an_agent_finds_tools_by_their_server_and_learns_which_servers_it_does_not_have(behind: Behind) -> None:
    async def main() -> None:
        toolbox = Toolbox([], policy=parse_policy("lazy"))
        servers = JoinedServers(toolbox, Upstreams([behind("p", "plain"), behind("gone", "exits")]))
        problems = await servers.open()
        await servers.close()
        assert problems
        toolbox.begin()
        (found, missed) = await toolbox.run(
            [Call("search_tools", {"query": "server:p say it"}), Call("search_tools", {"query": "zebra xylophone"})],
            lambda number, result: None,
        )
        assert found.text.splitlines()[1].startswith("p__echo(text)")
        assert "There is 1 tool to find, from p (1 tool)" in missed.text
        assert "Could not be reached: gone (it ended at once" in missed.text
        assert toolbox.child().session.servers() == (ServerState("p", "ready", 1),)

    anyio.run(main)


def names_of(toolbox: Toolbox) -> set[str]:
    return {tool.name for tool in toolbox}
