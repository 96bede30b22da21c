"""Does the same query give the same answers through MCP as through Python and the command line, to whoever asks?"""

import html
import json
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

import rawmcp
from mail import mails
from onhand.cli.main import main
from onhand.project import Project, load_config, open_index
from requirements import requirement

CONTEXT_QUERIES = ["rollback", "who leads an incident", "how long are rides kept", "nothing-like-it"]
DOCUMENT_QUERIES = ["dock sensors", "Q3 forecast", "office", "DOCK-1007", "nothing-like-it"]
Found = list[tuple[str, Any]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample project with some mail."""
    shutil.copytree(rawmcp.SAMPLE, tmp_path / "project")
    monkeypatch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "none")
    (tmp_path / "project/.onhand").mkdir()
    open_index(tmp_path / "project/.onhand/documents.db", None).put(mails())
    return tmp_path / "project"


def from_blocks(text: str) -> Found:
    heads = re.findall(r'^<context path="([^"]*)" section="[^"]*" score="([^"]*)">$', text, re.MULTILINE)
    return [(html.unescape(path), score) for path, score in heads]


def through_python(project: Path) -> dict[str, Found]:
    asked = load_config(str(project))
    context, documents = Project(asked).context, Project(asked).documents
    found: dict[str, Found] = {}
    for query in CONTEXT_QUERIES:
        found[query] = [(hit.path, f"{hit.score:.2f}") for hit in context.search(query, 5).hits]
    for query in DOCUMENT_QUERIES:
        hits = documents.keyword(query, limit=7).hits
        found[f"documents: {query}"] = [(hit.document_id, round(hit.score, 6)) for hit in hits]
    return found


def through_the_command_line(project: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for query in CONTEXT_QUERIES:
        assert main(["context", "search", "--root", str(project), "--json", "-k", "5", "--", query]) == 0
        hits = json.loads(capsys.readouterr().out)["hits"]
        found[query] = [(hit["path"], f"{hit['score']:.2f}") for hit in hits]
    for query in DOCUMENT_QUERIES:
        database = str(project / ".onhand/documents.db")
        assert main(["docs", "keyword", "--db", database, "--json", "--limit=7", "--", query]) == 0
        hits = json.loads(capsys.readouterr().out)["hits"]
        found[f"documents: {query}"] = [(hit["document_id"], hit["score"]) for hit in hits]
    return found


async def through_mcp(client: Client) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for query in CONTEXT_QUERIES:
        result = await client.call_tool("context_search", {"query": query, "k": 5})
        found[query] = from_blocks(text_of(result))
    for query in DOCUMENT_QUERIES:
        result = await client.call_tool("keyword_search", {"query": query, "limit": 7}, meta=rawmcp.JSON)
        assert result.structured_content == json.loads(text_of(result))
        hits = (result.structured_content or {})["hits"]
        found[f"documents: {query}"] = [(hit["document_id"], hit["score"]) for hit in hits]
    return found


def text_of(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


def stdio_client(project: Path, mode: Any) -> Client:
    words = ["-m", "onhand", "serve", "--root", str(project)]
    return Client(StdioServerParameters(command=sys.executable, args=words, env=rawmcp.environ()), mode=mode)


@requirement("mcp.serve")
def test_python_the_command_line_and_mcp_agree_over_both_transports_and_in_both_eras(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = through_python(project)
    assert sum(map(len, expected.values())) > 20
    assert through_the_command_line(project, capsys) == expected

    async def ask_all(url: str) -> None:
        clients = {
            "stdio, 2026-07-28": (stdio_client(project, "auto"), "2026-07-28"),
            "stdio, 2025-11-25": (stdio_client(project, "legacy"), "2025-11-25"),
            "http, 2026-07-28": (Client(url, mode="auto"), "2026-07-28"),
            "http, 2025-11-25": (Client(url, mode="legacy"), "2025-11-25"),
        }
        for name, (client, version) in clients.items():
            async with client:
                assert client.protocol_version == version
                assert await through_mcp(client) == expected, name

    with rawmcp.over_http(root=project) as server:
        anyio.run(ask_all, server.url)


@requirement("mcp.same-list")
def test_the_list_of_tools_is_the_same_bytes_before_and_after_any_search(project: Path) -> None:
    with rawmcp.opened(project) as server:
        list_tools = json.dumps(rawmcp.request("tools/list", "list")).encode()
        (before,) = server.answers(list_tools, 1)
        for number, query in enumerate([*CONTEXT_QUERIES, *DOCUMENT_QUERIES]):
            for tool in ("context_search", "keyword_search", "search_skills", "search_rules"):
                call = rawmcp.request("tools/call", f"{tool} {number}", name=tool, arguments={"query": query})
                (answer,) = server.answers(json.dumps(call).encode(), 1)
                assert not answer["result"]["isError"]
        (after,) = server.answers(list_tools, 1)
        assert json.dumps(before) == json.dumps(after)


@requirement("mcp.answers-never-cross")
@pytest.mark.timeout(600)
def test_fifty_clients_with_equal_ids_each_get_their_own_answers(project: Path) -> None:
    clients, calls = 50, 200

    def crossed(server: rawmcp.Http, client: int) -> int:
        with server.kept() as connection:
            call = connection.modern if client % 2 else connection.in_session()
            wrong = 0
            for number in range(calls):
                query = f"zq{client}x{number}"  # which no page has: the answer repeats it
                answer = call(number, name="context_search", arguments={"query": query})
                text = answer["result"]["content"][0]["text"]
                wrong += answer["id"] != number or text != f"no matching context for: {query}"
            return wrong

    with rawmcp.over_http(root=project) as server, ThreadPoolExecutor(clients) as pool:
        assert sum(pool.map(lambda client: crossed(server, client), range(clients))) == 0
