"""What the user's settings make of the tools of a server, wherever these are seen and called."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError

from onhand.errors import ToolError
from onhand.mcp.approvals import Approvals
from onhand.mcp.offered_tools import offer_tools
from onhand.mcp.pass_through import PassThrough
from onhand.mcp.servers import ServerConfig
from onhand.mcp.surface import build_server
from onhand.mcp.tool_settings import parse_server_tools
from onhand.mcp.upstreams import Upstreams
from requirements import requirement
from unit.mcp.conftest import Behind, Fronted
from unit.mcp.test_gateway import text_of

RESET = {
    "name": "reset",
    "description": "Throw away the changes of a branch.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "repo": {"type": "string"},
            "hard": {"type": "boolean"},
            "depth": {"$ref": "#/$defs/Depth"},
        },
        "required": ["repo"],
        "$defs": {"Depth": {"type": "integer", "maximum": 9}},
    },
}
LOG = {"name": "log", "description": "Show the commits of a branch.", "inputSchema": {"type": "object"}}
Git = Callable[..., ServerConfig]


@pytest.fixture
def git(behind: Behind, tmp_path: Path) -> Git:
    """A server with two tools and these settings, which answers calls with what it was called with."""

    def git(**settings: Any) -> ServerConfig:
        path = tmp_path / "tools.json"
        path.write_text(json.dumps([RESET, LOG]))
        return behind("git", "repeating", str(path), tools=parse_server_tools(settings, "here"))

    return git


def problems_of(settings: dict[str, Any], *tools: dict[str, Any]) -> tuple[str, ...]:
    return offer_tools("git", parse_server_tools(settings, "here"), tools or (RESET, LOG)).problems


@requirement("mcp.tool-switches")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"disabled_tools": ["re*"]}, "the user's disabled_tools for git name it"),
        ({"enabled_tools": ["log"]}, "the user's enabled_tools for git do not name it"),
        ({"tools": {"reset": {"preset": {"repo": 5}}}}, "the user's settings for it cannot be used"),
    ],
)
def test_a_disabled_tool_is_neither_found_nor_called_and_every_answer_says_so(
    settings: dict[str, Any], reason: str, mode: str, git: Git, fronted: Fronted
) -> None:
    async def main() -> None:
        async with fronted(git(**settings), mode=mode) as (_, client):
            for query in ("throw away changes", "select:git__reset", "git__reset", "re:^git__res"):
                found = await client.call_tool("search_tools", {"query": query})
                assert f"git__reset is disabled: {reason}" in text_of(found), query
                assert "git__reset(" not in text_of(found)
            for query in ("show the commits", "select:git__log"):
                found = await client.call_tool("search_tools", {"query": query})
                assert "git__log()" in text_of(found)
                assert "disabled" not in text_of(found)
            assert "Disabled by the user: 1 tool" in text_of(await client.call_tool("search_tools", {"query": "zzz"}))
            for name, arguments in [
                ("describe_tool", {"name": "git__reset"}),
                ("call_tool", {"name": "git__reset", "arguments": {"repo": "ours"}}),
                ("git__reset", {"repo": "ours"}),
            ]:
                refused = await client.call_tool(name, arguments)
                assert refused.is_error
                assert text_of(refused).startswith(f"git__reset is disabled: {reason}.")
                assert "onhand mcp" not in text_of(refused)

    anyio.run(main)


@requirement("mcp.tool-switches")
def test_a_disabled_tool_is_not_given_to_agents_nor_always_listed(git: Git, fronted: Fronted) -> None:
    async def main() -> None:
        server = git(disabled_tools=["reset"])._replace(always=("reset", "log"))
        async with fronted(server) as (gateway, client):
            assert [tool.name for tool in gateway.upstreams.tools()] == ["git__log"]
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert ("git__log" in names, "git__reset" in names) == (True, False)

    anyio.run(main)


@requirement("mcp.tool-switches")
def test_a_tool_is_found_and_called_under_the_users_name_and_description(git: Git, fronted: Fronted) -> None:
    settings = {"tools": {"reset": {"name": "undo_all", "description": "Revert every edit."}}}

    async def main() -> None:
        async with fronted(git(**settings)) as (_, client):
            found = text_of(await client.call_tool("search_tools", {"query": "revert every edit"}))
            assert "git__undo_all(repo, hard?: bool, depth?: int): Revert every edit." in found
            assert "Throw away" not in text_of(await client.call_tool("describe_tool", {"name": "git__undo_all"}))
            called = await client.call_tool("git__undo_all", {"repo": "ours"})
            assert json.loads(text_of(called)) == {"name": "reset", "arguments": {"repo": "ours"}}
            old = await client.call_tool("git__reset", {"repo": "ours"})
            assert old.is_error
            assert "There is no tool 'git__reset'" in text_of(old)

    anyio.run(main)


@requirement("mcp.tool-switches")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_arguments_that_the_user_sets_are_neither_shown_nor_taken_from_a_model(
    mode: str, git: Git, fronted: Fronted
) -> None:
    settings = {"tools": {"reset": {"preset": {"repo": "ours", "depth": 3}, "hide": ["hard"]}}}

    async def main() -> None:
        async with fronted(git(**settings), mode=mode) as (_, client):
            assert "git__reset():" in text_of(await client.call_tool("search_tools", {"query": "throw away changes"}))
            described = text_of(await client.call_tool("describe_tool", {"name": "git__reset"}))
            assert not any(name in described for name in ("repo", "hard", "depth"))
            called = await client.call_tool("git__reset", {})
            assert json.loads(text_of(called)) == {"name": "reset", "arguments": {"depth": 3, "repo": "ours"}}
            for taken in ("repo", "hard", "depth"):
                refused = await client.call_tool("git__reset", {taken: "theirs"})
                assert refused.is_error
                assert f"git__reset has no argument '{taken}'" in text_of(refused)

    anyio.run(main)


@requirement("mcp.tool-switches")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_that_is_passed_through_is_presented_by_the_same_settings(mode: str, git: Git) -> None:
    settings = {"disabled_tools": ["log"], "tools": {"reset": {"name": "undo", "preset": {"repo": "ours"}}}}

    async def main() -> None:
        surface = PassThrough(Upstreams([git(**settings)]), "git")
        async with Client(build_server(surface), mode=mode, cache=None) as client:
            (tool,) = (await client.list_tools()).tools
            assert tool.name == "undo"
            assert tool.description == RESET["description"]
            assert list(tool.input_schema["properties"]) == ["hard", "depth"]
            called = await client.call_tool("undo", {"hard": True})
            assert json.loads(text_of(called)) == {"name": "reset", "arguments": {"hard": True, "repo": "ours"}}
            assert "disabled" in text_of(await client.call_tool("log"))
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("reset", {})

    anyio.run(main)


@requirement("mcp.tool-switches", "mcp.changed-tools-are-blocked")
def test_settings_hide_no_change_of_a_tool(git: Git, tmp_path: Path) -> None:
    settings = {"tools": {"reset": {"name": "undo", "description": "Undo.", "preset": {"repo": "ours"}}}}
    pins = str(tmp_path / "pins.json")

    async def call() -> types.CallToolResult | types.InputRequiredResult:
        async with Upstreams([server], Approvals(pins)) as registry:
            await registry.connect()
            return await registry.execute("git__undo")

    server = git(**settings)
    anyio.run(call)
    (tmp_path / "tools.json").write_text(json.dumps([{**RESET, "description": "Throw away everything."}, LOG]))
    with pytest.raises(ToolError, match="git__undo is blocked because it changed since it was approved"):
        anyio.run(call)
    assert [(one.server, one.tool) for one in Approvals(pins).pending()] == [("git", "reset")]
    Approvals(pins).approve("git")
    anyio.run(call)


@requirement("mcp.tool-switches")
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"enabled_tools": ["log", "resett"]},
            "enabled_tools: 'resett' matches none of its 2 tools; did you mean 'reset'?",
        ),
        ({"disabled_tools": ["delete_*"]}, "disabled_tools: 'delete_*' matches none of its 2 tools"),
        ({"tools": {"Log": {"kind": "read"}}}, "tools: 'Log' matches none of its 2 tools; did you mean 'log'?"),
        (
            {"enabled_tools": ["log"], "disabled_tools": ["log"]},
            "'log' is in enabled_tools and in disabled_tools, so it stays disabled",
        ),
        ({"tools": {"reset": {"name": "log"}}}, "'reset' is not offered, because another tool is called 'log', too"),
        (
            {"tools": {"reset": {"preset": {"repo": 5}}}},
            "'reset' is not offered, because the preset of 'repo' does not fit its schema: the value is not of type "
            '"string"',
        ),
        ({"tools": {"reset": {"preset": {"depth": 10}}}}, "the preset of 'depth' does not fit its schema"),
        ({"tools": {"reset": {"preset": {"rep": "x"}}}}, "it has no argument 'rep'; did you mean 'repo'?"),
        ({"tools": {"reset": {"hide": ["repo"]}}}, "'repo' is required: give it a value with preset"),
        ({"tools": {"log": {"hide": ["x"]}}}, "'log' is not offered, because it has no argument 'x'"),
    ],
)
def test_settings_that_cannot_be_meant_are_reported(settings: dict[str, Any], problem: str) -> None:
    (found,) = problems_of(settings)
    assert problem in found


@pytest.mark.parametrize("keyword", ["anyOf", "not", "dependentRequired", "$ref"])
def test_an_argument_that_others_depend_on_is_not_hidden(keyword: str) -> None:
    parts: dict[str, Any] = {
        "anyOf": [{"required": ["hard"]}, {"required": ["depth"]}],
        "not": {"properties": {"hard": {"const": True}}},
        "dependentRequired": {"depth": ["hard"]},
        "$ref": "#/$defs/Depth",
    }
    tool = {**RESET, "inputSchema": {**RESET["inputSchema"], keyword: parts[keyword]}}  # type: ignore[dict-item]
    (found,) = problems_of({"tools": {"reset": {"hide": ["hard"]}}}, tool)
    assert f"its schema makes 'hard' depend on others ({keyword})" in found


def test_two_tools_with_one_new_name_are_both_disabled_and_two_may_swap_names() -> None:
    both = offer_tools(
        "git", parse_server_tools({"tools": {"reset": {"name": "x"}, "log": {"name": "x"}}}, "here"), (RESET, LOG)
    )
    assert [bool(one.disabled) for one in both.tools.values()] == [True, True]
    swapped = offer_tools(
        "git", parse_server_tools({"tools": {"reset": {"name": "log"}, "log": {"name": "reset"}}}, "here"), (RESET, LOG)
    )
    assert [(own, one.name) for own, one in swapped.tools.items()] == [("reset", "log"), ("log", "reset")]
    assert swapped.problems == ()


@requirement("mcp.tool-switches")
def test_a_server_with_a_bad_setting_keeps_serving_its_other_tools(git: Git, fronted: Fronted) -> None:
    settings = {"tools": {"reset": {"preset": {"repo": 5}}}, "disabled_tools": ["nothing_*"]}

    async def main() -> None:
        async with fronted(git(**settings)) as (gateway, client):
            assert json.loads(text_of(await client.call_tool("git__log", {})))["name"] == "log"
            told = text_of(await client.call_tool("search_tools", {"query": "zzz"}))
            assert "git: disabled_tools: 'nothing_*' matches none of its 2 tools" in told
            assert "git: tools: 'reset' is not offered" in told
            (status,) = gateway.upstreams.status()
            assert (status.tools, status.disabled, len(status.problems)) == (1, 1, 2)

    anyio.run(main)


def test_the_name_of_a_tool_counts_before_patterns_and_these_in_their_order() -> None:
    tools = {"re*": {"preset": {"hard": True}}, "*": {"hide": ["depth"]}, "reset": {"hide": ["hard"]}}
    offered = offer_tools("git", parse_server_tools({"tools": tools}, "here"), [RESET]).tools["reset"]
    assert dict(offered.preset) == {"hard": True}
    assert set(offered.hidden) == {"hard"}
