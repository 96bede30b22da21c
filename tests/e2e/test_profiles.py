"""Does each client see its profile and nothing else, while all share the servers behind it?"""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

import rawmcp
from rawmcp import Http, request
from requirements import requirement

TOKENS = {"ALL": "token-for-all-0123456789", "RED": "token-for-red-0123456789", "BLUE": "token-for-blue-0123456789"}
UPSTREAMS = str(rawmcp.ROOT / "tests" / "upstreams.py")
# Words alone are compared, because what an invented name means differs from what an existing one does.
CONFIG = """
[mcp]
embedder = "none"
[serve]
token_env = "ALL"
[profiles.red]
servers = ["alpha", "gamma"]
tools = ["alpha__*", "gamma__echo", "context_search"]
corpora = ["context"]
token_env = "RED"
[profiles.blue]
servers = ["bravo"]
corpora = ["skills"]
token_env = "BLUE"
[profiles.odd]
servers = ["nosuch"]
tools = ["bravo__nosuch", "bravo__pay"]
corpora = ["mails"]
"""
PROJECT = {
    ".AGENTS/overview.md": "# Overview\n\nBikes for towns.\n",
    ".AGENTS/deploy.md": "# Deploy\n\n## Rolling back\n\nUse `tw rollback`.\n",
    ".agents/skills/wash/SKILL.md": "---\nname: wash\ndescription: Washes bikes.\n---\n\nUse water.\n",
}
PAY = {"name": "pay", "description": "Pay a bill.", "inputSchema": {"type": "object"}}
LONG = {"name": "long", "description": "Say much.", "inputSchema": {"type": "object"}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user with three servers, three profiles and a project."""
    home = tmp_path_factory.mktemp("home")
    for name, text in PROJECT.items():
        (home / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "project" / name).write_text(text)
    (home / "config" / "onhand").mkdir(parents=True)
    (home / "config" / "onhand" / "config.toml").write_text(CONFIG)
    (home / "tools.json").write_text(json.dumps([PAY, LONG]))
    log, listed = str(home / "log"), str(home / "tools.json")
    kinds = {"alpha": ["faithful"], "bravo": ["repeating", listed], "gamma": ["counting", log]}
    servers: dict[str, Any] = {
        key: {"command": sys.executable, "args": [UPSTREAMS, *arguments]} for key, arguments in kinds.items()
    }
    servers["bravo"]["max_output_bytes"] = 40
    (home / "config" / "onhand" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return home


def variables(home: Path) -> dict[str, str]:
    places = {"XDG_CONFIG_HOME": home / "config", "XDG_STATE_HOME": home / "state", "XDG_CACHE_HOME": home / "cache"}
    return {**{name: str(path) for name, path in places.items()}, "HOME": str(home), **TOKENS}


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Http]:
    with rawmcp.over_http(root=home / "project", variables=variables(home)) as running:
        yield running


def run(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """`onhand serve` for a client that disconnects at once."""
    return subprocess.run(
        [sys.executable, "-m", "onhand", "serve", "--root", str(home / "project"), *words],
        env={**rawmcp.environ(), **variables(home)},
        input="",
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=rawmcp.WAIT_S,
    )


@asynccontextmanager
async def client_of(server: Http, profile: str, mode: Any = "auto", token: str = "") -> AsyncIterator[Client]:
    path = f"{server.url}/p/{profile}" if profile else server.url
    bearer = {"Authorization": f"Bearer {TOKENS[token or profile.upper() or 'ALL']}"}
    async with (
        httpx2.AsyncClient(headers=bearer, timeout=60) as http,
        Client(streamable_http_client(path, http_client=http), mode=mode, cache=None) as client,
    ):
        yield client


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def found_by(client: Client, query: str) -> str:
    return text_of(await client.call_tool("search_tools", {"query": query}))


async def until_found(client: Client, query: str, name: str) -> None:
    """Servers start one after another, and a search waits for none."""
    with anyio.fail_after(60):
        while f"{name}(" not in await found_by(client, query):
            await anyio.sleep(0.05)


SUGGESTION = re.compile(r"[;.] (?:[Dd]id you mean [^?]*\?|Find tools with search_tools\.)")
FORMS = ("select:", "server:", "re:", "")
GATEWAY = {"search_tools", "describe_tool", "call_tool", "call_tool_write", "call_tool_destructive", "read_on"}


@requirement("mcp.profiles")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_two_clients_at_once_find_and_call_what_is_in_their_own_profiles(mode: str, server: Http) -> None:
    async def main() -> None:
        async with client_of(server, "red", mode) as red, client_of(server, "blue", mode) as blue:
            await until_found(red, "say the same again", "alpha__echo")
            await until_found(blue, "pay a bill", "bravo__pay")
            assert {tool.name for tool in (await red.list_tools()).tools} == {*GATEWAY, "context_search"}
            own = {"search_skills", "read_skill", "read_skill_reference"}
            assert {tool.name for tool in (await blue.list_tools()).tools} == {*GATEWAY, *own}
            assert text_of(await red.call_tool("call_tool", {"name": "alpha__echo", "arguments": {"text": "x"}})) == "x"
            assert '"name": "pay"' in text_of(await blue.call_tool("call_tool_destructive", {"name": "bravo__pay"}))
            assert "rollback" in text_of(await red.call_tool("context_search", {"query": "rolling back"}))
            assert [one.uri for one in (await red.list_resources()).resources] == [
                *("onhand://context/.AGENTS/overview.md", "onhand://context/.AGENTS/deploy.md"),
                *("mcp://alpha/made://one", "mcp://alpha/made://two"),
            ]
            assert [one.uri for one in (await blue.list_resources()).resources] == ["skill://wash/SKILL.md"]
            forms = [one.uri_template for one in (await blue.list_resource_templates()).resource_templates]
            assert forms == ["skill://{name}/{+path}"]
            assert [one.name for one in (await red.list_prompts()).prompts] == ["project_context", "alpha__praise"]
            assert [one.name for one in (await blue.list_prompts()).prompts] == ["use_skill"]

    anyio.run(main)


async def outcome_of(work: Any) -> str:
    try:
        result = await work
    except MCPError as error:
        return f"{error.error.code} {error.error.message}"
    text = text_of(result) if isinstance(result, types.CallToolResult) else result.model_dump_json()
    return str(text)


@requirement("mcp.profiles")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("profile", "existing", "invented"),
    [("red", "bravo", "brxvo"), ("blue", "alpha", "alphx"), ("red", "wash", "wasx"), ("blue", "deploy", "deplox")],
)
def test_a_name_outside_of_the_profile_is_answered_like_one_that_does_not_exist(
    profile: str, existing: str, invented: str, mode: str, server: Http
) -> None:
    async def main() -> None:
        own = {"red": ("say the same again", "alpha__echo"), "blue": ("pay a bill", "bravo__pay")}
        async with client_of(server, "", mode) as all_of_it:
            for query, name in own.values():  # so that all servers are connected
                await until_found(all_of_it, query, name)
        async with client_of(server, profile, mode) as client:
            await until_found(client, *own[profile])
            answers = {name: await probe(client, name) for name in (existing, invented)}
            assert [SUGGESTION.sub(".", one.replace(existing, "?")) for one in answers[existing]] == [
                SUGGESTION.sub(".", one.replace(invented, "?")) for one in answers[invented]
            ]
            suggested = " ".join(found for one in answers[existing] for found in SUGGESTION.findall(one))
            assert set(re.findall(r"(\w+)__", suggested)) <= {"red": {"alpha", "gamma"}, "blue": {"bravo"}}[profile]

    async def probe(client: Client, name: str) -> list[str]:
        tool = f"{name}__{'pay' if name.startswith('bet') else 'echo'}"
        reference = types.PromptReference(name=f"{name}__praise")
        page = types.ResourceTemplateReference(uri=f"mcp://{name}/made://page/{{name}}")
        tries = [
            *(
                client.call_tool("search_tools", {"query": f"{kind}{name}"})
                for kind in ("select:", "server:", "re:", "")
            ),
            *(client.call_tool(way, {"name": tool}) for way in GATEWAY if way.startswith(("call", "describe"))),
            client.call_tool(tool, {}),
            client.call_tool("read_skill", {"name": name}),
            *(
                client.read_resource(uri)
                for uri in (
                    f"mcp://{name}/made://one",
                    f"skill://{name}/SKILL.md",
                    f"onhand://context/.AGENTS/{name}.md",
                )
            ),
            client.get_prompt(f"{name}__praise", {"bird": "owl"}),
            client.get_prompt("use_skill", {"name": name}),
            client.complete(reference, {"name": "bird", "value": "h"}),
            client.complete(page, {"name": "name", "value": name}),
            *(
                client.complete(types.ResourceTemplateReference(uri=uri), {"name": argument, "value": name})
                for uri, argument in (("onhand://context/{+path}", "path"), ("skill://{name}/{+path}", "name"))
            ),
        ]
        return [await outcome_of(one) for one in tries]

    anyio.run(main)


@requirement("mcp.profiles")
def test_a_handle_to_the_rest_of_a_result_is_good_in_its_own_profile_alone(server: Http) -> None:
    async def main() -> None:
        async with client_of(server, "red") as red, client_of(server, "blue") as blue:
            await until_found(blue, "say much", "bravo__long")
            called = await blue.call_tool("bravo__long", {"x": "y" * 99})
            handle = text_of(called).rpartition('handle="')[2].partition('"')[0]
            stolen = await red.call_tool("read_on", {"handle": handle})
            assert stolen.is_error
            assert "y" * 9 not in text_of(stolen)
            assert "y" * 9 in text_of(await blue.call_tool("read_on", {"handle": handle}))

    anyio.run(main)


@requirement("mcp.profiles")
def test_all_profiles_share_one_connection_to_each_server(home: Path, server: Http) -> None:
    async def main() -> None:
        async with client_of(server, "red") as red, client_of(server, "") as everything:
            for client in (red, everything):
                await until_found(client, "select:gamma__echo", "gamma__echo")
                assert text_of(await client.call_tool("gamma__echo", {})) == "yes"

    anyio.run(main)
    assert (home / "log").read_text().count("listed\n") == 1


@requirement("mcp.profiles", "mcp.http-is-strict")
def test_a_token_opens_its_own_path_and_no_other(server: Http) -> None:
    paths = {"/mcp": "ALL", "/mcp/p/red": "RED", "/mcp/p/blue": "BLUE", "/mcp/p/odd": "ALL"}
    for path, right in paths.items():
        for name, token in TOKENS.items():
            reply = server.send(rawmcp.initialize(), {"Authorization": f"Bearer {token}"}, path=path)
            assert reply.status == (200 if name == right else 401), (path, name)
        assert server.send(rawmcp.initialize(), path=path).status == 401
    for path in ("/mcp/p/nosuch", "/mcp/p/red/", "/mcp/p", "/mcp/p/../p/red"):
        assert server.send(rawmcp.initialize(), {"Authorization": f"Bearer {TOKENS['RED']}"}, path=path).status == 401
        assert server.send(rawmcp.initialize(), {"Authorization": f"Bearer {TOKENS['ALL']}"}, path=path).status == 404


@requirement("mcp.profiles")
def test_a_session_of_one_profile_is_none_of_another(server: Http) -> None:
    def headers(name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKENS[name]}"}

    opened = server.send(rawmcp.initialize(), headers("RED"), path="/mcp/p/red")
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": rawmcp.VERSION}
    assert server.send(request("tools/list", 1), {**session, **headers("RED")}, path="/mcp/p/red").status == 200
    assert server.send(request("tools/list", 1), {**session, **headers("BLUE")}, path="/mcp/p/blue").status == 404


@requirement("mcp.profiles")
def test_names_that_do_not_exist_are_reported_and_the_profile_is_served(home: Path, server: Http) -> None:
    async def over_stdio() -> None:
        words = ["-m", "onhand", "serve", "--profile", "odd", "--root", str(home / "project")]
        environment = {**rawmcp.environ(), **variables(home)}
        started = StdioServerParameters(command=sys.executable, args=words, env=environment)
        async with Client(stdio_client(started)) as client:
            assert (await client.list_tools()).tools == []

    anyio.run(over_stdio)
    done = run(home, "--profile", "odd")
    assert "profile odd: no server matches 'nosuch'; there are alpha, bravo, gamma" in done.stderr
    assert "profile odd: no tool matches 'bravo__nosuch'" in done.stderr
    assert "profile odd: no corpus matches 'mails'; there are rules, context, skills" in done.stderr


@requirement("mcp.profiles")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--profile", "nosuch"], "there is no profile 'nosuch': these exist: blue, odd, red"),
        (["--http", "127.0.0.1:0", "--profile", "nosuch"], "there is no profile 'nosuch': these exist: blue, odd, red"),
    ],
)
def test_an_unknown_profile_is_an_error_that_names_those_that_exist(words: list[str], error: str, home: Path) -> None:
    done = run(home, *words)
    assert (done.returncode != 0, error in done.stderr, "Traceback" in done.stderr) == (True, True, False), done.stderr


@requirement("mcp.profiles")
def test_a_profile_over_stdio_has_the_same_tools(home: Path) -> None:
    async def main() -> None:
        words = ["-m", "onhand", "serve", "--profile", "red", "--root", str(home / "project")]
        environment = {**rawmcp.environ(), **variables(home)}
        started = StdioServerParameters(command=sys.executable, args=words, env=environment)
        async with Client(stdio_client(started)) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {*GATEWAY, "context_search"}
            await until_found(client, "say the same again", "alpha__echo")
            assert "There is no bravo__pay" in await found_by(client, "select:bravo__pay")

    anyio.run(main)
