"""What the gateway offers is seen and called from a terminal."""

import json
import os
import sys
from pathlib import Path

import pytest

from requirements import requirement
from unit.cli.conftest import Run

UPSTREAMS = str(Path(__file__).parents[2] / "upstreams.py")


@pytest.fixture
def servers(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two servers that were listed once; the directory of their cached lists."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    for name, words in (("p", ["plain"]), ("many", ["many", "12"])):
        assert run("mcp", "add", name, "--", sys.executable, UPSTREAMS, *words).code == 0
    assert run("mcp", "test").code == 0
    return project / "cache"


@requirement("mcp.visible")
def test_the_tools_of_the_servers_are_listed_described_and_counted_without_starting_one(
    run: Run, servers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    listed = run("tools", "list")
    assert "p__echo" in listed.out
    assert listed.err == "onhand: listed just now; --refresh connects to the servers\n"
    assert json.loads(run("tools", "list", "--json").out)["servers"] == {"many": 12, "p": 1}
    described = json.loads(run("tools", "describe", "p__echo", "--json").out)
    assert described["input_schema"]["required"] == ["text"]
    assert json.loads(run("tools", "tokens", "--json").out)["of_servers"] == 13


@requirement("mcp.visible")
@pytest.mark.parametrize("query", ["read an event", "say the same again", "select:p__echo", "server:many issue", "zzz"])
def test_a_search_finds_what_search_tools_finds_in_the_same_order(query: str, run: Run, servers: Path) -> None:
    found = json.loads(run("tools", "search", "--json", "--limit", "5", query).out)
    called = json.loads(run("run", "search_tools", json.dumps({"query": query})).out)["structured"]
    names, scores = ([(hit[member] for hit in one["hits"]) for one in (found, called)] for member in ("name", "score"))
    assert list(names[0]) == list(names[1])
    assert list(scores[0]) == list(scores[1])
    assert found["total_tools"] == called["total_tools"]


@requirement("mcp.visible")
def test_the_age_of_the_lists_is_said_and_a_refresh_connects(run: Run, servers: Path, project: Path) -> None:
    (cached,) = servers.rglob("p.json")
    os.utime(cached, (0, 0))
    run("mcp", "add", "new", "--", sys.executable, UPSTREAMS, "plain")
    stale = run("tools", "search", "echo").err
    assert "days ago and just now; not listed yet: new; --refresh connects" in stale
    assert "new__echo" not in run("tools", "list").out
    assert "new__echo" in run("tools", "list", "--refresh").out
    assert run("tools", "list").err.startswith("onhand: listed just now;")


@requirement("mcp.visible")
def test_what_cannot_be_listed_is_explained(run: Run, project: Path) -> None:
    assert "no servers are configured: add one with `onhand mcp add`" in run("tools", "list").err
    run("mcp", "add", "gone", "--", "no-such-program-anywhere")
    assert "not listed yet: gone" in run("tools", "list").err
    assert "gone cannot be reached" in run("tools", "list", "--refresh").err
    assert run("tools", "list", "--refresh", "--catalog", "x.json").code == 2
    assert run("tools", "search", "x", "--embedder", "hashing").code == 2


@requirement("mcp.visible")
def test_disabled_tools_and_servers_are_shown_as_such(run: Run, servers: Path, project: Path) -> None:
    path = project.parent / ".config/onhand/mcp.json"
    content = json.loads(path.read_text())
    content["mcpServers"]["many"]["disabled_tools"] = ["*_issue_*"]
    path.write_text(json.dumps(content))
    assert "2 tools, 10 disabled" in run("mcp", "list").out
    assert "disabled - Create the issue" in run("mcp", "list", "--tools").out
    assert "_issue_" not in run("tools", "list").out
    for entry in content["mcpServers"].values():
        entry["disabled"] = True
    path.write_text(json.dumps(content))
    assert run("mcp", "test").out == "Every server is disabled.\n"
    assert "every server is disabled: enable one" in run("tools", "list").err
    assert "p is disabled: enable it in its entry first" in run("mcp", "test", "p").err


@requirement("mcp.visible")
def test_the_tools_of_each_server_are_listed_with_why_some_cannot_be_called(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    described = project / "tools.json"
    described.write_text('[{"name": "pay", "description": "Pay a bill."}]')
    run("mcp", "add", "c", "--", sys.executable, UPSTREAMS, "changing", str(described))
    run("mcp", "test")
    described.write_text('[{"name": "pay", "description": "Pay a bill to us."}]')
    run("mcp", "test")
    listed = run("mcp", "list", "--tools").out
    assert listed.splitlines()[0] == "c: 2 tools, 1 waiting for approval"
    assert "  c__pay      changed since it was approved - Pay a bill to us.\n" in listed
    (server,) = json.loads(run("mcp", "list", "--tools", "--json").out)["servers"]
    states = {one["name"]: one["state"] for one in server["names"]}
    assert states == {"c__changed": "", "c__pay": "changed since it was approved"}


@requirement("mcp.visible")
def test_the_tools_of_the_gateway_and_of_its_servers_are_called(run: Run, servers: Path) -> None:
    for words in (["p__echo", '{"text": "hi"}'], ["call_tool", '{"name": "p__echo", "arguments": {"text": "hi"}}']):
        envelope = json.loads(run("run", *words).out)
        assert (envelope["name"], envelope["ok"], envelope["text"]) == (words[0], True, "hi")
        assert run("run", *words, "--text").out == "hi\n"
    listed = {tool["name"]: tool["read_only"] for tool in json.loads(run("run", "--json").out)}
    assert listed["search_tools"]
    assert not listed["call_tool_write"]
    assert run("run", "call_tool", '{"name": "p__echo"}', "--read-only", "--text").out == "\n"


@requirement("mcp.visible")
@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["nosuch"], 1, "There is no tool 'nosuch'"),
        (["p__ecko", "{}"], 1, "Did you mean p__echo?"),
        (["p__echo", "[]"], 2, "the arguments must be a JSON object"),
        (["p__echo", "{"], 2, "the arguments must be a JSON object"),
        (
            ["call_tool_write", '{"name": "x"}', "--read-only"],
            1,
            "unknown tool: call_tool_write, or one that may write",
        ),
        (["p__echo", "{}", "--read-only"], 1, "unknown tool: p__echo, or one that may write"),
    ],
)
def test_a_call_that_cannot_be_made_fails_with_the_reason(
    words: list[str], code: int, reason: str, run: Run, servers: Path
) -> None:
    done = run("run", *words, "--text")
    assert (done.code, done.out) == (code, "")
    assert reason in done.err


@requirement("mcp.visible")
@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize(
    "words",
    [
        "mcp list",
        "mcp list --tools",
        "tools list",
        "tools search read",
        "tools search zzz",
        "run",
        "mcp test",
        "tools tokens",
    ],
)
def test_everything_fits_the_terminal(
    words: str, columns: int, run: Run, servers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run(*words.split()).out.splitlines()
    assert lines
    assert max(map(len, lines)) <= columns
